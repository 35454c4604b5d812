"""A change set becomes files: manifests, then a snapshot and its transaction log."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from icestream.assets.assets import Assets
from icestream.model.change_sets import ChangeSet, transaction_log
from icestream.model.ids import ManifestId, SnapshotId, new_snapshot_id
from icestream.model.manifests import ManifestFile
from icestream.model.node_views import NodeView
from icestream.model.nodes import ArrayNode, Node
from icestream.model.snapshots import Snapshot
from icestream.model.times import now_micros
from icestream.model.transaction_logs import TransactionLog, merge_logs
from icestream.repository.commit_statistics import CommitStatistics
from icestream.repository.manifest_pieces import PackingConfig
from icestream.repository.manifest_writing import ManifestJob, WrittenManifests, write_manifests


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
    packing: PackingConfig
    """How references are spread over manifests."""
    earlier_log: TransactionLog | None = None
    """The log of the commit that this one replaces."""
    rewrite_all: bool = False
    """Write the manifests of all arrays anew, not only of those with edited chunks."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """A snapshot that was written, and what that took."""

    snapshot: Snapshot
    statistics: CommitStatistics


def flush(assets: Assets, request: FlushRequest) -> Flushed:
    """Write the files of a new snapshot; nothing points at them yet."""
    view = NodeView(request.base.nodes, dict(request.changes.nodes))
    nodes = {node.path: node for node in view.nodes()}
    written = write_manifests(assets, _manifest_job(request, nodes))
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
    return Flushed(snapshot, written.statistics)


def _manifest_job(request: FlushRequest, nodes: Mapping[str, Node]) -> ManifestJob:
    return ManifestJob(
        packing=request.packing,
        spec=request.spec,
        arrays={node.id: node for node in nodes.values() if isinstance(node, ArrayNode)},
        files=request.base.manifest_files,
        edits=request.changes.chunks,
        everything=request.rewrite_all,
    )


def _relinked(node: Node, written: WrittenManifests) -> Node:
    if not isinstance(node, ArrayNode) or node.id not in written.refs:
        return node
    return replace(node, manifests=written.refs[node.id])


def _manifest_files(
    base: Snapshot,
    nodes: Mapping[str, Node],
    written: WrittenManifests,
) -> dict[ManifestId, ManifestFile]:
    """Return the record of exactly those manifests that the nodes refer to, ordered by id."""
    used = {
        ref.manifest_id
        for node in nodes.values()
        if isinstance(node, ArrayNode)
        for ref in node.manifests
    }
    return {i: written.files.get(i) or base.manifest_files[i] for i in sorted(used)}


def _log(snapshot_id: SnapshotId, request: FlushRequest) -> TransactionLog:
    log = transaction_log(snapshot_id, request.base.nodes, request.changes)
    if request.earlier_log is None:
        return log
    return merge_logs(snapshot_id, [request.earlier_log, log])
