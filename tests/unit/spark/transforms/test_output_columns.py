"""Columns that a dataset can have, and those that it cannot."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DoubleType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from icestream.errors import InvalidInputError
from icestream.ledger.data.system_columns import SystemColumns
from icestream.spark.transforms.output_columns import require_storable

TEXT = StringType()


def judge(columns: SystemColumns | None = None, **kinds: DataType) -> None:
    """Judge columns of these types, which come behind an event time."""
    fields = {"event_time": TimestampType(), **kinds}
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    require_storable(schema, columns or SystemColumns(), name="step 2 (the output)")


def test_columns_of_plain_types_with_names_of_their_own_are_fine() -> None:
    judge(op=DoubleType(), a=TEXT, b=ArrayType(MapType(TEXT, StructType([]))))
    judge(event_time=DateType(), offset=TEXT, columns=SystemColumns(offset="number"))


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"offset": TEXT, "system_time": TEXT}, r"system columns offset, system_time.*last step"),
        ({"sensor": TEXT, "Sensor": TEXT}, "only case.*sensor, Sensor; .* give Sensor another"),
        ({"OFFSET": TEXT}, "offset, OFFSET .offset is a system column"),
        ({"Op": TEXT}, "op, Op .*give Op another name"),
        ({"v": VariantType()}, r"column v with the type VARIANT.*cast\(v as string\)"),
        ({"v": MapType(TEXT, ArrayType(VariantType()))}, "VARIANT"),
        ({"v": StructType([StructField("x", VariantType())])}, "VARIANT"),
        ({"event_time": TEXT}, "event_time with the type STRING.*as timestamp"),
    ],
)
def test_columns_that_no_dataset_can_have_are_refused_with_the_step_and_the_way_out(
    kinds: dict[str, DataType], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=rf"^step 2 \(the output\) puts out .*{message}"):
        judge(None, **kinds)


def test_two_columns_of_one_name_are_refused() -> None:
    schema = StructType([StructField("a", TEXT), StructField("a", TEXT)])

    with pytest.raises(InvalidInputError, match="two columns a: give one"):
        require_storable(schema, SystemColumns(), name="step 1")
