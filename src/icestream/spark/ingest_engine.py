"""The work of an archive's run on Spark: executors scan files and write manifests.

What moves between stages are blobs of references, one row each; no reference becomes a row, and
none reaches the driver, which sees facts of files and records of manifests. Functions and what
they need, credentials among it, travel pickled with the tasks: neither the Spark UI nor the logs
show them.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import batched, groupby
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from icestream.errors import IcestreamError
from icestream.ingest.engines.protocol import (
    Destinations,
    ScannedReferences,
    ScanResult,
    WriteJob,
    merged_scans,
)
from icestream.ingest.engines.routing import RoutedBlob, route
from icestream.ingest.engines.scanning import (
    FILES_PER_BATCH,
    FileToScan,
    ReferenceBlob,
    ScanJob,
    scan_batch,
)
from icestream.ingest.progress import Progress
from icestream.model.chunk_tables import ChunkTable
from icestream.repository.staged.cells import WrittenCell
from icestream.repository.staged.writing import write_cell
from icestream.spark.job_failures import translated_failures
from icestream.spark.task_environments import TaskEnvironment
from icestream.spark.watched_jobs import Tally, watched

type Batches = Iterator[pa.RecordBatch]

_FACTS, _REFERENCES, _ERROR = range(3)
_SCANNED = pa.schema(
    {
        "kind": pa.int8(),
        "path": pa.string(),
        "ordinal": pa.int32(),
        "ordinals": pa.binary(),
        "extents": pa.list_(pa.int64()),
        "num_references": pa.int64(),
        "payload": pa.binary(),
    }
)
_SCANNED_SQL = (
    "kind tinyint, path string, ordinal int, ordinals binary, extents array<bigint>, "
    "num_references bigint, payload binary"
)
_ROUTED = pa.schema(
    {
        "task": pa.int32(),
        "payload": pa.binary(),
        "shift": pa.list_(pa.int64()),
        "num_new": pa.int32(),
    }
)
_ROUTED_SQL = "task int, payload binary, shift array<bigint>, num_new int"
_ANSWER = pa.schema({"is_error": pa.bool_(), "payload": pa.binary()})
_ANSWER_SQL = "is_error boolean, payload binary"

_SETTINGS = {
    # rows are blobs of megabytes: what is kept of a scan must not be put together by the thousand
    "spark.sql.inMemoryColumnarStorage.batchSize": "8",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_PARTITIONS_PER_CORE = 4
"""So that one slow file, or one large cell, does not keep all other cores waiting."""
_UNITS_PER_PARTITION = 8
"""Batches of files or cells that are lost with an executor."""
_ROWS_PER_BATCH = 64


@dataclass(frozen=True, slots=True, eq=False)
class _ScannedFrame:
    """References of a scan, kept by the executors."""

    frame: DataFrame

    def close(self) -> None:
        self.frame.unpersist()


class SparkEngine:
    """Does the work of runs on the executors of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark.newSession()  # on the same Spark, and what is set here is ours alone
        for name, value in _SETTINGS.items():
            self._spark.conf.set(name, value)
        self._environment = TaskEnvironment.of_driver()

    def __repr__(self) -> str:
        return f"SparkEngine({self._spark.sparkContext.master})"

    def scan(
        self, urls: Sequence[str], job: ScanJob, progress: Progress, *, first_ordinal: int = 0
    ) -> ScanResult:
        """Scan files; the ordinal of each is its position, counted from `first_ordinal`."""
        partitions = self._partitions(-(-len(urls) // FILES_PER_BATCH), at_least=len(urls))
        tally = Tally.of(self._spark.sparkContext)
        scanned = (
            self._spark.createDataFrame(_file_rows(urls, partitions, first_ordinal))
            .repartitionById(partitions, sf.col("partition"))
            # rows arrive in any order, and the first files are asked where all have to agree
            .sortWithinPartitions("ordinal")
            .mapInArrow(self._task(_scan_partition, job, tally), _SCANNED_SQL)
            .persist(StorageLevel.DISK_ONLY)
        )
        with watched(self._spark.sparkContext, f"scan {len(urls)} files", tally, progress):
            found = _collect(scanned.where(sf.col("kind") != _REFERENCES).select("kind", "payload"))
        batches = [
            _loaded(payload, is_error=kind == _ERROR)
            for kind, payload in zip(*found.to_pydict().values(), strict=True)
        ]
        return merged_scans(batches, _ScannedFrame(scanned))

    def collect(
        self, references: Iterable[ScannedReferences], destinations: Destinations
    ) -> list[tuple[int, ChunkTable]]:
        """Return references at their places, by the number of their task: for few of them."""
        routed = self._routed(references, destinations)
        if routed is None:
            return []
        return [(blob.task, blob.table()) for blob in _routed_rows(_collect(routed).to_batches())]

    def write_cells(
        self,
        references: Iterable[ScannedReferences],
        job: WriteJob,
        extra: Sequence[RoutedBlob],
        progress: Progress,
    ) -> list[WrittenCell]:
        """Write the manifest of every task, with references of scans and some that are at hand."""
        if not job.tasks:
            return []
        # a task that gets no references has rows of old manifests to move, or to leave out
        announced = [RoutedBlob(task, b"") for task in range(len(job.tasks))]
        at_hand = pa.Table.from_batches([_routed_batch([*announced, *extra])])
        rows = self._spark.createDataFrame(at_hand)
        routed = self._routed(references, job.destinations)
        if routed is not None:
            rows = rows.unionByName(routed)
        partitions = self._partitions(len(job.tasks))
        tally = Tally.of(self._spark.sparkContext)
        written = (
            rows.repartitionById(partitions, (sf.col("task") % partitions).cast("int"))
            .sortWithinPartitions("task")
            .mapInArrow(self._task(_write_partition, job, tally), _ANSWER_SQL)
        )
        what = f"write {len(job.tasks)} manifests"
        with watched(self._spark.sparkContext, what, tally, progress):
            found = _collect(written)
        return [
            _loaded(payload, is_error=is_error)
            for is_error, payload in zip(*found.to_pydict().values(), strict=True)
        ]

    def map[T, R](self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply a function to items, each in a task of its own."""
        if not items:
            return []
        given = {
            "number": pa.array(range(len(items)), pa.int32()),
            "payload": pa.array(list(map(cloudpickle.dumps, items)), pa.binary()),
        }
        # as a query, because processes that ran queries before are warm
        answers = _collect(
            self._spark.createDataFrame(pa.table(given))
            .repartitionById(len(items), sf.col("number"))
            .mapInArrow(self._task(_map_partition, work), f"number int, {_ANSWER_SQL}")
        )
        columns = answers.sort_by("number").select(_ANSWER.names).to_pydict().values()
        return [
            _loaded(payload, is_error=is_error) for is_error, payload in zip(*columns, strict=True)
        ]

    def _task(self, work: Callable[..., Any], *given: Any) -> Callable[[Any], Any]:
        """Return what a task does with the rows that it gets."""
        return self._environment.around(partial(work, *given))

    def _partitions(self, units: int, at_least: int = 0) -> int:
        cores = self._spark.sparkContext.defaultParallelism
        spread = min(max(units, at_least), cores * _PARTITIONS_PER_CORE)
        return max(1, spread, -(-units // _UNITS_PER_PARTITION))

    def _routed(
        self, references: Iterable[ScannedReferences], destinations: Destinations
    ) -> DataFrame | None:
        """Return what tasks get of some scans; None if they get nothing."""
        frames = [kept.frame for kept in references if isinstance(kept, _ScannedFrame)]
        if not frames or not destinations:
            return None
        blobs = reduce(DataFrame.unionByName, frames)
        blobs = blobs.where((sf.col("kind") == _REFERENCES) & sf.col("path").isin([*destinations]))
        return blobs.mapInArrow(partial(_route_partition, destinations), _ROUTED_SQL)


# -- on executors ----------------------------------------------------------------------------------


def _scan_partition(job: ScanJob, tally: Tally, batches: Batches) -> Batches:
    files = (
        FileToScan(ordinal, url)
        for batch in batches
        for ordinal, url in zip(
            batch.column("ordinal").to_pylist(), batch.column("url").to_pylist(), strict=True
        )
    )
    for some in batched(files, FILES_PER_BATCH, strict=False):
        try:
            scanned = scan_batch(some, job)
        except IcestreamError as error:
            yield _scanned_batch([_told(_ERROR, error)])
            return
        num_references = sum(blob.num_references for blob in scanned.blobs)
        tally.add(len(some), references=num_references, set_aside=len(scanned.failures))
        yield _scanned_batch([_told(_FACTS, (scanned.files, scanned.failures))])
        for blobs in batched(scanned.blobs, _ROWS_PER_BATCH, strict=False):
            yield _scanned_batch([_blob_row(blob) for blob in blobs])


def _route_partition(destinations: Destinations, batches: Batches) -> Batches:
    for batch in batches:
        for blob in _blobs(batch):
            for routed in batched(
                route(blob, destinations[blob.path]), _ROWS_PER_BATCH, strict=False
            ):
                yield _routed_batch(routed)


def _write_partition(job: WriteJob, tally: Tally, batches: Batches) -> Batches:
    """Write cell after cell: rows are sorted by task, and only those of one are in memory."""
    for task, blobs in groupby(_routed_rows(batches), attrgetter("task")):
        additions = [blob.table() for blob in blobs if blob.payload]
        is_error, payload = _attempt(
            partial(write_cell, job.assets, job.tasks[task], spec=job.spec), additions
        )
        tally.add(references=sum(map(len, additions)))
        yield pa.record_batch([[is_error], [payload]], schema=_ANSWER)


def _map_partition(work: Callable[[Any], Any], batches: Batches) -> Batches:
    for batch in batches:
        for number, item in zip(*batch.to_pydict().values(), strict=True):
            is_error, payload = _attempt(work, _loaded(item))
            yield pa.record_batch(
                [pa.array([number], pa.int32()), pa.array([is_error]), pa.array([payload])],
                names=["number", *_ANSWER.names],
            )


def _attempt(work: Callable[[Any], Any], item: Any) -> tuple[bool, bytes]:
    """Return what comes out, or what goes wrong, as a value: Spark would tell it as a text."""
    try:
        return False, pickle.dumps(work(item))
    except IcestreamError as error:
        return True, pickle.dumps(error)


# -- rows ------------------------------------------------------------------------------------------


def _file_rows(urls: Sequence[str], partitions: int, first_ordinal: int) -> pa.Table:
    """Return one row per file; neighbours are in one partition, they often share a manifest."""
    number = np.arange(len(urls), dtype=np.int64)
    return pa.table(
        {
            "partition": (number * partitions // max(len(urls), 1)).astype(np.int32),
            "ordinal": (number + first_ordinal).astype(np.int32),
            "url": pa.array(urls, pa.string()),
        }
    )


def _told(kind: int, value: Any) -> dict[str, Any]:
    return {"kind": kind, "payload": pickle.dumps(value)}


def _blob_row(blob: ReferenceBlob) -> dict[str, Any]:
    return {
        "kind": _REFERENCES,
        "path": blob.path,
        "ordinal": blob.ordinal,
        "ordinals": blob.ordinals,
        "extents": blob.extents,
        "num_references": blob.num_references,
        "payload": blob.payload,
    }


def _scanned_batch(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, _SCANNED)


def _blobs(batch: pa.RecordBatch) -> Iterator[ReferenceBlob]:
    for row in range(len(batch)):
        yield ReferenceBlob(
            batch.column("path")[row].as_py(),
            batch.column("ordinal")[row].as_py(),
            batch.column("ordinals")[row].as_py(),
            tuple(batch.column("extents")[row].as_py()),
            batch.column("num_references")[row].as_py(),
            batch.column("payload")[row].as_py(),
        )


def _routed_batch(blobs: Sequence[RoutedBlob]) -> pa.RecordBatch:
    columns = [
        [blob.task for blob in blobs],
        [blob.payload for blob in blobs],
        [blob.shift for blob in blobs],
        [blob.num_new for blob in blobs],
    ]
    return pa.record_batch(columns, schema=_ROUTED)


def _routed_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[RoutedBlob]:
    for batch in batches:
        columns = [batch.column(name) for name in _ROUTED.names]
        for row in range(len(batch)):
            task, payload, shift, num_new = (column[row].as_py() for column in columns)
            yield RoutedBlob(task, payload, tuple(shift), num_new)


def _collect(frame: DataFrame) -> pa.Table:
    """Run a job and return its few rows.

    Raises:
        InternalError: A task failed for a reason that is no error of this package.
    """
    with translated_failures():
        table: pa.Table = frame.toArrow()
    return table


def _loaded(payload: bytes, *, is_error: bool = False) -> Any:
    value = pickle.loads(payload)  # noqa: S301  the driver or an executor of ours made it
    if is_error:
        raise value
    return value
