"""Where the chunks of an array go when files come and go."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.chunk_tables import ChunkTable, UInt32, replace_columns
from icestream.model.nodes import Extents

Int64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Box = Extents
"""One half-open range of chunk indexes per dimension."""

Boxes = npt.NDArray[np.int64]
"""(n, rank, 2) boxes."""

GONE = -1
"""Where a chunk goes that the array has no more."""

_PACKING_LEVEL = 3
"""The first level that finds long repetitions of numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexMap:
    """Old chunk indexes to new ones, dimension by dimension.

    The order of chunks that stay is kept along every dimension, so sorted references stay sorted.
    """

    axes: tuple[Int64 | None, ...]
    """Per dimension the new index of each old one, -1 where it is gone; None is unchanged.

    An index beyond the end of its axis is gone."""
    dropped: tuple[Box, ...] = ()
    """Boxes in old indexes whose references go, wherever the axes would send them."""

    def __post_init__(self) -> None:
        for dimension, axis in enumerate(self.axes):
            if axis is not None and not _ascends(axis[axis != GONE]):
                raise InvalidInputError(
                    f"the new chunk indexes along dimension {dimension} do not ascend; "
                    "chunks can be moved apart or together, but not past each other",
                    kind=ErrorKind.INVALID_CHUNK_INDEX,
                )
        if any(len(box) != self.rank for box in self.dropped):
            raise InvalidInputError(
                f"a box to drop does not have the {self.rank} dimensions of the map",
                kind=ErrorKind.INVALID_CHUNK_INDEX,
            )

    @property
    def rank(self) -> int:
        """Dimensions of the array."""
        return len(self.axes)

    @property
    def is_identity(self) -> bool:
        """Tell whether everything stays where it is."""
        return not self.dropped and all(axis is None for axis in self.axes)

    def apply(self, table: ChunkTable) -> ChunkTable:
        """Return the references that stay, at their new indexes."""
        if self.is_identity:
            return table
        index, kept = self.targets(table.index)
        if kept.all():
            return replace_columns(table, index=index)
        return replace_columns(table.take(kept), index=index[kept])

    def targets(self, index: UInt32) -> tuple[UInt32, Mask]:
        """Return where chunks go, and which of them stay; where others go means nothing."""
        kept = np.ones(len(index), bool)
        new = index.copy()
        for column, axis in zip(new.T, self.axes, strict=True):
            if axis is not None:
                known = column < len(axis)
                places = np.full(len(column), GONE, np.int64)
                places[known] = axis[column[known]]
                kept &= places != GONE
                column[:] = places.astype(np.uint32)
        for box in self.dropped:
            kept &= ~inside(index, box)
        return new, kept

    def box_targets(self, boxes: Boxes) -> Boxes:
        """Return the smallest boxes that hold what old boxes become; empty where nothing stays."""
        new = np.array(boxes, np.int64)
        for dimension, axis in enumerate(self.axes):
            if axis is not None:
                new[:, dimension] = _range_targets(axis, new[:, dimension])
        return new

    def changes_in(self, boxes: Boxes) -> Mask:
        """Tell for old boxes whether a chunk in them moves or goes."""
        changed = np.zeros(len(boxes), bool)
        for dimension, axis in enumerate(self.axes):
            if axis is not None:
                changed |= _changes_in_ranges(axis, boxes[:, dimension])
        for box in self.dropped:
            low, high = np.array(box, np.int64).reshape(-1, 2).T
            changed |= ((boxes[:, :, 0] < high) & (boxes[:, :, 1] > low)).all(axis=1)
        return changed

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _unpack, (tuple(map(_pack_axis, self.axes)), self.dropped)


def inside(index: UInt32, box: Box) -> Mask:
    """Tell which rows of an (n, rank) index lie in a box."""
    found = np.ones(len(index), bool)
    for column, (lo, hi) in zip(index.T, box, strict=True):
        found &= (column >= lo) & (column < hi)
    return found


def as_boxes(boxes: Sequence[Box], rank: int) -> Boxes:
    """Return boxes as one matrix."""
    return np.array(boxes, np.int64).reshape(len(boxes), rank, 2)


def _ascends(kept: Int64) -> bool:
    return bool((kept[:1] >= 0).all() and (np.diff(kept) > 0).all())


def _range_targets(axis: Int64, ranges: Int64) -> Int64:
    """Return the smallest ranges that hold the new indexes of (n, 2) old ranges."""
    stays = np.flatnonzero(axis != GONE)
    if not len(stays):
        return np.zeros_like(ranges)
    first = np.searchsorted(stays, ranges[:, 0])
    last = np.searchsorted(stays, ranges[:, 1]) - 1
    lows = axis[stays[np.minimum(first, len(stays) - 1)]]
    highs = axis[stays[np.maximum(last, 0)]] + 1
    return np.where((first <= last)[:, None], np.stack([lows, highs], axis=1), 0)


def _changes_in_ranges(axis: Int64, ranges: Int64) -> Mask:
    changes_before = np.zeros(len(axis) + 1, np.int64)
    np.cumsum(axis != np.arange(len(axis)), out=changes_before[1:])
    lows, highs = np.minimum(ranges, len(axis)).T
    changed: Mask = changes_before[lows] < changes_before[highs]
    return changed | (ranges[:, 1] > np.maximum(ranges[:, 0], len(axis)))


# -- pickling: long axes that mostly count up travel as a few bytes ---------------------------


def _pack_axis(axis: Int64 | None) -> tuple[int, bytes] | None:
    if axis is None:
        return None
    steps = np.diff(axis, prepend=0).astype("<i8")
    codec = pa.Codec("zstd", compression_level=_PACKING_LEVEL)
    return len(axis), codec.compress(steps.tobytes(), asbytes=True)


def _unpack(axes: Sequence[tuple[int, bytes] | None], dropped: tuple[Box, ...]) -> IndexMap:
    return IndexMap(tuple(map(_unpack_axis, axes)), dropped)


def _unpack_axis(packed: tuple[int, bytes] | None) -> Int64 | None:
    if packed is None:
        return None
    length, data = packed
    steps = pa.decompress(data, 8 * length, codec="zstd")
    return np.cumsum(np.frombuffer(steps, "<i8"), dtype=np.int64)
