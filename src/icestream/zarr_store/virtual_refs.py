"""Virtual chunk references as users give them, turned into columns."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.chunk_refs import ChunkType, VirtualRef
from icestream.model.chunk_tables import (
    ChunkTable,
    UInt32,
    UInt64,
    dense_index,
    drop_duplicates,
    lexicographic_order,
)
from icestream.model.containers import VirtualChunkSpec
from icestream.model.nodes import ArrayNode
from icestream.model.text_pools import Int32, encode_texts
from icestream.model.times import seconds_of

Checksum = str | int | datetime
"""An ETag, or the time (epoch seconds or aware datetime) after which the object must not change."""

_MAX_SECONDS = 2**32


def virtual_ref(location: str, offset: int, length: int, checksum: Checksum | None) -> VirtualRef:
    """Return one checked virtual reference."""
    check_location(location)
    if length <= 0:
        raise _zero_length(location)
    if offset < 0:
        raise _invalid(f"the byte offset {offset} in {location} is negative")
    etag, seconds = split_checksum(checksum)
    return VirtualRef(location, int(offset), int(length), etag, seconds)


def split_checksum(checksum: Checksum | None) -> tuple[str | None, int]:
    """Return a checksum as (etag, epoch seconds), of which one at most is set."""
    match checksum:
        case None:
            return None, 0
        case str():
            return checksum.strip('"') if checksum.startswith('"') else checksum, 0
        case datetime():
            return None, _checked_seconds(seconds_of(checksum), checksum)
        case int() if not isinstance(checksum, bool):
            return None, _checked_seconds(checksum, checksum)
        case _:
            raise _invalid(f"the checksum {checksum!r} is neither an ETag, seconds nor a datetime")


def check_location(location: str) -> None:
    """Refuse a location that names no object."""
    if not location:
        raise _invalid(f"the location {location!r} is not a text such as 's3://bucket/file.nc'")


def table_of_specs(array: ArrayNode, specs: Sequence[VirtualChunkSpec]) -> ChunkTable:
    """Return checked chunk specs as a table; the last of several for one chunk wins."""
    rank = len(array.shape)
    refs = {}
    for spec in specs:
        index = tuple(spec.index)
        if not array.has_chunk(index):
            raise InvalidInputError(
                f"chunk {index} is outside the grid {array.num_chunks} of {array.path}; "
                "resize the array first",
                kind=ErrorKind.INVALID_CHUNK_INDEX,
            )
        checksum = spec.etag_checksum or spec.last_updated_at_checksum
        refs[index] = virtual_ref(spec.location, spec.offset, spec.length, checksum)
    return ChunkTable.from_refs(dict(refs), rank)


def table_of_columns(
    index: UInt32,
    locations: Sequence[str] | pa.Array | pa.ChunkedArray,
    offsets: Any,
    lengths: Any,
    *,
    checksum: Any = None,
) -> ChunkTable:
    """Return columns as a table of virtual references, sorted by index.

    `checksum` is one value for all rows, or a column: ETags (texts), epoch seconds (integers).
    """
    n = len(index)
    code, pool = encode_texts(locations)
    byte_offset, length = _column("offsets", offsets, n), _column("lengths", lengths, n)
    if len(locations) != n:
        raise _invalid(f"{len(locations)} locations were given for {n} chunks")
    if n and (code is None or bool((code < 0).any()) or _has_empty(pool)):
        raise _invalid("every chunk needs a location; some are empty or null")
    if n and not bool(length.all()):
        raise _zero_length("some chunks")
    etag_code, etags, last_modified = _checksum_columns(checksum, n)
    table = ChunkTable(
        index=index,
        kind=np.broadcast_to(np.uint8(ChunkType.virtual), n),
        byte_offset=byte_offset,
        length=length,
        location_code=code,
        locations=pool,
        etag_code=etag_code,
        etags=etags,
        last_modified=last_modified,
    )
    order = lexicographic_order(index)
    return table if order is None else drop_duplicates(table.take(order))


def grid_index(
    array: ArrayNode, grid_shape: Sequence[int], offset: Sequence[int] | None, n: int
) -> UInt32:
    """Return the index of every chunk of a box of the grid, which holds `n` chunks."""
    shape = tuple(map(int, grid_shape))
    start = tuple(map(int, offset)) if offset is not None else (0,) * len(shape)
    if len(shape) != len(array.shape) or len(start) != len(shape):
        raise _invalid(
            f"chunk_grid_shape {shape} and arr_offset {start} need one number for each of the "
            f"{len(array.shape)} dimensions of {array.path}"
        )
    if math.prod(shape) != n:
        raise _invalid(f"a grid of {shape} has {math.prod(shape)} chunks, {n} were given")
    ends = [first + count for first, count in zip(start, shape, strict=True)]
    if min(start, default=0) < 0 or any(
        end > count for end, count in zip(ends, array.num_chunks, strict=True)
    ):
        raise InvalidInputError(
            f"chunks {start} to {tuple(ends)} are outside the grid {array.num_chunks} of "
            f"{array.path}; resize the array first",
            kind=ErrorKind.INVALID_CHUNK_INDEX,
        )
    return dense_index(shape, start)


def _column(name: str, values: Any, n: int) -> UInt64:
    column = np.asarray(values)
    if column.shape != (n,):
        raise _invalid(f"{name} has shape {column.shape}, expected ({n},)")
    if column.dtype.kind == "i" and n and int(column.min()) < 0:
        raise _invalid(f"{name} holds negative numbers")
    if column.dtype.kind not in "iu":
        raise _invalid(f"{name} holds {column.dtype}, expected unsigned integers")
    return column.astype(np.uint64, copy=False)


def _checksum_columns(checksum: Any, n: int) -> tuple[Int32 | None, pa.ChunkedArray, UInt32 | None]:
    if checksum is None or isinstance(checksum, str | int | datetime):
        etag, seconds = split_checksum(checksum)
        _, pool = encode_texts([etag])
        code = None if etag is None else np.broadcast_to(np.int32(0), n)
        return code, pool, np.broadcast_to(np.uint32(seconds), n) if seconds else None
    if len(checksum) != n:
        raise _invalid(f"{len(checksum)} checksums were given for {n} chunks")
    if isinstance(checksum, np.ndarray) and checksum.dtype.kind in "iu":
        return None, encode_texts([])[1], _seconds_column(checksum)
    texts = checksum if isinstance(checksum, pa.Array | pa.ChunkedArray) else list(checksum)
    if isinstance(texts, list) and any(isinstance(t, datetime | int) for t in texts):
        seconds_list = [split_checksum(t)[1] for t in texts]
        return None, encode_texts([])[1], np.array(seconds_list, np.uint32)
    if isinstance(texts, pa.Array | pa.ChunkedArray) and pa.types.is_integer(texts.type):
        return None, encode_texts([])[1], _seconds_column(texts.fill_null(0).to_numpy())
    code, pool = encode_texts(texts)
    return code, pool, None


def _seconds_column(values: Any) -> UInt32:
    if len(values) and not 0 <= int(values.min()) <= int(values.max()) < _MAX_SECONDS:
        raise _invalid("checksum seconds must be between 0 and 2**32")
    return np.asarray(values).astype(np.uint32)


def _checked_seconds(seconds: int, checksum: Checksum) -> int:
    if not 0 < seconds < _MAX_SECONDS:
        raise _invalid(f"the checksum {checksum} is not between 1970 and 2106")
    return seconds


def _has_empty(pool: pa.ChunkedArray) -> bool:
    return len(pool) > 0 and pc.min(pc.binary_length(pool)).as_py() == 0


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_VIRTUAL_REF)


def _zero_length(what: str) -> InvalidInputError:
    return InvalidInputError(
        f"a chunk has at least one byte; {what} have length 0: leave such chunks out",
        kind=ErrorKind.ZERO_LENGTH_CHUNK,
    )
