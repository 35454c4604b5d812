"""One commit of a session's edits and of manifests that were written before."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from icestream.errors import ErrorKind, InternalError, SessionStateError
from icestream.model.change_sets import ChangeSet
from icestream.model.node_views import NodeView
from icestream.model.nodes import ArrayNode
from icestream.model.paths import absolute
from icestream.repository import commits
from icestream.repository.commits import CommitRequest
from icestream.repository.flush import StagedManifests, run_here
from icestream.repository.session import Session
from icestream.repository.staged.cells import CellPlan, StagedArrays, WrittenCell
from icestream.repository.staged.log_limits import check_log_size

RunLog = Callable[[Callable[[], None]], object]
"""Runs a picklable task that writes a transaction log, in this process or in another."""


def put_staged_array(
    session: Session, path: str, document: bytes
) -> tuple[ArrayNode | None, ArrayNode]:
    """Give an array its zarr.json; return it as it was and as it will be, for `plan_cells`.

    Unlike an ordinary edit this reads no reference of an array that gets smaller: those that it
    has no place for go when its cells are written.
    """
    copy = session._copy  # noqa: SLF001  staged commits are a part of sessions
    path = absolute(path)
    before = copy.snapshot.nodes.get(path)
    now = copy.nodes.find(path)
    if now is None or now.user_data != document:
        copy.put_metadata(path, document, drops_chunks=False)
    return before if isinstance(before, ArrayNode) else None, copy.get_array(path)


def commit_staged(
    session: Session,
    staged: StagedArrays,
    message: str,
    metadata: dict[str, Any] | None = None,
    *,
    run_log: RunLog = run_here,
) -> str:
    """Make the edits of a session, and manifests that were written before, one version.

    Args:
        session: A writable session on the version that the cells were planned on. Chunks of
            staged arrays have no edits in it; their zarr.json may.
        staged: The arrays whose manifests were written before.
        message: What was done.
        metadata: More about it.
        run_log: Runs the task that writes the transaction log.

    Returns:
        The id of the new snapshot; the session is read-only afterwards and shows it.

    Raises:
        ConflictError: The branch moved.
        SessionStateError: There is nothing to commit, or the cells are of another version.
        InvalidInputError: The transaction log would be too large; see `split_into_commits`.
    """
    copy = session._copy  # noqa: SLF001  staged commits are a part of sessions
    with copy.lock:
        is_staged = any(plan.tasks for plan, _ in staged.values())
        request = session._commit_request(message, metadata, allow_empty=is_staged)  # noqa: SLF001  likewise
        flushed = commits.commit(copy.context, with_staged(request, staged, run_log))
        return session._finish(flushed)  # noqa: SLF001  likewise


def with_staged(request: CommitRequest, staged: StagedArrays, run_log: RunLog) -> CommitRequest:
    """Return a commit to be made with manifests that were written before."""
    view = NodeView(request.base.nodes, dict(request.changes.nodes))
    changes = request.changes.copy()
    manifests = {}
    for path, (plan, cells) in staged.items():
        if plan.tasks:
            array = _planned_array(view, path, plan)
            _forget_edits(changes, array)
            manifests[array.id] = _manifests_of(plan, cells)
    check_log_size(part for one in manifests.values() for part in one.changed)
    return replace(request, changes=changes, staged=manifests, run_log=run_log)


def _planned_array(view: NodeView, path: str, plan: CellPlan) -> ArrayNode:
    array = view.find(absolute(path))
    if (
        isinstance(array, ArrayNode)
        and array.id == plan.array_id
        and {*array.manifests} == {*plan.kept, *plan.stale}
    ):
        return array
    raise SessionStateError(
        f"the cells of {path} were planned on another version of it; plan and write them again",
        kind=ErrorKind.COMMIT_NOT_ALLOWED,
    )


def _forget_edits(changes: ChangeSet, array: ArrayNode) -> None:
    """Forget that chunks outside the array go, which its cells know; refuse other edits."""
    edits = changes.chunks.get(array.id)
    if edits is None or not len(edits):
        return
    inside = (edits.table().index < np.array(array.num_chunks, np.int64)).all(axis=1)
    if inside.any():
        raise SessionStateError(
            f"chunks of {array.path} were edited in the session, and its manifests were written "
            "before; do one or the other in one commit",
            kind=ErrorKind.COMMIT_NOT_ALLOWED,
        )
    changes.forget_chunks(array.id)


def _manifests_of(plan: CellPlan, cells: Sequence[WrittenCell]) -> StagedManifests:
    written: Mapping[Any, WrittenCell] = {cell.cell: cell for cell in cells}
    if written.keys() != {task.cell for task in plan.tasks} or len(written) != len(cells):
        raise InternalError(
            f"{len(cells)} cells of {plan.path} were written, {len(plan.tasks)} were planned"
        )
    refs = [*plan.kept, *(cell.ref for cell in cells if cell.ref is not None)]
    return StagedManifests(
        tuple(sorted(refs, key=lambda ref: ref.extents)),
        tuple(cell.file for cell in cells if cell.file is not None),
        tuple(cell.changed for cell in cells if len(cell.changed)),
    )
