"""Blocks together with the bytes that they are stored as."""

from dataclasses import dataclass
from typing import Self

from icestream.errors import IntegrityError
from icestream.ledger.blocks.decoding import decode_block
from icestream.ledger.blocks.encoding import block_hash as hash_of
from icestream.ledger.blocks.encoding import encode_block
from icestream.ledger.blocks.events import MetadataBlock, MetadataEvent
from icestream.ledger.blocks.hashes import Multihash


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block, the bytes it came in or goes out as, and the hash that names them.

    The bytes are kept because encoding again might give others: a block received is passed on
    byte for byte.
    """

    block_hash: Multihash
    block: MetadataBlock
    data: bytes

    @classmethod
    def of(cls, block: MetadataBlock) -> Self:
        """Return a block as it is written here."""
        data = encode_block(block)
        return cls(hash_of(data), block, data)

    @classmethod
    def received(
        cls, data: bytes, expected: Multihash | None = None, *, name: str = "a block"
    ) -> Self:
        """Return the block that somebody else's bytes encode; `name` is for errors.

        Raises:
            IntegrityError: They do not have the expected hash, or encode no block, or one of an
                unknown version.
        """
        actual = hash_of(data)
        if expected is not None and actual != expected:
            raise IntegrityError(
                f"{name} has bytes of hash {actual} instead of {expected} (rule"
                " hash-matches-name); copy it from another replica of the dataset",
                rule="hash-matches-name",
            )
        return cls(actual, decode_block(data, name=name), data)

    @property
    def event(self) -> MetadataEvent:
        """What the block says."""
        return self.block.event

    @property
    def sequence_number(self) -> int:
        """The place in the chain, from 0."""
        return self.block.sequence_number
