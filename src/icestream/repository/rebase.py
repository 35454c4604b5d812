"""Move a change set from the snapshot it was made on to a newer one."""

from icestream.errors import ErrorKind, NotFoundError, RebaseFailedError, SessionStateError
from icestream.model.change_sets import ChangeSet, relink
from icestream.model.conflicts import (
    Conflict,
    ConflictSolver,
    ConflictType,
    find_conflicts,
    shared_rows,
)
from icestream.model.ids import SnapshotId, id_text
from icestream.model.repo_info import SnapshotEntry
from icestream.model.snapshots import Snapshot
from icestream.model.transaction_logs import TransactionLog, merge_logs
from icestream.repository.context import Context


def rebase(
    context: Context, base: Snapshot, changes: ChangeSet, *, branch: str, solver: ConflictSolver
) -> Snapshot:
    """Pass every commit made since `base`, oldest first, and return the newest snapshot.

    `changes` is edited where the solver lets the other side win, and relinked to the snapshot
    that is returned.

    Raises:
        RebaseFailedError: Some commit conflicts in a way that the solver does not settle;
            `changes` is untouched.
    """
    commits = _commits_since(context, base.id, context.timeline.branch_tip(branch))
    kept = changes.copy()
    newest = base
    for entry in commits:
        log = _full_log(context, entry)
        newest = context.assets.load_snapshot(entry.id)
        conflicts = find_conflicts(kept, base.nodes, log, newest.nodes)
        unresolved = [conflict for conflict in conflicts if not solver.resolves(conflict)]
        if unresolved:
            raise _rebase_failed(entry.id, unresolved)
        if not solver.keeps_ours():
            _give_way(kept, log, conflicts)
    changes.nodes, changes.chunks = kept.nodes, kept.chunks
    _drop_deletions_of_the_gone(changes, newest)
    relink(changes, newest.nodes)
    return newest


def _commits_since(context: Context, base_id: SnapshotId, tip: SnapshotId) -> list[SnapshotEntry]:
    commits: list[SnapshotEntry] = []
    for entry in context.timeline.ancestry(tip):
        if entry.id == base_id:
            return commits[::-1]
        commits.append(entry)
    raise SessionStateError(
        f"snapshot {id_text(base_id)}, which this session is based on, is not in the history "
        "of the branch any more; start a new session and redo the changes",
        kind=ErrorKind.REBASE_TX_LOG_PRUNED,
    )


def _full_log(context: Context, entry: SnapshotEntry) -> TransactionLog:
    """Return all that changed from a snapshot's parent, commits expired in between included."""
    try:
        logs = [context.assets.load_log(log_id) for log_id in (*entry.pruned_logs, entry.id)]
    except NotFoundError as error:
        raise SessionStateError(
            f"the transaction log of {id_text(entry.id)} is gone, so conflicts cannot be found; "
            "start a new session and redo the changes",
            kind=ErrorKind.REBASE_TX_LOG_PRUNED,
        ) from error
    return logs[0] if len(logs) == 1 else merge_logs(entry.id, logs)


def _give_way(changes: ChangeSet, theirs: TransactionLog, conflicts: list[Conflict]) -> None:
    """Drop the chunks that the other side wrote too."""
    if not any(c.conflict_type is ConflictType.ChunkDoubleUpdate for c in conflicts):
        return
    for node_id, edits in changes.chunks.items():
        index = theirs.updated_chunks.get(node_id)
        if index is not None:
            table = edits.table()
            edits.replace_all(table.take(~shared_rows(table, index)))


def _drop_deletions_of_the_gone(changes: ChangeSet, newest: Snapshot) -> None:
    """Forget deletions of nodes that the other side deleted as well."""
    for path in [path for path, node in changes.nodes.items() if node is None]:
        if path not in newest.nodes:
            del changes.nodes[path]


def _rebase_failed(snapshot_id: SnapshotId, conflicts: list[Conflict]) -> RebaseFailedError:
    listed = "; ".join(f"{c.conflict_type.name} at {c.path}" for c in conflicts[:5])
    more = f" and {len(conflicts) - 5} more" if len(conflicts) > 5 else ""  # noqa: PLR2004  a readable message
    return RebaseFailedError(
        f"commit {id_text(snapshot_id)} conflicts with this session: {listed}{more}; "
        "discard the changes, or rebase with a solver that settles them",
        snapshot=id_text(snapshot_id),
        conflicts=conflicts,
    )
