"""References of a DataFrame, written by executors: manifests for many, tables for few.

Tasks check rows and keep them as one table per array. The driver sees the boxes that these cover,
and plans the cells of large arrays; the parts of tables go to the tasks that write those cells.
What arrays get in small numbers, or share manifests for, goes through the session.
"""

import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody writes it

from icestream.assets.assets import Assets
from icestream.errors import AccessError, IcestreamError, InvalidInputError, NotFoundError
from icestream.ingest.engines.routing import Destination, RoutedBlob, cut_for
from icestream.model.chunk_tables import ChunkTable
from icestream.model.nodes import Extents
from icestream.repository.session import Session
from icestream.repository.staged.cells import CellPlan, CellTask, WrittenCell
from icestream.repository.staged.writing import write_cell
from icestream.spark.outcomes import OUTCOME, OUTCOME_SCHEMA, opened_outcome, outcome_of
from icestream.spark.task_environments import TaskEnvironment
from icestream.spark.writes.references import ReferenceWriting
from icestream.spark.writes.staged_references import (
    ReferenceBoxes,
    has_own_manifests,
    plan_array,
    publish_cells,
)
from icestream.spark.writes.targets import CommitWords
from icestream.spark.writes.written_tables import ArrayTables, join_tables, put_tables

LARGE_ARRAY = 200_000
"""References from which on an array is not put together by the driver."""

_TABLED = "path string, extents array<bigint>, num_references bigint, payload binary"
_ROUTED = "task int, payload binary"
_PARTITIONS_PER_CORE = 4

_AT_HOME, _ALL = np.zeros((1, 0), np.int64), np.ones(1, np.bool_)
"""Rows name chunks of the array itself."""

type Batches = Iterator[pa.RecordBatch]


def write_reference_rows(
    df: DataFrame, writing: ReferenceWriting, words: CommitWords, *, large: int = LARGE_ARRAY
) -> str | None:
    """Write all rows in one commit; return the snapshot id, None if there are no rows.

    Args:
        df: The rows.
        writing: Where to, and how they are checked.
        words: Of the commit. Large arrays are never rebased.
        large: From how many references on executors write the manifests of an array.
    """
    environment = TaskEnvironment.of_driver()
    with _kept(df.mapInArrow(environment.around(_Tabling(writing).tabled), _TABLED)) as tabled:
        boxes = _boxes(tabled)
        session = writing.target.session()
        staged = [path for path, found in boxes.items() if _is_large(session, path, found, large)]
        few = tabled.where(~F.col("path").isin(staged)).select("payload").collect()
        tables = join_tables([pickle.loads(row.payload) for row in few], remedy=writing.remedy)  # noqa: S301  from our own task
        if not staged:
            return writing.target.commit(tables, words)
        plans = [plan_array(session, path, boxes[path]) for path in staged]
        cells = _write_cells(tabled, session, plans)
        put_tables(session, tables)
        return publish_cells(session, plans, cells, words)


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Let executors keep rows that are needed twice."""
    kept = frame.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist()


def _boxes(tabled: DataFrame) -> Mapping[str, ReferenceBoxes]:
    """Return which boxes of which arrays get references.

    Raises:
        IcestreamError: A task found rows that are none.
    """
    for row in tabled.where(F.col("path").isNull()).select("payload").collect():
        raise pickle.loads(row.payload)  # noqa: S301  from our own task
    facts = tabled.select("path", "extents", "num_references").collect()
    by_path: defaultdict[str, list[tuple[Extents, int]]] = defaultdict(list)
    for row in facts:
        spans = tuple(zip(row.extents[::2], row.extents[1::2], strict=True))
        by_path[row.path].append((spans, row.num_references))
    return {
        path: ReferenceBoxes([extents for extents, _ in found], sum(count for _, count in found))
        for path, found in by_path.items()
    }


def _is_large(session: Session, path: str, boxes: ReferenceBoxes, large: int) -> bool:
    """Tell whether an array gets manifests of its own: it gets many, and no rule packs it."""
    count = boxes.num_references
    return count >= large and has_own_manifests(session, path, count)


def _write_cells(
    tabled: DataFrame, session: Session, plans: Sequence[CellPlan]
) -> list[WrittenCell]:
    """Let executors write the manifests of all cells."""
    tasks = tuple(task for plan in plans for task in plan.tasks)
    context = session._copy.context  # noqa: SLF001  as above
    writing = _CellWriting(context.assets, context.timeline.spec, tasks, _destinations(plans))
    spark = tabled.sparkSession
    # also cells that get nothing new may have to be written: their manifests held others too
    announced = spark.createDataFrame([(n, b"") for n in range(len(tasks))], _ROUTED)
    paths = [plan.path for plan in plans]
    routed = tabled.where(F.col("path").isin(paths)).mapInArrow(writing.routed, _ROUTED)
    partitions = min(len(tasks), _PARTITIONS_PER_CORE * spark.sparkContext.defaultParallelism)
    written = (
        announced.unionByName(routed)
        .repartition(partitions, "task")
        .sortWithinPartitions("task")
        .mapInArrow(TaskEnvironment.of_driver().around(writing.written), OUTCOME_SCHEMA)
    )
    return [opened_outcome(row[OUTCOME]) for row in written.collect()]


def _destinations(plans: Sequence[CellPlan]) -> Mapping[str, Destination]:
    """Return which task writes which cell; tasks are numbered through all plans."""
    found, first = {}, 0
    for plan in plans:
        numbers = {task.cell: first + number for number, task in enumerate(plan.tasks)}
        first += len(numbers)
        found[plan.path] = Destination(_AT_HOME, _ALL, cell_sizes=plan.cell_sizes, tasks=numbers)
    return found


# -- on executors ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Tabling:
    writing: ReferenceWriting

    def tabled(self, batches: Batches) -> Batches:
        """Make tables of the rows of a task, one row for each array; or tell what is wrong."""
        try:
            tables = self.writing.write(batches)
        except (AccessError, InvalidInputError, NotFoundError) as error:
            yield _tabled_row(None, None, error)
            return
        for path, table in tables.items():
            yield _tabled_row(path, table, {path: table})


def _tabled_row(
    path: str | None, table: ChunkTable | None, payload: ArrayTables | IcestreamError
) -> pa.RecordBatch:
    extents = None if table is None else [edge for span in table.extents for edge in span]
    return pa.record_batch(
        {
            "path": pa.array([path], pa.string()),
            "extents": pa.array([extents], pa.list_(pa.int64())),
            "num_references": pa.array([0 if table is None else len(table)], pa.int64()),
            "payload": pa.array([pickle.dumps(payload)], pa.binary()),
        }
    )


@dataclass(frozen=True, slots=True)
class _CellWriting:
    assets: Assets
    spec: int
    tasks: tuple[CellTask, ...]
    destinations: Mapping[str, Destination]

    def routed(self, batches: Batches) -> Batches:
        """Cut tables for the cells that they have references of."""
        payloads = (payload for batch in batches for payload in batch["payload"].to_pylist())
        for payload in payloads:
            ((path, table),) = pickle.loads(payload).items()  # noqa: S301  from our own task
            for blob in cut_for(table, self.destinations[path]):
                yield _routed_row(blob)

    def written(self, batches: Batches) -> Batches:
        """Write cell after cell: rows are sorted by task, and those of one are in memory."""
        for number, blobs in groupby(_routed_blobs(batches), attrgetter("task")):
            parts = [blob.table() for blob in blobs if blob.payload]
            task = self.tasks[number]
            yield outcome_of(partial(write_cell, self.assets, task, parts, spec=self.spec))


def _routed_row(blob: RoutedBlob) -> pa.RecordBatch:
    task, payload = pa.array([blob.task], pa.int32()), pa.array([blob.payload], pa.binary())
    return pa.record_batch({"task": task, "payload": payload})


def _routed_blobs(batches: Batches) -> Iterator[RoutedBlob]:
    for batch in batches:
        for task, payload in zip(*(part.to_pylist() for part in batch.columns), strict=True):
            yield RoutedBlob(task, payload)
