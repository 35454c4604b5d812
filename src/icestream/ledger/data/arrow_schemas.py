"""Schemas of datasets as Arrow schemas, and back.

Logical types have no encodings: all kinds of Arrow strings are one type, and likewise binaries,
lists and dates. Arrow's nullable fields are the `Option` types of the fabric.
"""

import struct

import pyarrow as pa

from icestream.errors import FormatError, InvalidInputError
from icestream.ledger.blocks import data_types as odf
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.events import SetDataSchema

_DECIMAL128_DIGITS = 38

_UNITS = {
    "s": odf.TimeUnit.SECOND,
    "ms": odf.TimeUnit.MILLISECOND,
    "us": odf.TimeUnit.MICROSECOND,
    "ns": odf.TimeUnit.NANOSECOND,
}
_UNIT_NAMES = {unit: name for name, unit in _UNITS.items()}

_PLAIN: dict[pa.DataType, odf.DataType] = {
    pa.bool_(): odf.DataTypeBool(),
    pa.int8(): odf.DataTypeInt8(),
    pa.int16(): odf.DataTypeInt16(),
    pa.int32(): odf.DataTypeInt32(),
    pa.int64(): odf.DataTypeInt64(),
    pa.uint8(): odf.DataTypeUInt8(),
    pa.uint16(): odf.DataTypeUInt16(),
    pa.uint32(): odf.DataTypeUInt32(),
    pa.uint64(): odf.DataTypeUInt64(),
    pa.float16(): odf.DataTypeFloat16(),
    pa.float32(): odf.DataTypeFloat32(),
    pa.float64(): odf.DataTypeFloat64(),
    pa.date32(): odf.DataTypeDate(),
    pa.string(): odf.DataTypeString(),
    pa.null(): odf.DataTypeNull(),
}
_PLAIN_ARROW = {kind: arrow for arrow, kind in _PLAIN.items()}
_OTHER_ENCODINGS: dict[pa.DataType, odf.DataType] = {
    pa.large_string(): odf.DataTypeString(),
    pa.string_view(): odf.DataTypeString(),
    pa.binary(): odf.DataTypeBinary(),
    pa.large_binary(): odf.DataTypeBinary(),
    pa.binary_view(): odf.DataTypeBinary(),
    pa.date64(): odf.DataTypeDate(),
}
_FROM_ARROW = _PLAIN | _OTHER_ENCODINGS


# to Arrow


def to_arrow_schema(schema: DataSchema) -> pa.Schema:
    """Return the Arrow schema of a dataset's schema, in the plainest encodings.

    Raises:
        InvalidInputError: A type is an option of an option, or a decimal that Arrow has not.
    """
    return pa.schema([_to_arrow_field(field) for field in schema.fields])


def to_arrow_type(kind: odf.DataType) -> pa.DataType:
    """Return the Arrow type of values; an option has that of its values.

    Raises:
        InvalidInputError: Arrow has no such type.
    """
    if kind in _PLAIN_ARROW:
        return _PLAIN_ARROW[kind]
    match kind:
        case odf.DataTypeOption(inner=odf.DataTypeOption()):
            raise InvalidInputError("an option of an option is no type; leave one of them out")
        case odf.DataTypeOption(inner=inner):
            return to_arrow_type(inner)
        case odf.DataTypeBinary(fixed_length=length):
            return pa.binary() if length is None else pa.binary(length)
        case odf.DataTypeDecimal():
            return _to_arrow_decimal(kind)
        case odf.DataTypeTime() | odf.DataTypeDuration() | odf.DataTypeTimestamp():
            return _to_arrow_time(kind)
        case _:
            return _to_arrow_nested(kind)


def _to_arrow_field(field: odf.DataField) -> pa.Field:
    return _named(field.name, field.type)


def _named(name: str, kind: odf.DataType) -> pa.Field:
    return pa.field(name, to_arrow_type(kind), nullable=isinstance(kind, odf.DataTypeOption))


def _to_arrow_nested(kind: odf.DataType) -> pa.DataType:
    match kind:
        case odf.DataTypeStruct(fields=fields):
            return pa.struct([_to_arrow_field(field) for field in fields])
        case odf.DataTypeList(item_type=item, fixed_length=length):
            return pa.list_(_named("item", item), -1 if length is None else length)
        case odf.DataTypeMap(key_type=key, value_type=value):
            entries = (_named("key", key), _named("value", value))
            return pa.map_(*entries, keys_sorted=bool(kind.keys_sorted))
        case _:
            raise InvalidInputError(f"{kind} has no Arrow type")


def _to_arrow_decimal(kind: odf.DataTypeDecimal) -> pa.DataType:
    make = pa.decimal128 if kind.precision <= _DECIMAL128_DIGITS else pa.decimal256
    try:
        return make(kind.precision, kind.scale)
    except ValueError as error:
        raise InvalidInputError(f"{kind} has no Arrow type: {error}") from error


def _to_arrow_time(
    kind: odf.DataTypeTime | odf.DataTypeDuration | odf.DataTypeTimestamp,
) -> pa.DataType:
    unit = _UNIT_NAMES[kind.unit or odf.DEFAULT_UNIT]
    match kind:
        case odf.DataTypeTimestamp(timezone=zone):
            return pa.timestamp(unit, zone or odf.DEFAULT_TIMEZONE)
        case odf.DataTypeDuration():
            return pa.duration(unit)
        case odf.DataTypeTime():
            return pa.time32(unit) if unit in {"s", "ms"} else pa.time64(unit)


# from Arrow


def from_arrow_schema(schema: pa.Schema) -> DataSchema:
    """Return the schema of a dataset that has these columns.

    Raises:
        InvalidInputError: A column has a type that no dataset can have.

    Examples:
        >>> from_arrow_schema(pa.schema([pa.field("n", pa.int8(), nullable=False)])).fields
        (DataField(name='n', type=DataTypeInt8(), extra=None),)
    """
    return DataSchema(fields=tuple(_from_arrow_field(field, field.name) for field in schema))


def _from_arrow_field(field: pa.Field, path: str) -> odf.DataField:
    return odf.DataField(name=field.name, type=_from_arrow(field, path))


def _from_arrow(field: pa.Field, path: str) -> odf.DataType:
    kind = _from_arrow_type(field.type, path)
    return odf.DataTypeOption(inner=kind) if field.nullable else kind


def _from_arrow_type(kind: pa.DataType, path: str) -> odf.DataType:
    if kind in _FROM_ARROW:
        return _FROM_ARROW[kind]
    if pa.types.is_fixed_size_binary(kind):
        return odf.DataTypeBinary(fixed_length=kind.byte_width)
    if pa.types.is_decimal(kind):
        return odf.DataTypeDecimal(precision=kind.precision, scale=kind.scale)
    found = _from_arrow_time(kind) or _from_arrow_nested(kind, path)
    if found is None:
        raise InvalidInputError(
            f"column {path!r} has type {kind}, which datasets cannot have; "
            "cast it to plain values, texts, times, lists or structs of these"
        )
    return found


def _from_arrow_time(kind: pa.DataType) -> odf.DataType | None:
    if pa.types.is_timestamp(kind):
        # a timestamp without a zone means the default one
        return odf.DataTypeTimestamp(
            unit=_UNITS[kind.unit], timezone=kind.tz or odf.DEFAULT_TIMEZONE
        )
    if pa.types.is_time(kind):
        return odf.DataTypeTime(unit=_UNITS[kind.unit])
    return odf.DataTypeDuration(unit=_UNITS[kind.unit]) if pa.types.is_duration(kind) else None


def _from_arrow_nested(kind: pa.DataType, path: str) -> odf.DataType | None:
    if pa.types.is_struct(kind):
        fields = (_from_arrow_field(field, f"{path}.{field.name}") for field in kind.fields)
        return odf.DataTypeStruct(fields=tuple(fields))
    if pa.types.is_map(kind):
        return odf.DataTypeMap(
            key_type=_from_arrow(kind.key_field, f"{path}.key"),
            value_type=_from_arrow(kind.item_field, f"{path}.value"),
            keys_sorted=kind.keys_sorted or None,
        )
    if pa.types.is_fixed_size_list(kind):
        item = _from_arrow(kind.value_field, f"{path}.item")
        return odf.DataTypeList(item_type=item, fixed_length=kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or _is_list_view(kind):
        return odf.DataTypeList(item_type=_from_arrow(kind.value_field, f"{path}.item"))
    return None


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that values have in slices, where files keep exactly what was written.

    Timestamps are in milliseconds of UTC, and no file has times of day in seconds.

    Examples:
        >>> plain_type(pa.list_(pa.timestamp("ns")))
        ListType(list<item: timestamp[ms, tz=UTC]>)
    """
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms", odf.DEFAULT_TIMEZONE)
    if kind == pa.time32("s"):
        return pa.time32("ms")
    if pa.types.is_decimal(kind):
        return _to_arrow_decimal(odf.DataTypeDecimal(precision=kind.precision, scale=kind.scale))
    if pa.types.is_nested(kind):
        return _plain_nested(kind)
    return to_arrow_type(_FROM_ARROW[kind]) if kind in _FROM_ARROW else kind


def _plain_nested(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field, field.name) for field in kind.fields])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field, "item"), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or _is_list_view(kind):
        return pa.list_(_plain_field(kind.value_field, "item"))
    return kind


def _plain_field(field: pa.Field, name: str) -> pa.Field:
    return pa.field(name, plain_type(field.type), nullable=field.nullable)


# legacy schemas


def decode_raw_arrow_schema(data: bytes, *, name: str) -> pa.Schema:
    """Return the Arrow schema of a legacy event: a bare flatbuffer of Arrow's `Schema` table.

    Arrow reads schemas only inside of messages, so a message is put before it that points to it.

    Args:
        data: The flatbuffer.
        name: Of the block, for errors.

    Raises:
        FormatError: The bytes are no Arrow schema.
    """
    header, table = 32, 16
    header_field = table + 8
    try:
        (root,) = struct.unpack_from("<I", data)
        vtable = struct.pack("<6H", 12, 12, 4, 6, 8, 0)
        fields = struct.pack("<ihBxII", table - 4, 4, 1, header + root - header_field, 0)
        message = struct.pack("<I", table) + vtable + fields + data
        message += bytes(-len(message) % 8)
        framed = struct.pack("<Ii", 0xFFFFFFFF, len(message)) + message
        return pa.ipc.read_schema(pa.py_buffer(framed))
    except (struct.error, pa.ArrowException, OSError) as error:
        raise FormatError(f"block {name}: its raw schema is no Arrow schema: {error}") from error


def schema_of_event(event: SetDataSchema, *, name: str) -> DataSchema:
    """Return the schema that an event sets, in the form of today or in the legacy one.

    Raises:
        FormatError: The event holds no schema that can be read.
    """
    if event.schema is not None:
        return event.schema
    if event.raw_arrow_schema is None:
        raise FormatError(f"block {name}: the event sets no schema at all")
    return from_arrow_schema(decode_raw_arrow_schema(event.raw_arrow_schema, name=name))
