"""Changed references become manifests; manifests that no change reaches are linked as they are."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from icestream.assets.assets import Assets
from icestream.model.change_sets import ArrayEdits
from icestream.model.chunk_tables import ChunkTable, concat, overlay
from icestream.model.ids import ManifestId, NodeId
from icestream.model.manifests import LocationCompression, Manifest, ManifestFile
from icestream.model.nodes import ArrayNode, ManifestRef
from icestream.packing.absorption import (
    LinkedManifest,
    manifests_to_absorb,
    occupied_places,
)
from icestream.packing.assignment import WHOLE_ARRAY, PackedManifest, Piece, assign
from icestream.repository.commit_statistics import CommitStatistics
from icestream.repository.manifest_pieces import PackingConfig
from icestream.repository.manifest_shares import ManifestShares

_PARALLEL_MANIFESTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestJob:
    """The arrays of a snapshot to be, and the references in them that changed."""

    packing: PackingConfig
    spec: int
    arrays: Mapping[NodeId, ArrayNode]
    """All arrays, with the manifests that they had so far."""
    files: Mapping[ManifestId, ManifestFile]
    """The manifests of the snapshot that is changed."""
    edits: Mapping[NodeId, ArrayEdits]
    everything: bool = False
    """Write all manifests anew, not only those that changes reach."""


@dataclass(frozen=True, slots=True)
class WrittenManifests:
    """New manifest files, and the manifests of each array that has new ones."""

    files: Mapping[ManifestId, ManifestFile]
    refs: Mapping[NodeId, tuple[ManifestRef, ...]]
    statistics: CommitStatistics


def write_manifests(assets: Assets, job: ManifestJob) -> WrittenManifests:
    """Pack the changed references, with all that shares a manifest with them, and write them."""
    shares = ManifestShares(job.arrays, job.packing.cells)
    opened = _open(assets, job, shares, _stale(job, shares))
    limited = _manifests_of_limited_sets(job, shares, opened)
    absorbed = _absorbed(job, shares, opened, limited)
    if absorbed:
        opened = _open(assets, job, shares, opened.stale | shares.stale_with_manifests(absorbed))
    occupied = {
        name: occupied_places(len(manifests), len(manifests & opened.stale), job.packing.sets[name])
        for name, manifests in limited.items()
    }
    packed = assign(list(opened.pieces), job.packing.chunk_manifests, occupied)
    return _result(shares, opened, _save(assets, job, opened, packed))


# -- what has to be packed again ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Opened:
    """Manifests that are replaced, and the pieces that their references and the edits make."""

    stale: set[ManifestId]
    arrays: list[ArrayNode]
    """Those that get new manifests, or lose some."""
    pieces: Mapping[Piece, ChunkTable]
    targets: Mapping[NodeId, str]
    """The set that the rules send each of the arrays to."""


def _edited(job: ManifestJob) -> list[ArrayNode]:
    return [job.arrays[i] for i, edits in job.edits.items() if len(edits) and i in job.arrays]


def _stale(job: ManifestJob, shares: ManifestShares) -> set[ManifestId]:
    if job.everything:
        return set(shares.manifests)
    return shares.stale_with(
        share
        for array in _edited(job)
        for share in shares.touched_by(array, job.edits[array.id].table().index)
    )


def _open(
    assets: Assets, job: ManifestJob, shares: ManifestShares, stale: set[ManifestId]
) -> _Opened:
    """Load manifests and cut what they hold, with the edits laid over it, into pieces."""
    with ThreadPoolExecutor(_PARALLEL_MANIFESTS) as pool:
        loaded = dict(zip(stale, pool.map(assets.load_manifest, stale), strict=True))
    arrays = {array.id: array for array in _edited(job)}
    arrays |= {array.id: array for i in stale for array in shares.arrays_in(i)}
    pieces, targets = {}, {}
    for array in arrays.values():
        table = _current(array, loaded, job.edits.get(array.id))
        target = job.packing.target_of(array, len(table) + _estimated_rest(job, array, stale))
        targets[array.id] = target
        for cell, part in job.packing.cut(array, table):
            kind = _location_compression(assets, array, part)
            pieces[Piece(array.id, cell, len(part), target, kind)] = part
    return _Opened(stale, list(arrays.values()), pieces, targets)


def _current(
    array: ArrayNode, loaded: Mapping[ManifestId, Manifest], edits: ArrayEdits | None
) -> ChunkTable:
    """Return the references of an array in some manifests, with edits laid over them."""
    tables = []
    for manifest_id in {ref.manifest_id for ref in array.manifests}:
        manifest = loaded.get(manifest_id)
        table = None if manifest is None else manifest.arrays.get(array.id)
        if table is not None:
            tables.append(table)
    if edits is not None and len(edits):
        changed = edits.table()
        table = (overlay(concat(tables), changed) if tables else changed).without_deletions()
    else:
        table = concat(tables or [ChunkTable.empty(len(array.shape))])
    return table.within(array.num_chunks)


def _location_compression(
    assets: Assets, array: ArrayNode, table: ChunkTable
) -> LocationCompression | None:
    """Return how locations are compressed, if there are enough of them for a dictionary."""
    settings = assets.settings.locations.of(array.path)
    return settings if settings and len(table.locations) >= settings.min_num_chunks else None


def _estimated_rest(job: ManifestJob, array: ArrayNode, stale: Iterable[ManifestId]) -> int:
    """Return about how many references an array has in manifests that are not loaded."""
    return sum(
        min(math.prod(hi - lo for lo, hi in ref.extents), job.files[ref.manifest_id].num_refs)
        for ref in array.manifests
        if ref.manifest_id not in stale
    )


# -- sets that must not have more manifests -----------------------------------------------------


def _manifests_of_limited_sets(
    job: ManifestJob, shares: ManifestShares, opened: _Opened
) -> Mapping[str, set[ManifestId]]:
    """Return the manifests so far of those sets that get pieces and are limited in number."""
    targets = {piece.target for piece in opened.pieces}
    limited = {name for name in targets if job.packing.sets[name].cardinality is not None}
    found: dict[str, set[ManifestId]] = defaultdict(set)
    if not limited:
        return found
    for manifest_id in shares.manifests:
        names = {
            opened.targets.get(array.id)
            or job.packing.target_of(array, _estimated_rest(job, array, ()))
            for array in shares.arrays_in(manifest_id)
        }
        if len(names) == 1 and names <= limited:
            found[names.pop()].add(manifest_id)
    return found


def _absorbed(
    job: ManifestJob,
    shares: ManifestShares,
    opened: _Opened,
    limited: Mapping[str, set[ManifestId]],
) -> set[ManifestId]:
    """Return manifests that are opened again because their set may not have one more.

    Splits are never among them: they are there so that an append leaves the earlier ones alone.
    """
    absorbed: set[ManifestId] = set()
    for name, manifests in limited.items():
        sizes = [p.size for p in opened.pieces if p.target == name and p.cell == WHOLE_ARRAY]
        candidates = [
            LinkedManifest(i, job.files[i].num_refs, len(shares.arrays_in(i)))
            for i in manifests - opened.stale
            if all(job.packing.cells(array) is None for array in shares.arrays_in(i))
        ]
        absorbed.update(manifests_to_absorb(sizes, candidates, job.packing.sets[name]))
    return absorbed


# -- writing ------------------------------------------------------------------------------------

_Saved = list[tuple[ManifestFile, Mapping[NodeId, ChunkTable]]]


def _save(
    assets: Assets, job: ManifestJob, opened: _Opened, packed: Iterable[PackedManifest]
) -> _Saved:
    def save(manifest: PackedManifest) -> tuple[ManifestFile, Mapping[NodeId, ChunkTable]]:
        tables = {piece.array: opened.pieces[piece] for piece in manifest.pieces}
        locations = assets.settings.locations.of(*(job.arrays[i].path for i in tables))
        return assets.save_manifest(tables, spec=job.spec, locations=locations), tables

    with ThreadPoolExecutor(_PARALLEL_MANIFESTS) as pool:
        return list(pool.map(save, packed))


def _result(shares: ManifestShares, opened: _Opened, saved: _Saved) -> WrittenManifests:
    new_refs: dict[NodeId, list[ManifestRef]] = {array.id: [] for array in opened.arrays}
    for file, tables in saved:
        for array_id, table in tables.items():
            new_refs[array_id].append(ManifestRef(file.id, table.extents))
    for array in opened.arrays:
        kept = (ref for ref in array.manifests if ref.manifest_id not in opened.stale)
        new_refs[array.id] += kept
    return WrittenManifests(
        {file.id: file for file, _ in saved},
        {i: tuple(sorted(refs, key=lambda ref: ref.extents)) for i, refs in new_refs.items()},
        CommitStatistics(
            manifests_read=len(opened.stale),
            manifests_written=len(saved),
            manifests_linked=len(set(shares.manifests) - opened.stale),
            references_written=sum(file.num_refs for file, _ in saved),
            manifest_bytes_written=sum(file.size_bytes for file, _ in saved),
        ),
    )
