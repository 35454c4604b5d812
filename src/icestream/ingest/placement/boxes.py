"""Where one array of many files goes: boxes of elements and chunks, as columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from icestream.ingest.declaration.archives import Axis
from icestream.ingest.file_columns import NOWHERE, ArrayColumns, Lengths, Rows
from icestream.ingest.placement.axes import AxisPlacement
from icestream.ingest.row_numbers import number_rows

PlacedAxes = Sequence[tuple[Axis, AxisPlacement]]


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """The places of an array's files in the array that they become."""

    array: ArrayColumns
    """In files that have a place, all of one form."""
    axes: tuple[AxisPlacement | None, ...]
    """Of each dimension; None where all files cover the whole of it."""
    shape: tuple[int, ...]
    """Of the whole array."""
    start: Lengths
    """(n, rank) first element of each file."""
    length: Lengths
    """(n, rank) elements of each file."""
    is_repeated: bool
    """Whether files of several positions may hold the same box: a dimension is not the array's."""
    num_new: int = 0
    """Dimensions in front that files do not have."""

    def supplied(self) -> tuple[Rows, npt.NDArray[np.intp]]:
        """Return the first row of each distinct box, and the number of its box for each row.

        Boxes are in the order of their places.
        """
        if not self.start.shape[1]:
            return np.zeros(min(len(self.start), 1), np.intp), np.zeros(len(self.start), np.intp)
        number, first = number_rows([self.start, self.length])
        boxes = np.concatenate([self.start[first], self.length[first]], axis=1)
        order = np.lexsort(boxes.T[::-1])
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order))
        return first[order], place[number]

    def overlapping(self, rows: Rows, chunk_shape: Sequence[int]) -> Rows:
        """Return those of some rows that share a chunk with another of them."""
        owner, keys = rows, np.zeros(len(rows), np.int64)
        for dim, axis in enumerate(self.axes):
            if axis is None:
                continue
            size = max(chunk_shape[dim], 1)
            first = self.start[owner, dim] // size
            counts = -(-(self.start[owner, dim] + self.length[owner, dim]) // size) - first
            ends = np.cumsum(counts)
            within = np.arange(int(ends[-1]) if len(ends) else 0)
            within -= np.repeat(ends - counts, counts)
            keys = np.repeat(keys * (axis.size // size + 1) + first, counts) + within
            owner = np.repeat(owner, counts)
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        return np.unique(np.concatenate([owner[order][same], owner[order][same + 1]]))


def boxes_of(array: ArrayColumns, code: int, axes: PlacedAxes, *, is_stacked: bool) -> Boxes:
    """Return where the files that have one form of an array go.

    Args:
        array: The array.
        code: Of the form.
        axes: The dimensions along which files are put.
        is_stacked: Whether the array gets the dimensions that files do not have.
    """
    array = array.take(array.form == code)
    form = array.forms[code]
    new = [placed for axis, placed in axes if axis.new and is_stacked]
    along = {axis.dimension: placed for axis, placed in axes if not axis.new}
    by_dim = (*new, *(along.get(name or "") for name in form.dimensions))
    lengths = (*(1 for _ in new), *form.lengths)
    placed = np.ones(len(array.files), np.bool_)
    for axis in by_dim:
        if axis is not None:
            placed &= axis.start[array.files] != NOWHERE
    array = array.take(placed)
    start = np.zeros((len(array.files), len(by_dim)), np.int64)
    length = np.tile(np.array(lengths, np.int64), (len(array.files), 1))
    for dim, axis in enumerate(by_dim):
        if axis is not None:
            start[:, dim], length[:, dim] = axis.start[array.files], axis.length[array.files]
    return Boxes(
        array,
        by_dim,
        tuple(n if axis is None else axis.size for n, axis in zip(lengths, by_dim, strict=True)),
        start,
        length,
        is_repeated=not axes or any(placed not in by_dim for _, placed in axes),
        num_new=len(new),
    )


def joined_boxes(array: ArrayColumns, parts: Sequence[Boxes]) -> Boxes:
    """Return the boxes of several forms of one array, those of the first form first.

    What is inline is compared within the first form only: the same bytes mean something else in
    another.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    files = np.concatenate([part.array.files for part in parts])
    joined = array.take(np.searchsorted(array.files, files))
    content = joined.content.copy()
    content[len(first.array.files) :] = NOWHERE
    return replace(
        first,
        array=replace(joined, content=content),
        start=np.concatenate([part.start for part in parts]),
        length=np.concatenate([part.length for part in parts]),
    )
