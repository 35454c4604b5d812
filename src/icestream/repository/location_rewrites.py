"""Rewriting stored locations to their other form: texts change, references do not."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icestream.model.change_sets import ChangeSet
from icestream.model.chunk_tables import ChunkTable, replace_columns
from icestream.model.container_sets import ContainerSet
from icestream.model.ids import ManifestId, NodeId, id_text
from icestream.model.location_forms import absolute_texts, relative_texts
from icestream.model.location_pools import as_texts
from icestream.model.manifests import Manifest, ManifestFile
from icestream.model.nodes import ArrayNode, Node
from icestream.model.snapshots import Snapshot
from icestream.model.text_pools import NO_POOL
from icestream.repository import commits
from icestream.repository.context import Context
from icestream.repository.manifest_walks import WalkLimits, walk_manifests
from icestream.repository.reference_census import uses_per_text
from icestream.repository.reference_walks import UsedManifests

_LIMITS = WalkLimits(manifest_fetches=8)
"""Rewritten manifests are in memory too, until they are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRequest:
    """Which locations to rewrite to which form, and how to label the commit."""

    branch: str
    message: str
    metadata: Mapping[str, Any]
    relative: bool
    templates: bool = False


@dataclass(frozen=True, slots=True)
class LocationRewrite:
    """What a rewrite did."""

    snapshot_id: str | None
    """The commit; None if there was nothing to rewrite."""
    manifests: int
    """How many were written anew."""
    locations: int
    """How many texts changed, counted in every manifest."""
    bytes_before: int
    """Of the texts in all manifests of the branch."""
    bytes_after: int

    @property
    def bytes_saved(self) -> int:
        """How much shorter the texts became; negative if they became longer."""
        return self.bytes_before - self.bytes_after


def rewrite_locations(
    context: Context, containers: ContainerSet, request: RewriteRequest
) -> LocationRewrite:
    """Rewrite the locations of a branch in one commit.

    The commit is made as if the branch had had the rewritten manifests before: it changes nothing
    that a reader sees, so its transaction log is empty and no writer conflicts with it.
    """
    base = context.assets.load_snapshot(context.timeline.writable_tip(request.branch))
    written = _Rewriter(context, containers, request).rewrite(base)
    if not written.replaced:
        return written.result(None)
    commit = commits.CommitRequest(
        base=_relinked(base, written.replaced),
        changes=ChangeSet(),
        branch=request.branch,
        message=request.message,
        metadata=request.metadata,
    )
    return written.result(id_text(commits.commit(context, commit).id))


@dataclass(slots=True)
class _Written:
    """What was rewritten so far."""

    replaced: dict[ManifestId, ManifestFile]
    """By the id of the manifest that each takes the place of."""
    locations: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def result(self, snapshot_id: str | None) -> LocationRewrite:
        return LocationRewrite(
            snapshot_id,
            len(self.replaced),
            self.locations,
            self.bytes_before,
            self.bytes_after,
        )


class _Rewriter:
    """Reads the manifests of a snapshot and writes those whose texts change."""

    def __init__(self, context: Context, containers: ContainerSet, request: RewriteRequest) -> None:
        self._assets = context.assets
        self._spec = context.timeline.spec
        self._containers = containers
        self._request = request

    def rewrite(self, base: Snapshot) -> _Written:
        uses = UsedManifests()
        uses.add(base)
        written = _Written({})
        paths = {node.id: path for path, node in base.nodes.items()}
        with ThreadPoolExecutor(_LIMITS.manifest_fetches) as pool:
            saved = {}
            for manifest in walk_manifests(self._assets, uses.files.values(), _LIMITS):
                arrays = self._rewritten(manifest, uses.grids[manifest.id], written)
                if arrays is not None:
                    locations = self._assets.settings.locations.of(*(paths[i] for i in arrays))
                    saved[manifest.id] = pool.submit(
                        self._assets.save_manifest, arrays, spec=self._spec, locations=locations
                    )
            written.replaced = {old: future.result() for old, future in saved.items()}
        return written

    def _rewritten(
        self, manifest: Manifest, used: Mapping[NodeId, Any], written: _Written
    ) -> dict[NodeId, ChunkTable] | None:
        """Return the arrays in use with new texts; None if no text changes."""
        arrays = {i: table for i, table in manifest.arrays.items() if i in used}
        texts = _texts_in_use(list(arrays.values()))
        rewritten = self._other_form(texts)
        changed = int(pc.sum(pc.not_equal(texts, rewritten)).as_py() or 0)
        written.locations += changed
        written.bytes_before += _num_bytes(texts)
        written.bytes_after += _num_bytes(rewritten)
        if not changed:
            return None
        return {
            node_id: replace_columns(
                table, locations=pa.chunked_array([self._other_form(table.locations)])
            )
            for node_id, table in arrays.items()
        }

    def _other_form(self, pool: pa.ChunkedArray | pa.Array) -> pa.Array:
        if not self._request.relative:
            return absolute_texts(pool, self._containers)
        return relative_texts(pool, self._containers, templates=self._request.templates)


def _texts_in_use(tables: list[ChunkTable]) -> pa.Array:
    """Return the distinct texts that the rows of tables have."""
    chunks = [
        chunk
        for table in tables
        if table.location_code is not None
        for chunk in _used(table).chunks
    ]
    return as_texts(pa.chunked_array([*NO_POOL.chunks, *chunks], pa.large_string())).unique()


def _used(table: ChunkTable) -> pa.ChunkedArray:
    assert table.location_code is not None  # noqa: S101  the caller asked
    uses = uses_per_text(table.location_code, len(table.locations))
    return table.locations.filter(pa.array(uses > 0))


def _num_bytes(texts: pa.Array) -> int:
    return int(pc.sum(pc.binary_length(texts)).as_py() or 0)


def _relinked(base: Snapshot, replaced: Mapping[ManifestId, ManifestFile]) -> Snapshot:
    """Return the snapshot with other manifests in the place of some."""
    files = [replaced.get(file.id, file) for file in base.manifest_files.values()]
    return replace(
        base,
        nodes={path: _relinked_node(node, replaced) for path, node in base.nodes.items()},
        manifest_files={file.id: file for file in sorted(files, key=lambda file: file.id)},
    )


def _relinked_node(node: Node, replaced: Mapping[ManifestId, ManifestFile]) -> Node:
    if not isinstance(node, ArrayNode):
        return node
    refs = tuple(
        replace(ref, manifest_id=replaced[ref.manifest_id].id)
        if ref.manifest_id in replaced
        else ref
        for ref in node.manifests
    )
    return replace(node, manifests=refs)
