"""What a derived array has to do to follow a version of its input."""

from dataclasses import dataclass, replace

import numpy as np

from icestream.errors import NotFoundError
from icestream.ingest.array_derivation.changes import changed_chunks, is_same_array
from icestream.ingest.array_derivation.declarations import ArrayDerivation, encode_derivation
from icestream.ingest.array_derivation.states import DerivationState
from icestream.ledger.blocks.hashes import sha3_256
from icestream.model.chunk_tables import UInt32, dense_index
from icestream.repository.history import SnapshotInfo
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.spark.derived_arrays.computing import Computation
from icestream.spark.derived_arrays.inputs import read_input
from icestream.spark.derived_arrays.outputs import Standing
from icestream.spark.derived_arrays.plans import chunks_of_groups, chunks_of_inputs, distinct
from icestream.spark.derived_arrays.standing import OutputVersions
from icestream.spark.pinned import PinnedRepository


@dataclass(frozen=True, slots=True)
class DerivationWork:
    """What has to be computed, and what is known when that is done."""

    computation: Computation
    version: SnapshotInfo
    """Of the input."""
    chunks: UInt32
    """Of the output."""
    state: DerivationState
    standing: Standing = Standing.NEW
    """What is at the place of the output."""
    is_idle: bool = False
    """The output follows the version already."""


def plan_work(
    derivation: ArrayDerivation,
    source: Repository,
    version: SnapshotInfo,
    last: DerivationState | None,
) -> DerivationWork:
    """Return what has to be computed for a version of the input, after the one that was last."""
    session = source.readonly_session(snapshot_id=version.id)
    array = read_input(session.store, derivation)
    computation = Computation(derivation, PinnedRepository.of(source, session), array)
    state = DerivationState(version.id, array.grouped, declared(derivation))
    chunks = _outdated(computation, source, session, last)
    return DerivationWork(computation, version, chunks, state)


def with_output(
    work: DerivationWork,
    source: Repository,
    last: DerivationState | None,
    versions: OutputVersions,
    *,
    recompute: bool = False,
) -> DerivationWork:
    """Return what has to be computed when it is known what became of the output.

    Args:
        work: What the input asks for.
        source: The repository of the input.
        last: What the last pull knew.
        versions: The output as that pull left it, and as it is.
        recompute: Whether to make it anew in any case.
    """
    computation = work.computation
    standing = versions.standing(computation, last)
    if standing is Standing.KEPT and recompute:
        standing = Standing.LOST
    if last is None or standing is not Standing.KEPT:
        everything = dense_index(computation.num_chunks)
        return replace(work, chunks=everything, standing=standing)
    chunks = distinct(np.concatenate([work.chunks, versions.touched_chunks(computation)]))
    is_idle = (
        not len(chunks)
        and len(last.axis) == len(computation.array.grouped)
        and versions.has_coordinates(session_at(source, last.input_snapshot), computation)
    )
    return replace(work, chunks=chunks, standing=standing, is_idle=is_idle)


def declared(derivation: ArrayDerivation) -> str:
    """Return a digest of a declaration."""
    return str(sha3_256(encode_derivation(derivation)))


def _outdated(
    computation: Computation,
    source: Repository,
    session: Session,
    last: DerivationState | None,
) -> UInt32:
    """Return the output chunks that depend on anything that changed since the last version."""
    array, path = computation.array, computation.derivation.input.array
    num_chunks = computation.num_chunks
    everything = dense_index(num_chunks)
    if last is None or last.declaration != declared(computation.derivation):
        return everything
    before = session_at(source, last.input_snapshot)
    if before is None or not is_same_array(before, session, path, but_for=array.axis):
        return everything
    length = computation.derivation.chunk_length
    regrouped = chunks_of_groups(
        array.grouped.differing(last.axis), num_chunks, axis=array.axis, chunk_length=length
    )
    changed = chunks_of_inputs(
        changed_chunks(before, session, path),
        array.grouped,
        axis=array.axis,
        input_length=array.chunks[array.axis],
        chunk_length=length,
    )
    return distinct(np.concatenate([regrouped, changed]))


def session_at(source: Repository, snapshot_id: str) -> Session | None:
    """Return a session on a version; None if that is gone."""
    try:
        return source.readonly_session(snapshot_id=snapshot_id)
    except NotFoundError:
        return None
