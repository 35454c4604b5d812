"""A change set becomes files: manifests, then a snapshot and its transaction log."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from icestream.assets.assets import Assets
from icestream.model.change_sets import ChangeSet, transaction_log
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import ManifestId, NodeId, SnapshotId, new_snapshot_id
from icestream.model.manifests import ManifestFile
from icestream.model.node_views import NodeView
from icestream.model.nodes import ArrayNode, ManifestRef, Node
from icestream.model.snapshots import Snapshot
from icestream.model.times import now_micros
from icestream.model.transaction_logs import TransactionLog, merge_logs
from icestream.repository.chunk_index import current_table

_PARALLEL_MANIFESTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushRequest:
    """What to write, and how to label it."""

    base: Snapshot
    """The snapshot that the changes were made on."""
    changes: ChangeSet
    message: str
    metadata: Mapping[str, Any]
    spec: int
    parent_id: SnapshotId
    earlier_log: TransactionLog | None = None
    """The log of the commit that this one replaces."""
    rewrite_all: bool = False
    """Write the manifests of all arrays anew, not only of those with edited chunks."""


def flush(assets: Assets, request: FlushRequest) -> Snapshot:
    """Write the files of a new snapshot; nothing points at them yet."""
    view = NodeView(request.base.nodes, dict(request.changes.nodes))
    nodes = {node.path: node for node in view.nodes()}
    written = _write_manifests(assets, request, nodes)
    nodes = {path: _relinked(node, written) for path, node in nodes.items()}
    snapshot = Snapshot(
        id=new_snapshot_id(),
        # readers refuse a child that is not younger than its parent
        flushed_at=max(now_micros(), request.base.flushed_at + 1),
        message=request.message,
        metadata=request.metadata,
        parent_id=request.parent_id if request.spec == 1 else None,
        nodes=nodes,
        manifest_files=_manifest_files(request.base, nodes, written),
    )
    with ThreadPoolExecutor(2) as pool:
        saved = pool.submit(assets.save_snapshot, snapshot, spec=request.spec)
        assets.save_log(_log(snapshot.id, request), spec=request.spec)
        saved.result()
    return snapshot


def _write_manifests(
    assets: Assets, request: FlushRequest, nodes: Mapping[str, Node]
) -> dict[NodeId, list[tuple[ManifestFile, ChunkTable]]]:
    """Write the manifests of arrays whose chunks changed; return them by array."""
    edited = request.changes.chunks
    stale = [
        node
        for node in nodes.values()
        if isinstance(node, ArrayNode)
        and (request.rewrite_all or (node.id in edited and len(edited[node.id])))
    ]

    def write(array: ArrayNode) -> list[tuple[ManifestFile, ChunkTable]]:
        tables = plan_manifests(current_table(assets, request.changes, array))
        locations = assets.settings.locations.of(array.path)
        return [
            (assets.save_manifest({array.id: table}, spec=request.spec, locations=locations), table)
            for table in tables
        ]

    if len(stale) == 1:
        return {stale[0].id: write(stale[0])}
    with ThreadPoolExecutor(_PARALLEL_MANIFESTS) as pool:
        return dict(zip((array.id for array in stale), pool.map(write, stale), strict=True))


def plan_manifests(table: ChunkTable) -> list[ChunkTable]:
    """Cut the references of an array into manifests: all in one, none where there is nothing."""
    return [table] if len(table) else []


def _relinked(node: Node, written: Mapping[NodeId, list[tuple[ManifestFile, ChunkTable]]]) -> Node:
    if not isinstance(node, ArrayNode) or node.id not in written:
        return node
    refs = tuple(ManifestRef(file.id, table.extents) for file, table in written[node.id])
    return replace(node, manifests=refs)


def _manifest_files(
    base: Snapshot,
    nodes: Mapping[str, Node],
    written: Mapping[NodeId, list[tuple[ManifestFile, ChunkTable]]],
) -> dict[ManifestId, ManifestFile]:
    """Return the record of exactly those manifests that the nodes refer to, ordered by id."""
    known = {file.id: file for files in written.values() for file, _ in files}
    used = {
        ref.manifest_id
        for node in nodes.values()
        if isinstance(node, ArrayNode)
        for ref in node.manifests
    }
    return {i: known[i] if i in known else base.manifest_files[i] for i in sorted(used)}


def _log(snapshot_id: SnapshotId, request: FlushRequest) -> TransactionLog:
    log = transaction_log(snapshot_id, request.base.nodes, request.changes)
    if request.earlier_log is None:
        return log
    return merge_logs(snapshot_id, [request.earlier_log, log])
