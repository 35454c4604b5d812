"""Files that stay move to other chunks: the moves of all files as one map per dimension."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from icestream.ingest.file_columns import Lengths, Rows
from icestream.ingest.row_numbers import ragged_index
from icestream.model.index_maps import GONE, Box, IndexMap

Mask = npt.NDArray[np.bool_]
AxisMap = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Where files were, and where they are now."""

    old: Lengths
    """(n, rank) first chunk of each file."""
    new: Lengths
    """(n, rank) first chunk of each file."""
    extent: Lengths
    """(n, rank) chunks of each file, before and after."""

    def take(self, rows: Mask) -> "Moves":
        """Return some of the moves."""
        return Moves(self.old[rows], self.new[rows], self.extent[rows])


def axis_maps(moves: Moves, grid: Sequence[int]) -> tuple[tuple[AxisMap | None, ...], Mask]:
    """Return the map of each dimension, and which files it is right for.

    Chunks along a dimension move together, and never past each other. Files for which that cannot
    be said are left out of the maps. This happens when a declaration changes, or when values that
    fell begin to rise; not when files come or go.

    Args:
        moves: Of files that stay.
        grid: Chunks of the array before, per dimension.
    """
    fits = np.ones(len(moves.old), np.bool_)
    while True:
        fitting = moves if fits.all() else moves.take(fits)
        maps = [_axis_map(fitting, dim, size) for dim, size in enumerate(grid)]
        wrong = np.zeros(int(fits.sum()), np.bool_)
        for _, misfits in maps:
            wrong |= misfits
        if not wrong.any():
            break
        fits[np.flatnonzero(fits)[wrong]] = False
    axes = tuple(axis for axis, _ in maps)
    if all(axis is None or _ascends(axis) for axis in axes):
        return axes, fits
    return (None,) * len(grid), np.zeros(len(fits), np.bool_)


def _axis_map(moves: Moves, dim: int, size: int) -> tuple[AxisMap | None, Mask]:
    """Return the map of one dimension, and files that contradict those before them."""
    old, new, count = moves.old[:, dim], moves.new[:, dim], moves.extent[:, dim]
    misfits = np.zeros(len(old), np.bool_)
    if bool((old == new).all()):
        return None, misfits
    source, target = ragged_index(old, count), ragged_index(new, count)
    axis = np.full(size, GONE, np.int64)
    axis[source[::-1]] = target[::-1]
    wrong = axis[source] != target
    if wrong.any():
        misfits[np.repeat(np.arange(len(old)), count)[wrong]] = True
    return axis, misfits


def _ascends(axis: AxisMap) -> bool:
    kept = axis[axis != GONE]
    return bool((np.diff(kept) > 0).all())


def index_map(axes: Sequence[AxisMap | None], dropped: Lengths) -> IndexMap | None:
    """Return where chunks go; None if all stay where they are.

    Args:
        axes: The map of each dimension.
        dropped: (n, rank, 2) boxes in old chunks whose references go.
    """
    for dim, axis in enumerate(axes):
        if axis is not None:  # what no dimension keeps is gone without being named
            kept_before = np.concatenate([[0], np.cumsum(axis != GONE)])
            dropped = dropped[kept_before[dropped[:, dim, 0]] < kept_before[dropped[:, dim, 1]]]
    found = IndexMap(tuple(axes), as_ranges(joined_boxes(dropped)))
    return None if found.is_identity else found


def boxes_of_chunks(offset: Lengths, extent: Lengths) -> Lengths:
    """Return (n, rank, 2) boxes of chunks."""
    return np.stack([offset, offset + extent], axis=2)


def as_ranges(boxes: Lengths) -> tuple[Box, ...]:
    """Return boxes as ranges per dimension."""
    return tuple(tuple((lo, hi) for lo, hi in box) for box in boxes.tolist())


def joined_boxes(boxes: Lengths) -> Lengths:
    """Return fewer boxes that hold the same: those that touch are put together."""
    boxes = boxes[(boxes[:, :, 0] < boxes[:, :, 1]).all(axis=1)]
    for dim in range(boxes.shape[1]):
        boxes = _joined_along(boxes, dim)
    return boxes


def _joined_along(boxes: Lengths, dim: int) -> Lengths:
    if not len(boxes):
        return boxes
    others = np.delete(boxes, dim, axis=1).reshape(len(boxes), -1)
    order: Rows = np.lexsort([boxes[:, dim, 0], *others.T])
    boxes, others = boxes[order], others[order]
    touches = (others[1:] == others[:-1]).all(axis=1) & (boxes[1:, dim, 0] == boxes[:-1, dim, 1])
    first = np.flatnonzero(np.concatenate([[True], ~touches]))
    last = np.append(first[1:], len(boxes)) - 1
    joined = boxes[first]
    joined[:, dim, 1] = boxes[last, dim, 1]
    return joined
