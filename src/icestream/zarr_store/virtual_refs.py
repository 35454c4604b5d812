"""Virtual chunk references as users give them, turned into columns."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import AccessError, ErrorKind, InvalidInputError
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
from icestream.model.text_pools import ABSENT, Int32, encode_texts, used_texts
from icestream.zarr_store.checksums import (
    Checksum,
    ChecksumColumn,
    checksum_columns,
    split_checksum,
)
from icestream.zarr_store.faulty_rows import rows_named

_TWO_TO_64 = 2**64
_MAX_END = np.uint64(2**63 - 1)


@dataclass(frozen=True, slots=True)
class LocationPolicy:
    """How the locations of many references are stored."""

    store: Callable[[pa.ChunkedArray], pa.ChunkedArray]
    """Returns distinct locations as they are stored, or raises."""
    refused: Callable[[pa.ChunkedArray], npt.NDArray[np.bool_]]
    """Tells which of them are to blame if it raises."""


def virtual_ref(
    location: object, offset: object, length: object, checksum: Checksum | None
) -> VirtualRef:
    """Return one checked virtual reference."""
    if not isinstance(location, str) or not location:
        raise InvalidInputError(
            f"the location {location!r} is not a URL such as 's3://bucket/file.nc'",
            kind=ErrorKind.CANNOT_PARSE_URL,
        )
    byte_offset, byte_length = _natural("offset", offset), _natural("length", length)
    if not byte_length:
        raise _zero_length(f"the chunk in {location} has")
    if byte_offset + byte_length > int(_MAX_END):
        raise _bad_range(
            f"the chunk in {location} ends beyond 2**63 bytes, where no object reaches"
        )
    etag, seconds = split_checksum(checksum)
    return VirtualRef(location, byte_offset, byte_length, etag, seconds)


def table_of_specs(
    array: ArrayNode, specs: Sequence[VirtualChunkSpec], policy: LocationPolicy
) -> ChunkTable:
    """Return checked chunk specs as a table; the last of several for one chunk counts."""
    missing = np.array([not spec.location for spec in specs], np.bool_)
    if missing.any():
        raise _invalid(f"{rows_named(missing)} for {array.path} have no location")
    table = table_of_columns(
        _spec_index(array, specs),
        [spec.location for spec in specs],
        [spec.offset for spec in specs],
        [spec.length for spec in specs],
        checksum=[spec.etag_checksum or spec.last_updated_at_checksum for spec in specs],
        policy=policy,
    )
    order = lexicographic_order(table.index)
    return drop_duplicates(table if order is None else table.take(order))


def table_of_columns(
    index: UInt32,
    locations: Sequence[str] | pa.Array | pa.ChunkedArray,
    offsets: Any,
    lengths: Any,
    *,
    policy: LocationPolicy,
    checksum: Checksum | ChecksumColumn | None = None,
) -> ChunkTable:
    """Return columns as a table of virtual references; rows without a location are left out."""
    n = len(index)
    byte_offset, length = _column("offsets", offsets, n), _column("lengths", lengths, n)
    code, pool = _encode_locations(locations)
    checksums = checksum_columns(checksum, n)
    if code is None:
        return ChunkTable.empty(index.shape[1])
    located = code >= 0
    first_chunk = partial(_first_chunk, index, code, pool)
    _refuse_impossible_ranges(located, byte_offset, length, first_chunk)
    stored = _stored(code, pool, policy)
    table = ChunkTable(
        index=index,
        kind=np.broadcast_to(np.uint8(ChunkType.virtual), n),
        byte_offset=byte_offset,
        length=length,
        location_code=code,
        locations=stored,
        etag_code=checksums.etag_code,
        etags=checksums.etags,
        last_modified=checksums.seconds,
    )
    return table if located.all() else table.take(located)


type _NameFirst = Callable[[npt.NDArray[np.bool_]], str]
"""Returns which chunk the first of the rows at fault is, in words."""


def _first_chunk(
    index: UInt32, code: Int32, pool: pa.ChunkedArray, faulty: npt.NDArray[np.bool_]
) -> str:
    row = int(np.argmax(faulty))
    chunk = tuple(index[row].tolist())
    return f" (the first is chunk {chunk}, in {pool[int(code[row])].as_py()})"


def _refuse_impossible_ranges(
    located: npt.NDArray[np.bool_], byte_offset: UInt64, length: UInt64, first_chunk: _NameFirst
) -> None:
    empty = located & (length == 0)
    if empty.any():
        raise _zero_length(f"{rows_named(empty)} have", first_chunk(empty))
    too_far = located & (byte_offset > _MAX_END - np.minimum(length, _MAX_END))
    if too_far.any():
        raise _bad_range(
            f"{rows_named(too_far)} end beyond 2**63 bytes, where no object reaches"
            f"{first_chunk(too_far)}"
        )


def _stored(code: Int32, pool: pa.ChunkedArray, policy: LocationPolicy) -> pa.ChunkedArray:
    """Return locations as they are stored; the error for others names their rows."""
    try:
        return policy.store(pool)
    except (InvalidInputError, AccessError) as error:
        faulty = np.append(policy.refused(pool), False)[code]  # the last entry is for rows without
        error.message = f"{rows_named(faulty)}: {error.message}"
        error.args = (error.message,)
        raise


def _encode_locations(
    locations: Sequence[str] | pa.Array | pa.ChunkedArray,
) -> tuple[Int32 | None, pa.ChunkedArray]:
    """Return locations as codes into a pool of those in use; empty ones have none, like nulls."""
    if isinstance(locations, pa.Array | pa.ChunkedArray):
        _check_text_type(locations.type)
    try:
        code, pool = encode_texts(locations)
    except InvalidInputError as error:
        faulty = np.array([not _is_text(location) for location in locations], np.bool_)
        raise _invalid(
            f"the locations are not all texts: {error.__cause__} in {rows_named(faulty)}"
        ) from error
    if code is None:
        return None, pool
    empty = pc.equal(pool, "").to_numpy()
    if empty.any():
        code = np.where((code >= 0) & empty[code], np.int32(ABSENT), code)
    used = np.zeros(len(pool) + 1, np.bool_)
    used[code] = True  # the last entry is for rows without
    return (code, pool) if used[:-1].all() else used_texts(code, pool)


def _is_text(location: object) -> bool:
    if location is None:
        return True
    try:
        return isinstance(location, str) and location.encode() is not None
    except UnicodeEncodeError:
        return False


def _check_text_type(column_type: pa.DataType) -> None:
    kind = column_type.value_type if pa.types.is_dictionary(column_type) else column_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise _invalid(f"the locations have the type {column_type}, expected texts")


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
    if min(shape, default=0) < 0 or math.prod(shape) != n:
        raise _invalid(f"chunk_grid_shape is {shape}, but {n} locations were given")
    ends = tuple(first + count for first, count in zip(start, shape, strict=True))
    if n and (
        min(start, default=0) < 0
        or any(end > count for end, count in zip(ends, array.num_chunks, strict=True))
    ):
        raise _outside_grid(f"the box of chunks from {start} to {ends}", array)
    return dense_index(shape, start)


def _spec_index(array: ArrayNode, specs: Sequence[VirtualChunkSpec]) -> UInt32:
    rank = len(array.shape)
    for row, spec in enumerate(specs):
        if len(spec.index) != rank:
            raise _outside_grid(f"chunk {tuple(spec.index)} (row {row})", array)
    try:
        index = np.array([spec.index for spec in specs], np.int64).reshape(len(specs), rank)
    except (OverflowError, TypeError, ValueError) as error:
        raise _invalid(f"the chunk indexes are not all integers: {error}") from error
    outside = ((index < 0) | (index >= np.array(array.num_chunks, np.int64))).any(axis=1)
    if outside.any():
        first = tuple(index[outside][0].tolist())
        raise _outside_grid(f"chunk {first} ({rows_named(outside)})", array)
    return index.astype(np.uint32)


def _natural(name: str, value: object) -> int:
    if not isinstance(value, int | np.integer) or not 0 <= value < _TWO_TO_64:
        raise _bad_range(f"the {name} is {value!r}; give an integer between 0 and 2**64")
    return int(value)


def _integers(values: Sequence[int]) -> npt.NDArray[Any]:
    """Return a column of integers, whatever its dtype: what does not fit is found later."""
    column = np.array(values) if len(values) else np.empty(0, np.uint64)
    # NumPy makes floats, which are not exact, of integers that are too large or negative
    return column if column.dtype.kind in "iu" else np.array(values, object)


def _column(name: str, values: Any, n: int) -> UInt64:
    column = _integers(values) if isinstance(values, list | tuple) else np.asarray(values)
    if column.shape != (n,):
        raise _invalid(f"{name} has shape {column.shape}, expected ({n},)")
    if column.dtype.kind == "O":
        _refuse_odd_values(name, column)
    elif column.dtype.kind not in "iu":
        raise _invalid(f"{name} has the dtype {column.dtype}, expected unsigned 64-bit integers")
    elif column.dtype.kind == "i" and n and int(column.min()) < 0:
        raise _bad_range(f"{name} are negative in {rows_named(column < 0)}")
    return column.astype(np.uint64, copy=False)


def _refuse_odd_values(name: str, column: npt.NDArray[Any]) -> None:
    """Look at each object of a column: such columns are made by hand, and small."""
    odd = np.array([not isinstance(value, int | np.integer) for value in column], np.bool_)
    if odd.any():
        raise _invalid(f"{name} are no integers in {rows_named(odd)}")
    outside = np.array([not 0 <= value < _TWO_TO_64 for value in column], np.bool_)
    if outside.any():
        raise _bad_range(f"{name} are not between 0 and 2**64 in {rows_named(outside)}")


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_VIRTUAL_REF)


def _outside_grid(what: str, array: ArrayNode) -> InvalidInputError:
    return InvalidInputError(
        f"{what} is outside the grid {array.num_chunks} of {array.path}; resize the array first",
        kind=ErrorKind.INVALID_CHUNK_INDEX,
    )


def _bad_range(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_BYTE_RANGE)


def _zero_length(what: str, which: str = "") -> InvalidInputError:
    return InvalidInputError(
        f"{what} length 0, and no chunk is empty; leave such chunks out{which}",
        kind=ErrorKind.ZERO_LENGTH_CHUNK,
    )
