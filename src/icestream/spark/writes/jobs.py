"""Writes to a repository that is open already, with its credentials in the tasks."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, LongType, StructType

from icestream.errors import InvalidInputError
from icestream.repository.repository import Repository
from icestream.spark.cells.grids import CellQuery
from icestream.spark.column_names import column
from icestream.spark.outcomes import OUTCOME, OUTCOME_SCHEMA, opened_outcome, outcome_of
from icestream.spark.task_environments import TaskEnvironment
from icestream.spark.writes.cell_rows import plan_rows
from icestream.spark.writes.cells import CellWriting
from icestream.spark.writes.reference_jobs import write_reference_rows
from icestream.spark.writes.references import ReferenceWriting, check_columns
from icestream.spark.writes.targets import CommitWords, WriteTarget
from icestream.spark.writes.written_tables import ArrayTables, join_tables

_BLOCK = "block"
_CELL = "cell"
_NO_BLOCK = -1

type Batches = Iterator[pa.RecordBatch]


def write_array(
    df: DataFrame,
    repo: Repository,
    cells: str | CellQuery,
    *,
    branch: str = "main",
    commit: CommitWords | None = None,
    indexes: bool = False,
) -> str | None:
    """Write rows into cells of existing arrays, in one commit.

    The rows of each chunk are brought together first. A chunk that rows cover whole is stored as
    it is, of others the cells without a row keep their values.

    Args:
        df: A column for each dimension, and one for each variable, decoded as `read_array` gives
            them: timestamps, null for missing values.
        repo: Tasks take it along with its credentials. Its storage must be one that executors
            reach.
        cells: The path of an array; or a query, for several variables of one grid.
        branch: The branch that gets the commit.
        commit: Its message and metadata, and what happens after commits of others.
        indexes: The columns of dimensions hold positions from 0 on, not coordinates.

    Returns:
        The id of the new snapshot, None if there was nothing to write.

    Raises:
        NotFoundError: There is no such array or branch.
        InvalidInputError: A row has no cell, shares one with another row, or has a value that
            cannot be stored; nothing is visible of the others.
        ConflictError: Somebody else committed to the branch meanwhile; nothing is visible.
    """
    query = CellQuery(array=cells) if isinstance(cells, str) else cells
    target = WriteTarget.of(repo, branch)
    plan = plan_rows(target.pinned.session.store, query, df.columns, indexes=indexes)
    names = [*plan.dimensions, *(variable.name for variable in plan.variables)]
    job = _CellJob(CellWriting(target, plan), names)
    numbered = df.select([column(name) for name in names]).toDF(*job.numbered)
    with_cells = (
        StructType([*numbered.schema]).add(_BLOCK, LongType()).add(_CELL, ArrayType(LongType()))
    )
    environment = TaskEnvironment.of_driver()
    located = numbered.mapInArrow(job.located, with_cells)

    def write_group(group: pa.Table) -> pa.Table:
        # no method: Spark counts the arguments of those with self
        environment.apply(os.environ)
        return pa.Table.from_batches([outcome_of(lambda: job.write(group))])

    written = located.groupBy(_BLOCK).applyInArrow(write_group, OUTCOME_SCHEMA)
    return _commit(written, job.writing, commit)


def write_references(
    df: DataFrame,
    repo: Repository,
    *,
    branch: str = "main",
    commit: CommitWords | None = None,
    validate_containers: bool = True,
) -> str | None:
    """Set references to parts of foreign objects, in one commit.

    Executors write the manifests of arrays that get many references; what reaches the driver is
    small.

    Args:
        df: Columns of the table `refs`: array, chunk, location, byte_offset, length, and maybe
            etag and last_modified. Each chunk has one row.
        repo: Tasks take it along with its credentials.
        branch: The branch that gets the commit.
        commit: Its message and metadata, and what happens after commits of others.
        validate_containers: Refuse locations that no virtual chunk container covers.

    Returns:
        The id of the new snapshot, None if there were no rows.

    Raises:
        NotFoundError: There is no such array or branch.
        InvalidInputError: A row is no reference to a chunk; nothing is visible of the others.
        ConflictError: Somebody else committed to the branch meanwhile; nothing is visible.
    """
    check_columns(df.columns)
    writing = ReferenceWriting(WriteTarget.of(repo, branch), validate_containers)
    return write_reference_rows(df, writing, commit or CommitWords())


def _commit(written: DataFrame, writing: CellWriting, words: CommitWords | None) -> str | None:
    joined = written.mapInArrow(_Joining(writing.remedy).joined, OUTCOME_SCHEMA)
    parts = [opened_outcome(row[OUTCOME]) for row in joined.collect()]
    tables = join_tables(parts, remedy=writing.remedy)
    return writing.target.commit(tables, words or CommitWords())


@dataclass(frozen=True, slots=True)
class _CellJob:
    writing: CellWriting
    names: list[str]
    """Of the columns, which come in this order."""

    @property
    def numbered(self) -> list[str]:
        """Other names for them: Spark takes dots for the parts of a path."""
        return [f"column_{number}" for number in range(len(self.names))]

    def located(self, batches: Batches) -> Batches:
        """Add to each row its cell, and the block of chunks that it is written with."""
        for batch in batches:
            rows = pa.Table.from_batches([batch]).rename_columns(self.names)
            rank = len(self.writing.plan.shape)
            try:
                cells = self.writing.plan.cells(rows)
                blocks = self.writing.block_numbers(cells)
            except InvalidInputError:  # told by the task that writes, as an outcome
                cells = np.zeros((len(rows), rank), np.int64)
                blocks = np.full(len(rows), _NO_BLOCK, np.int64)
            ends = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * np.int32(rank))
            lists = pa.ListArray.from_arrays(ends, pa.array(cells.reshape(-1)))
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(blocks), lists], names=[*self.numbered, _BLOCK, _CELL]
            )

    def write(self, group: pa.Table) -> ArrayTables:
        """Write the rows of one block."""
        rows = group.drop_columns([_BLOCK, _CELL]).rename_columns(self.names)
        if group[_BLOCK][0].as_py() == _NO_BLOCK:
            self.writing.plan.cells(rows)  # raises again
        flat = group[_CELL].combine_chunks().flatten().to_numpy()
        return self.writing.write_cells(flat.reshape(len(rows), -1), rows)


@dataclass(frozen=True, slots=True)
class _Joining:
    remedy: str

    def joined(self, batches: Batches) -> Batches:
        """Make one outcome of all that a task had, so that the driver gets few."""
        outcomes = [value for batch in batches for value in batch.column(0).to_pylist()]
        yield outcome_of(lambda: join_tables(map(opened_outcome, outcomes), remedy=self.remedy))
