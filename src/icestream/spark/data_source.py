"""The format `icestream`: cells of arrays, and metadata, as DataFrames; and back again.

Spark runs every step of a data source in a process of its own: `schema` when the DataFrame is made,
`partitions` when it is planned, `read` in the tasks. The version is settled in the first, so that
all of them see the same one.

There is no `pushFilters`, and must not be: PySpark 4.3 keeps what one query pushed down for the
next query on the same DataFrame, which then misses rows. Conditions are given as the option
`select`, for one DataFrame; a WHERE clause on top is applied by Spark as ever.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from icestream.errors import ErrorKind, InvalidInputError
from icestream.spark.arrow_types import spark_schema
from icestream.spark.cells.blocks import Block
from icestream.spark.cells.plans import CellPlan, plan_cells
from icestream.spark.metadata_tables import (
    EVENTS,
    EVENTS_SCHEMA,
    event_batches,
    find_table,
    table_batches,
)
from icestream.spark.options import SourceOptions, parse_options
from icestream.spark.pinned import PinnedRepository
from icestream.spark.task_environments import TaskEnvironment
from icestream.spark.writes.writers import make_writer
from icestream.storage.protocol import Storage

type Batches = Iterator[pa.RecordBatch]


class Rows(Protocol):
    """Rows in parts, which tasks read; picklable."""

    @property
    def schema(self) -> pa.Schema:
        """The columns, in types that Spark takes."""

    def parts(self) -> Sequence[Any]:
        """Return what tasks read, one part each."""

    def read(self, part: Any) -> Batches:
        """Yield the rows of a part."""


@dataclass(frozen=True, slots=True)
class CellRows:
    """The cells of a plan."""

    pinned: PinnedRepository
    plan: CellPlan
    rows_per_part: int

    @property
    def schema(self) -> pa.Schema:
        """One column per coordinate and variable."""
        return self.plan.schema

    def parts(self) -> Sequence[Block]:
        """Return blocks of whole chunks."""
        return self.plan.blocks(self.rows_per_part)

    def read(self, part: Block) -> Batches:
        """Yield the cells of a block."""
        return self.plan.batches(self.pinned.session.store, part)


@dataclass(frozen=True, slots=True)
class TableRows:
    """A table of metadata."""

    pinned: PinnedRepository
    table: str

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return find_table(self.table).schema

    def parts(self) -> Sequence[str | None]:
        """Return one part, or as many as the table has."""
        parts_of = find_table(self.table).parts
        return [None] if parts_of is None else parts_of(self.pinned)

    def read(self, part: str | None) -> Batches:
        """Yield the rows of a part."""
        return table_batches(find_table(self.table), self.pinned, part)


@dataclass(frozen=True, slots=True)
class EventRows:
    """The blocks of a ledger dataset."""

    storage: Storage
    schema: pa.Schema = EVENTS_SCHEMA

    def parts(self) -> Sequence[None]:
        """Return one part."""
        return [None]

    def read(self, part: None) -> Batches:
        """Yield the blocks."""
        del part
        return event_batches(self.storage)


def rows_of(options: SourceOptions) -> Rows:
    """Return the rows that options ask for, at the version that is the newest now.

    Raises:
        IcestreamError: There are none; the message says what is wrong, and the way out.
    """
    if options.table == EVENTS:
        return EventRows(options.ledger_storage())
    if options.table is not None:
        find_table(options.table)
    repo = options.open()
    session = options.version.session(repo)
    pinned = PinnedRepository.of(repo, session)
    if options.table is not None:
        return TableRows(pinned, options.table)
    plan = plan_cells(session.store, options.query, options.selection)
    return CellRows(pinned, plan, options.rows_per_partition)


class IcestreamDataSource(DataSource):
    """The data source `icestream`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._rows: Rows | None = None

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "icestream"

    def schema(self) -> StructType:
        """Settle what is read, and return its columns."""
        self._rows = rows_of(parse_options(self.options))
        return spark_schema(self._rows.schema)

    def reader(self, schema: StructType) -> "IcestreamReader":
        """Return a reader of what `schema` settled."""
        if self._rows is None:
            own = self.schema()
            if own != schema:
                raise InvalidInputError(
                    "the columns are those of the repository; read without a schema of your own "
                    f"({schema.simpleString()}) and select from {own.simpleString()}",
                    kind=ErrorKind.INVALID_ARGUMENT,
                )
        assert self._rows is not None  # noqa: S101  for mypy: `schema` sets it
        return IcestreamReader(self._rows)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001  Spark's signature
        """Return a writer of cells, or of references."""
        return make_writer(self.options, schema.names, overwrite=overwrite)


class IcestreamReader(DataSourceReader):
    """Reads rows in parts."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._environment = TaskEnvironment.of_driver()

    def partitions(self) -> Sequence[InputPartition]:
        """Return a partition for each part; Spark asks for a list."""
        return [InputPartition(part) for part in self._rows.parts()] or [_Nothing()]

    def read(self, partition: InputPartition) -> Batches:
        """Yield the rows of a part."""
        self._environment.apply(os.environ)
        return iter(()) if isinstance(partition, _Nothing) else self._rows.read(partition.value)


class _Nothing(InputPartition):
    """The partition of a source without rows, which must have one."""

    def __init__(self) -> None:
        super().__init__(None)
