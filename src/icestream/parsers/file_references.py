"""References to the chunks of one file, as columns."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable, lexicographic_order
from icestream.model.text_pools import NO_POOL, TextColumn
from icestream.parsers.source_files import SourceFile


def references_to(
    source: SourceFile,
    index: npt.ArrayLike,
    offsets: npt.ArrayLike,
    lengths: npt.ArrayLike,
) -> ChunkTable:
    """Return references to ranges of a file.

    Args:
        source: The file.
        index: (n, rank) chunk coordinates, each once, in any order.
        offsets: Where each chunk starts in the file.
        lengths: Bytes of each chunk.
    """
    coordinates: npt.NDArray[np.uint32] = np.asarray(index, np.uint32)
    n = len(coordinates)
    etag, seconds = source.checksum
    location_code, locations = _same_text(source.url, n)
    etag_code, etags = _same_text(etag, n)
    table = ChunkTable(
        index=coordinates,
        kind=_repeated(_VIRTUAL, n),
        byte_offset=np.asarray(offsets, np.uint64),
        length=np.asarray(lengths, np.uint64),
        location_code=location_code,
        locations=locations,
        etag_code=etag_code,
        etags=etags,
        last_modified=_repeated(np.array(seconds, np.uint32), n) if seconds else None,
    )
    order = lexicographic_order(coordinates)
    return table if order is None else table.take(order)


def inline_chunks(chunks: Mapping[tuple[int, ...], bytes], rank: int) -> ChunkTable:
    """Return chunks whose bytes are kept instead of where they are."""
    if not chunks:
        return ChunkTable.empty(rank)
    indexes: Sequence[Any] = sorted(chunks)
    n = len(indexes)
    return ChunkTable(
        index=np.array(indexes, np.uint32).reshape(n, rank),
        kind=_repeated(_INLINE, n),
        byte_offset=np.zeros(n, np.uint64),
        length=np.zeros(n, np.uint64),
        inline=pa.array([chunks[i] for i in indexes], pa.large_binary()),
    )


def _same_text(text: str | None, n: int) -> TextColumn:
    return (None, NO_POOL) if text is None or not n else (_repeated(_ZERO, n), _pool_of(text))


@lru_cache(maxsize=8)
def _pool_of(text: str) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array([text], pa.large_string())])


_ZERO = np.array(0, np.int32)
_VIRTUAL = np.array(ChunkType.virtual, np.uint8)
_INLINE = np.array(ChunkType.inline, np.uint8)


def _repeated(value: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    """Return a column that has one value in all rows, and takes the space of one."""
    return np.ndarray(n, value.dtype, buffer=value, strides=(0,))
