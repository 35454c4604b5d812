"""Changes too large for one commit: several on a branch of their own, then one branch moves."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from icestream.errors import RefNotFoundError
from icestream.model.change_sets import ChangeSet
from icestream.model.ids import id_text, new_snapshot_id
from icestream.repository import commits
from icestream.repository.commits import CommitRequest
from icestream.repository.context import Context
from icestream.repository.flush import Flushed, run_here
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.repository.staged.cells import CellPlan, StagedArrays, WrittenCell
from icestream.repository.staged.commits import RunLog, commit_staged, with_staged
from icestream.repository.staged.log_limits import share_of_log
from icestream.repository.timeline import branch_moved

STAGING_PREFIX = "icestream-staging-"
"""Branches with such names are there while a publication goes on."""


# -- what goes into which commit ------------------------------------------------------------------


def split_into_commits(staged: StagedArrays, max_chunks: int = 40_000_000) -> list[StagedArrays]:
    """Spread written cells over commits, so that none has to log more chunks than it can.

    A manifest stays until the first cell that was written from it is committed. Versions in
    between may therefore lack chunks, but have none at a wrong place.

    Args:
        staged: All arrays with all their cells.
        max_chunks: How many changed chunks one commit may name; a cell with more is alone.
    """
    parts: list[StagedArrays] = []
    plans = {path: plan for path, (plan, _) in staged.items()}
    for group in _groups(staged, max_chunks):
        part = {}
        for path, cells in group.items():
            part[path] = (_part_of_plan(plans[path], cells), cells)
            plans[path] = _rest_of_plan(plans[path], *part[path])
        parts.append(part)
    return parts


def _groups(staged: StagedArrays, max_chunks: int) -> Iterator[dict[str, list[WrittenCell]]]:
    group: dict[str, list[WrittenCell]] = defaultdict(list)
    filled = 0.0
    for path, (_, cells) in staged.items():
        for cell in sorted(cells, key=lambda one: one.cell):
            share = share_of_log(cell.changed, max_chunks)
            if group and filled + share > 1:
                yield dict(group)
                group, filled = defaultdict(list), 0.0
            group[path].append(cell)
            filled += share
    if group:
        yield dict(group)


def _part_of_plan(plan: CellPlan, cells: Sequence[WrittenCell]) -> CellPlan:
    """Return the plan for some of the cells: manifests that only others are written from stay."""
    chosen = {cell.cell for cell in cells}
    tasks = tuple(task for task in plan.tasks if task.cell in chosen)
    read = {manifest_id for task in tasks for manifest_id in task.old}
    return replace(
        plan,
        tasks=tasks,
        kept=(*plan.kept, *(ref for ref in plan.stale if ref.manifest_id not in read)),
        stale=tuple(ref for ref in plan.stale if ref.manifest_id in read),
    )


def _rest_of_plan(plan: CellPlan, part: CellPlan, cells: Sequence[WrittenCell]) -> CellPlan:
    """Return what is left of a plan when a part of it is committed."""
    done = {cell.cell for cell in cells}
    written = tuple(cell.ref for cell in cells if cell.ref is not None)
    return replace(
        plan,
        tasks=tuple(task for task in plan.tasks if task.cell not in done),
        kept=(*plan.kept, *written),
        stale=tuple(ref for ref in plan.stale if ref not in part.stale),
    )


# -- making them visible at once ------------------------------------------------------------------


def publish_staged(
    session: Session,
    parts: Sequence[StagedArrays],
    message: str,
    metadata: dict[str, Any] | None = None,
    *,
    run_log: RunLog = run_here,
    name: str | None = None,
) -> str:
    """Make several commits of staged manifests visible by one move of the session's branch.

    The first has the edits of the session, the last the message and the metadata as given. A
    single part is an ordinary commit. See `commit_staged` for errors.

    Args:
        session: A writable session on the version that the cells were planned on.
        parts: What `split_into_commits` made.
        message: What was done.
        metadata: More about it.
        run_log: Runs the tasks that write the transaction logs.
        name: What to call the branch that is there meanwhile, after `STAGING_PREFIX`.

    Returns:
        The id of the last snapshot; the session is read-only afterwards and shows it.
    """
    if len(parts) <= 1:
        only = parts[0] if parts else {}
        return commit_staged(session, only, message, metadata, run_log=run_log)
    copy = session._copy  # noqa: SLF001  staged commits are a part of sessions
    with copy.lock:
        request = session._commit_request(message, metadata, allow_empty=True)  # noqa: SLF001  likewise
        tip = copy.context.timeline.writable_tip(request.branch)
        if tip != request.base.id:
            # nothing is uploaded for a race that is lost already
            raise branch_moved(request.branch, request.base.id, tip)
        with _staging_branch(copy.context, request, name) as staging:
            last = _commit_parts(copy.context, replace(request, branch=staging), parts, run_log)
            copy.context.timeline.reset_branch(request.branch, last.snapshot.id, request.base.id)
        return session._finish(last)  # noqa: SLF001  likewise


@contextmanager
def _staging_branch(context: Context, request: CommitRequest, name: str | None) -> Iterator[str]:
    """Let there be a branch at the base of a commit for a while."""
    branch = STAGING_PREFIX + (name or id_text(new_snapshot_id()).lower())
    context.timeline.create_branch(branch, request.base.id)
    try:
        yield branch
    finally:
        context.timeline.delete_branch(branch)


def _commit_parts(
    context: Context, request: CommitRequest, parts: Sequence[StagedArrays], run_log: RunLog
) -> Flushed:
    """Commit parts one after the other, the session's edits with the first of them."""
    step = request
    for number, part in enumerate(parts[:-1], start=1):
        labelled = replace(
            step,
            message=f"{request.message} (part {number} of {len(parts)})",
            metadata=context.commit_metadata,
        )
        flushed = commits.commit(context, with_staged(labelled, part, run_log))
        step = replace(request, base=flushed.snapshot, changes=ChangeSet())
    return commits.commit(context, with_staged(step, parts[-1], run_log))


def drop_staging_branches(repo: Repository, prefix: str = STAGING_PREFIX) -> list[str]:
    """Delete the branches that publications left behind when they were killed; name them.

    Whoever calls this knows that no publication with such a name is going on.
    """
    dropped = []
    for branch in sorted(repo.list_branches()):
        if branch.startswith(prefix) and branch.startswith(STAGING_PREFIX):
            with suppress(RefNotFoundError):
                repo.delete_branch(branch)
                dropped.append(branch)
    return dropped
