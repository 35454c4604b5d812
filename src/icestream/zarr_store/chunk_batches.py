"""Chunk references read back out, in batches of columns."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable


class ChunkBatch(NamedTuple):
    """Some chunk references of an array, in the columns of the icechunk package."""

    coordinates: npt.NDArray[np.uint32]
    """(n, rank) chunk coordinates."""
    kind: npt.NDArray[np.uint8]
    """(n,) values of ChunkType."""
    locations: list[str]
    """(n,) location of virtual chunks, empty elsewhere."""
    offsets: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint64]
    inline: dict[int, bytes]
    """Row to bytes, for inline chunks."""


def iter_batches(table: ChunkTable, batch_size: int) -> Iterator[ChunkBatch]:
    """Yield a table in batches."""
    for start in range(0, len(table), batch_size):
        part = table.take(slice(start, start + batch_size))
        locations = part.location_column().fill_null("").to_pylist()
        rows = np.flatnonzero(part.kind == ChunkType.inline).tolist()
        inline = {row: part.inline[row].as_py() for row in rows} if part.inline is not None else {}
        yield ChunkBatch(
            part.index,
            np.ascontiguousarray(part.kind),
            locations,
            np.ascontiguousarray(part.byte_offset),
            np.ascontiguousarray(part.length),
            inline,
        )
