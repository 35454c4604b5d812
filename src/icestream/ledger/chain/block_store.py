"""The blocks of a dataset, loaded and saved by their hashes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.hashed_objects import has_object, load_object, save_objects
from icestream.ledger.chain.layout import block_key
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.storage.protocol import Storage


@dataclass(frozen=True, slots=True)
class BlockStore:
    """The blocks below the root of one dataset."""

    storage: Storage

    def load(self, block_hash: Multihash) -> StoredBlock:
        """Return a block.

        Raises:
            IntegrityError: It is missing, its bytes have another hash, or they are no block, or
                one of an unknown version.
        """
        key = block_key(block_hash)
        return StoredBlock.received(load_object(self.storage, key), block_hash, name=key)

    def has(self, block_hash: Multihash) -> bool:
        """Tell whether a block is there, without reading it."""
        return has_object(self.storage, block_key(block_hash))

    def save(self, blocks: Iterable[StoredBlock]) -> None:
        """Write blocks, each as the bytes it came in; nothing refers to them yet."""
        save_objects(self.storage, {block_key(block.block_hash): block.data for block in blocks})

    def walk(self, start: Multihash | StoredBlock) -> Iterator[StoredBlock]:
        """Yield a block and all before it, newest first, reading each when it is asked for."""
        block = start if isinstance(start, StoredBlock) else self.load(start)
        yield block
        while (previous := block.block.prev_block_hash) is not None:
            block = self.load(previous)
            yield block
