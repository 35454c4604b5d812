"""Which manifests some snapshots use, for which arrays, and walks over their virtual references."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import batched

import numpy as np

from icestream.assets.assets import Assets
from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.chunk_tables import ChunkTable, UInt64
from icestream.model.ids import ManifestId, NodeId, SnapshotId
from icestream.model.location_pools import Mask
from icestream.model.manifests import ManifestFile
from icestream.model.nodes import ArrayNode
from icestream.model.repo_info import SnapshotEntry
from icestream.model.snapshots import Snapshot
from icestream.model.text_pools import Int32
from icestream.repository.context import Context
from icestream.repository.manifest_walks import WalkLimits, reachable_from_refs, walk_manifests
from icestream.repository.spec2 import RepoInfoTimeline

type Grid = tuple[int, ...]
"""Chunks per dimension."""

LIMITS = WalkLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The snapshots to look at: one, one with all before it, or all that are recorded."""

    snapshot_id: SnapshotId | None = None
    history: bool = False

    def __post_init__(self) -> None:
        if self.history and self.snapshot_id is None:
            raise InvalidInputError(
                "history goes with a branch, a tag or a snapshot_id; without any of them all "
                "snapshots are looked at",
                kind=ErrorKind.INVALID_ARGUMENT,
            )

    def snapshot_ids(self, context: Context) -> list[SnapshotId]:
        """Return the snapshots, newest first."""
        if self.snapshot_id is None:
            entries = _all_entries(context)
            newest_first = sorted(entries, key=lambda entry: entry.flushed_at, reverse=True)
            return [entry.id for entry in newest_first]
        if self.history:
            return [entry.id for entry in context.timeline.ancestry(self.snapshot_id)]
        return [self.snapshot_id]


def _all_entries(context: Context) -> Iterable[SnapshotEntry]:
    """Return the snapshots that can be opened, those without a branch or tag included."""
    timeline = context.timeline
    if isinstance(timeline, RepoInfoTimeline):
        return timeline.load().snapshots.values()
    return reachable_from_refs(timeline).values()


@dataclass(frozen=True, slots=True)
class UsedManifests:
    """Manifests, and the arrays that snapshots read from them.

    A manifest may hold arrays that no snapshot has any more, and chunks that a resized array has
    no place for: those are not in use.
    """

    files: dict[ManifestId, ManifestFile] = field(default_factory=dict)
    grids: dict[ManifestId, dict[NodeId, set[Grid]]] = field(default_factory=dict)
    """Per manifest and array: the grids that the array has in the snapshots."""
    paths: dict[NodeId, str] = field(default_factory=dict)
    """The newest path of each array."""

    def add(self, snapshot: Snapshot) -> None:
        """Add what a snapshot uses; the newest snapshot comes first."""
        for node in snapshot.nodes.values():
            if isinstance(node, ArrayNode):
                self.paths.setdefault(node.id, node.path)
                for ref in node.manifests:
                    arrays = self.grids.setdefault(ref.manifest_id, {})
                    arrays.setdefault(node.id, set()).add(node.num_chunks)
        self.files.update(snapshot.manifest_files)


@dataclass(frozen=True, slots=True, eq=False)
class VirtualRows:
    """The references of one array in one manifest that are in use."""

    manifest_id: ManifestId
    node_id: NodeId
    table: ChunkTable
    grids: frozenset[Grid]
    rows: Mask | slice
    """Those inside one of the grids; not all of them need be virtual."""

    @property
    def codes(self) -> Int32:
        """Which location each row has, -1 where it is not virtual."""
        assert self.table.location_code is not None  # noqa: S101  walks leave out other tables
        return self.table.location_code[self.rows]

    @property
    def lengths(self) -> UInt64:
        """How many bytes each row refers to."""
        return self.table.length[self.rows]


def used_manifests(
    assets: Assets, snapshot_ids: Iterable[SnapshotId], limits: WalkLimits = LIMITS
) -> UsedManifests:
    """Return what snapshots, given newest first, use."""
    uses = UsedManifests()
    for snapshot in load_snapshots(assets, snapshot_ids, limits):
        uses.add(snapshot)
    return uses


def load_snapshots(
    assets: Assets, snapshot_ids: Iterable[SnapshotId], limits: WalkLimits = LIMITS
) -> Iterator[Snapshot]:
    """Yield snapshots in the given order, some of them fetched together."""
    with ThreadPoolExecutor(min(max(limits.snapshots, 1), 32)) as pool:
        for ids in batched(snapshot_ids, max(limits.snapshots, 1)):
            yield from pool.map(assets.load_snapshot, ids)


def walk_virtual_rows(
    assets: Assets, uses: UsedManifests, limits: WalkLimits = LIMITS
) -> Iterator[list[VirtualRows]]:
    """Yield, for every manifest that has some, the virtual references in use; each is read once."""
    files = (file for file in uses.files.values() if file.id in uses.grids)
    for manifest in walk_manifests(assets, files, limits):
        found = [
            VirtualRows(manifest.id, node_id, table, frozenset(grids), rows_inside(table, grids))
            for node_id, grids in uses.grids[manifest.id].items()
            if (table := manifest.arrays.get(node_id)) is not None
            and table.location_code is not None
        ]
        if found:
            yield found


def rows_inside(table: ChunkTable, grids: Iterable[Grid]) -> Mask | slice:
    """Return the rows that lie in one of some grids."""
    inside = np.zeros(len(table), np.bool_)
    for grid in grids:
        ends = [end for _, end in table.extents]
        if all(end <= count for end, count in zip(ends, grid, strict=True)):
            return slice(None)
        inside |= (table.index < np.array(grid, np.uint64)).all(axis=1)
    return inside
