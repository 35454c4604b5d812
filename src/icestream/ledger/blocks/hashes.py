"""Multihashes: digests that say which function made them.

>>> str(sha3_256(b"multihash"))
'f162008c3792b2a4deed1bd7ea2328fb5de5531eccf0fbfa04a7d800cdc267137c635'
"""

import hashlib
from dataclasses import dataclass
from typing import Self

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.multibase import decode_multibase, encode_base16, encode_base58
from icestream.ledger.blocks.varints import decode_varint, encode_varint

PHYSICAL_CODE = 0x16
"""SHA3-256 of bytes: blocks, data files and checkpoints are named by it."""
LOGICAL_CODE = 0x300016
"""SHA3-256 of Arrow values (arrow0): equal data have equal ones, whoever wrote the file."""

_LONGEST_DIGEST = 32
_SHORT_LENGTH = 8


@dataclass(frozen=True, slots=True, order=True)
class Multihash:
    """A digest and the multicodec number of the function that made it."""

    code: int
    digest: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the hash that a multibase text spells.

        Raises:
            InvalidInputError: It spells none.
        """
        try:
            return cls.from_bytes(decode_multibase(text))
        except InvalidInputError as error:
            raise InvalidInputError(f"{text[:80]!r} is no hash: {error}") from error

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the hash of its binary form: number of the function, length, digest.

        Raises:
            InvalidInputError: The bytes have another form.
        """
        code, rest = decode_varint(data)
        length, digest = decode_varint(rest)
        if length != len(digest):
            raise InvalidInputError(f"a digest of {length} bytes has {len(digest)}")
        if not 0 < length <= _LONGEST_DIGEST:
            raise InvalidInputError(f"a digest of {length} bytes is not supported")
        return cls(code, digest)

    def to_bytes(self) -> bytes:
        """Return the binary form."""
        return encode_varint(self.code) + encode_varint(len(self.digest)) + self.digest

    def to_base58(self) -> str:
        """Return the text in base58btc."""
        return encode_base58(self.to_bytes())

    @property
    def short(self) -> str:
        """The last characters of the text, which are enough for people."""
        return str(self)[-_SHORT_LENGTH:]

    def __str__(self) -> str:
        return encode_base16(self.to_bytes())


def sha3_256(data: bytes | memoryview) -> Multihash:
    """Return the physical hash of bytes."""
    return Multihash(PHYSICAL_CODE, hashlib.sha3_256(data).digest())
