"""Brings a derived array up to date: what its input changed is computed, and nothing else.

1. What an earlier pull left unfinished is finished, as with runs of archives.
2. The version of the input is compared with the one that the output follows, and the output with
   what the last pull left; if no output chunk has to be another, nothing is written.
3. The version is recorded, executors compute and store chunks, the block of the ledger is written,
   the output commits with the hash of the block, and the head of the ledger moves.
"""

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from icestream.errors import ConflictError, ErrorKind, InternalError
from icestream.ingest.array_derivation.declarations import ArrayDerivation
from icestream.ingest.array_derivation.ledger_side import (
    CHUNK_SCHEMA,
    array_ledger,
    derivation_of,
    record_version,
)
from icestream.ingest.array_derivation.states import decode_state, encode_state
from icestream.ingest.publishing.checkpoints import last_checkpoint
from icestream.ingest.publishing.ledger_side import plan_run
from icestream.ingest.publishing.publish import Published, RunOutput, publish
from icestream.ingest.publishing.recovery import RunBasis, RunTarget, recover
from icestream.ingest.publishing.steps import AfterStep, ignore_step
from icestream.ledger.chain.planning import UpToDate
from icestream.ledger.data_writing import AddedData
from icestream.ledger.dataset import Dataset
from icestream.ledger.workspace import Workspace
from icestream.model.conflicts import ConflictDetector
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.spark.derived_arrays.computing import (
    ComputedChunks,
    Spark,
    chunk_name,
    compute_chunks,
)
from icestream.spark.derived_arrays.outputs import put_output
from icestream.spark.derived_arrays.places import ArrayPlaces
from icestream.spark.derived_arrays.standing import OutputVersions
from icestream.spark.derived_arrays.work import (
    DerivationWork,
    plan_work,
    session_at,
    with_output,
)
from icestream.spark.writes.written_tables import put_tables


@dataclass(frozen=True, slots=True)
class PulledArray:
    """What a pull did."""

    published: Published
    num_chunks: int
    """How many were computed."""
    num_chunks_of_all: int
    """How many the array has."""


def pull_derived_array(
    workspace: Workspace,
    dataset: Dataset,
    spark: Spark,
    *,
    places: ArrayPlaces | None = None,
    recompute: bool = False,
    after_step: AfterStep = ignore_step,
) -> PulledArray | None:
    """Bring a derived array up to date; return None if it is.

    Output chunks that others wrote or deleted since the last pull are computed again, and all of
    them if the array is not the one that the pull left.

    Args:
        workspace: Of the dataset.
        dataset: One that `create_derived_array` made.
        spark: Where chunks are computed: a session, what starts one when it is needed, or None for
            this process.
        places: How the repositories are reached, if not by their addresses alone.
        recompute: Whether to make the array anew, also if nothing has changed, or the branch of
            the output was moved back.
        after_step: Is told the steps of publishing.

    Raises:
        NotFoundError: The input, its array or its branch is not there.
        InvalidInputError: The input cannot be grouped as declared, or a function failed.
        AlreadyExistsError: There is an array at the place of the output that no pull made.
        ConflictError: Another pull was published meanwhile; nothing of this one is visible. Or the
            branch of the output lacks the last pull.
    """
    derivation = derivation_of(dataset)
    places = places or ArrayPlaces()
    source, output = places.open_input(derivation), places.open_output(derivation)
    target = RunTarget(array_ledger(workspace, dataset), output, derivation.output.branch)
    basis, is_moved = _basis(target, derivation, recompute=recompute)
    version = next(iter(source.ancestry(branch=derivation.input.branch)))
    last = None if basis.checkpoint is None else decode_state(basis.checkpoint.state)
    session = output.writable_session(derivation.output.branch)
    versions = _versions(output, session, basis, is_moved=is_moved)
    work = plan_work(derivation, source, version, last)
    work = with_output(work, source, last, versions, recompute=recompute)
    if work.is_idle:
        return None
    computed = _compute(session, work, spark)
    try:
        record_version(target.ledger.inventory, version)
        result = _output(session, work, computed)
        published = publish(target, basis, plan_run(target.ledger), result, after_step=after_step)
    except ConflictError as error:
        raise _overtaken(derivation, error) from error
    if published is None:
        raise InternalError(f"{derivation.name} was computed, and there was nothing to tell")
    total = math.prod(work.computation.num_chunks)
    return PulledArray(published, len(computed.digests), total)


def advance_with(
    workspace: Workspace,
    spark: Spark,
    places: ArrayPlaces | None = None,
    *,
    recompute: bool = False,
) -> Callable[[Dataset], tuple[AddedData, ...] | UpToDate]:
    """Return what brings derived arrays up to date among datasets of other engines."""

    def advance(dataset: Dataset) -> tuple[AddedData, ...] | UpToDate:
        old_head = dataset.head
        pulled = pull_derived_array(workspace, dataset, spark, places=places, recompute=recompute)
        if pulled is None:
            return UpToDate("nothing that it is computed from has changed")
        event = dataset.state.data_event
        return (
            AddedData(
                old_head=old_head,
                new_head=dataset.head,
                data_slice=None if event is None else event.new_data,
            ),
        )

    return advance


def _basis(
    target: RunTarget, derivation: ArrayDerivation, *, recompute: bool
) -> tuple[RunBasis, bool]:
    """Return what a pull builds on, and whether the branch of the output lacks the last one."""
    try:
        return recover(target), False
    except ConflictError as error:
        if error.kind is not ErrorKind.NOT_ALLOWED:
            raise
        if not recompute:
            raise ConflictError(
                f"the branch {target.branch} of {derivation.output.repository} does not have the "
                f"last pull of {derivation.name}: it was moved back, or it is another; move it to "
                "where it was, or make the array anew there: `icestream dataset pull --recompute`",
                kind=error.kind,
            ) from error
    ingest = target.ledger.ingest
    return RunBasis(newest=target.newest_run(), checkpoint=last_checkpoint(ingest)), True


def _overtaken(derivation: ArrayDerivation, error: ConflictError) -> ConflictError:
    return ConflictError(
        f"another pull of {derivation.name} was published meanwhile, or somebody changed "
        f"{derivation.output.array} or the ledger; nothing of this pull is in force: pull again",
        kind=error.kind,
        expected_parent=error.expected_parent,
        actual_parent=error.actual_parent,
    )


def _versions(
    output: Repository, now: Session, basis: RunBasis, *, is_moved: bool
) -> OutputVersions:
    newest = basis.newest
    if newest is None:  # its snapshot has expired, if the branch was not moved
        return OutputVersions(None, now, is_ours=basis.checkpoint is not None and not is_moved)
    return OutputVersions(session_at(output, newest.snapshot_id), now, is_ours=True)


def _compute(session: Session, work: DerivationWork, spark: Spark) -> ComputedChunks:
    """Let a session hold the output as it is to be committed."""
    source = work.computation.pinned.session.store
    put_output(session.store, source, work.computation, work.standing)
    fork = pickle.dumps(session.fork())
    computed = compute_chunks(replace(work.computation, fork=fork), work.chunks, spark)
    put_tables(session, computed.tables)
    return computed


def _output(session: Session, work: DerivationWork, computed: ComputedChunks) -> RunOutput:
    name = work.computation.derivation.name
    message = f"{name}: {len(computed.digests)} chunks of version {work.version.id}"

    def commit(metadata: dict[str, Any]) -> str:
        return session.commit(message, metadata, allow_empty=True)

    return RunOutput(
        rows=rows_of(work, computed),
        state=encode_state(work.state),
        commit=commit,
        rebase=lambda: session.rebase(ConflictDetector()),
    )


def rows_of(work: DerivationWork, computed: ComputedChunks) -> pa.Table:
    """Return the records of a pull: one per chunk, in the order of their indexes."""
    moment = work.version.written_at
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    rows = [
        {
            "event_time": moment,
            "chunk": chunk_name(chunk),
            "digest": digest,
            "input_snapshot": work.version.id,
        }
        for chunk, digest in sorted(computed.digests.items())
    ]
    return pa.Table.from_pylist(rows, schema=CHUNK_SCHEMA)
