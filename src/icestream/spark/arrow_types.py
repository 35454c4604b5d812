"""Arrow columns in the types that Spark has, and back."""

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from icestream.errors import InvalidInputError
from icestream.ledger.data.arrow_schemas import plain_type

_SPARK_DIGITS = 38
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the schema of a DataFrame that holds such columns.

    Raises:
        InvalidInputError: Spark has no type for a column.
    """
    return from_arrow_schema(in_spark_types(schema))


def in_spark_types(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which Spark takes such columns from Python.

    Spark has no unsigned numbers: they become the next wider signed ones. Times are in
    microseconds.

    Raises:
        InvalidInputError: Spark has no type for a column.
    """
    return pa.schema([_in_spark_type(field) for field in schema])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the columns that a DataFrame would have in a slice."""
    fields = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([field.with_type(plain_type(field.type)) for field in fields])


def out_of_spark_types(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return a table with the types that its columns had before Spark.

    Args:
        table: In the plain encodings of slices.
        wanted: The columns of the dataset; others, and those of another type, are left alone.

    Raises:
        InvalidInputError: A value is out of the range of its type.
    """
    fields = [_original(field, wanted) for field in table.schema]
    try:
        return table.cast(pa.schema(fields))
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"a value does not fit the schema: {error}") from error


def _original(field: pa.Field, wanted: pa.Schema) -> pa.Field:
    index = wanted.get_field_index(field.name)
    if index < 0:
        return field
    original = wanted.field(index).type
    was_changed = plain_type(_spark_type(original, field.name)) == field.type
    return field.with_type(original) if was_changed else field


def _in_spark_type(field: pa.Field) -> pa.Field:
    return field.with_type(_spark_type(field.type, field.name))


def _spark_type(kind: pa.DataType, name: str) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_in_spark_type(field) for field in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(_in_spark_type(kind.key_field), _in_spark_type(kind.item_field))
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_in_spark_type(kind.value_field))
    if pa.types.is_decimal(kind) and kind.precision > _SPARK_DIGITS:
        raise InvalidInputError(
            f"column {name!r} has type {kind}; Spark has decimals of {_SPARK_DIGITS} digits at most"
        )
    return _WIDER.get(kind, _spark_time(kind))


def _spark_time(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_time(kind):
        return pa.time64("ns")
    if pa.types.is_duration(kind):
        return pa.duration("us")
    return pa.binary() if pa.types.is_fixed_size_binary(kind) else kind
