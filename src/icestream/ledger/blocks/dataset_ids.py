"""Identities of datasets: public keys, written as decentralised identifiers.

>>> new_dataset_id() == new_dataset_id()
False
"""

from dataclasses import dataclass, field
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.multibase import decode_multibase, encode_base16, encode_base58
from icestream.ledger.blocks.varints import encode_varint

PREFIX = "did:odf:"
"""What the text of every dataset id starts with."""

_KEY_PREFIX = "did:key:"
_ED25519_CODE = 0xED
_KEY_BYTES = 32
_HEADER = encode_varint(_ED25519_CODE)


@dataclass(frozen=True, slots=True, order=True)
class DatasetId:
    """The ed25519 public key that a dataset is known by, wherever it is stored."""

    public_key: bytes

    def __post_init__(self) -> None:
        if len(self.public_key) != _KEY_BYTES:
            raise InvalidInputError(f"a dataset id has 32 bytes, not {len(self.public_key)}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the id that `did:odf:` text spells, in any base of multibase.

        Raises:
            InvalidInputError: It spells none.
        """
        if not text.startswith(PREFIX):
            raise InvalidInputError(f"{text[:80]!r} is no dataset id: it lacks {PREFIX!r}")
        try:
            return cls.from_bytes(decode_multibase(text.removeprefix(PREFIX)))
        except InvalidInputError as error:
            raise InvalidInputError(f"{text[:80]!r} is no dataset id: {error}") from error

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the id of its binary form.

        Raises:
            InvalidInputError: The bytes are no ed25519 public key with its multicodec number.
        """
        if not data.startswith(_HEADER):
            raise InvalidInputError(f"{data[:2].hex()!r} does not announce an ed25519 key")
        return cls(data.removeprefix(_HEADER))

    def to_bytes(self) -> bytes:
        """Return the binary form."""
        return _HEADER + self.public_key

    @property
    def did_key(self) -> str:
        """The same key as a `did:key`."""
        return _KEY_PREFIX + encode_base58(self.to_bytes())

    def __str__(self) -> str:
        return PREFIX + encode_base16(self.to_bytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetKey:
    """A dataset id and the private key that proves who owns it."""

    dataset_id: DatasetId
    private_key: bytes = field(repr=False)


def new_dataset_key() -> DatasetKey:
    """Return a fresh identity; whoever wants to prove ownership later keeps its private key."""
    key = Ed25519PrivateKey.generate()
    return DatasetKey(
        dataset_id=DatasetId(key.public_key().public_bytes_raw()),
        private_key=key.private_bytes_raw(),
    )


def new_dataset_id() -> DatasetId:
    """Return a fresh id whose private key is forgotten."""
    return new_dataset_key().dataset_id
