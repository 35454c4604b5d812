"""The new records of inputs, as batches and as streams."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody writes it

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import DataSlice
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.planning import InputPlan
from icestream.ledger.data.arrow_schemas import schema_of_event, to_arrow_schema
from icestream.ledger.data.reading import open_slices
from icestream.ledger.data.system_columns import SystemColumns
from icestream.spark.arrow_types import in_spark_types, spark_schema
from icestream.spark.column_names import column
from icestream.spark.slices import read_slices
from icestream.spark.task_environments import TaskEnvironment
from icestream.storage.protocol import Storage

_ROWS_AT_ONCE = 1 << 16
_CLOCK = "icestream: is no record, but the watermark"
_NO_DELAY = "0 seconds"

type Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecords:
    """The records of one input that a transaction reads."""

    alias: str
    storage: Storage
    slices: tuple[DataSlice, ...]
    schema: DataSchema
    columns: SystemColumns

    @classmethod
    def planned(cls, plan: InputPlan, storages: Mapping[DatasetId, Storage]) -> Self:
        """Return what a transaction reads of an input.

        Raises:
            InvalidInputError: The input has no schema yet.
        """
        if plan.schema is None:
            raise InvalidInputError(
                f"input {plan.alias} has no schema yet: add data to it, or pull it first"
            )
        return cls(
            alias=plan.alias,
            storage=storages[plan.dataset_id],
            slices=plan.slices,
            schema=schema_of_event(plan.schema, name=f"of input {plan.alias}"),
            columns=SystemColumns.of(plan.vocabulary),
        )

    def batch(self, session: SparkSession) -> DataFrame:
        """Return the records, in the order of their offsets as long as nothing shuffles them."""
        return read_slices(session, self.storage, self.slices, self.schema, columns=self.columns)

    def stream(self, session: SparkSession, clock: Timestamp | None) -> DataFrame:
        """Return the records as a stream whose watermark is a given one, neither more nor less.

        Spark takes a watermark from the event times that it has seen, and where there are several
        watermarks, the lowest. So the records come with a row that has the time of the clock, which
        raises the watermark to it at least; and that row comes once more by itself, which keeps it
        from rising above. No query sees these rows.

        Args:
            session: The session.
            clock: The watermark; None if there is none yet.
        """
        fields = self._stream_schema()
        # one row: it stands for all records, which one task reads in their order
        source = session.readStream.format("rate-micro-batch")
        one_row = source.options(rowsPerBatch=1, numPartitions=1).load()
        work = TaskEnvironment.of_driver().around(_Reading(self, fields).records)
        records = one_row.mapInArrow(work, spark_schema(fields))
        if not self._has_times():
            return records.drop(_CLOCK)
        ticks = self._ticks(one_row, clock)
        event_time, is_clock = column(self.columns.event_time), column(_CLOCK)
        # Spark moves conditions of queries before the watermark, where the clock would not pass
        # them; but none across one that it takes for fickle
        stays = _always()
        seen = self._marked(records.union(ticks)).where(stays & (~is_clock | event_time.isNull()))
        unseen = self._marked(ticks).where(stays & event_time.isNull())
        return seen.union(unseen).drop(_CLOCK)

    def _ticks(self, one_row: DataFrame, clock: Timestamp | None) -> DataFrame:
        """Return the row that has the time of the clock; none if there is no time."""
        event_time = self.columns.event_time
        values = {_CLOCK: F.lit(True)}  # noqa: FBT003  of Spark
        if clock is not None:  # a time that is always there Spark would not ask for
            values[event_time] = F.when(_always(), F.timestamp_millis(F.lit(clock.epoch_ms)))
        columns = [
            values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
            for field in spark_schema(self._stream_schema())
        ]
        rows = one_row if clock is not None else one_row.where(~_always())
        return rows.select(*columns)

    def _marked(self, rows: DataFrame) -> DataFrame:
        return rows.withWatermark(self.columns.event_time, _NO_DELAY)

    def _stream_schema(self) -> pa.Schema:
        """Return the columns for Spark; in the row of the clock most are null."""
        fields = in_spark_types(to_arrow_schema(self.schema))
        nullable = [field.with_nullable(True) for field in fields]  # noqa: FBT003  of Arrow
        return pa.schema([*nullable, pa.field(_CLOCK, pa.bool_(), nullable=False)])

    def _has_times(self) -> bool:
        kind = to_arrow_schema(self.schema).field(self.columns.event_time).type
        return bool(pa.types.is_timestamp(kind))


def _always() -> Column:
    """Return what is true, but Spark does not know that."""
    return F.spark_partition_id() >= 0


@dataclass(frozen=True, slots=True)
class _Reading:
    given: InputRecords
    fields: pa.Schema
    """What Spark is to be given."""

    def records(self, rows: Batches) -> Batches:
        """Yield all records for the row that stands for them."""
        for batch in rows:
            if batch.num_rows and self.given.slices:
                yield from self._records()

    def _records(self) -> Batches:
        given = self.given
        dataset = open_slices(given.storage, given.slices, given.schema, columns=given.columns)
        names = self.fields.names[:-1]
        for batch in dataset.to_batches(columns=names, batch_size=_ROWS_AT_ONCE):
            self._require_known_times(batch)
            flags = pa.array(np.zeros(batch.num_rows, bool))
            yield pa.RecordBatch.from_arrays([*batch.columns, flags], names=self.fields.names).cast(
                self.fields
            )

    def _require_known_times(self, batch: pa.RecordBatch) -> None:
        times = batch.column(self.given.columns.event_time)
        if not pa.types.is_timestamp(times.type):
            return
        first = pc.min(times.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())).as_py()
        if first is not None and first < 0:
            raise InvalidInputError(
                f"input {self.given.alias} has records before 1970, where the watermarks of Spark"
                " begin: it would drop them; shift their event times in a dataset in between"
            )
