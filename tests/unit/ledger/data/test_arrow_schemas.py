"""Schemas of datasets and of Arrow."""

import struct

import pyarrow as pa
import pytest

from icestream.errors import FormatError, IntegrityError, InvalidInputError
from icestream.ledger.blocks import data_types as odf
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.events import SetDataSchema
from icestream.ledger.data.arrow_schemas import (
    decode_raw_arrow_schema,
    from_arrow_schema,
    plain_type,
    schema_of_event,
    to_arrow_schema,
    to_arrow_type,
)
from icestream.ledger.data.schema_checks import conformed, require_schema

_PLAIN = pa.schema(
    [
        pa.field("required", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("bytes", pa.binary()),
        pa.field("digest", pa.binary(32)),
        pa.field("flag", pa.bool_()),
        pa.field("half", pa.float16()),
        pa.field("small", pa.uint8()),
        pa.field("price", pa.decimal128(38, 4)),
        pa.field("huge", pa.decimal256(39, 4)),
        pa.field("day", pa.date32()),
        pa.field("clock", pa.time32("ms")),
        pa.field("fine_clock", pa.time64("ns")),
        pa.field("lap", pa.duration("us")),
        pa.field("moment", pa.timestamp("ms", "UTC")),
        pa.field("tags", pa.list_(pa.field("item", pa.string(), nullable=False))),
        pa.field("corner", pa.list_(pa.float32(), 2)),
        pa.field("place", pa.struct([pa.field("x", pa.int8(), nullable=False)])),
        pa.field("counts", pa.map_(pa.string(), pa.int32(), keys_sorted=True)),
        pa.field("nothing", pa.null()),
    ]
)


def _raw(schema: pa.Schema) -> bytes:
    """Return a schema as a bare flatbuffer: its message with the root moved to the schema."""
    message = bytearray(schema.serialize().to_pybytes()[8:])
    (root,) = struct.unpack_from("<I", message)
    (to_vtable,) = struct.unpack_from("<i", message, root)
    (slot,) = struct.unpack_from("<H", message, root - to_vtable + 8)
    (to_header,) = struct.unpack_from("<I", message, root + slot)
    struct.pack_into("<I", message, 0, root + slot + to_header)
    return bytes(message)


def test_plain_schemas_survive_the_way_there_and_back():
    assert to_arrow_schema(from_arrow_schema(_PLAIN)) == _PLAIN


def test_nullable_columns_are_options():
    schema = from_arrow_schema(pa.schema([pa.field("a", pa.int8()), ("b", pa.list_(pa.int8()))]))

    assert schema.fields[0].type == odf.DataTypeOption(inner=odf.DataTypeInt8())
    assert schema.fields[1].type == odf.DataTypeOption(
        inner=odf.DataTypeList(item_type=odf.DataTypeOption(inner=odf.DataTypeInt8()))
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.string(), pa.large_string()),
        (pa.string(), pa.string_view()),
        (pa.binary(), pa.binary_view()),
        (pa.list_(pa.int8()), pa.large_list(pa.int8())),
        (pa.list_(pa.int8()), pa.list_view(pa.int8())),
        (pa.date32(), pa.date64()),
        (pa.decimal128(9, 2), pa.decimal32(9, 2)),
    ],
)
def test_encodings_are_one_type(one, other):
    assert from_arrow_schema(pa.schema({"a": one})) == from_arrow_schema(pa.schema({"a": other}))


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        (odf.DataTypeTimestamp(), pa.timestamp("ms", "UTC")),
        (odf.DataTypeTime(), pa.time32("ms")),
        (odf.DataTypeDuration(), pa.duration("ms")),
    ],
)
def test_times_without_unit_or_zone_have_the_defaults(kind, arrow):
    assert to_arrow_type(kind) == arrow


@pytest.mark.parametrize(
    "kind",
    [
        odf.DataTypeOption(inner=odf.DataTypeOption(inner=odf.DataTypeInt8())),
        odf.DataTypeDecimal(precision=77, scale=0),
    ],
)
def test_refuses_types_that_arrow_has_not(kind):
    with pytest.raises(InvalidInputError):
        to_arrow_type(kind)


@pytest.mark.parametrize(
    "kind", [pa.dictionary(pa.int8(), pa.string()), pa.month_day_nano_interval()]
)
def test_refuses_types_that_datasets_have_not_and_names_the_nested_column(kind):
    schema = pa.schema({"a": pa.struct([("b", kind)])})

    with pytest.raises(InvalidInputError, match=r"column 'a\.b'"):
        from_arrow_schema(schema)


def test_reads_legacy_schemas():
    event = SetDataSchema(raw_arrow_schema=_raw(_PLAIN))

    assert decode_raw_arrow_schema(_raw(_PLAIN), name="b") == _PLAIN
    assert schema_of_event(event, name="b") == from_arrow_schema(_PLAIN)


@pytest.mark.parametrize("data", [b"", b"abcd", bytes(40), _raw(_PLAIN)[:60]])
def test_refuses_bytes_that_are_no_schema_and_names_the_block(data):
    with pytest.raises(FormatError, match="block f1620"):
        decode_raw_arrow_schema(data, name="f1620")


def test_refuses_an_event_without_a_schema():
    with pytest.raises(FormatError, match="no schema"):
        schema_of_event(SetDataSchema(), name="b")


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.timestamp("ns"), pa.timestamp("ms", "UTC")),
        (pa.timestamp("s", "Europe/Berlin"), pa.timestamp("ms", "UTC")),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.time32("s"), pa.time32("ms")),
        (pa.decimal64(12, 2), pa.decimal128(12, 2)),
        (pa.struct([("a", pa.timestamp("us"))]), pa.struct([("a", pa.timestamp("ms", "UTC"))])),
        (pa.list_(pa.date64(), 3), pa.list_(pa.date32(), 3)),
        (pa.uint32(), pa.uint32()),
    ],
)
def test_plain_types_are_those_that_files_keep(kind, plain):
    assert plain_type(kind) == plain


def _schema(**types: pa.DataType) -> DataSchema:
    fields = [pa.field(name, kind, nullable=False) for name, kind in types.items()]
    return from_arrow_schema(pa.schema(fields))


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({"a": pa.int64()}, "missing column 'b'"),
        ({"a": pa.int64(), "b": pa.string(), "c": pa.int8()}, "unknown column 'c'"),
        ({"b": pa.string(), "a": pa.int64()}, "the columns are b, a; wanted are a, b"),
        ({"a": pa.int32(), "b": pa.string()}, "column 'a' has type INT, not BIGINT"),
    ],
)
def test_a_slice_has_the_columns_of_its_schema(found, problem):
    expected = _schema(a=pa.int64(), b=pa.string())
    columns = pa.schema([pa.field(name, kind, nullable=False) for name, kind in found.items()])

    with pytest.raises(IntegrityError, match=problem) as error:
        require_schema(columns, expected, name="data/f1620")

    assert "data/f1620: a slice must follow the schema" in str(error.value)


def test_a_slice_may_be_stricter_about_nulls_than_its_schema_but_not_laxer():
    lax, strict = (pa.schema([pa.field("a", pa.int8(), nullable=n)]) for n in (True, False))

    require_schema(strict, from_arrow_schema(lax), name="s")
    with pytest.raises(IntegrityError, match="'a' may be null"):
        require_schema(lax, from_arrow_schema(strict), name="s")


def test_nested_columns_are_compared_by_field():
    expected = from_arrow_schema(pa.schema({"a": pa.list_(pa.struct([("x", pa.int8())]))}))
    found = pa.schema({"a": pa.large_list(pa.struct([("x", pa.int16())]))})

    with pytest.raises(IntegrityError, match=r"column 'a\.item\.x' has type SMALLINT, not TINYINT"):
        require_schema(found, expected, name="s")


def test_data_become_as_strict_about_nulls_as_their_schema():
    table = conformed(pa.table({"a": [1]}), _schema(a=pa.int64()), name="the input")

    assert not table.schema.field("a").nullable


def test_data_with_nulls_where_there_must_be_none_are_refused():
    with pytest.raises(InvalidInputError, match="column 'a' has 1 nulls"):
        conformed(pa.table({"a": [1, None]}), _schema(a=pa.int64()), name="the input")


def test_data_with_other_columns_are_refused_as_input():
    with pytest.raises(InvalidInputError, match="missing column 'a'"):
        conformed(pa.table({"b": [1]}), _schema(a=pa.int64()), name="the input")
