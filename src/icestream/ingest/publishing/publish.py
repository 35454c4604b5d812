"""Publishes a run: its block is written, then the branch moves, then the ledger.

1. All files of the ledger are written: slice, checkpoint, block. Nothing refers to them yet.
2. The repository commits, with the hash of the block in the metadata of the snapshot. From the
   moment the branch moves, the run is published.
3. The head of the ledger moves to the block.

A run that is cut off before 2 has left garbage and is repeated. One that is cut off between 2 and 3
is finished by `recover`, which every run begins with. So ledger and repository agree whenever a run
begins to work, and no file is ingested twice.

Two runs at once cannot both publish, whether they hold a lease or not:

- Both build on the same newest run of the branch, which each looks up again after its session has
  its base and before it commits. If another run was published before that, it is seen here; if
  later, the compare-and-swap of the branch fails, because the session has an older base. Then it is
  looked up again before anything is tried once more. So behind each run on the branch is the run
  whose state it was planned with.
- A run without a commit is published by the compare-and-swap of the ledger's head alone. If a run
  with a commit moved the branch before and moves the head after it, the repository decides, and the
  run without a commit is dropped: it only knew of files that could not be ingested, and the next
  run tries them again.

Commits of others on the branch, which are no runs of this archive, are no conflict of runs: the
session is rebased, and commits again with the same block.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icestream.errors import CommitUnknownError, ConflictError, ErrorKind, InternalError
from icestream.ingest.publishing.checkpoints import RunCheckpoint, encode_checkpoint
from icestream.ingest.publishing.recovery import RunBasis, RunTarget, bring_to
from icestream.ingest.publishing.run_snapshots import RunSnapshot, run_metadata
from icestream.ingest.publishing.steps import AfterStep, RunStep, ignore_step
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.heads import get_head
from icestream.ledger.chain.planning import TransformPlan
from icestream.ledger.transactions import PreparedTransform, TransformOutput, prepare_transform

_TRIES = 5

type Commit = Callable[[dict[str, Any]], str]
"""Commits to the branch with these metadata, and returns the id of the snapshot.

It raises a ConflictError if the branch is not where the session began, and never rebases."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunOutput:
    """What a run found out, and what the next one has to know."""

    rows: pa.Table
    """One per file, as in `rows.ROW_SCHEMA`."""
    state: bytes
    commit: Commit | None = None
    """None if there is nothing to change in the repository."""
    rebase: Callable[[], None] | None = None
    """Brings the session to where the branch is, after others moved it; None gives up then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A run that is published."""

    number: int
    block: Multihash
    snapshot_id: str | None
    """None if the run had nothing to commit."""


def publish(
    target: RunTarget,
    basis: RunBasis,
    plan: TransformPlan,
    output: RunOutput,
    *,
    after_step: AfterStep = ignore_step,
) -> Published | None:
    """Publish a run; return None if it has nothing to tell.

    Args:
        target: Where it goes.
        basis: What it built on, from `recover`.
        plan: Its transaction, from `plan_run`, made after that.
        output: What came out of it.
        after_step: Is told the steps BLOCK_PREPARED, COMMITTED and HEAD_MOVED.

    Raises:
        ConflictError: Another run was published meanwhile, or somebody else changed the branch in
            a way that cannot be rebased over; nothing of the run is visible.
        CommitUnknownError: It is not known whether the branch moved; the next run finds out.
    """
    if _says_nothing(basis, plan, output):
        return None
    prepared = _prepare(target, basis, plan, output)
    after_step(RunStep.BLOCK_PREPARED)
    published = Published(
        number=basis.next_number,
        block=prepared.block_hash,
        snapshot_id=_commit(target, basis, prepared, output),
    )
    after_step(RunStep.COMMITTED)
    _move_head(target, published, prepared)
    after_step(RunStep.HEAD_MOVED)
    return published


def _says_nothing(basis: RunBasis, plan: TransformPlan, output: RunOutput) -> bool:
    state = None if basis.checkpoint is None else basis.checkpoint.state
    has_news = any(entry.new_block_hash for entry in plan.query_inputs)
    return not (output.commit or len(output.rows) or has_news or output.state != state)


def _prepare(
    target: RunTarget, basis: RunBasis, plan: TransformPlan, output: RunOutput
) -> PreparedTransform:
    number = basis.next_number
    checkpoint = RunCheckpoint(
        number=number,
        last_commit=basis.last_commit if output.commit is None else number,
        state=output.state,
    )
    result = TransformOutput(rows=output.rows, state=encode_checkpoint(checkpoint))
    prepared = prepare_transform(target.ledger.ingest.chain, plan, result)
    if prepared is None:
        raise InternalError(f"run {number} of {target.ledger.name} has a block without an event")
    return prepared


def _commit(
    target: RunTarget, basis: RunBasis, prepared: PreparedTransform, output: RunOutput
) -> str | None:
    if output.commit is None:
        _require_basis(target, basis, prepared)
        return None
    metadata = run_metadata(target.ledger.name, prepared.block_hash, basis.next_number)
    for attempt in range(_TRIES):
        if attempt and output.rebase is not None:
            output.rebase()
        _require_basis(target, basis, prepared)
        try:
            return output.commit(metadata)
        except CommitUnknownError:
            newest = target.newest_run()
            if newest is None or newest.block != prepared.block_hash:
                raise
            return newest.snapshot_id
        except ConflictError:
            _require_basis(target, basis, prepared)
            if output.rebase is None or attempt == _TRIES - 1:
                raise
    raise InternalError("the last try to commit neither succeeded nor failed")


def require_newest(target: RunTarget, basis: RunBasis) -> None:
    """Make sure that the branch has no other run than when this one was planned.

    Raises:
        ConflictError: Another run was published.
    """
    newest = target.newest_run()
    if newest != basis.newest:
        raise _another_run(target, newest)


def _require_basis(target: RunTarget, basis: RunBasis, prepared: PreparedTransform) -> None:
    """Make sure that no other run was published since this one was planned."""
    require_newest(target, basis)
    if get_head(target.ledger.ingest.storage).block_hash != prepared.old_head:
        raise _another_run(target, None)


def _move_head(target: RunTarget, published: Published, prepared: PreparedTransform) -> None:
    ingest = target.ledger.ingest
    try:
        ingest.chain.append_blocks(prepared.blocks)
    except ConflictError as error:
        ingest.refresh()
        if published.snapshot_id is None:
            raise _another_run(target, target.newest_run()) from error
        # the branch has moved, and that counts
        bring_to(
            ingest,
            RunSnapshot(
                snapshot_id=published.snapshot_id, block=published.block, run=published.number
            ),
        )


def _another_run(target: RunTarget, newest: RunSnapshot | None) -> ConflictError:
    told = "" if newest is None else f" (run {newest.run}, snapshot {newest.snapshot_id})"
    return ConflictError(
        f"another run of the archive {target.ledger.name} was published meanwhile{told}, or"
        " somebody else changed its ledger; nothing of this run is visible: run again",
        kind=ErrorKind.COMMIT_CONFLICT,
    )
