"""One chunk reference as a value: where the bytes of one chunk are."""

from dataclasses import dataclass
from enum import IntEnum

from icestream.model.ids import ChunkId


class ChunkType(IntEnum):
    """How the bytes of a chunk are kept; the numbers are those of the icechunk package."""

    uninitialized = 0
    native = 1
    virtual = 2
    inline = 3


@dataclass(frozen=True, slots=True)
class InlineRef:
    """The bytes themselves, kept in the manifest."""

    data: bytes


@dataclass(frozen=True, slots=True)
class NativeRef:
    """A range of an object below `chunks/`."""

    chunk_id: ChunkId
    byte_offset: int
    length: int


@dataclass(frozen=True, slots=True)
class VirtualRef:
    """A range of an object that somebody else wrote, anywhere."""

    location: str
    byte_offset: int
    length: int
    etag: str | None = None
    last_modified: int = 0
    """Seconds since the epoch that the object must not be newer than; 0 = not recorded."""


ChunkRef = InlineRef | NativeRef | VirtualRef


def kind_of(ref: ChunkRef | None) -> ChunkType:
    """Return how the bytes of a chunk are kept; None is a chunk that is not there."""
    match ref:
        case None:
            return ChunkType.uninitialized
        case InlineRef():
            return ChunkType.inline
        case NativeRef():
            return ChunkType.native
        case VirtualRef():
            return ChunkType.virtual
