"""Chunk references read back out, in batches of columns."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable, UInt8, UInt64
from icestream.model.ids import id_texts


class _Columns(NamedTuple):
    """The columns that the icechunk package gives, in its order."""

    coordinates: npt.NDArray[np.uint32]
    """(n, rank) chunk coordinates."""
    kinds: UInt8
    """(n,) values of ChunkType."""
    paths: list[str]
    """(n,) location of virtual chunks, id of native ones, empty for inline ones."""
    offsets: UInt64
    """(n,) first byte in the object; 0 for inline chunks."""
    lengths: UInt64
    """(n,) bytes of the chunk."""
    inlined: dict[int, bytes]
    """Row to bytes, for inline chunks."""


class ChunkBatch(_Columns):
    """Some chunk references of an array: a tuple of six columns, with checksums as attributes."""

    etags: list[str | None]
    """(n,) ETag of the object of a virtual chunk, where one was recorded."""
    last_modified: npt.NDArray[np.uint32]
    """(n,) epoch seconds after which the object must not have changed; 0 = not recorded."""


def iter_batches(table: ChunkTable, batch_size: int) -> Iterator[ChunkBatch]:
    """Yield a table in batches."""
    for start in range(0, len(table), batch_size):
        yield _batch(table.take(slice(start, start + batch_size)))


def _batch(part: ChunkTable) -> ChunkBatch:
    batch = ChunkBatch(
        coordinates=part.index,
        kinds=np.ascontiguousarray(part.kind),
        paths=_paths(part),
        offsets=np.ascontiguousarray(part.byte_offset),
        lengths=value_lengths(part),
        inlined=_inlined(part),
    )
    batch.etags = part.etag_column().to_pylist()
    modified = part.last_modified
    batch.last_modified = (
        np.zeros(len(part), np.uint32) if modified is None else np.ascontiguousarray(modified)
    )
    return batch


def value_lengths(table: ChunkTable) -> UInt64:
    """Return the bytes of each chunk, however it is kept."""
    if table.inline is None:
        return np.ascontiguousarray(table.length)
    inline = pc.binary_length(table.inline).fill_null(0).to_numpy()
    return np.where(table.kind == ChunkType.inline, inline.astype(np.uint64), table.length)


def _paths(table: ChunkTable) -> list[str]:
    locations: list[str] = table.location_column().fill_null("").to_pylist()
    if table.chunk_id is None:
        return locations
    paths = np.array(locations, object)
    native = table.kind == ChunkType.native
    paths[native] = id_texts(table.chunk_id[native])
    return list(paths)


def _inlined(table: ChunkTable) -> dict[int, bytes]:
    if table.inline is None:
        return {}
    rows = np.flatnonzero(table.kind == ChunkType.inline)
    return dict(zip(rows.tolist(), table.inline.take(rows).to_pylist(), strict=True))
