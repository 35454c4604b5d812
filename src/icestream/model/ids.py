"""Object ids: random bytes inside, Crockford base32 text at the edges."""

import os
from typing import NewType

import numpy as np
import numpy.typing as npt

from icestream.errors import ErrorKind, InvalidInputError

SnapshotId = NewType("SnapshotId", bytes)
ManifestId = NewType("ManifestId", bytes)
ChunkId = NewType("ChunkId", bytes)
NodeId = NewType("NodeId", bytes)

OBJECT_ID_SIZE = 12
NODE_ID_SIZE = 8

INITIAL_SNAPSHOT_ID = SnapshotId(bytes.fromhex("0b1cc8d6787580f0e33a6534"))
"""The one id that every repository shares: its first, empty snapshot."""

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_VALUES = {c: i for i, c in enumerate(_ALPHABET)} | {"O": 0, "I": 1, "L": 1}


def new_snapshot_id() -> SnapshotId:
    """Draw a random snapshot id."""
    return SnapshotId(os.urandom(OBJECT_ID_SIZE))


def new_manifest_id() -> ManifestId:
    """Draw a random manifest id."""
    return ManifestId(os.urandom(OBJECT_ID_SIZE))


def new_chunk_id() -> ChunkId:
    """Draw a random chunk id."""
    return ChunkId(os.urandom(OBJECT_ID_SIZE))


def new_node_id() -> NodeId:
    """Draw a random node id."""
    return NodeId(os.urandom(NODE_ID_SIZE))


def id_text(object_id: bytes) -> str:
    """Return the text of an id: base32, zero bits added on the right.

    >>> id_text(INITIAL_SNAPSHOT_ID)
    '1CECHNKREP0F1RSTCMT0'
    """
    n_chars = -(-len(object_id) * 8 // 5)
    n_bits = (n_chars + 1) // 2 * 10  # two characters at a time: every chunk read comes by here
    bits = int.from_bytes(object_id) << (n_bits - len(object_id) * 8)
    pairs = [_PAIRS[bits >> shift & 1023] for shift in range(n_bits - 10, -1, -10)]
    return "".join(pairs)[:n_chars]


def id_texts(ids: npt.NDArray[np.uint8]) -> list[str]:
    """Return the texts of many ids, given as the rows of a matrix."""
    n, size = ids.shape
    n_chars = -(-size * 8 // 5)
    bits = np.zeros((n, n_chars * 5), np.uint8)
    bits[:, : size * 8] = np.unpackbits(ids, axis=1)
    values = np.packbits(bits.reshape(n, n_chars, 5), axis=2)[:, :, 0] >> 3
    letters = np.frombuffer(_ALPHABET.encode(), np.uint8)[values]
    texts: list[str] = letters.view(f"S{n_chars}").ravel().astype(str).tolist()
    return texts


def parse_id(text: str, size: int = OBJECT_ID_SIZE) -> bytes:
    """Return the bytes of an id text, lenient about case and look-alike letters.

    Raises:
        InvalidInputError: The text has the wrong length or a foreign character.
    """
    n_chars = -(-size * 8 // 5)
    try:
        values = [_VALUES[c] for c in text.upper()]
    except KeyError:
        values = []
    if len(values) != n_chars:
        raise InvalidInputError(
            f"{text!r} is not an id: expected {n_chars} base32 characters",
            kind=ErrorKind.INVALID_SNAPSHOT_ID,
        )
    bits = 0
    for value in values:
        bits = bits << 5 | value
    return (bits >> (n_chars * 5 - size * 8)).to_bytes(size)


def parse_snapshot_id(text: str) -> SnapshotId:
    """Return the snapshot id that `text` spells."""
    return SnapshotId(parse_id(text))


def parse_manifest_id(text: str) -> ManifestId:
    """Return the manifest id that `text` spells."""
    return ManifestId(parse_id(text))


def find_object_id(name: str) -> bytes | None:
    """Return the id that a file name spells canonically, or None for stray files."""
    try:
        object_id = parse_id(name)
    except InvalidInputError:
        return None
    return object_id if id_text(object_id) == name else None
