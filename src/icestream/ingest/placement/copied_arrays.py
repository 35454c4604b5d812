"""Variables that are copied from files, coordinates above all: put together, compared, encoded."""

import gzip
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.ingest.coordinate_pools import CoordinatePool
from icestream.ingest.file_columns import Codes, Rows
from icestream.ingest.placement.axes import AxisPlacement
from icestream.ingest.placement.boxes import Boxes
from icestream.ingest.placement.problems import Problem, ProblemKind, problem
from icestream.ingest.row_numbers import ragged_index
from icestream.ingest.times.encodings import (
    MISSING,
    TimeEncoding,
    common_calendar,
    common_encoding,
    encode_times,
    parse_time_units,
)

CHUNK_ELEMENTS = 2**16
"""Along the dimension that grows: appending writes the last chunk anew, and no other."""

_GZIP_LEVEL = 6
_ENCODED_ANEW = ("units", "calendar", "_FillValue", "missing_value")


@dataclass(frozen=True, slots=True, eq=False)
class CopiedArray:
    """An array whose values are in the repository."""

    path: str
    metadata: Mapping[str, Any]
    """The document zarr.json."""
    values: npt.NDArray[Any]
    time: TimeEncoding | None = None
    """How times are counted; those that are not encoded yet are microseconds."""

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Elements of one chunk per dimension."""
        return tuple(self.metadata["chunk_grid"]["configuration"]["chunk_shape"])


def copy_values(
    path: str, boxes: Boxes, urls: Sequence[str], *, along: AxisPlacement | None
) -> tuple[CopiedArray | None, list[Problem]]:
    """Return the values of all files as one array, and what is wrong with them.

    Args:
        path: Of the array.
        boxes: Where files go.
        urls: Of all files.
        along: The dimension whose coordinate this is, if its values are known.
    """
    array = boxes.array
    if not len(array.files):
        return None, []
    suppliers, number = boxes.supplied()
    time, fault = _common_time(array.values, array.value[suppliers])
    if fault:
        rows = array.files.tolist()
        found = problem(ProblemKind.UNREADABLE_VALUES, path, fault, urls=urls, rows=rows)
        return None, [found]
    problems: list[Problem] = []
    if along is not None and along.values is not None and len(boxes.shape) == 1:
        values = along.values  # files were placed by it
    else:
        values = _assembled(boxes, suppliers, time)
        differing = _differing(boxes, values, (suppliers, number))
        problems += _difference_problems(path, boxes, (values, differing), urls)
    metadata = copied_metadata(array.metadata[array.form[0]], values, boxes.axes)
    return CopiedArray(path, metadata, values, time), problems


def _differing(boxes: Boxes, values: npt.NDArray[Any], boxing: tuple[Rows, Rows]) -> Rows:
    """Return rows whose file has other values than those that share its place."""
    suppliers, number = boxing
    codes = boxes.array.value
    usual = codes[suppliers][number]
    differs = codes != usual
    for one, other in np.unique(np.stack([usual, codes], axis=1)[differs], axis=0).tolist():
        if _are_equal(boxes.array.values[one].values, boxes.array.values[other].values):
            differs &= (usual != one) | (codes != other)  # of another type, or another calendar
    for row in boxes.overlapping(suppliers, (1,) * values.ndim).tolist():
        there = values[_part(boxes, row)]
        differs[row] = not _are_equal(there, boxes.array.values[codes[row]].values)
    return np.flatnonzero(differs)


def _part(boxes: Boxes, row: int) -> tuple[slice, ...]:
    start, stop = boxes.start[row], boxes.start[row] + boxes.length[row]
    return tuple(map(slice, start.tolist(), stop.tolist()))


def _are_equal(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _difference_problems(
    path: str, boxes: Boxes, found: tuple[npt.NDArray[Any], Rows], urls: Sequence[str]
) -> Iterator[Problem]:
    """Yield files that have other values than those that share their place."""
    values, differing = found
    array = boxes.array
    if not len(differing):
        return
    row = int(differing[0])
    there, here = values[_part(boxes, row)], array.values[array.value[row]].values
    distance = np.abs(there.astype(np.float64) - here.astype(np.float64))
    reason = (
        f"values differ by up to {float(np.nanmax(distance, initial=0)):g} from those of files "
        f"that share their place, such as {urls[_first_with(boxes, row)]}; load what is the same "
        "in all files only, or exclude those that differ"
    )
    rows = array.files[differing].tolist()
    yield problem(ProblemKind.UNEQUAL_VALUES, path, reason, urls=urls, rows=rows)


def _first_with(boxes: Boxes, row: int) -> int:
    """Return the first file whose box touches that of a row."""
    stop = boxes.start + boxes.length
    touches = ((boxes.start < stop[row]) & (stop > boxes.start[row])).all(axis=1)
    return int(boxes.array.files[np.flatnonzero(touches)[0]])


def _common_time(pool: CoordinatePool, codes: Codes) -> tuple[TimeEncoding | None, str | None]:
    """Return how the first file counts time, and what keeps others from being compared with it."""
    calendars = {kind.calendar for kind in pool.kinds_of(codes)}
    if calendars == {None}:
        return None, None
    if None in calendars:
        return None, "it is a time in some files only"
    calendar = next(iter(calendars))
    if len(calendars) > 1:
        moments = pool.joined(codes)
        earliest = int(moments[moments != MISSING].min(initial=np.iinfo(np.int64).max))
        calendar = common_calendar(calendars, earliest)
    time = pool.time(codes[0])
    if calendar is None or time is None:
        return None, "files count time in different calendars"
    return replace(time, calendar=calendar), None


def _assembled(boxes: Boxes, suppliers: Rows, time: TimeEncoding | None) -> npt.NDArray[Any]:
    pool, codes = boxes.array.values, boxes.array.value[suppliers]
    dtype = np.result_type(*(np.dtype(kind.dtype) for kind in pool.kinds_of(codes)))
    if time is None:
        fill = dtype.type(math.nan) if dtype.kind == "f" else dtype.type(0)
    else:
        fill = dtype.type(MISSING)
    values = np.full(boxes.shape, fill, dtype)
    start, length = boxes.start[suppliers], boxes.length[suppliers]
    if (length[:, 1:] == np.array(boxes.shape[1:])).all():
        # whole rows of the array, so that the values of a file are in one piece of it
        size = math.prod(boxes.shape[1:])
        counts = pool.sizes(codes)
        first = start[:, 0] * size if start.shape[1] else np.zeros(len(codes), np.int64)
        values.reshape(-1)[ragged_index(first, counts)] = pool.joined(codes)
        return values
    for code, lo, hi in zip(codes.tolist(), start.tolist(), (start + length).tolist(), strict=True):
        values[tuple(map(slice, lo, hi))] = pool[code].values
    return values


def copied_metadata(
    document: Mapping[str, Any],
    values: npt.NDArray[Any],
    axes: Sequence[AxisPlacement | None],
) -> dict[str, Any]:
    """Return the metadata of an array of these values."""
    chunks = [max(length, 1) for length in values.shape]
    growing = next((i for i, axis in enumerate(axes) if axis is not None), None)
    if growing is not None:
        others = math.prod(n for i, n in enumerate(chunks) if i != growing)
        chunks[growing] = max(CHUNK_ELEMENTS // others, 1)
    return {
        **document,
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(values.shape),
        "data_type": "string" if values.dtype.kind == "U" else values.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": _fill_value(values.dtype),
        "codecs": _codecs(values.dtype),
        "storage_transformers": [],
    }


def _fill_value(dtype: np.dtype[Any]) -> Any:
    return {"f": "NaN", "b": False, "U": ""}.get(dtype.kind, 0)


def _codecs(dtype: np.dtype[Any]) -> list[Any]:
    """Return codecs that need no library, since the padding of the last chunk compresses well."""
    compressed = {"name": "gzip", "configuration": {"level": _GZIP_LEVEL}}
    if dtype.kind == "U":
        return [{"name": "vlen-utf8"}, compressed]
    return [{"name": "bytes", "configuration": {"endian": "little"}}, compressed]


def encode_copied(
    arrays: Mapping[str, CopiedArray], time_units: str | None = None
) -> dict[str, CopiedArray]:
    """Return arrays with their times as whole numbers, of one unit in each calendar.

    Raises:
        InvalidInputError: `time_units` are none.
    """
    encodings: dict[str, TimeEncoding] = {}
    for array in arrays.values():
        if array.time is not None and array.time.calendar not in encodings:
            calendar = array.time.calendar
            preferred = parse_time_units(time_units, calendar) if time_units else array.time
            moments = [
                other.values
                for other in arrays.values()
                if other.time is not None and other.time.calendar == calendar
            ]
            encodings[calendar] = common_encoding(preferred, moments)
    return {
        path: array if array.time is None else _encoded(array, encodings[array.time.calendar])
        for path, array in arrays.items()
    }


def _encoded(array: CopiedArray, time: TimeEncoding) -> CopiedArray:
    values = encode_times(array.values, time)
    found = array.metadata.get("attributes", {})
    attributes = {key: value for key, value in found.items() if key not in _ENCODED_ANEW}
    if "units" in found:  # boundaries have those of their coordinate
        attributes |= {"units": time.units, "calendar": time.calendar}
    if (values == MISSING).any():
        attributes["_FillValue"] = int(MISSING)
    metadata = {**array.metadata, "data_type": "int64", "fill_value": 0, "attributes": attributes}
    return CopiedArray(array.path, metadata, values, time)


def chunks_of(array: CopiedArray) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """Yield the chunks of an array by index, as Zarr stores them: whole, also at the edges."""
    return ((index, encoded_chunk(array, index)) for index in chunk_indexes(array))


def chunk_indexes(array: CopiedArray) -> Iterator[tuple[int, ...]]:
    """Yield the indexes of all chunks."""
    lengths = zip(array.values.shape, array.chunk_shape, strict=True)
    return product(*(range(-(-length // chunk)) for length, chunk in lengths))


def chunk_values(array: CopiedArray, index: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the values of one chunk, with zeros beyond the edges of the array."""
    shape = array.chunk_shape
    lo = [i * chunk for i, chunk in zip(index, shape, strict=True)]
    part = array.values[tuple(slice(a, a + n) for a, n in zip(lo, shape, strict=True))]
    missing = [(0, chunk - n) for chunk, n in zip(shape, part.shape, strict=True)]
    return part if part.shape == shape else np.pad(part, missing)


def encoded_chunk(array: CopiedArray, index: tuple[int, ...]) -> bytes:
    """Return one chunk as Zarr stores it."""
    return gzip.compress(_chunk_bytes(chunk_values(array, index)), _GZIP_LEVEL, mtime=0)


def _chunk_bytes(part: npt.NDArray[Any]) -> bytes:
    if part.dtype.kind != "U":
        return np.ascontiguousarray(part, part.dtype.newbyteorder("<")).tobytes()
    texts = [text.encode() for text in part.ravel().tolist()]
    sized = (len(text).to_bytes(4, "little") + text for text in texts)
    return b"".join([len(texts).to_bytes(4, "little"), *sized])
