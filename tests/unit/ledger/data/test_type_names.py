"""Types in the words of SQL."""

import pyarrow as pa
import pytest

from icestream.ledger.blocks import data_types as odf
from icestream.ledger.data.arrow_schemas import from_arrow_schema
from icestream.ledger.data.type_names import sql_name, told_apart


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.int32(), "INT"),
        (pa.float64(), "DOUBLE"),
        (pa.uint8(), "UNSIGNED TINYINT"),
        (pa.binary(4), "BINARY"),
        (pa.timestamp("ms", "UTC"), "TIMESTAMP"),
        (pa.decimal128(10, 2), "DECIMAL(10, 2)"),
        (pa.list_(pa.struct([("x", pa.int8())])), "ARRAY<STRUCT<x: TINYINT>>"),
        (pa.map_(pa.string(), pa.bool_()), "MAP<STRING, BOOLEAN>"),
    ],
)
def test_types_have_the_names_that_queries_know(kind: pa.DataType, name: str) -> None:
    (field,) = from_arrow_schema(pa.schema({"a": kind})).fields

    assert sql_name(field.type) == name


def test_types_of_one_name_are_told_with_all_that_belongs_to_them() -> None:
    fine, coarse = (
        odf.DataTypeTimestamp(unit=unit) for unit in (odf.TimeUnit.NANOSECOND, odf.TimeUnit.SECOND)
    )

    assert told_apart(odf.DataTypeInt32(), odf.DataTypeFloat64()) == ("INT", "DOUBLE")
    names = told_apart(fine, coarse)
    assert ["Nanosecond" in names[0], "Second" in names[1]] == [True, True]
    assert names[0] != names[1]
