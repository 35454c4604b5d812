"""Slices of a dataset as DataFrames, and DataFrames as slices.

Spark itself reaches no object store here. Executors read and write through `icestream.storage`,
with the storage and its credentials in the tasks; records do not pass through the driver. A
slice is one file, written by one task that holds its records in memory.
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.events import DataSlice
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.hashed_objects import save_object
from icestream.ledger.chain.layout import data_key
from icestream.ledger.data.arrow_schemas import from_arrow_schema, to_arrow_schema
from icestream.ledger.data.reading import open_slices
from icestream.ledger.data.schema_checks import conformed
from icestream.ledger.data.slices import encode_slice
from icestream.ledger.data.system_columns import (
    SystemColumns,
    last_event_time,
    plain_columns,
    with_event_time,
    with_filled_event_time,
    with_system_columns,
)
from icestream.spark.arrow_types import (
    arrow_schema,
    in_spark_types,
    out_of_spark_types,
    spark_schema,
)
from icestream.spark.column_names import column
from icestream.spark.task_environments import TaskEnvironment
from icestream.storage.protocol import Storage

_ROWS_AT_ONCE = 1 << 16
_TASKS_PER_CORE = 4
_SYSTEM_COLUMNS = SystemColumns()
_OUTCOME = "outcome"

type Batches = Iterator[pa.RecordBatch]


# -- reading --------------------------------------------------------------------------------------


def read_slices(
    spark: SparkSession,
    storage: Storage,
    slices: Sequence[DataSlice],
    schema: DataSchema,
    *,
    columns: SystemColumns = _SYSTEM_COLUMNS,
    select: Sequence[str] | None = None,
) -> DataFrame:
    """Return the records of slices; executors read them when they are needed.

    Columns that a slice has not, because they were added to the schema later, are null.

    Args:
        spark: The session.
        storage: At the root of the dataset, where executors reach it.
        slices: In any order; rows come in no promised order, but have their offsets.
        schema: In force now.
        columns: The names of the system columns.
        select: The columns that are read, all by default: Spark cannot leave out by itself what
            a query does not use.

    Raises:
        InvalidInputError: Spark has no type for a column, or a selected column does not exist.
    """
    fields = to_arrow_schema(schema)
    names = list(select or fields.names)
    unknown = [name for name in names if name not in fields.names]
    if unknown:
        raise InvalidInputError(
            f"the dataset has no column {', '.join(unknown)}; it has {', '.join(fields.names)}"
        )
    fields = pa.schema([fields.field(name) for name in names])
    if not slices:
        return spark.createDataFrame(in_spark_types(fields).empty_table(), spark_schema(fields))
    reading = _Reading(storage, tuple(slices), schema, columns, in_spark_types(fields))
    tasks = min(len(slices), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, len(slices), 1, tasks)
    return numbers.mapInArrow(
        TaskEnvironment.of_driver().around(reading.records), spark_schema(fields)
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    storage: Storage
    slices: tuple[DataSlice, ...]
    schema: DataSchema
    columns: SystemColumns
    fields: pa.Schema
    """What Spark is to be given."""

    def records(self, numbers: Batches) -> Batches:
        """Yield the records of the slices with these numbers."""
        for batch in numbers:
            chosen = [self.slices[number] for number in batch.column(0).to_pylist()]
            dataset = open_slices(self.storage, chosen, self.schema, columns=self.columns)
            for found in dataset.to_batches(columns=self.fields.names, batch_size=_ROWS_AT_ONCE):
                yield found.cast(self.fields)


# -- writing --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSlice:
    """A slice that is stored, and what its event needs to know."""

    facts: DataSlice
    last_event_time: Timestamp | None
    """The latest of all records, None if none has any: a watermark may follow it."""


def schema_of_records(records: DataFrame, columns: SystemColumns = _SYSTEM_COLUMNS) -> DataSchema:
    """Return the schema of a dataset whose first records are these.

    Args:
        records: With offset, operation and event time, as `write_slice` takes them.
        columns: The names of the system columns.

    Raises:
        InvalidInputError: A column has a type that datasets cannot have.
    """
    empty = arrow_schema(records.schema).empty_table()
    return from_arrow_schema(
        _completed(empty, columns, system_time=Timestamp.from_epoch_ms(0), fallback=None).schema
    )


def write_slice(
    records: DataFrame,
    storage: Storage,
    schema: DataSchema,
    *,
    system_time: Timestamp,
    event_time: Timestamp | None = None,
    columns: SystemColumns = _SYSTEM_COLUMNS,
) -> WrittenSlice | None:
    """Write records as one slice, and return what its event says; None if there are no records.

    The object is stored when this returns. Nothing refers to it before its event is appended.

    Args:
        records: With offset, operation and event time, as `icestream.spark.merging.merge` gives
            them; offsets have no gaps.
        storage: At the root of the dataset, where executors reach it.
        schema: Of the dataset, which the records follow.
        system_time: Of the block; the records get it in milliseconds.
        event_time: In place of null event times; None leaves them.
        columns: The names of the system columns.

    Raises:
        InvalidInputError: The records do not follow the schema, or offsets have gaps.
    """
    names = records.columns
    writing = _Writing(storage, names, schema, system_time, event_time, columns)
    ordered = records.repartition(1).sortWithinPartitions(column(columns.offset))
    # Spark parses the names of columns here, and fails at dots
    numbered = ordered.toDF(*(f"column_{number}" for number in range(len(names))))
    work = TaskEnvironment.of_driver().around(writing.outcomes)
    rows = numbered.mapInArrow(work, f"{_OUTCOME} binary").collect()
    for row in rows:
        outcome = pickle.loads(row[_OUTCOME])  # noqa: S301  from our own task
        if isinstance(outcome, InvalidInputError):
            raise outcome
        written: WrittenSlice = outcome
        return written
    return None


@dataclass(frozen=True, slots=True)
class _Writing:
    storage: Storage
    names: list[str]
    """Of the columns, which come in this order."""
    schema: DataSchema
    system_time: Timestamp
    event_time: Timestamp | None
    columns: SystemColumns

    def outcomes(self, batches: Batches) -> Batches:
        """Write all batches as one slice; yield what was written, or why it cannot be."""
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        try:
            records = pa.Table.from_batches(found).rename_columns(self.names)
            outcome: object = self._written(records)
        except InvalidInputError as error:  # it would be the same if the task ran again
            outcome = error
        yield pa.RecordBatch.from_pydict({_OUTCOME: [pickle.dumps(outcome)]})

    def _written(self, records: pa.Table) -> WrittenSlice:
        table = plain_columns(records)
        table = out_of_spark_types(table, to_arrow_schema(self.schema))
        table = _completed(
            table, self.columns, system_time=self.system_time, fallback=self.event_time
        )
        table = conformed(table, self.schema, name="the records")
        encoded = encode_slice(table, self.columns)
        save_object(self.storage, data_key(encoded.facts.physical_hash), encoded.data)
        return WrittenSlice(
            facts=encoded.facts, last_event_time=last_event_time(table, self.columns)
        )


def _completed(
    table: pa.Table,
    columns: SystemColumns,
    *,
    system_time: Timestamp,
    fallback: Timestamp | None,
) -> pa.Table:
    """Return records with all system columns, in the order of slices."""
    missing = [name for name in (columns.offset, columns.op) if name not in table.column_names]
    if missing:
        raise InvalidInputError(
            f"records need the columns {', '.join(missing)}: "
            "`merge` and `with_offsets` of icestream.spark give them"
        )
    offsets = table.column(columns.offset)
    table = with_event_time(table.drop_columns([columns.offset]), columns)
    if fallback is not None:
        table = with_filled_event_time(table, columns, fallback)
    first = offsets[0].as_py() if len(offsets) else 0
    complete = with_system_columns(table, columns, first_offset=first, system_time=system_time)
    if complete.column(columns.offset) != offsets:
        raise InvalidInputError(
            f"column {columns.offset!r} must number records without gaps from {first} on"
        )
    return complete
