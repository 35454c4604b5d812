"""Where the references of one array are cut into pieces.

An array is split by a grid of cells; each cell is a box of the same number of chunks along a
dimension, wherever the array ends. The pieces of an array that grows stay the same therefore.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from icestream.model.chunk_tables import Rows, UInt32, lexicographic_order
from icestream.model.manifest_conditions import dim_matches
from icestream.model.manifest_config import ManifestSplittingConfig
from icestream.model.nodes import Extents

CellSizes = tuple[int, ...]
"""Chunks per cell along each dimension."""

WHOLE = 2**32 - 1
"""The size along a dimension that is not split: no array has more chunks."""


def split_sizes(
    array_path: str,
    dimension_names: Sequence[str | None] | None,
    grid: Sequence[int],
    splitting: ManifestSplittingConfig | None,
) -> CellSizes | None:
    """Return how the rules split an array, or None if they leave it whole.

    As in icechunk: rules are tried in order, and within each its dimensions in order; the first
    that is for the array and a dimension decides about that dimension. So a later rule can
    split a dimension that an earlier one is silent about. The grid, chunks per dimension, says
    only how many dimensions there are: cells do not depend on where an array ends.
    """
    rules = (splitting.split_sizes if splitting else None) or ()
    if not rules:
        return None
    specs = [spec for condition, dims in rules if condition.matches(array_path) for spec in dims]
    names = dimension_names or (None,) * len(grid)
    sizes = tuple(
        next((size for condition, size in specs if dim_matches(condition, axis, name)), WHOLE)
        for axis, name in enumerate(names)
    )
    return sizes if any(size < WHOLE for size in sizes) else None


def automatic_split_sizes(grid: Sequence[int], limit: int) -> CellSizes:
    """Return cells of at most `limit` chunks, each one run of chunks in C order.

    The last dimensions are whole as long as they fit, the next one is cut, and those before it
    are cut chunk by chunk. The first is never taken as whole: the cells of an array that grows
    along it stay what they are.

    Args:
        grid: Chunks per dimension.
        limit: References that one manifest may hold.
    """
    sizes = [1] * len(grid)
    room = max(limit, 1)
    for axis in reversed(range(len(grid))):
        count = max(grid[axis], 1)
        if axis and count <= room:
            sizes[axis] = count
            room //= count
        else:
            sizes[axis] = min(room, WHOLE)
            break
    return tuple(sizes)


@dataclass(frozen=True, slots=True, eq=False)
class CellRows:
    """The rows of an index, cell by cell; inside a cell they keep their order."""

    cells: UInt32
    """(k, rank) cells that have rows, in lexicographic order."""
    bounds: Rows
    """(k + 1,) cell i has the rows from bounds[i] to bounds[i + 1] of the order."""
    order: Rows | None
    """(n,) rows sorted by cell; None where they were so already."""

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], Rows | slice]]:
        """Yield each cell and its rows."""
        for i, cell in enumerate(self.cells.tolist()):
            yield tuple(cell), self.rows(i)

    @property
    def counts(self) -> Rows:
        """(k,) rows per cell."""
        return np.diff(self.bounds)

    def rows(self, i: int) -> Rows | slice:
        """Return the rows of the cell at a position: a slice, which copies nothing, if it can."""
        part = slice(int(self.bounds[i]), int(self.bounds[i + 1]))
        return part if self.order is None else self.order[part]


def cells_of(index: UInt32, sizes: CellSizes) -> CellRows:
    """Sort chunk coordinates into the cells that they lie in.

    Args:
        index: (n, rank) chunk coordinates.
        sizes: Chunks per cell along each dimension.
    """
    axes = [axis for axis, size in enumerate(sizes) if size <= index[:, axis].max(initial=0)]
    places = np.empty((len(index), len(axes)), np.uint32)  # the others are 0 in every row
    for place, axis in zip(places.T, axes, strict=True):
        np.floor_divide(index[:, axis], np.uint32(sizes[axis]), out=place)
    order = lexicographic_order(places)
    if order is not None:
        places = places[order]
    starts = _starts_of_runs(places)
    cells = np.zeros((len(starts), len(sizes)), np.uint32)
    cells[:, axes] = places[starts]
    return CellRows(cells, np.append(starts, len(index)), order)


def cell_ranges(extents: Extents, sizes: CellSizes) -> Extents:
    """Return the half-open range of cells that a box touches, along each dimension.

    Ranges and not cells, which may be more than memory holds. A manifest reference without
    extents covers the whole array.
    """
    if not extents:
        return tuple((0, WHOLE) for _ in sizes)
    return tuple(
        (lo // size, (hi - 1) // size + 1) if lo < hi else (0, 0)
        for (lo, hi), size in zip(extents, sizes, strict=True)
    )


def cells_in(cells: UInt32, ranges: Extents) -> npt.NDArray[np.bool_]:
    """Tell for each of the cells whether it lies in the ranges."""
    inside = np.ones(len(cells), bool)
    for column, (lo, hi) in zip(cells.T, ranges, strict=True):
        inside &= (column >= lo) & (column < hi)
    return inside


def _starts_of_runs(places: UInt32) -> Rows:
    """Return the first row of each run of equal rows."""
    changes = np.zeros(len(places), bool)
    changes[:1] = True
    for column in places.T:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)
