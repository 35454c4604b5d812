"""Planning an ingestion: which events and which slice an input adds to a root dataset.

Nothing is read or written here. The events of a plan belong together: the schema must not become
visible without the data that it was set for, so the head moves once for all of them.
"""

from dataclasses import dataclass, field, replace

import pyarrow as pa

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.data_schemas import DataSchema, schema_change
from icestream.ledger.blocks.events import AddData, DataSlice, SetDataSchema, SourceState
from icestream.ledger.blocks.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
)
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.arrow_schemas import from_arrow_schema, to_arrow_schema
from icestream.ledger.data.merging.strategies import merged, takes_operations
from icestream.ledger.data.schema_checks import conformed
from icestream.ledger.data.slices import EncodedSlice, encode_slice
from icestream.ledger.data.system_columns import (
    TIME_TYPE,
    SystemColumns,
    fitted,
    last_event_time,
    plain_columns,
    require_no_reserved_columns,
    with_event_time,
    with_filled_event_time,
    with_system_columns,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestInput:
    """What is to be ingested, and how."""

    table: pa.Table | None = None
    """The rows in arrival order; None when only the watermark or the source state advances."""
    strategy: MergeStrategy = field(default_factory=MergeStrategyAppend)
    event_time: Timestamp | None = None
    """For rows that have none; the system time if left out."""
    source_state: SourceState | None = None
    """How far the source was read; the last one is carried if left out."""
    watermark: Timestamp | None = None
    """Set by hand; the latest event time if left out."""
    fits_columns: bool = False
    """Rename columns that clash with system columns, and read numbers and texts as event times."""
    evolves_schema: bool = False
    """Let new columns that may be null extend the schema of the dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestState:
    """Where a root dataset stands."""

    columns: SystemColumns = field(default_factory=SystemColumns)
    schema: DataSchema | None = None
    last: AddData | None = None
    """The latest data event, which carries everything that the next one needs."""
    previous: pa.Table | None = None
    """All records, where the merge strategy looks at them (see `needs_records`)."""

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        last_offset = None if self.last is None else self.last.last_offset
        return 0 if last_offset is None else last_offset + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """What to append to a dataset, in this order; nothing when it is up to date."""

    set_schema: SetDataSchema | None = None
    add_data: AddData | None = None
    data_slice: EncodedSlice | None = None
    """The file to store before the events are appended."""

    @property
    def events(self) -> tuple[SetDataSchema | AddData, ...]:
        """The events, to be appended with one move of the head."""
        return tuple(event for event in (self.set_schema, self.add_data) if event is not None)

    @property
    def is_up_to_date(self) -> bool:
        """Whether there is nothing to append."""
        return not self.events


def needs_records(strategy: MergeStrategy) -> bool:
    """Tell whether a strategy looks at the records that a dataset has."""
    return not isinstance(strategy, MergeStrategyAppend | MergeStrategyChangelogStream)


def plan_ingest(given: IngestInput, state: IngestState, *, system_time: Timestamp) -> IngestPlan:
    """Return what an input adds to a dataset.

    Args:
        given: The input.
        state: Where the dataset stands.
        system_time: Of the block to come, and of all its records.

    Raises:
        InvalidInputError: The input has reserved columns, lacks columns, breaks the schema of the
            dataset or the rules of its merge strategy.
    """
    if given.table is None:
        add_data = add_data_event(given, state.last, latest=None, data_slice=None)
        return IngestPlan(add_data=add_data)
    records = _records(given, state, system_time)
    set_schema = _schema_event(records, given, state)
    schema = state.schema if set_schema is None else set_schema.schema
    if schema is not None:
        records = conformed(records, schema, name="the input")
    data_slice = encode_slice(records, state.columns) if len(records) else None
    latest = last_event_time(records, state.columns)
    facts = None if data_slice is None else data_slice.facts
    add_data = add_data_event(given, state.last, latest=latest, data_slice=facts)
    return IngestPlan(set_schema=set_schema, add_data=add_data, data_slice=data_slice)


# records


def _records(given: IngestInput, state: IngestState, system_time: Timestamp) -> pa.Table:
    """Return the records to add, in their final form."""
    columns = state.columns
    expected = None if state.schema is None else to_arrow_schema(state.schema)
    table = _prepared(given, state, expected)
    previous = state.previous if needs_records(given.strategy) else None
    if previous is not None and given.evolves_schema:
        previous = _with_columns_of(previous, table)
    rows = merged(given.strategy, table, previous, columns=columns)
    rows = with_filled_event_time(rows, columns, given.event_time or system_time)
    records = with_system_columns(
        rows, columns, first_offset=state.next_offset, system_time=system_time
    )
    return records if expected is None else _arranged(records, expected, columns)


def _prepared(given: IngestInput, state: IngestState, expected: pa.Schema | None) -> pa.Table:
    columns = state.columns
    table = fitted(given.table, columns) if given.fits_columns else given.table
    allows_op = takes_operations(given.strategy)
    require_no_reserved_columns(table, columns, allows_op=allows_op)
    table = plain_columns(table)
    if expected is None:
        return with_event_time(table, columns)
    index = expected.get_field_index(columns.event_time)
    kind = TIME_TYPE if index < 0 else expected.field(index).type
    return with_event_time(_typed_nulls(table, expected), columns, kind)


def _typed_nulls(table: pa.Table, expected: pa.Schema) -> pa.Table:
    """Give columns of nothing but untyped nulls the type that the dataset has for them."""
    for index, column in enumerate(table.schema):
        position = expected.get_field_index(column.name)
        if pa.types.is_null(column.type) and position >= 0:
            kind = expected.field(position).type
            table = table.set_column(index, column.name, table.column(index).cast(kind))
    return table


def _with_columns_of(previous: pa.Table, table: pa.Table) -> pa.Table:
    for column in table.schema:
        if column.name not in previous.column_names:
            previous = previous.append_column(column, pa.nulls(len(previous), column.type))
    return previous


def _arranged(records: pa.Table, expected: pa.Schema, columns: SystemColumns) -> pa.Table:
    """Put columns in the order of the schema, new ones behind them."""
    known = [name for name in expected.names if name in records.column_names]
    added = [name for name in records.column_names if name not in known]
    records = records.select([*known, *added])
    for name in (columns.offset, columns.op):
        # some datasets have the unsigned numbers of the specification
        index, position = records.schema.get_field_index(name), expected.get_field_index(name)
        if position >= 0:
            column = records.schema.field(index).with_type(expected.field(position).type)
            records = records.set_column(index, column, records.column(index).cast(column.type))
    return records


# events


def _schema_event(
    records: pa.Table, given: IngestInput, state: IngestState
) -> SetDataSchema | None:
    found = from_arrow_schema(records.schema)
    if state.schema is None:
        return SetDataSchema(schema=found)
    if not given.evolves_schema:
        return None
    known = {column.name for column in state.schema.fields}
    added = tuple(column for column in found.fields if column.name not in known)
    if not added:
        return None
    extended = replace(state.schema, fields=(*state.schema.fields, *added))
    change = schema_change(state.schema, extended)
    if not change.is_allowed:
        raise InvalidInputError(
            f"the schema of the dataset cannot be extended: {'; '.join(change.reasons)}"
        )
    return SetDataSchema(schema=extended)


def add_data_event(
    given: IngestInput,
    previous: AddData | None,
    *,
    latest: Timestamp | None,
    data_slice: DataSlice | None,
) -> AddData | None:
    """Return the event that adds data to a dataset; None if it would say nothing new.

    Args:
        given: The input, of which only the watermark and the source state matter.
        previous: The event before.
        latest: The latest event time of the new records.
        data_slice: The new records, None if there are none.
    """
    last = previous or AddData()
    checkpoint = last.new_checkpoint
    # what is not repeated is forgotten: checkpoint, watermark and source state are carried
    event = AddData(
        prev_checkpoint=None if checkpoint is None else checkpoint.physical_hash,
        prev_offset=last.last_offset,
        new_data=data_slice,
        new_checkpoint=checkpoint,
        new_watermark=_later(last.new_watermark, given.watermark or latest),
        new_source_state=given.source_state or last.new_source_state,
    )
    is_same = (event.new_watermark, event.new_source_state) == (
        last.new_watermark,
        last.new_source_state,
    )
    return None if is_same and data_slice is None else event


def _later(one: Timestamp | None, other: Timestamp | None) -> Timestamp | None:
    moments = [moment for moment in (one, other) if moment is not None]
    return max(moments, default=None)
