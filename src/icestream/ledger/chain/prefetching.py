"""Blocks of long chains on remote storages: read many at once, not one after the other."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from icestream.errors import StorageError
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.layout import BLOCKS, block_key
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.storage.protocol import Storage

_THREADS = 16
_WORTHWHILE = 32
"""Blocks from which on a listing pays."""
_MOST = 4
"""All blocks are read where one in so many is needed."""


def prefetch_blocks(storage: Storage, threads: int = _THREADS) -> dict[str, bytes]:
    """Return the bytes of all blocks that are there, by key; none where that would be slower."""
    if storage.reads_inline:
        return {}
    try:
        keys = [info.path for info in storage.list(BLOCKS)]
    except StorageError:  # a web server does not list: then blocks are read one by one
        return {}
    with ThreadPoolExecutor(threads) as pool:
        return dict(zip(keys, pool.map(storage.get, keys), strict=True))


def load_prefetched(
    store: BlockStore, block_hash: Multihash, read: Mapping[str, bytes]
) -> StoredBlock:
    """Return a block from what was read, or from the store."""
    key = block_key(block_hash)
    if key not in read:
        return store.load(block_hash)
    return StoredBlock.received(read[key], block_hash, name=key)


def walk_ahead(store: BlockStore, start: StoredBlock, count: int) -> Iterator[StoredBlock]:
    """Yield a block and all before it, newest first.

    Args:
        store: The blocks of the chain.
        start: The first block.
        count: How many the caller is going to take; many are read at once, few one by one.
    """
    if count < max(_WORTHWHILE, start.sequence_number // _MOST):
        yield from store.walk(start)
        return
    read = prefetch_blocks(store.storage)
    block = start
    yield block
    while (previous := block.block.prev_block_hash) is not None:
        block = load_prefetched(store, previous, read)
        yield block
