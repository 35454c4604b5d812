"""Files as rows."""

import datetime as dt
import io
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icestream.errors import InvalidInputError, SourceError
from icestream.ledger.blocks import data_types as odf
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.sources import (
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from icestream.ledger.data.sources.ddl_schemas import parse_ddl
from icestream.ledger.data.sources.readers import read_rows

_DDL = ("city STRING", "population BIGINT", "founded DATE", "seen TIMESTAMP")
_ROWS = [
    {
        "city": "kyiv",
        "population": 3,
        "founded": dt.date(2020, 1, 2),
        "seen": dt.datetime(2020, 1, 2, 3, 4, 5, 500_000, tzinfo=dt.UTC),
    },
    {"city": None, "population": None, "founded": None, "seen": None},
]


def _rows(data: str | bytes, step: object) -> list[dict[str, object]]:
    encoded = data.encode() if isinstance(data, str) else data
    table = read_rows(encoded, step)  # type: ignore[arg-type]  # any kind of step
    assert table is not None
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


# CSV


def test_csv_without_header_and_schema_is_numbered_texts():
    assert _rows("a,1\nb,\n", ReadStepCsv()) == [
        {"column_1": "a", "column_2": "1"},
        {"column_1": "b", "column_2": None},
    ]


def test_csv_has_the_names_of_its_header():
    assert _rows("city,population\nkyiv,3\n", ReadStepCsv(header=True)) == [
        {"city": "kyiv", "population": "3"}
    ]


def test_csv_headers_may_have_line_breaks():
    assert _rows('"a\nb",c\n1,2\n', ReadStepCsv(header=True)) == [{"a\nb": "1", "c": "2"}]


def test_csv_types_are_inferred_when_asked():
    step = ReadStepCsv(header=True, infer_schema=True)

    assert _rows("city,population\nkyiv,3\n", step) == [{"city": "kyiv", "population": 3}]


def test_csv_has_the_types_of_its_schema():
    data = "kyiv,3,2020-01-02,2020-01-02T05:04:05.5+02:00\n,,,\n"

    assert _rows(data, ReadStepCsv(ddl_schema=_DDL)) == _ROWS
    assert _rows(data, ReadStepCsv(schema=parse_ddl(_DDL))) == _ROWS


def test_csv_formats_of_dates_and_times():
    data = "kyiv;3;2.1.2020;2020/01/02 03-04\n"
    step = ReadStepCsv(
        ddl_schema=_DDL,
        separator=";",
        date_format="%d.%m.%Y",
        timestamp_format="%Y/%m/%d %H-%M",
    )

    (row,) = _rows(data, step)

    assert row["founded"] == dt.date(2020, 1, 2)
    assert row["seen"] == dt.datetime(2020, 1, 2, 3, 4, tzinfo=dt.UTC)


def test_csv_columns_are_found_by_the_names_of_the_header_in_any_order():
    step = ReadStepCsv(header=True, ddl_schema=("city STRING", "population INT"))

    assert _rows("population,mayor,city\n3,x,kyiv\n", step) == [{"city": "kyiv", "population": 3}]


def test_csv_columns_are_renamed_in_order_when_the_header_has_other_names():
    step = ReadStepCsv(header=True, ddl_schema=("city STRING", "population INT"))

    assert _rows("Town,Count\nkyiv,3\n", step) == [{"city": "kyiv", "population": 3}]


def test_csv_quotes_escapes_and_line_breaks():
    data = "'a\n,b',x\\,y\n"

    assert _rows(data, ReadStepCsv(quote="'")) == [{"column_1": "a\n,b", "column_2": "x,y"}]


def test_csv_null_values_and_encodings():
    step = ReadStepCsv(null_value="NA", encoding="latin-1", ddl_schema=("a STRING", "b STRING"))

    assert _rows("größe,NA\n".encode("latin-1"), step) == [{"a": "größe", "b": None}]


@pytest.mark.parametrize(
    ("data", "step", "problem"),
    [
        ("a,b,c\n", ReadStepCsv(ddl_schema=("x INT", "y INT")), "3 columns .* has 2"),
        ("a\n", ReadStepCsv(ddl_schema=("x INT",)), "cannot be read as Csv: .*int32"),
        ("a,b\nc\n", ReadStepCsv(), "cannot be read as Csv"),
        ("a\n", ReadStepCsv(ddl_schema=("x TIMESTAMP",)), "column 'x' does not hold times"),
        ("a,a\n1,2\n", ReadStepCsv(header=True), "two columns of the header have one name"),
        (b"\xff\n", ReadStepCsv(), "cannot be read as Csv"),
    ],
)
def test_csv_that_does_not_follow_its_step_is_refused(data, step, problem):
    with pytest.raises(SourceError, match=problem):
        _rows(data, step)


def test_csv_separators_are_one_character():
    with pytest.raises(InvalidInputError, match="separator '::' must be one character"):
        _rows("a", ReadStepCsv(separator="::"))


# JSON


def test_json_lines_have_the_types_of_their_schema():
    lines = [
        {
            "city": "kyiv",
            "population": 3,
            "founded": "2020-01-02",
            "seen": "2020-01-02T03:04:05.5Z",
        },
        {"city": None, "more": 1},
    ]
    data = "\n".join(json.dumps(line) for line in lines)

    assert _rows(data, ReadStepNdJson(ddl_schema=_DDL)) == _ROWS


def test_json_lines_without_schema_infer_all_but_times():
    data = '{"a": 1, "at": "2020-01-02", "in": {"at": "2020-01-02T00:00:00Z"}}\n{"b": [true]}\n'

    assert _rows(data, ReadStepNdJson()) == [
        {"a": 1, "at": "2020-01-02", "in": {"at": "2020-01-02T00:00:00Z"}, "b": None},
        {"a": None, "at": None, "in": None, "b": [True]},
    ]


def test_json_arrays_are_found_at_their_path():
    data = json.dumps({"result": {"rows": [{"a": 1}, {"a": None}]}})

    assert _rows(data, ReadStepJson(sub_path="result.rows")) == [{"a": 1}, {"a": None}]
    assert _rows('[{"a": "ä"}]', ReadStepJson()) == [{"a": "ä"}]


def test_json_of_another_encoding():
    data = '[{"a": "größe"}]'.encode("utf-16")

    assert _rows(data, ReadStepJson(encoding="utf-16")) == [{"a": "größe"}]


def test_json_without_rows_keeps_the_schema():
    table = read_rows(b"[]", ReadStepJson(ddl_schema=("a INT NOT NULL",)))

    assert table is not None
    assert table.schema == pa.schema([pa.field("a", pa.int32(), nullable=False)])


@pytest.mark.parametrize(
    ("data", "step", "problem"),
    [
        ('{"a": 1', ReadStepJson(), "cannot be read as Json"),
        ("{}", ReadStepJson(sub_path="a.b"), "no 'a' in the document, so 'a.b' leads nowhere"),
        ("[1]", ReadStepJson(), "rows must be JSON objects"),
        ('{"a": 1}\n{"a": ', ReadStepNdJson(), "cannot be read as NdJson"),
        ('{"a": "x"}', ReadStepNdJson(ddl_schema=("a INT",)), "cannot be read as NdJson"),
        (b"\xff\xfe", ReadStepJson(encoding="ascii"), "not encoded in 'ascii'"),
    ],
)
def test_json_that_does_not_follow_its_step_is_refused(data, step, problem):
    with pytest.raises(SourceError, match=problem):
        _rows(data, step)


def test_unknown_encodings_are_refused():
    with pytest.raises(InvalidInputError, match="'klingon' is not known"):
        _rows("[]", ReadStepJson(encoding="klingon"))


# Parquet


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def test_parquet_is_read_as_it_is_or_as_its_schema_says():
    data = _parquet(pa.table({"b": [1], "a": ["x"]}))

    assert _rows(data, ReadStepParquet()) == [{"b": 1, "a": "x"}]
    assert _rows(data, ReadStepParquet(ddl_schema=("a STRING",))) == [{"a": "x"}]


def test_parquet_without_a_declared_column_is_refused():
    with pytest.raises(SourceError, match="the file has no c; its columns are a"):
        _rows(_parquet(pa.table({"a": [1]})), ReadStepParquet(ddl_schema=("c INT",)))
    with pytest.raises(SourceError, match="cannot be read as Parquet"):
        _rows(b"no parquet", ReadStepParquet())


# all


@pytest.mark.parametrize("step", [ReadStepCsv, ReadStepJson, ReadStepNdJson, ReadStepParquet])
def test_an_empty_file_is_an_empty_table_if_the_schema_is_known(step):
    table = read_rows(b" \n", step(ddl_schema=("a INT",)))

    assert table == pa.table({"a": pa.array([], pa.int32())})
    assert read_rows(b"", step()) is None


@pytest.mark.parametrize("step", [ReadStepGeoJson, ReadStepNdGeoJson, ReadStepEsriShapefile])
def test_other_formats_are_refused_by_name(step):
    kind = step.__name__.removeprefix("ReadStep")

    with pytest.raises(InvalidInputError, match=f"kind {kind} are not supported, only Csv, Json"):
        _rows("x", step())


def test_two_schemas_are_refused():
    step = ReadStepCsv(ddl_schema=("a INT",), schema=DataSchema(fields=()))

    with pytest.raises(InvalidInputError, match="both schema and ddlSchema"):
        _rows("1", step)


def test_declarations_have_types_and_nullability():
    schema = parse_ddl(
        ['"my city" VARCHAR(20) NOT NULL', "price decimal(10, 2)", "tags ARRAY<INT UNSIGNED>"]
    )

    assert schema.fields == (
        odf.DataField(name="my city", type=odf.DataTypeString()),
        odf.DataField(
            name="price", type=odf.DataTypeOption(inner=odf.DataTypeDecimal(precision=10, scale=2))
        ),
        odf.DataField(
            name="tags",
            type=odf.DataTypeOption(
                inner=odf.DataTypeList(item_type=odf.DataTypeOption(inner=odf.DataTypeUInt32()))
            ),
        ),
    )
    assert _rows("x,1.5\n", ReadStepCsv(ddl_schema=("a STRING", "b DECIMAL(4, 2)"))) == [
        {"a": "x", "b": Decimal("1.50")}
    ]


@pytest.mark.parametrize("text", ["city", "city POINT", ""])
def test_other_declarations_are_refused(text):
    with pytest.raises(InvalidInputError):
        parse_ddl([text])
