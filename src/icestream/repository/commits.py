"""Changes become versions: flush the files, then move the branch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from icestream.errors import (
    ConflictError,
    ErrorKind,
    SessionStateError,
)
from icestream.model.change_sets import ChangeSet
from icestream.model.conflicts import ConflictSolver
from icestream.model.ids import INITIAL_SNAPSHOT_ID, NodeId, SnapshotId
from icestream.model.repo_info import SnapshotEntry
from icestream.model.snapshots import RESERVED_KEY, Snapshot
from icestream.repository.context import Context
from icestream.repository.flush import Flushed, FlushRequest, StagedManifests, flush, run_here
from icestream.repository.rebase import rebase
from icestream.repository.timeline import branch_moved


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """Changes on a branch, ready to become a version."""

    base: Snapshot
    changes: ChangeSet
    branch: str
    message: str
    metadata: Mapping[str, Any]
    rewrite_all: bool = False
    """Write the manifests of all arrays anew."""
    staged: Mapping[NodeId, StagedManifests] = field(default_factory=dict)
    """Arrays whose manifests were written before."""
    run_log: Callable[[Callable[[], None]], object] = run_here
    """Runs the task that writes the transaction log."""


def commit(
    context: Context,
    request: CommitRequest,
    *,
    solver: ConflictSolver | None = None,
    rebase_tries: int = 0,
) -> Flushed:
    """Write a version on top of the branch; rebase as often as a race is lost, if allowed."""
    rebases = 0
    while True:
        try:
            return _commit_once(context, request, rebases)
        except ConflictError as error:
            if solver is None or rebases >= rebase_tries or not _lost_a_race(error):
                raise
        rebases += 1
        # on a copy: a later failure must leave the session as it was
        changes = request.changes.copy()
        newer = rebase(context, request.base, changes, branch=request.branch, solver=solver)
        request = replace(request, base=newer, changes=changes)


def _commit_once(context: Context, request: CommitRequest, rebases: int) -> Flushed:
    feature = _feature_of(request.changes, request.base)
    tip = context.timeline.writable_tip(request.branch, feature)
    if tip != request.base.id:
        # nothing is uploaded for a race that is lost already
        raise branch_moved(request.branch, request.base.id, tip)
    metadata = request.metadata
    if rebases:
        notes = {**metadata.get(RESERVED_KEY, {}), "rebase_attempts": rebases}
        metadata = {**metadata, RESERVED_KEY: notes}
    flushed = flush(
        context.assets, _flush_request(context, request, metadata, parent_id=request.base.id)
    )
    context.timeline.commit(request.branch, SnapshotEntry.of(flushed.snapshot, request.base.id))
    return flushed


def amend(context: Context, request: CommitRequest) -> Flushed:
    """Write a version in place of the newest one of the branch."""
    if context.timeline.spec == 1:
        context.timeline.amend(
            request.branch, SnapshotEntry.of(request.base, None), request.base.id
        )
    feature = _feature_of(request.changes, request.base)
    tip = context.timeline.writable_tip(request.branch, feature)
    if tip != request.base.id:
        raise branch_moved(request.branch, request.base.id, tip)
    replaced = context.timeline.entry(request.base.id)
    if replaced.id == INITIAL_SNAPSHOT_ID or replaced.parent_id is None:
        raise SessionStateError(
            "the initial snapshot cannot be amended; make a commit first",
            kind=ErrorKind.NO_AMEND_FOR_INITIAL_COMMIT,
        )
    earlier_log = context.assets.load_log(replaced.id)
    if earlier_log.moved_nodes and feature is None:
        raise SessionStateError(
            "a commit that moved nodes can only be amended in a rearrange session; "
            "make a new commit instead",
            kind=ErrorKind.NOT_ALLOWED,
        )
    flush_request = _flush_request(context, request, request.metadata, parent_id=replaced.parent_id)
    flushed = flush(context.assets, replace(flush_request, earlier_log=earlier_log))
    entry = SnapshotEntry.of(flushed.snapshot, replaced.parent_id)
    context.timeline.amend(request.branch, entry, replaced.id)
    return flushed


def flush_detached(context: Context, request: CommitRequest) -> Flushed:
    """Write a version that no branch points at."""
    context.timeline.writable_tip(request.branch, _feature_of(request.changes, request.base))
    flushed = flush(
        context.assets,
        _flush_request(context, request, request.metadata, parent_id=request.base.id),
    )
    context.timeline.register(SnapshotEntry.of(flushed.snapshot, request.base.id))
    return flushed


def write_snapshot(context: Context, base: Snapshot, changes: ChangeSet, message: str) -> Snapshot:
    """Write the files of a snapshot that the history never hears of."""
    request = CommitRequest(base=base, changes=changes, branch="", message=message, metadata={})
    return flush(context.assets, _flush_request(context, request, {}, parent_id=base.id)).snapshot


def _flush_request(
    context: Context, request: CommitRequest, metadata: Mapping[str, Any], *, parent_id: SnapshotId
) -> FlushRequest:
    return FlushRequest(
        base=request.base,
        changes=request.changes,
        message=request.message,
        metadata=metadata,
        spec=context.timeline.spec,
        parent_id=parent_id,
        packing=context.packing,
        rewrite_all=request.rewrite_all,
        staged=request.staged,
        run_log=request.run_log,
    )


def _feature_of(changes: ChangeSet, base: Snapshot) -> str | None:
    """Return the feature that the changes need: moves can be switched off."""
    moved = {node.id for node in changes.nodes.values() if node is not None}
    for path, node in changes.nodes.items():
        if node is None and base.nodes[path].id in moved:
            return "move_node"
    return None


def _lost_a_race(error: ConflictError) -> bool:
    return error.kind is ErrorKind.COMMIT_CONFLICT
