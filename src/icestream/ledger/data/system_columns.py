"""The four columns that every record has beside its data: offset, operation and two times."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.events import SetVocab
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.arrow_schemas import plain_type
from icestream.ledger.data.text_times import parse_times

# the specification has unsigned numbers, which Spark cannot read: writers agree on signed ones
OFFSET_TYPE = pa.int64()
OPERATION_TYPE = pa.int32()
TIME_TYPE = pa.timestamp("ms", "UTC")


class Operation(IntEnum):
    """What a record does to the state of its key."""

    APPEND = 0
    RETRACT = 1
    CORRECT_FROM = 2
    CORRECT_TO = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemColumns:
    """What the system columns of a dataset are called."""

    offset: str = "offset"
    op: str = "op"
    system_time: str = "system_time"
    event_time: str = "event_time"

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise InvalidInputError(
                f"two system columns have one name: {', '.join(self.names)}; rename one of them"
            )

    @classmethod
    def of(cls, vocab: SetVocab | None) -> Self:
        """Return the names that an event gives; those that it leaves out are the usual ones."""
        if vocab is None:
            return cls()
        given = {
            "offset": vocab.offset_column,
            "op": vocab.operation_type_column,
            "system_time": vocab.system_time_column,
            "event_time": vocab.event_time_column,
        }
        return cls(**{role: name for role, name in given.items() if name is not None})

    @property
    def names(self) -> tuple[str, str, str, str]:
        """The names, in the order in which files have the columns."""
        return self.offset, self.op, self.system_time, self.event_time


def require_no_reserved_columns(
    table: pa.Table, columns: SystemColumns, *, allows_op: bool
) -> None:
    """Refuse data with columns that only a writer of slices may fill.

    Args:
        table: The data.
        columns: The names of the system columns.
        allows_op: Whether the data may say themselves what their rows do.

    Raises:
        InvalidInputError: Names the columns, or two columns of one name.
    """
    reserved = [columns.offset, columns.system_time, *([] if allows_op else [columns.op])]
    found = [name for name in reserved if name in table.column_names]
    if found:
        raise InvalidInputError(
            f"data must not have the system columns {', '.join(found)}; rename them, "
            "or give the system columns other names with SetVocab"
        )
    twice = {name for name in table.column_names if table.column_names.count(name) > 1}
    if twice:
        raise InvalidInputError(f"two columns have one name: {', '.join(sorted(twice))}")


def plain_columns(table: pa.Table) -> pa.Table:
    """Return the table in plain encodings, with timestamps in milliseconds of UTC.

    What is finer than milliseconds is cut off; timestamps without a zone count as UTC.
    """
    fields = [
        pa.field(field.name, plain_type(field.type), nullable=field.nullable)
        for field in table.schema
    ]
    return table.cast(pa.schema(fields), safe=False)


def fitted(table: pa.Table, columns: SystemColumns) -> pa.Table:
    """Make data fit whose author did not know of system columns.

    Columns with the name of the offset, operation or system time get a `_` before it. An event
    time may be a number (seconds since 1970) or a text (RFC 3339).

    Raises:
        SourceError: The texts are no times.
    """
    taken = {columns.offset, columns.op, columns.system_time}
    names = [f"_{name}" if name in taken else name for name in table.column_names]
    table = table.rename_columns(names)
    index = table.schema.get_field_index(columns.event_time)
    if index < 0:
        return table
    event_time = _as_time(table.column(index), columns.event_time)
    return table.set_column(index, columns.event_time, event_time)


def _as_time(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_integer(kind):
        return values.cast(pa.int64()).cast(pa.timestamp("s", "UTC")).cast(TIME_TYPE)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return parse_times(values, TIME_TYPE, None, column=name)
    return values


def with_event_time(
    table: pa.Table, columns: SystemColumns, kind: pa.DataType = TIME_TYPE
) -> pa.Table:
    """Return the table with an event time in each row, null where the data have none.

    Args:
        table: The data.
        columns: The names of the system columns.
        kind: The type of the column if it has to be added.

    Raises:
        InvalidInputError: The column is there, and holds neither times nor dates.
    """
    index = table.schema.get_field_index(columns.event_time)
    if index < 0:
        return table.append_column(columns.event_time, pa.nulls(len(table), kind))
    found = table.schema.field(index).type
    if not (pa.types.is_timestamp(found) or pa.types.is_date(found)):
        raise InvalidInputError(
            f"the event time column {columns.event_time!r} has type {found}; it must be a "
            "timestamp or a date: cast it, or name another column in SetVocab"
        )
    return table


def with_filled_event_time(
    table: pa.Table, columns: SystemColumns, fallback: Timestamp
) -> pa.Table:
    """Return the table with a time in place of null event times."""
    index = table.schema.get_field_index(columns.event_time)
    kind = table.schema.field(index).type
    moment = pa.scalar(fallback.epoch_ms, pa.int64()).cast(TIME_TYPE).cast(kind, safe=False)
    values = pc.fill_null(table.column(index), moment)
    return table.set_column(index, pa.field(columns.event_time, kind, nullable=False), values)


def with_system_columns(
    table: pa.Table, columns: SystemColumns, *, first_offset: int, system_time: Timestamp
) -> pa.Table:
    """Return records in their final form: offsets in row order, then the operation and times.

    Args:
        table: Rows in their final order, with operation and event time.
        columns: The names of the system columns.
        first_offset: Of the first row.
        system_time: Of the block; what is finer than milliseconds is cut off.
    """
    count = len(table)
    offsets = pa.array(np.arange(first_offset, first_offset + count, dtype=np.int64))
    times = pa.array(np.full(count, system_time.epoch_ms), TIME_TYPE)
    operations = table.column(columns.op).cast(OPERATION_TYPE)
    event_time = table.schema.get_field_index(columns.event_time)
    data = table.drop_columns([columns.op, columns.event_time])
    fields = [
        pa.field(columns.offset, OFFSET_TYPE, nullable=False),
        pa.field(columns.op, OPERATION_TYPE, nullable=False),
        pa.field(columns.system_time, TIME_TYPE, nullable=False),
        table.schema.field(event_time),
        *data.schema,
    ]
    arrays = [offsets, operations, times, table.column(event_time), *data.columns]
    return pa.table(arrays, schema=pa.schema(fields))


def last_event_time(table: pa.Table, columns: SystemColumns) -> Timestamp | None:
    """Return the latest event time, None if there is none."""
    values = table.column(columns.event_time)
    latest = pc.max(values.cast(TIME_TYPE)).cast(pa.int64()).as_py()
    return None if latest is None else Timestamp.from_epoch_ms(latest)
