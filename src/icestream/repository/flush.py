"""A change set becomes files: manifests, then a snapshot and its transaction log."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from icestream.assets.assets import Assets
from icestream.codec.transaction_logs import ChunkParts
from icestream.model.change_sets import ChangeSet, transaction_log
from icestream.model.changed_indexes import ChangedIndexes
from icestream.model.ids import ManifestId, NodeId, SnapshotId, new_snapshot_id
from icestream.model.manifests import ManifestFile
from icestream.model.node_views import NodeView
from icestream.model.nodes import ArrayNode, ManifestRef, Node
from icestream.model.snapshots import Snapshot
from icestream.model.times import now_micros
from icestream.model.transaction_logs import TransactionLog, merge_logs
from icestream.repository.commit_statistics import CommitStatistics
from icestream.repository.manifest_pieces import PackingConfig
from icestream.repository.manifest_writing import ManifestJob, write_manifests


@dataclass(frozen=True, slots=True)
class StagedManifests:
    """The manifests of one array, written before, and the chunks that changed with them."""

    refs: tuple[ManifestRef, ...]
    """All that the array has now."""
    files: tuple[ManifestFile, ...]
    """Those that are new."""
    changed: tuple[ChangedIndexes, ...]


@dataclass(frozen=True, slots=True)
class LogTask:
    """A transaction log to be written, here or elsewhere; picklable."""

    assets: Assets
    log: TransactionLog
    parts: ChunkParts
    """The chunks of arrays whose manifests were written before."""
    spec: int

    def __call__(self) -> None:
        """Write the file."""
        self.assets.save_log(self.log, spec=self.spec, parts=self.parts)


def run_here(task: Callable[[], None]) -> None:
    """Run a task in this process."""
    task()


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
    staged: Mapping[NodeId, StagedManifests] = field(default_factory=dict)
    """Arrays whose manifests were written before; their chunks have no edits."""
    run_log: Callable[[Callable[[], None]], object] = run_here
    """Runs the task that writes the transaction log, which may be long."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """A snapshot that was written, and what that took."""

    snapshot: Snapshot
    statistics: CommitStatistics


def flush(assets: Assets, request: FlushRequest) -> Flushed:
    """Write the files of a new snapshot; nothing points at them yet."""
    view = NodeView(request.base.nodes, dict(request.changes.nodes))
    staged = {array_id: one.refs for array_id, one in request.staged.items()}
    nodes = {node.path: _relinked(node, staged) for node in view.nodes()}
    files = {file.id: file for one in request.staged.values() for file in one.files}
    job = _manifest_job(request, nodes, {**request.base.manifest_files, **files})
    written = write_manifests(assets, job)
    nodes = {path: _relinked(node, written.refs) for path, node in nodes.items()}
    snapshot = Snapshot(
        id=new_snapshot_id(),
        # readers refuse a child that is not younger than its parent
        flushed_at=max(now_micros(), request.base.flushed_at + 1),
        message=request.message,
        metadata=request.metadata,
        parent_id=request.parent_id if request.spec == 1 else None,
        nodes=nodes,
        manifest_files=_manifest_files(nodes, {**job.files, **written.files}),
    )
    parts = {array_id: one.changed for array_id, one in request.staged.items()}
    log_task = LogTask(assets, _log(snapshot.id, request), parts, request.spec)
    with ThreadPoolExecutor(2) as pool:
        saved = pool.submit(assets.save_snapshot, snapshot, spec=request.spec)
        request.run_log(log_task)
        saved.result()
    return Flushed(snapshot, written.statistics.with_staged(files.values()))


def _manifest_job(
    request: FlushRequest, nodes: Mapping[str, Node], files: Mapping[ManifestId, ManifestFile]
) -> ManifestJob:
    return ManifestJob(
        packing=request.packing,
        spec=request.spec,
        arrays={node.id: node for node in nodes.values() if isinstance(node, ArrayNode)},
        files=files,
        edits=request.changes.chunks,
        everything=request.rewrite_all,
    )


def _relinked(node: Node, refs: Mapping[NodeId, tuple[ManifestRef, ...]]) -> Node:
    if not isinstance(node, ArrayNode) or node.id not in refs:
        return node
    return replace(node, manifests=refs[node.id])


def _manifest_files(
    nodes: Mapping[str, Node], files: Mapping[ManifestId, ManifestFile]
) -> dict[ManifestId, ManifestFile]:
    """Return the record of exactly those manifests that the nodes refer to, ordered by id."""
    used = {
        ref.manifest_id
        for node in nodes.values()
        if isinstance(node, ArrayNode)
        for ref in node.manifests
    }
    return {i: files[i] for i in sorted(used)}


def _log(snapshot_id: SnapshotId, request: FlushRequest) -> TransactionLog:
    log = transaction_log(snapshot_id, request.base.nodes, request.changes)
    if request.earlier_log is None:
        return log
    return merge_logs(snapshot_id, [request.earlier_log, log])
