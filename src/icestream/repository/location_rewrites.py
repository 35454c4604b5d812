"""Rewriting stored locations to their other form: texts change, references do not."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.model.change_sets import ChangeSet
from icestream.model.chunk_tables import ChunkTable, replace_columns
from icestream.model.container_sets import ContainerSet
from icestream.model.distinct_texts import text_numbers
from icestream.model.ids import ManifestId, NodeId, id_text
from icestream.model.location_forms import absolute_texts, relative_texts
from icestream.model.location_pools import as_texts
from icestream.model.manifests import Manifest, ManifestFile
from icestream.model.nodes import ArrayNode, Node
from icestream.model.snapshots import Snapshot
from icestream.repository import commits
from icestream.repository.context import Context
from icestream.repository.manifest_walks import WalkLimits, walk_manifests
from icestream.repository.reference_census import uses_per_text
from icestream.repository.reference_walks import UsedManifests

_LIMITS = WalkLimits(manifest_fetches=8)
"""Rewritten manifests are in memory too, until they are written."""
_NO_TEXTS = pa.array([], pa.large_string())


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
    return written.result(id_text(commits.commit(context, commit).snapshot.id))


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
        pools = {i: self._other_form(table.locations) for i, table in arrays.items()}
        before, after = _texts_in_use([(table, pools[i]) for i, table in arrays.items()])
        changed = int(pc.sum(pc.not_equal(before, after)).as_py() or 0)
        written.locations += changed
        written.bytes_before += _num_bytes(before)
        written.bytes_after += _num_bytes(after)
        if not changed:
            return None
        return {
            i: replace_columns(table, locations=pa.chunked_array([pools[i]]))
            for i, table in arrays.items()
        }

    def _other_form(self, pool: pa.ChunkedArray | pa.Array) -> pa.Array:
        if not self._request.relative:
            return absolute_texts(pool, self._containers)
        return relative_texts(pool, self._containers, templates=self._request.templates)


def _texts_in_use(pools: Sequence[tuple[ChunkTable, pa.Array]]) -> tuple[pa.Array, pa.Array]:
    """Return the distinct texts that the rows of tables have, and those that replace them."""
    before, after = [_NO_TEXTS], [_NO_TEXTS]
    for table, rewritten in pools:
        if table.location_code is not None:
            is_used = pa.array(uses_per_text(table.location_code, len(rewritten)) > 0)
            before.append(as_texts(table.locations).filter(is_used))
            after.append(rewritten.filter(is_used))
    numbers, texts = text_numbers(pa.concat_arrays(before))
    first = pa.array(np.unique(numbers, return_index=True)[1])
    return texts, pa.concat_arrays(after).take(first)


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
