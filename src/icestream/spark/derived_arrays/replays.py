"""Checks a derived array against its ledger: every pull is computed again, and compared.

A pull is replayed with the declaration that was in force, on the version of the input that it
used. It must have computed all chunks that the input asked for, and the digests of all that it
computed must be the same: it may have made others anew which somebody had changed. At the end
the chunks in the repository are compared with the last digest that was recorded for each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zarr

from icestream.errors import AccessError, IcestreamError, NotFoundError
from icestream.ingest.array_derivation.declarations import ArrayDerivation, decode_derivation
from icestream.ingest.array_derivation.ledger_side import derivation_of
from icestream.ingest.array_derivation.states import DerivationState, decode_state
from icestream.ingest.publishing.checkpoints import checkpoint_of
from icestream.ledger.blocks.events import ExecuteTransform, SetTransform
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.layout import block_key
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.chain.verification import Problem
from icestream.ledger.dataset import Dataset
from icestream.repository.history import SnapshotInfo
from icestream.repository.repository import Repository
from icestream.spark.derived_arrays.computing import (
    Chunk,
    Computation,
    Spark,
    chunk_name,
    compute_chunks,
    digest_of,
)
from icestream.spark.derived_arrays.outputs import find_output
from icestream.spark.derived_arrays.places import ArrayPlaces
from icestream.spark.derived_arrays.work import plan_work, session_at

_RULE = "chunks-are-what-replays-compute"
_NOT_REPLAYED = "transaction-is-reproducible"
_REMEDY = (
    "a pull computes again what others have changed in the repository, and a pull with --recompute "
    "everything"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFault:
    """Something that is not as a block of the ledger says."""

    block: str
    """The hash of the block."""
    sequence_number: int
    chunk: str | None = None
    reason: str
    rule: str = _RULE


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """What a replay found."""

    num_blocks: int
    """How many pulls were computed again."""
    num_chunks: int
    faults: tuple[ReplayFault, ...] = ()
    skipped: tuple[ReplayFault, ...] = ()
    """Pulls that cannot be replayed, because the version of their input has expired."""

    @property
    def is_valid(self) -> bool:
        """Whether everything is as the ledger says."""
        return not self.faults

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The faults among others that the verification of a dataset finds."""
        return tuple(_problem(fault) for fault in self.faults)


def verify_derived_array(
    dataset: Dataset, spark: Spark, *, places: ArrayPlaces | None = None
) -> ReplayReport:
    """Compute every pull of a derived array again, and compare with what the ledger says.

    Args:
        dataset: Of the derived array.
        spark: Where chunks are computed: a session, what starts one when it is needed, or None for
            this process.
        places: How the repositories are reached, if not by their addresses alone.

    Pulls whose input cannot be read any more, because files of virtual chunks have changed, are
    faults of their blocks; the others are replayed all the same.

    Raises:
        InvalidInputError: The dataset is not one of a derived array.
        NotFoundError: The input is not there.
        AccessError: There is no consent to read virtual chunks of the input.
    """
    derivation = derivation_of(dataset)
    places = places or ArrayPlaces()
    replay = _Replay(dataset, spark, places.open_input(derivation))
    replay.run()
    replay.check_stored(derivation, places)
    return ReplayReport(
        num_blocks=replay.num_blocks,
        num_chunks=replay.num_chunks,
        faults=tuple(replay.faults),
        skipped=tuple(replay.skipped),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Pull:
    """What the ledger says of a pull."""

    block: StoredBlock
    derivation: ArrayDerivation
    """In force then."""
    last: DerivationState | None
    """After the pull before."""
    state: DerivationState
    recorded: Mapping[Chunk, str]
    """The digests of the chunks that it computed."""


@dataclass
class _Replay:
    """A walk along the chain, oldest block first."""

    dataset: Dataset
    spark: Spark
    source: Repository
    num_blocks: int = 0
    num_chunks: int = 0
    faults: list[ReplayFault] = field(default_factory=list)
    skipped: list[ReplayFault] = field(default_factory=list)
    last_pull: StoredBlock | None = None
    newest: dict[Chunk, tuple[StoredBlock, str]] = field(default_factory=dict)
    """The last digest of each chunk, and the block that has it."""
    computation: Computation | None = None
    """Of the last pull."""

    def run(self) -> None:
        """Replay all pulls."""
        derivation: ArrayDerivation | None = None
        last: DerivationState | None = None
        records = self.dataset.to_arrow()
        for block in reversed(list(self.dataset.blocks())):
            event = block.event
            if isinstance(event, SetTransform):
                derivation = _declared(event)
            elif isinstance(event, ExecuteTransform) and derivation is not None:
                checkpoint = checkpoint_of(self.dataset, event)
                if checkpoint is None:
                    continue
                state = decode_state(checkpoint.state)
                recorded = _recorded(records, event)
                self._replay(_Pull(block, derivation, last, state, recorded))
                last = state

    def _replay(self, pull: _Pull) -> None:
        block = pull.block
        self.last_pull, self.computation = block, None
        self.newest |= {chunk: (block, digest) for chunk, digest in pull.recorded.items()}
        try:
            version = self.source.lookup_snapshot(pull.state.input_snapshot)
        except NotFoundError as error:
            self.skipped.append(_fault(block, None, f"cannot be replayed: {error.message}"))
            return
        try:
            self._replay_on(version, pull)
        except AccessError:  # whoever verifies has to give consent
            raise
        except IcestreamError as error:
            reason = f"cannot be replayed: {error.message}"
            self.faults.append(_fault(block, None, reason, rule=_NOT_REPLAYED))

    def _replay_on(self, version: SnapshotInfo, pull: _Pull) -> None:
        recorded, last = pull.recorded, pull.last
        work = plan_work(pull.derivation, self.source, version, last)
        self.computation = work.computation
        again = compute_chunks(work.computation, _index(recorded, work.chunks), self.spark)
        self.num_blocks += 1
        self.num_chunks += len(again.digests)
        if last is None or session_at(self.source, last.input_snapshot) is not None:
            planned = {tuple(row) for row in work.chunks.tolist()}
            for chunk in sorted(planned - set(recorded)):
                reason = "had to be computed, and is not recorded"
                self.faults.append(_fault(pull.block, chunk, reason))
        for chunk, digest in recorded.items():
            found = again.digests[chunk]
            if found != digest:
                reason = f"has the digest {digest}, and computed again it has {found}"
                self.faults.append(_fault(pull.block, chunk, reason))

    def check_stored(self, derivation: ArrayDerivation, places: ArrayPlaces) -> None:
        """Compare the chunks in the repository with the last digest of each."""
        if self.last_pull is None:
            return
        try:
            output = places.open_output(derivation, create=False)
            store = output.readonly_session(derivation.output.branch).store
            array = find_output(store, derivation)
        except NotFoundError as error:
            self._miss_output(f"the output is gone: {error.message}")
            return
        if array is None:
            self._miss_output(f"there is no array {derivation.output.array} any more")
            return
        expected, form = self.computation, (array.shape, array.chunks)
        if expected is not None and form != (expected.shape, expected.chunks):
            self._miss_output(
                f"{derivation.output.array} has the shape {array.shape} in chunks of "
                f"{array.chunks}, not {expected.shape} in chunks of {expected.chunks}"
            )
            return
        self._compare_stored(array)

    def _compare_stored(self, array: "zarr.Array[Any]") -> None:
        num_chunks = array.cdata_shape
        for chunk, (block, digest) in sorted(self.newest.items()):
            if not _is_inside(chunk, num_chunks):
                continue  # the array has become shorter
            try:
                found = digest_of(np.asarray(array.get_block_selection(chunk)))
            except IcestreamError as error:
                found = f"nothing that can be read ({error.message})"
            if found != digest:
                reason = f"has the digest {digest}, and in the repository it has {found}; {_REMEDY}"
                self.faults.append(_fault(block, chunk, reason))

    def _miss_output(self, reason: str) -> None:
        if self.last_pull is not None:
            self.faults.append(_fault(self.last_pull, None, f"{reason}; {_REMEDY}"))


def _declared(event: SetTransform) -> ArrayDerivation | None:
    queries = event.transform.queries
    return decode_derivation(queries[-1].query.encode()) if queries else None


def _recorded(records: pa.Table, event: ExecuteTransform) -> dict[Chunk, str]:
    if event.new_data is None:
        return {}
    interval = event.new_data.offset_interval
    inside = pc.and_(
        pc.greater_equal(records["offset"], interval.start),
        pc.less_equal(records["offset"], interval.end),
    )
    rows = records.filter(inside)
    return dict(zip(_chunks(rows), rows["digest"].to_pylist(), strict=True))


def _chunks(rows: pa.Table) -> Iterator[Chunk]:
    for text in rows["chunk"].to_pylist():
        yield tuple(int(part) for part in text.split("/"))


def _index(recorded: Mapping[Chunk, str], like: Any) -> Any:
    rank = like.shape[1]
    return np.array(sorted(recorded), np.uint32).reshape(len(recorded), rank)


def _is_inside(chunk: Chunk, num_chunks: tuple[int, ...]) -> bool:
    return len(chunk) == len(num_chunks) and all(
        index < count for index, count in zip(chunk, num_chunks, strict=True)
    )


def _problem(fault: ReplayFault) -> Problem:
    key = block_key(Multihash.parse(fault.block))
    subject = "" if fault.chunk is None else f"chunk {fault.chunk} "
    return Problem(
        object_key=key,
        rule=fault.rule,
        message=f"{key}: {subject}{fault.reason}",
        sequence_number=fault.sequence_number,
    )


def _fault(
    block: StoredBlock, chunk: Chunk | None, reason: str, *, rule: str = _RULE
) -> ReplayFault:
    return ReplayFault(
        block=str(block.block_hash),
        sequence_number=block.sequence_number,
        chunk=None if chunk is None else chunk_name(chunk),
        reason=reason,
        rule=rule,
    )
