"""Blocks by what people call them: a hash, the end of one, or a number."""

from collections.abc import Iterable, Iterator
from itertools import islice

from icestream.errors import InvalidInputError, NotFoundError
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.stored_blocks import StoredBlock

type BlockName = Multihash | str | int
"""A block by its hash, the hash as text or the end of that text, or by its number from 0."""


def find_block(blocks: Iterable[StoredBlock], name: BlockName) -> StoredBlock:
    """Return the one of some blocks that is meant.

    Raises:
        NotFoundError: None is.
        InvalidInputError: Several hashes end so.
    """
    exact = _exact(name)
    # where only one can be meant, the rest of the chain need not be read
    found = list(islice(_matching(blocks, exact), 2 if isinstance(exact, str) else 1))
    if not found:
        raise NotFoundError(f"block {name} is not on the chain: choose one from its log")
    if len(found) > 1:
        raise InvalidInputError(f"several blocks end in {name}: write more of the hash")
    return found[0]


def _exact(name: BlockName) -> BlockName:
    """Return the hash that a text spells in any base, or the text if it is none."""
    if not isinstance(name, str):
        return name
    try:
        return Multihash.parse(name)
    except InvalidInputError:
        return name.lower()


def _matching(blocks: Iterable[StoredBlock], name: BlockName) -> Iterator[StoredBlock]:
    for block in blocks:
        match name:
            case int():
                is_meant = block.sequence_number == name
            case str():
                is_meant = bool(name) and str(block.block_hash).endswith(name)
            case _:
                is_meant = block.block_hash == name
        if is_meant:
            yield block
