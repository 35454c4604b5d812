"""Which manifests hold references of which arrays, and what goes stale with an edit.

All of it is told by the manifest references of a snapshot's nodes, never by the content of a
manifest: after a commit by others a file may hold arrays that nobody refers to any more.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.model.ids import ManifestId, NodeId
from icestream.model.nodes import ArrayNode
from icestream.packing.closures import closure
from icestream.packing.splits import CellSizes, cell_ranges, cells_in, cells_of

Cells = npt.NDArray[Any]
"""(n, rank) coordinates in the grid of split cells."""

Share = tuple[NodeId, int]
"""An array, and the number of one of its manifest references."""


@dataclass(slots=True)
class ManifestShares:
    """The arrays of a snapshot, and the manifests that they share."""

    arrays: Mapping[NodeId, ArrayNode]
    cell_sizes: Callable[[ArrayNode], CellSizes | None]
    """How an array is split; None is not at all."""
    _holders: dict[ManifestId, list[Share]] = field(init=False)
    _boxes: dict[NodeId, "_CellBoxes"] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        holders = defaultdict(list)
        for array in self.arrays.values():
            for i, ref in enumerate(array.manifests):
                holders[ref.manifest_id].append((array.id, i))
        self._holders = dict(holders)

    @property
    def manifests(self) -> Iterable[ManifestId]:
        """All manifests that an array refers to."""
        return self._holders.keys()

    def arrays_in(self, manifest_id: ManifestId) -> list[ArrayNode]:
        """Return the arrays that refer to a manifest."""
        return [self.arrays[array_id] for array_id, _ in self._holders[manifest_id]]

    def touched_by(self, array: ArrayNode, index: npt.NDArray[np.uint32]) -> Iterator[Share]:
        """Yield the shares of an array that edits of these chunks fall into."""
        sizes = self.cell_sizes(array)
        if sizes is None:
            yield from ((array.id, i) for i in range(len(array.manifests)))
        elif array.manifests:
            cells = cells_of(index, sizes).cells
            overlapping = self._boxes_of(array, sizes).containing_any(cells)
            yield from ((array.id, int(i)) for i in overlapping)

    def stale_with(self, shares: Iterable[Share]) -> set[ManifestId]:
        """Return the manifests that have to be written again when these shares are."""
        return set(closure(shares, self._manifests_of, self._holders).manifests)

    def stale_with_manifests(self, manifest_ids: Iterable[ManifestId]) -> set[ManifestId]:
        """Return the manifests that have to be written again when these are."""
        return self.stale_with(share for i in manifest_ids for share in self._holders[i])

    def _manifests_of(self, share: Share) -> Iterable[ManifestId]:
        array = self.arrays[share[0]]
        refs = array.manifests
        if len(refs) == 1:
            return (refs[0].manifest_id,)
        sizes = self.cell_sizes(array)
        if sizes is None:
            return (ref.manifest_id for ref in refs)
        overlapping = self._boxes_of(array, sizes).overlapping(share[1])
        return (refs[i].manifest_id for i in overlapping)

    def _boxes_of(self, array: ArrayNode, sizes: CellSizes) -> "_CellBoxes":
        boxes = self._boxes.get(array.id)
        if boxes is None:
            boxes = self._boxes[array.id] = _CellBoxes.of(array, sizes)
        return boxes


@dataclass(frozen=True, slots=True)
class _CellBoxes:
    """The split cells that each manifest reference of an array may hold references of.

    Boxes, not lists of cells: a sparse array may have more cells than could be listed.
    """

    low: Cells
    high: Cells
    """Exclusive."""

    @classmethod
    def of(cls, array: ArrayNode, sizes: CellSizes) -> "_CellBoxes":
        ranges = [cell_ranges(ref.extents, sizes) for ref in array.manifests]
        bounds = np.array(ranges, np.int64).reshape(len(ranges), len(sizes), 2)
        return cls(bounds[:, :, 0], bounds[:, :, 1])

    def overlapping(self, i: int) -> npt.NDArray[np.intp]:
        """Return the references that share a cell with reference `i`."""
        shared = (self.low < self.high[i]) & (self.high > self.low[i])
        return np.flatnonzero(shared.all(axis=1))

    def containing_any(self, cells: Cells) -> npt.NDArray[np.intp]:
        """Return the references that hold one of the cells."""
        if len(cells) == 1:
            return np.flatnonzero(((self.low <= cells) & (cells < self.high)).all(axis=1))
        boxes = (
            tuple(zip(low, high, strict=True))
            for low, high in zip(self.low.tolist(), self.high.tolist(), strict=True)
        )
        return np.flatnonzero([bool(cells_in(cells, box).any()) for box in boxes])
