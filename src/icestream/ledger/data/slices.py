"""One slice: records as a Parquet file that is named by its hash."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icestream.errors import IntegrityError, InvalidInputError
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.events import DataSlice, OffsetInterval
from icestream.ledger.blocks.hashes import sha3_256
from icestream.ledger.data.arrow_schemas import plain_type
from icestream.ledger.data.logical_hash import logical_hash
from icestream.ledger.data.schema_checks import require_schema
from icestream.ledger.data.system_columns import (
    OFFSET_TYPE,
    OPERATION_TYPE,
    TIME_TYPE,
    Operation,
    SystemColumns,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedSlice:
    """A slice that is ready to be stored."""

    data: bytes
    """The Parquet file."""
    facts: DataSlice
    """What the event says about it."""

    @property
    def object_name(self) -> str:
        """The name of the file in its folder."""
        return str(self.facts.physical_hash)


def encode_slice(table: pa.Table, columns: SystemColumns | None = None) -> EncodedSlice:
    """Return the file of some records, and what its event says about it.

    Args:
        table: Records with system columns, in offset order without gaps.
        columns: The names of the system columns.

    Raises:
        InvalidInputError: There are no records, a system column is missing or of another type,
            offsets have a gap, or a column has a type that cannot be hashed or stored as it is.
    """
    columns = columns or SystemColumns()
    for problem in chain(_encoding_problems(table.schema), _problems(table, columns)):
        raise InvalidInputError(f"records cannot be written as a slice: {problem}")
    offsets = table.column(columns.offset)
    interval = OffsetInterval(start=offsets[0].as_py(), end=offsets[-1].as_py())
    data = _parquet(table, columns)
    facts = DataSlice(
        logical_hash=logical_hash(table),
        physical_hash=sha3_256(data),
        offset_interval=interval,
        size=len(data),
    )
    return EncodedSlice(data=data, facts=facts)


def _encoding_problems(schema: pa.Schema) -> Iterator[str]:
    for field in schema:
        plain = plain_type(field.type)
        if plain != field.type:
            yield f"column {field.name!r} has type {field.type}; cast it to {plain}"


def _parquet(table: pa.Table, columns: SystemColumns) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        version=_format_version(table.schema),
        compression="snappy",
        use_dictionary=[columns.op, columns.system_time],
    )
    return bytes(sink.getvalue())


def _format_version(schema: pa.Schema) -> str:
    """Return format 1.0, as other writers have it, unless it would change types."""
    changed = {pa.uint32(), pa.time64("ns"), pa.float16()}
    return "2.6" if any(kind in changed for kind in _leaf_types(schema)) else "1.0"


def _leaf_types(fields: pa.Schema | pa.DataType) -> Iterator[pa.DataType]:
    for field in fields:
        if pa.types.is_nested(field.type):
            yield from _leaf_types([field.type.field(i) for i in range(field.type.num_fields)])
        else:
            yield field.type


def decode_slice(data: bytes, *, name: str) -> pa.Table:
    """Return the records of a file, unchecked.

    Args:
        data: The file.
        name: Of the object, for errors.

    Raises:
        IntegrityError: The file is no Parquet file.
    """
    try:
        return pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise IntegrityError(f"{name} is no Parquet file: {error}") from error


def check_slice_bytes(data: bytes, facts: DataSlice, *, name: str) -> None:
    """Check that a file is the one that an event tells of.

    Raises:
        IntegrityError: Size or physical hash differ.
    """
    if len(data) != facts.size:
        raise IntegrityError(
            f"{name}: a file must have the size that its block tells: "
            f"it has {len(data)} bytes, not {facts.size}"
        )
    found = sha3_256(data)
    if found != facts.physical_hash:
        raise IntegrityError(
            f"{name}: a file must have the physical hash that its block tells: "
            f"it has {found}, not {facts.physical_hash}"
        )


def check_slice_records(
    table: pa.Table,
    facts: DataSlice,
    *,
    columns: SystemColumns,
    schema: DataSchema | None,
    name: str,
) -> None:
    """Check that records are those that an event tells of.

    Args:
        table: The records of the file.
        facts: What the event says.
        columns: The names of the system columns.
        schema: That was in force when the slice was written; None leaves it unchecked.
        name: Of the object, for errors.

    Raises:
        IntegrityError: Names the object and the rule that its records break.
    """
    for problem in _problems(table, columns):
        raise IntegrityError(f"{name}: {problem}")
    if schema is not None:
        require_schema(table.schema, schema, name=name)
    offsets = table.column(columns.offset)
    interval = OffsetInterval(start=offsets[0].as_py(), end=offsets[-1].as_py())
    if interval != facts.offset_interval:
        raise IntegrityError(
            f"{name}: offsets must be those of the block: they are {interval.start} to "
            f"{interval.end}, not {facts.offset_interval.start} to {facts.offset_interval.end}"
        )
    found = logical_hash(table)
    if found != facts.logical_hash:
        raise IntegrityError(
            f"{name}: records must have the logical hash that their block tells: "
            f"it is {found}, not {facts.logical_hash}"
        )


def read_slice(
    data: bytes,
    facts: DataSlice,
    *,
    columns: SystemColumns | None = None,
    schema: DataSchema | None = None,
    name: str | None = None,
) -> pa.Table:
    """Return the records of a file after all checks.

    Args:
        data: The file.
        facts: What its event says.
        columns: The names of the system columns.
        schema: That was in force when the slice was written; None leaves it unchecked.
        name: Of the object, for errors; its key in a dataset if left out.

    Raises:
        IntegrityError: The file or its records are not those of the event.
    """
    name = name or f"data/{facts.physical_hash}"
    check_slice_bytes(data, facts, name=name)
    table = decode_slice(data, name=name)
    columns = columns or SystemColumns()
    check_slice_records(table, facts, columns=columns, schema=schema, name=name)
    return table


# rules


def _problems(table: pa.Table, columns: SystemColumns) -> Iterator[str]:
    """Yield how records break the rules for slices, the gravest first."""
    missing = [name for name in columns.names if name not in table.column_names]
    if missing:
        yield f"a slice must have all system columns: missing {', '.join(missing)}"
        return
    yield from _type_problems(table, columns)
    if not len(table):
        yield "a slice must have records: there are none"
        return
    yield from _value_problems(table, columns)


def _type_problems(table: pa.Table, columns: SystemColumns) -> Iterator[str]:
    # the specification's own unsigned numbers are fine to read
    allowed = {
        columns.offset: {OFFSET_TYPE, pa.uint64()},
        columns.op: {OPERATION_TYPE, pa.uint8()},
        columns.system_time: {TIME_TYPE},
        columns.event_time: {TIME_TYPE, pa.date32(), pa.date64()},
    }
    for name, types in allowed.items():
        found = table.schema.field(name).type
        if found not in types:
            wanted = " or ".join(sorted(str(kind) for kind in types))
            yield f"system columns must have their types: {name!r} is {found}, not {wanted}"
    filled = (columns.offset, columns.op, columns.system_time)
    for name in filled:
        if table.column(name).null_count:
            yield f"system columns must not be null: {name!r} is"


def _value_problems(table: pa.Table, columns: SystemColumns) -> Iterator[str]:
    offsets = np.asarray(table.column(columns.offset).to_numpy(), np.int64)
    gaps = np.flatnonzero(np.diff(offsets) != 1)
    if offsets[0] < 0:
        yield f"offsets must not be negative: the first one is {offsets[0]}"
    if len(gaps):
        row = int(gaps[0])
        yield (
            "offsets must follow each other without gaps: "
            f"{offsets[row + 1]} comes after {offsets[row]} in row {row + 1}"
        )
    highest = pc.max(table.column(columns.op)).as_py()
    lowest = pc.min(table.column(columns.op)).as_py()
    if lowest < min(Operation) or highest > max(Operation):
        yield f"operations must be 0 to 3: they are {lowest} to {highest}"
    # of one slice they are all the same, until compaction makes one slice of many
    times = np.asarray(table.column(columns.system_time).cast(pa.int64()).to_numpy())
    falls = np.flatnonzero(np.diff(times) < 0)
    if len(falls):
        yield f"system times must not go down: they do in row {int(falls[0]) + 1}"
