"""Adds the rows of a DataFrame to a root dataset, without bringing them to the driver."""

from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame

from icestream.ledger.active_sources import merge_strategy
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.data_types import DataField, DataTypeOption
from icestream.ledger.blocks.events import AddData, SetDataSchema
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.ingest_plan import IngestInput, add_data_event, needs_records
from icestream.ledger.data.system_columns import SystemColumns
from icestream.ledger.data_writing import AddedData, append_data, next_system_time, require_root
from icestream.ledger.dataset import Dataset
from icestream.spark.column_names import columns_of
from icestream.spark.datasets import read_dataset
from icestream.spark.merging import merge
from icestream.spark.slices import schema_of_records, write_slice


def add_data(
    dataset: Dataset,
    rows: DataFrame,
    *,
    source_name: str | None = None,
    event_time: datetime | None = None,
    watermark: datetime | None = None,
    system_time: Timestamp | None = None,
) -> AddedData:
    """Merge rows into a root dataset, as `Dataset.add_data` does, on Spark.

    Args:
        dataset: On a storage that executors reach.
        rows: In arrival order; cache them if they are costly to compute.
        source_name: Of the push source; may be left out where there is only one.
        event_time: For rows that have none; the system time if None.
        watermark: By hand; the latest event time of all records if None.
        system_time: Of the blocks and records; the time of the clock, if None.

    Raises:
        InvalidInputError: The dataset is derivative, or the rows do not fit.
        ConflictError: Somebody else appended first; nothing of the rows is visible.
    """
    state, version = dataset.state, dataset.current
    require_root(state)
    strategy = merge_strategy(state, source_name)
    moment = system_time or next_system_time(state)
    columns = version.system_columns
    known = needs_records(strategy) and state.last_offset is not None
    records = merge(
        rows,
        read_dataset(rows.sparkSession, version) if known else None,
        strategy,
        first_offset=state.next_offset,
        columns=columns,
    )
    schema = version.schema or _first_schema(records, columns)
    written = write_slice(
        _arranged(records, schema),
        dataset.storage,
        schema,
        system_time=moment,
        event_time=moment if event_time is None else Timestamp.from_datetime(event_time),
        columns=columns,
    )
    last = state.data_event
    event = add_data_event(
        IngestInput(watermark=None if watermark is None else Timestamp.from_datetime(watermark)),
        last if isinstance(last, AddData) else None,
        latest=None if written is None else written.last_event_time,
        data_slice=None if written is None else written.facts,
    )
    events: list[SetDataSchema | AddData] = [] if event is None else [event]
    if version.schema is None:
        events.insert(0, SetDataSchema(schema=schema))
    return append_data(dataset.chain, events, system_time=moment)


def _first_schema(records: DataFrame, columns: SystemColumns) -> DataSchema:
    """Return the schema that records set: they all have an event time once they are written."""
    schema = schema_of_records(records, columns)
    return replace(
        schema,
        fields=tuple(
            _required(field) if field.name == columns.event_time else field
            for field in schema.fields
        ),
    )


def _required(field: DataField) -> DataField:
    kind = field.type
    return replace(field, type=kind.inner) if isinstance(kind, DataTypeOption) else field


def _arranged(records: DataFrame, schema: DataSchema) -> DataFrame:
    """Put columns in the order of the schema, others behind them."""
    known = [field.name for field in schema.fields if field.name in records.columns]
    added = [name for name in records.columns if name not in known]
    return records.select(*columns_of([*known, *added]))
