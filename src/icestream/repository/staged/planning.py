"""Which cells of an array have to be written again, told without reading a manifest.

A cell that changes makes every manifest stale that may hold references of chunks which are in the
cell, or were before an index map moved them. A stale manifest makes every cell change that its
references may be in, before or after. What neither reaches stays as it is.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from typing import Self

import numpy as np

from icestream.errors import InvalidInputError
from icestream.model.ids import ManifestId
from icestream.model.index_maps import Boxes, IndexMap, Mask, as_boxes
from icestream.model.manifest_sets import DEFAULT_SET
from icestream.model.nodes import ArrayNode, Extents, ManifestRef
from icestream.packing.assignment import WHOLE_ARRAY, Cell
from icestream.packing.closures import closure
from icestream.packing.splits import WHOLE, CellSizes
from icestream.repository.manifest_pieces import MAX_CELLS_PER_FULL_MANIFEST, PackingConfig
from icestream.repository.staged.cells import CellPlan, CellTask

_MAX_CELLS = 1_000_000


def plan_cells(
    array_before: ArrayNode | None,
    array_after: ArrayNode,
    packing: PackingConfig,
    *,
    index_map: IndexMap | None,
    added: Boxes,
) -> CellPlan:
    """Plan the manifests of an array that gets new references, or whose chunks move.

    Args:
        array_before: The array of the snapshot that is changed; None if it is new.
        array_after: The array as it will be; its manifests do not matter.
        packing: How references are spread over manifests.
        index_map: Where chunks go; None leaves them where they are.
        added: (n, rank, 2) boxes of chunks, as they will be, that may get new references.

    Raises:
        InvalidInputError: The array would be split into more cells than can be planned.
    """
    if array_before is None or array_before.id != array_after.id:
        old = _OldManifests.of((), array_after, array_after, None)
    else:
        old = _OldManifests.of(array_before.manifests, array_before, array_after, index_map)
    boxes = np.asarray(added, np.int64).reshape(len(added), len(array_after.shape), 2)
    grid = _CellGrid(array_after, _cell_sizes(packing, array_after, old, boxes))
    return _plan(grid, old, grid.cells(boxes))


@dataclass(frozen=True)
class _OldManifests:
    """The manifests of an array before the change, and where their references are and go."""

    refs: tuple[ManifestRef, ...]
    grid: tuple[int, ...]
    index_map: IndexMap | None
    were: Boxes
    become: Boxes
    moved: Mask
    """Which hold chunks that the map moves or drops."""
    cut: Mask
    """Which hold chunks that the array has no place for any more."""

    @classmethod
    def of(
        cls,
        refs: tuple[ManifestRef, ...],
        before: ArrayNode,
        after: ArrayNode,
        index_map: IndexMap | None,
    ) -> Self:
        # a manifest reference without extents covers the whole array
        everywhere = tuple((0, n) for n in before.num_chunks)
        were = as_boxes([ref.extents or everywhere for ref in refs], len(before.shape))
        if index_map is None or index_map.is_identity:
            index_map, become, moved = None, were, np.zeros(len(refs), bool)
        else:
            become, moved = index_map.box_targets(were), index_map.changes_in(were)
        ends = np.array(after.num_chunks, np.int64).reshape(-1, 1)
        cut = (become[:, :, 1] > ends.T).any(axis=1)
        return cls(refs, before.num_chunks, index_map, were, np.minimum(become, ends), moved, cut)

    def ids_where(self, chosen: Mask) -> set[ManifestId]:
        """Return the manifests of some of the references."""
        return {self.refs[number].manifest_id for number in np.flatnonzero(chosen)}


@dataclass(frozen=True)
class _CellGrid:
    """How an array is split."""

    array: ArrayNode
    sizes: CellSizes | None

    @cached_property
    def _steps(self) -> CellSizes:
        return self.sizes or (WHOLE,) * len(self.array.shape)

    def cells(self, boxes: Boxes) -> list[Cell]:
        """Return the cells that some boxes touch, each once."""
        return list(dict.fromkeys(chain.from_iterable(self.cells_by_box(boxes, distinct=True))))

    def cells_by_box(self, boxes: Boxes, *, distinct: bool = False) -> list[list[Cell]]:
        """Return the cells that each of some boxes touches; `distinct`: each list once."""
        ranges = self._ranges(boxes)
        if distinct and self.array.shape:
            ranges = np.unique(ranges, axis=0)
        if _num_places(ranges) > _MAX_CELLS:
            raise InvalidInputError(
                f"a change reaches more than {_MAX_CELLS} splits of {self.array.path}; split its "
                "manifests into larger parts"
            )
        return [
            [self._named(cell) for cell in product(*(range(lo, hi) for lo, hi in one))]
            for one in ranges.tolist()
        ]

    def most_cells(self, boxes: Boxes) -> int:
        """Return a number of cells that boxes do not touch more than."""
        ranges = self._ranges(boxes)
        return _num_places(np.unique(ranges, axis=0) if self.array.shape else ranges[:1])

    def _ranges(self, boxes: Boxes) -> Boxes:
        steps = np.array(self._steps, np.int64)
        first, last = boxes[:, :, 0] // steps, -(-boxes[:, :, 1] // steps)
        is_filled = (boxes[:, :, 0] < boxes[:, :, 1]).all(axis=1, keepdims=True)
        return np.stack([first, np.where(is_filled, last, first)], axis=2)

    def _named(self, cell: Cell) -> Cell:
        return WHOLE_ARRAY if self.sizes is None else cell

    def reach(self, cell: Cell) -> Extents:
        """Return the chunks of a cell, wherever the array ends."""
        if cell == WHOLE_ARRAY:
            return ((0, WHOLE),) * len(self.array.shape)
        places = zip(cell, self._steps, strict=True)
        return tuple((i * size, min((i + 1) * size, WHOLE)) for i, size in places)

    def box(self, cell: Cell) -> Extents:
        """Return the chunks of a cell that the array has."""
        ends = zip(self.reach(cell), self.array.num_chunks, strict=True)
        return tuple((min(lo, n), min(hi, n)) for (lo, hi), n in ends)


def _num_places(ranges: Boxes) -> int:
    return int((ranges[:, :, 1] - ranges[:, :, 0]).astype(float).prod(axis=1).sum())


def _num_chunks(boxes: Boxes) -> int:
    return _num_places(np.maximum(boxes, boxes[:, :, :1]))


def _cell_sizes(
    packing: PackingConfig, array: ArrayNode, old: _OldManifests, added: Boxes
) -> CellSizes | None:
    """Return how an array is split when not its references are at hand, but their boxes."""
    given = packing.given_cells(array)
    if given is not None:
        return given
    automatic = packing.automatic_cells(array)
    limit = packing.sets[DEFAULT_SET].max_manifest_size
    if automatic is None or limit is None or len(old.refs) > 1:
        return automatic
    # one manifest holds no more than the limit, however large the box of a sparse array is
    most = min(_num_chunks(old.become), limit) + _num_chunks(added)
    cells = _CellGrid(array, automatic).most_cells(np.concatenate([old.become, added]))
    if most <= limit or cells > MAX_CELLS_PER_FULL_MANIFEST * (most // limit + 1):
        return None
    return automatic


def _plan(grid: _CellGrid, old: _OldManifests, touched: Sequence[Cell]) -> CellPlan:
    """Return the cells that the touched ones, or stale manifests, make change."""
    cells_of: dict[ManifestId, set[Cell]] = defaultdict(set)
    for boxes in (old.were, old.become):
        for ref, cells in zip(old.refs, grid.cells_by_box(boxes), strict=True):
            cells_of[ref.manifest_id].update(cells)
    holders: dict[Cell, list[ManifestId]] = defaultdict(list)
    for manifest_id, reached in cells_of.items():
        for cell in reached:
            holders[cell].append(manifest_id)
    stale = old.ids_where(old.moved | old.cut)
    start = [*touched, *(cell for manifest_id in stale for cell in cells_of[manifest_id])]
    found = closure(start, holders, cells_of)
    stale |= found.manifests
    return CellPlan(
        array_id=grid.array.id,
        path=grid.array.path,
        cell_sizes=grid.sizes,
        tasks=tuple(_tasks(grid, old, sorted(found.pieces), holders)),
        kept=tuple(ref for ref in old.refs if ref.manifest_id not in stale),
        stale=tuple(ref for ref in old.refs if ref.manifest_id in stale),
    )


def _tasks(
    grid: _CellGrid,
    old: _OldManifests,
    cells: Sequence[Cell],
    holders: Mapping[Cell, Sequence[ManifestId]],
) -> Iterator[CellTask]:
    moved = old.ids_where(old.moved)
    for cell in cells:
        manifests = tuple(holders.get(cell, ()))
        yield CellTask(
            array_id=grid.array.id,
            path=grid.array.path,
            cell=cell,
            box=grid.box(cell),
            reach=grid.reach(cell),
            grid_before=old.grid,
            old=manifests,
            index_map=None if moved.isdisjoint(manifests) else old.index_map,
        )
