"""Chunks of a derived array, computed one by one: on executors, or in this process."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from pyspark.sql import SparkSession

from icestream.errors import (
    FormatError,
    IcestreamError,
    IntegrityError,
    InvalidInputError,
    StorageError,
)
from icestream.ingest.array_derivation.declarations import ArrayDerivation
from icestream.ledger.blocks.hashes import sha3_256
from icestream.model.chunk_tables import UInt32
from icestream.model.paths import absolute
from icestream.repository.session import ForkSession
from icestream.spark.cells.decoding import Values
from icestream.spark.derived_arrays.inputs import InputArray
from icestream.spark.derived_arrays.reductions import reduced, result_type
from icestream.spark.outcomes import OUTCOME, OUTCOME_SCHEMA, opened_outcome, outcome_of
from icestream.spark.pinned import PinnedRepository
from icestream.spark.task_environments import TaskEnvironment
from icestream.spark.writes.written_tables import ArrayTables, join_tables

_TASKS_PER_CORE = 4
_FEW = 32
"""Chunks that are computed before a Spark would have started."""
_ONCE = "each chunk is computed once"

type Chunk = tuple[int, ...]
type Spark = SparkSession | Callable[[], SparkSession] | None
"""Where chunks are computed: a session, what starts one when it is needed, or this process."""


@dataclass(frozen=True, slots=True)
class ComputedChunks:
    """Some chunks: what they are, and where they were stored."""

    digests: dict[Chunk, str]
    tables: ArrayTables
    """Empty if they were only computed."""


@dataclass(frozen=True, slots=True)
class Computation:
    """How the chunks of one version are computed; what tasks need for it."""

    derivation: ArrayDerivation
    pinned: PinnedRepository
    """The input."""
    array: InputArray
    fork: bytes | None = None
    """Of the session that chunks are stored through, pickled; None computes without storing."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the output."""
        return tuple(
            len(self.array.grouped) if number == self.array.axis else size
            for number, size in enumerate(self.array.shape)
        )

    @property
    def chunks(self) -> tuple[int, ...]:
        """How long the chunks of the output are: but for the grouped dimension as the input's."""
        return tuple(
            self.derivation.chunk_length if number == self.array.axis else length
            for number, length in enumerate(self.array.chunks)
        )

    @property
    def num_chunks(self) -> tuple[int, ...]:
        """Of the output, per dimension."""
        return tuple(
            -(-size // length) for size, length in zip(self.shape, self.chunks, strict=True)
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the output."""
        return result_type(self.derivation.function, self.array.dtype)

    def box(self, chunk: Chunk) -> tuple[slice, ...]:
        """Return the cells of an output chunk."""
        return tuple(
            slice(index * length, min((index + 1) * length, size))
            for index, length, size in zip(chunk, self.chunks, self.shape, strict=True)
        )

    def compute(self, chunk: Chunk) -> Values:
        """Return the values of an output chunk; of the input one group is held at a time."""
        box, axis = self.box(chunk), self.array.axis
        block = np.empty([part.stop - part.start for part in box], self.dtype)
        rows = np.moveaxis(block, axis, 0)
        store = self.pinned.session.store
        starts = self.array.grouped.starts
        for row, group in enumerate(range(box[axis].start, box[axis].stop)):
            span = slice(int(starts[group]), int(starts[group + 1]))
            values = self.array.read(store, (*box[:axis], span, *box[axis + 1 :]))
            rows[row] = self._reduced(chunk, values)
        return block

    def _reduced(self, chunk: Chunk, values: Values) -> Values:
        try:
            return reduced(self.derivation.function, values, self.array.axis)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"chunk {chunk_name(chunk)}: {error.message}", kind=error.kind
            ) from (error.__cause__ or error)

    def compute_all(self, chunks: Iterable[Chunk]) -> ComputedChunks:
        """Compute chunks, and store them if that is asked for."""
        fork = None if self.fork is None else _fork(self.fork)
        path = absolute(self.derivation.output.array)
        array = None
        if fork is not None:
            array = zarr.open_array(fork.store, path=path.strip("/"), mode="r+", zarr_format=3)
        digests = {}
        for chunk in chunks:
            block = self.compute(chunk)
            digests[chunk] = digest_of(block)
            if array is not None:
                array[self.box(chunk)] = block
        return ComputedChunks(digests, {} if fork is None else _stored(fork, path))

    def outcomes(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compute the chunks of a task, which come as lists of their indexes."""
        chunks = [tuple(row) for batch in batches for row in batch.column(0).to_pylist()]
        yield outcome_of(lambda: self._finally_computed(chunks))

    def _finally_computed(self, chunks: Iterable[Chunk]) -> ComputedChunks | IcestreamError:
        """Compute chunks, or return why another try would not help either."""
        try:
            return self.compute_all(chunks)
        except (FormatError, IntegrityError) as error:
            return error
        except StorageError as error:
            if error.retryable:
                raise
            return error


def compute_chunks(computation: Computation, chunks: UInt32, spark: Spark) -> ComputedChunks:
    """Compute chunks: in parallel on executors, or here if there is no Spark.

    Raises:
        IcestreamError: One cannot be computed; nothing refers to those that were stored.
    """
    wanted: list[Chunk] = [tuple(row) for row in chunks.tolist()]
    if spark is None or not wanted:
        return computation.compute_all(wanted)
    if not isinstance(spark, SparkSession):
        if len(wanted) <= _FEW:
            return computation.compute_all(wanted)
        spark = spark()
    tasks = min(len(wanted), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    rows = pa.table({"chunk": pa.array(wanted, pa.list_(pa.int64()))})
    frame = spark.createDataFrame(rows).repartition(tasks)
    work = TaskEnvironment.of_driver().around(computation.outcomes)
    found = frame.mapInArrow(work, OUTCOME_SCHEMA).collect()
    return _joined([opened_outcome(row[OUTCOME]) for row in found])


def chunk_name(chunk: Chunk) -> str:
    """Return the index of a chunk with slashes between, as records have it."""
    return "/".join(map(str, chunk))


def digest_of(block: Values) -> str:
    """Return a digest of values: of their type, shape and bytes, wherever they are computed."""
    plain = np.ascontiguousarray(block, block.dtype.newbyteorder("<"))
    head = f"{plain.dtype.str}{plain.shape}".encode()
    return str(sha3_256(head + plain.tobytes()))


def _joined(parts: Sequence[ComputedChunks]) -> ComputedChunks:
    digests = {chunk: digest for part in parts for chunk, digest in part.digests.items()}
    return ComputedChunks(digests, join_tables([part.tables for part in parts], remedy=_ONCE))


def _fork(pickled: bytes) -> ForkSession:

    found: ForkSession = pickle.loads(pickled)  # noqa: S301  from our own driver
    return found


def _stored(fork: ForkSession, path: str) -> ArrayTables:
    copy = fork._copy  # noqa: SLF001  its changes go to the driver as tables, smaller than forks
    return {path: copy.changes.edits_of(copy.get_array(path)).table()}
