"""Backwards: who refers to an object, or to anything below a prefix."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from icestream.model.container_sets import ContainerSet
from icestream.model.ids import ManifestId, NodeId, SnapshotId, id_text
from icestream.model.location_forms import absolute_texts
from icestream.model.location_pools import Mask, canonical_texts, covered, spelled_texts
from icestream.model.nodes import ArrayNode
from icestream.model.snapshots import Snapshot
from icestream.repository.context import Context
from icestream.repository.reference_walks import (
    Grid,
    VirtualRows,
    load_snapshots,
    rows_inside,
    used_manifests,
    walk_virtual_rows,
)

type _Hits = Mapping[tuple[ManifestId, NodeId, Grid], tuple[int, int]]
"""Chunks and bytes found in a manifest, for an array of a grid."""


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """An array of a snapshot that refers to what was asked for."""

    snapshot_id: str
    array_path: str
    chunks: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class ReferenceUsers:
    """Everything that refers to an object, or to anything below a prefix."""

    location: str
    """Absolute."""
    uses: tuple[ArrayUse, ...]
    """Of the newest snapshot first."""
    branches: tuple[str, ...]
    """Those whose newest snapshot is among the users."""
    tags: tuple[str, ...]

    @property
    def is_used(self) -> bool:
        """Tell whether anything refers to it: if not, the repository can do without it."""
        return bool(self.uses)

    @property
    def arrays(self) -> tuple[str, ...]:
        """The paths of the arrays, in order."""
        return tuple(sorted({use.array_path for use in self.uses}))

    @property
    def snapshots(self) -> tuple[str, ...]:
        """The ids of the snapshots, newest first."""
        return tuple(dict.fromkeys(use.snapshot_id for use in self.uses))

    def chunks_of(self, array_path: str) -> int:
        """Return the most chunks that an array refers to it with, in any one snapshot."""
        return max((u.chunks for u in self.uses if u.array_path == array_path), default=0)


def find_users(
    context: Context, containers: ContainerSet, location: str, snapshot_ids: Iterable[SnapshotId]
) -> ReferenceUsers:
    """Find the users of a location or prefix among snapshots, given newest first."""
    snapshot_ids = list(snapshot_ids)
    absolute = containers.expand(location)
    uses = used_manifests(context.assets, snapshot_ids)
    hits: dict[tuple[ManifestId, NodeId, Grid], tuple[int, int]] = {}
    for tables in walk_virtual_rows(context.assets, uses):
        for rows in tables:
            hits.update(_find_in(rows, containers, absolute))
    found = tuple(
        use
        for snapshot in load_snapshots(context.assets, snapshot_ids if hits else ())
        for use in _uses_in(snapshot, hits)
    )
    users = {use.snapshot_id for use in found}
    timeline = context.timeline
    return ReferenceUsers(
        absolute,
        found,
        tuple(sorted(n for n, tip in timeline.branches().items() if id_text(tip) in users)),
        tuple(sorted(n for n, target in timeline.tags().items() if id_text(target) in users)),
    )


def _find_in(rows: VirtualRows, containers: ContainerSet, absolute: str) -> _Hits:
    """Return the hits among the references of one array in one manifest."""
    wanted = covered_texts(rows, containers, absolute)
    if not wanted.any():
        return {}
    hits: dict[tuple[ManifestId, NodeId, Grid], tuple[int, int]] = {}
    table = rows.table
    assert table.location_code is not None  # noqa: S101  walks leave out other tables
    # the last entry is for -1, the code of rows without a location
    is_hit = np.append(wanted, False)[table.location_code]
    for grid in rows.grids:
        inside = rows_inside(table, [grid])
        chunks = int(is_hit[inside].sum())
        if chunks:
            num_bytes = int(table.length[inside][is_hit[inside]].sum())
            hits[rows.manifest_id, rows.node_id, grid] = (chunks, num_bytes)
    return hits


def covered_texts(rows: VirtualRows, containers: ContainerSet, absolute: str) -> Mask:
    """Tell which texts of a pool are the location, or below the prefix."""
    texts = absolute_texts(rows.table.locations, containers)
    canonical, _ = canonical_texts(spelled_texts(texts))
    return covered(absolute, canonical)


def _uses_in(snapshot: Snapshot, hits: _Hits) -> Iterable[ArrayUse]:
    for node in snapshot.nodes.values():
        if isinstance(node, ArrayNode):
            keys = {(ref.manifest_id, node.id, node.num_chunks) for ref in node.manifests}
            found = [hits[key] for key in keys if key in hits]
            if found:
                chunks, num_bytes = map(sum, zip(*found, strict=True))
                yield ArrayUse(id_text(snapshot.id), node.path, chunks, num_bytes)
