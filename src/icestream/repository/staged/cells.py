"""Parts of arrays whose manifests are written elsewhere: what there is to do, and what was done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icestream.model.changed_indexes import ChangedIndexes
from icestream.model.ids import ManifestId, NodeId
from icestream.model.index_maps import Box, IndexMap
from icestream.model.manifests import ManifestFile
from icestream.model.nodes import ManifestRef
from icestream.packing.assignment import Cell
from icestream.packing.splits import CellSizes


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTask:
    """One manifest to write; small, and picklable."""

    array_id: NodeId
    path: str
    cell: Cell
    """The place in the grid of splits; () is the one of an array that is not split."""
    box: Box
    """The chunks of the cell that the array has now; it may have none left."""
    reach: Box
    """The cell, wherever the array ends."""
    grid_before: tuple[int, ...]
    """Chunks per dimension that the array had."""
    old: tuple[ManifestId, ...] = ()
    """Manifests that may hold references of chunks that are, or were, in the cell."""
    index_map: IndexMap | None = None
    """Where the references of those manifests go; None is where they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPlan:
    """What becomes of the manifests of one array."""

    array_id: NodeId
    path: str
    tasks: tuple[CellTask, ...]
    kept: tuple[ManifestRef, ...] = ()
    """The manifests of the array that stay."""
    stale: tuple[ManifestRef, ...] = ()
    """Those that the written ones replace."""
    cell_sizes: CellSizes | None = None
    """Chunks per cell along each dimension; None is an array that is not split."""

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing has to be written."""
        return not self.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCell:
    """One manifest that was written."""

    path: str
    cell: Cell
    file: ManifestFile | None
    """None if no reference is left."""
    ref: ManifestRef | None
    num_references: int
    num_added: int
    """Those that were not taken over from earlier manifests."""
    changed: ChangedIndexes
    """The chunks that a transaction log has to name."""


StagedArrays = Mapping[str, tuple[CellPlan, Sequence[WrittenCell]]]
"""By the absolute path of an array: its plan, and every cell of it written."""
