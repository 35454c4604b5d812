"""Checks a derived array against its ledger: every pull is computed again, and compared.

A pull is replayed with the declaration that was in force, on the version of the input that it
used. Which chunks it had to compute must be the same, and so must their digests. At the end the
chunks in the repository are compared with the last digest that was recorded for each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zarr

from icestream.errors import NotFoundError
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
from icestream.repository.repository import Repository
from icestream.spark.derived_arrays.computing import (
    Chunk,
    Computation,
    Spark,
    compute_chunks,
    digest_of,
)
from icestream.spark.derived_arrays.places import ArrayPlaces
from icestream.spark.derived_arrays.work import plan_work, session_at

_RULE = "chunks-are-what-replays-compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFault:
    """Something that is not as a block of the ledger says."""

    block: str
    """The hash of the block."""
    sequence_number: int
    chunk: str | None = None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """What a replay found."""

    num_blocks: int
    """How many pulls were computed again."""
    num_chunks: int
    faults: tuple[ReplayFault, ...] = ()
    skipped: tuple[ReplayFault, ...] = ()
    """Pulls that cannot be replayed, because the version of their input is gone."""

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

    Raises:
        InvalidInputError: The dataset is not one of a derived array.
        NotFoundError: The input is not there.
    """
    derivation = derivation_of(dataset)
    places = places or ArrayPlaces()
    replay = _Replay(dataset, spark, places.open_input(derivation))
    replay.run()
    replay.check_stored(places.open_output(derivation))
    return ReplayReport(
        num_blocks=replay.num_blocks,
        num_chunks=replay.num_chunks,
        faults=tuple(replay.faults),
        skipped=tuple(replay.skipped),
    )


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
                self._replay(block, derivation, (last, state), _recorded(records, event))
                last = state

    def _replay(
        self,
        block: StoredBlock,
        derivation: ArrayDerivation,
        states: tuple[DerivationState | None, DerivationState],
        recorded: Mapping[Chunk, str],
    ) -> None:
        last, state = states
        self.newest |= {chunk: (block, digest) for chunk, digest in recorded.items()}
        try:
            version = self.source.lookup_snapshot(state.input_snapshot)
            work = plan_work(derivation, self.source, version, last)
        except NotFoundError as error:
            self.skipped.append(_fault(block, None, f"cannot be replayed: {error.message}"))
            self.computation = None
            return
        self.num_blocks += 1
        self.computation = work.computation
        if last is None or session_at(self.source, last.input_snapshot) is not None:
            planned = {tuple(row) for row in work.chunks.tolist()}
            self._compare_sets(block, planned, set(recorded))
        again = compute_chunks(work.computation, _index(recorded, work.chunks), self.spark)
        self.num_chunks += len(again.digests)
        for chunk, digest in recorded.items():
            if again.digests[chunk] != digest:
                reason = (
                    f"has the digest {digest}, and computed again it has {again.digests[chunk]}"
                )
                self.faults.append(_fault(block, chunk, reason))

    def _compare_sets(self, block: StoredBlock, planned: set[Chunk], recorded: set[Chunk]) -> None:
        for chunk in sorted(planned - recorded):
            self.faults.append(_fault(block, chunk, "had to be computed, and is not recorded"))
        for chunk in sorted(recorded - planned):
            self.faults.append(_fault(block, chunk, "is recorded, and did not have to be computed"))

    def check_stored(self, output: Repository) -> None:
        """Compare the chunks in the repository with the last digest of each."""
        if self.computation is None:
            return
        place = self.computation.derivation.output
        store = output.readonly_session(place.branch).store
        array = zarr.open_array(store, path=place.array.strip("/"), mode="r", zarr_format=3)
        for chunk, (block, digest) in sorted(self.newest.items()):
            if not _is_inside(chunk, self.computation.num_chunks):
                continue  # the array has become shorter
            found = digest_of(np.asarray(array[self.computation.box(chunk)]))
            if found != digest:
                reason = f"has the digest {digest}, and in the repository it has {found}"
                self.faults.append(_fault(block, chunk, reason))


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
    return all(index < count for index, count in zip(chunk, num_chunks, strict=True))


def _problem(fault: ReplayFault) -> Problem:
    key = block_key(Multihash.parse(fault.block))
    return Problem(
        object_key=key,
        rule=_RULE,
        message=f"{key}: chunk {fault.chunk} {fault.reason}",
        sequence_number=fault.sequence_number,
    )


def _fault(block: StoredBlock, chunk: Chunk | None, reason: str) -> ReplayFault:
    return ReplayFault(
        block=str(block.block_hash),
        sequence_number=block.sequence_number,
        chunk=None if chunk is None else "/".join(map(str, chunk)),
        reason=reason,
    )
