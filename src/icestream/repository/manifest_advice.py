"""What the manifests of a version hold, and which sets and splits would suit it better.

Everything is read off snapshots: no manifest is loaded.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from icestream.model.ids import ManifestId, NodeId, id_text
from icestream.model.nodes import ArrayNode, ManifestRef
from icestream.model.repo_info import SnapshotEntry
from icestream.model.snapshots import Snapshot
from icestream.packing.advice import Goals, ManifestAdvice, advise
from icestream.packing.planned_pieces import PackingPlan
from icestream.packing.workloads import ArrayFacts, Workload
from icestream.repository.async_twins import async_twin
from icestream.repository.core import RepositoryCore
from icestream.repository.manifest_pieces import PackingConfig

_COMMITS_LOOKED_AT = 100
"""How far back growth is measured."""

_MANIFEST_BYTES = 200
"""Of a manifest without references."""

_MICROSECONDS_PER_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """One manifest of a version."""

    id: str
    set_name: str | None
    """Where the rules in force send all its arrays; None if to several sets."""
    arrays: tuple[str, ...]
    """The arrays that refer to it."""
    references: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthAssumption:
    """What to assume of growth; what is None is measured from the last commits."""

    appends_per_day: float | None = None
    append_dimension: str | None = None
    """The name of the dimension that grows, in all arrays that have it."""
    chunks_per_append: float = 1.0
    """Along that dimension."""


class ManifestAdvisor(RepositoryCore):
    """The part of a repository that says how its references are packed, and could be."""

    def list_manifests(
        self, *, branch: str | None = None, tag: str | None = None, snapshot_id: str | None = None
    ) -> list[ManifestSummary]:
        """Return the manifests of a version, those with the most references first."""
        resolved = self._resolve(branch, tag, snapshot_id)
        snapshot = self._context.assets.load_snapshot(resolved)
        return manifest_summaries(snapshot, self._context.packing)

    list_manifests_async = async_twin(list_manifests)

    def advise_manifests(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        growth: GrowthAssumption | None = None,
        goals: Goals | None = None,
    ) -> ManifestAdvice:
        """Predict what commits and reads of a version cost, and propose sets and splits.

        Nothing is changed: put the proposal into the configuration if you like it, save that,
        and call `rewrite_manifests`.

        Args:
            branch: The branch to look at, or
            tag: the tag, or
            snapshot_id: the snapshot.
            growth: How arrays grow, if not as in the last commits.
            goals: How far to look ahead, and what a proposal has to keep to.
        """
        resolved = self._resolve(branch, tag, snapshot_id)
        history = list(self._context.timeline.ancestry(resolved))
        snapshot = self._context.assets.load_snapshot(resolved)
        workload = self._measured(snapshot, history)
        if growth is not None:
            workload = assumed(workload, growth)
        packing = self._context.packing
        plan = PackingPlan(packing.chunk_manifests, packing.splitting)
        return advise(workload, plan, goals or Goals(), datetime.now(UTC).date())

    advise_manifests_async = async_twin(advise_manifests)

    def _measured(self, snapshot: Snapshot, history: list[SnapshotEntry]) -> Workload:
        workload = measured_workload(snapshot, commits=len(history))
        # the first of all snapshots is empty, and no append
        recent = [entry for entry in history if entry.parent_id][: _COMMITS_LOOKED_AT + 1]
        commits = len(recent) - 1
        if commits < 1:
            return workload
        oldest = recent[-1]
        earlier = measured_workload(self._context.assets.load_snapshot(oldest.id))
        # few commits in a short time say nothing about a day
        days = max(1.0, (snapshot.flushed_at - oldest.flushed_at) / _MICROSECONDS_PER_DAY)
        return replace(with_growth(workload, earlier, commits), appends_per_day=commits / days)


def manifest_summaries(snapshot: Snapshot, packing: PackingConfig) -> list[ManifestSummary]:
    """Return the manifests of a snapshot, those with the most references first."""
    references = estimated_references(snapshot)
    holders: dict[ManifestId, dict[str, str]] = defaultdict(dict)
    for array in _arrays(snapshot):
        target = packing.target_of(array, references[array.id])
        for ref in array.manifests:
            holders[ref.manifest_id][array.path] = target
    summaries = []
    for file in snapshot.manifest_files.values():
        targets = set(holders[file.id].values())
        set_name = targets.pop() if len(targets) == 1 else None
        paths = tuple(holders[file.id])
        summary = ManifestSummary(id_text(file.id), set_name, paths, file.num_refs, file.size_bytes)
        summaries.append(summary)
    return sorted(summaries, key=lambda summary: -summary.references)


def measured_workload(snapshot: Snapshot, *, commits: int = 1) -> Workload:
    """Return what a snapshot says of its arrays; nothing of growth."""
    references = estimated_references(snapshot)
    files = snapshot.manifest_files.values()
    total = sum(file.num_refs for file in files)
    content = sum(file.size_bytes for file in files) - _MANIFEST_BYTES * len(files)
    facts = tuple(
        ArrayFacts(
            path=array.path,
            grid=array.num_chunks,
            references=references[array.id],
            dimension_names=array.dimension_names,
            metadata_bytes=len(array.user_data),
        )
        for array in _arrays(snapshot)
    )
    if not total:
        return Workload(arrays=facts, appends_per_day=0, commits=commits)
    per_reference = max(1.0, content / total)
    return Workload(
        arrays=facts, appends_per_day=0, bytes_per_reference=per_reference, commits=commits
    )


def estimated_references(snapshot: Snapshot) -> Mapping[NodeId, int]:
    """Return the references of each array; in a manifest of several, by the size of their boxes.

    The number is exact for an array that shares no manifest.
    """
    boxes: dict[ManifestId, list[tuple[NodeId, int]]] = defaultdict(list)
    references: dict[NodeId, int] = {}
    for array in _arrays(snapshot):
        references[array.id] = 0
        for ref in array.manifests:
            boxes[ref.manifest_id].append((array.id, _box_size(array, ref)))
    for manifest_id, sizes in boxes.items():
        num_refs = snapshot.manifest_files[manifest_id].num_refs
        total = sum(size for _, size in sizes)
        for array_id, size in sizes:
            references[array_id] += round(num_refs * size / total) if total else 0
    return references


def with_growth(workload: Workload, earlier: Workload, commits: int) -> Workload:
    """Return the workload with the growth since an earlier one, as if each commit had a part.

    An array whose grid was made in advance and is being filled is taken to grow along its first
    dimension.
    """
    before = {array.path: array for array in earlier.arrays}
    arrays = tuple(
        _growing(array, before[array.path], commits) if array.path in before else array
        for array in workload.arrays
    )
    return replace(workload, arrays=arrays)


def assumed(workload: Workload, growth: GrowthAssumption) -> Workload:
    """Return the workload with an assumption in place of what was measured."""
    if growth.appends_per_day is not None:
        workload = replace(workload, appends_per_day=growth.appends_per_day)
    name = growth.append_dimension
    if name is None:
        return workload
    arrays = tuple(
        replace(
            array,
            append_axis=array.dimension_names.index(name),
            chunks_per_append=growth.chunks_per_append,
        )
        if array.dimension_names and name in array.dimension_names
        else replace(array, chunks_per_append=0)
        for array in workload.arrays
    )
    return replace(workload, arrays=arrays)


def _growing(array: ArrayFacts, before: ArrayFacts, commits: int) -> ArrayFacts:
    if len(before.grid) != len(array.grid) or not array.grid:
        return array
    added = [now - then for now, then in zip(array.grid, before.grid, strict=True)]
    if max(added) > 0:
        axis = added.index(max(added))
        return replace(array, append_axis=axis, chunks_per_append=added[axis] / commits)
    filled = array.references - before.references
    if filled <= 0 or not array.cross_section:
        return array
    steps = filled / (array.cross_section * array.density)
    return replace(array, chunks_per_append=steps / commits)


def _box_size(array: ArrayNode, ref: ManifestRef) -> int:
    """Return how many chunks a manifest may hold of an array; without extents, all."""
    if not ref.extents:
        return max(math.prod(array.num_chunks), 1)
    return math.prod(hi - lo for lo, hi in ref.extents)


def _arrays(snapshot: Snapshot) -> Iterator[ArrayNode]:
    return (node for node in snapshot.nodes.values() if isinstance(node, ArrayNode))
