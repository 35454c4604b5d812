"""How schemas may follow one another."""

import pytest

from icestream.ledger.blocks.attributes import ExtraAttributes
from icestream.ledger.blocks.data_schemas import DataSchema, SchemaChangeKind, schema_change
from icestream.ledger.blocks.data_types import (
    DataField,
    DataType,
    DataTypeBool,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTimestamp,
    TimeUnit,
)

TEXT, NUMBER = DataTypeString(), DataTypeInt64()
MAYBE = DataTypeOption(inner=NUMBER)


def schema(**types: DataType) -> DataSchema:
    return DataSchema(fields=fields(**types))


def fields(**types: DataType) -> tuple[DataField, ...]:
    return tuple(DataField(name=name, type=kind) for name, kind in types.items())


def struct(**types: DataType) -> DataTypeStruct:
    return DataTypeStruct(fields=fields(**types))


def test_a_schema_is_identical_to_itself():
    old = schema(a=TEXT, b=struct(c=MAYBE))

    assert schema_change(old, old).kind is SchemaChangeKind.IDENTICAL


@pytest.mark.parametrize(
    ("implied", "stated"),
    [
        (DataTypeTimestamp(), DataTypeTimestamp(unit=TimeUnit.MILLISECOND, timezone="UTC")),
        (DataTypeDuration(), DataTypeDuration(unit=TimeUnit.MILLISECOND)),
        (
            DataTypeList(item_type=DataTypeTimestamp()),
            DataTypeList(item_type=DataTypeTimestamp(timezone="UTC")),
        ),
        (
            DataTypeMap(key_type=TEXT, value_type=TEXT),
            DataTypeMap(key_type=TEXT, value_type=TEXT, keys_sorted=False),
        ),
    ],
)
def test_a_default_may_be_stated(implied: DataType, stated: DataType):
    assert schema_change(schema(a=implied), schema(a=stated)).kind is SchemaChangeKind.IDENTICAL


@pytest.mark.parametrize(
    "new",
    [
        schema(b=TEXT, a=NUMBER),
        DataSchema(fields=fields(a=NUMBER, b=TEXT), extra=ExtraAttributes.of({"x.y/z": 1})),
        DataSchema(
            fields=(
                DataField(name="a", type=NUMBER, extra=ExtraAttributes.of({"x.y/z": 1})),
                DataField(name="b", type=TEXT),
            )
        ),
    ],
)
def test_order_and_attributes_are_cosmetic(new: DataSchema):
    assert schema_change(schema(a=NUMBER, b=TEXT), new).kind is SchemaChangeKind.COSMETIC


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (schema(a=TEXT), schema(a=TEXT, b=MAYBE)),
        (schema(a=struct(b=TEXT)), schema(a=struct(c=MAYBE, b=TEXT))),
        (
            schema(a=DataTypeList(item_type=struct(b=TEXT))),
            schema(a=DataTypeList(item_type=struct(b=TEXT, c=MAYBE))),
        ),
    ],
)
def test_optional_fields_may_be_added(old: DataSchema, new: DataSchema):
    change = schema_change(old, new)

    assert change.kind is SchemaChangeKind.EXTENDED
    assert change.is_allowed


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (schema(a=TEXT), schema(a=TEXT, b=NUMBER), "b is added, but it is not optional"),
        (schema(a=TEXT, b=TEXT), schema(a=TEXT), "b is removed"),
        (schema(a=NUMBER), schema(a=DataTypeInt32()), "a changes from Int64 to Int32"),
        (schema(a=NUMBER), schema(a=MAYBE), "a becomes optional"),
        (schema(a=MAYBE), schema(a=NUMBER), "a becomes required"),
        (schema(a=struct(b=TEXT)), schema(a=struct(b=NUMBER)), "a.b changes from String to Int64"),
        (
            schema(a=DataTypeTimestamp()),
            schema(a=DataTypeTimestamp(timezone="CET")),
            (
                "a changes from Timestamp(unit=Millisecond, timezone=UTC)"
                " to Timestamp(unit=Millisecond, timezone=CET)"
            ),
        ),
        (
            schema(a=DataTypeDecimal(precision=4, scale=2)),
            schema(a=DataTypeDecimal(precision=5, scale=2)),
            "a changes from Decimal(precision=4, scale=2) to Decimal(precision=5, scale=2)",
        ),
        (
            schema(a=DataTypeList(item_type=TEXT)),
            schema(a=DataTypeList(item_type=TEXT, fixed_length=2)),
            "a changes from List to List(fixed_length=2)",
        ),
        (
            schema(a=DataTypeList(item_type=TEXT)),
            schema(a=DataTypeList(item_type=NUMBER)),
            "a[] changes from String to Int64",
        ),
        (
            schema(a=DataTypeMap(key_type=TEXT, value_type=TEXT)),
            schema(a=DataTypeMap(key_type=TEXT, value_type=DataTypeBool())),
            "a[value] changes from String to Bool",
        ),
    ],
)
def test_other_changes_are_refused_by_name(old: DataSchema, new: DataSchema, reason: str):
    change = schema_change(old, new)

    assert change.reasons == (reason,)
    assert not change.is_allowed


def test_all_reasons_are_given():
    change = schema_change(schema(a=TEXT, b=TEXT), schema(b=NUMBER, c=TEXT))

    assert len(change.reasons) == 3


def test_two_fields_of_one_name_are_refused():
    twice = DataSchema(fields=fields(a=TEXT) + fields(a=TEXT))

    assert schema_change(schema(a=TEXT), twice).reasons == (
        "the schema has two fields of one name",
    )


def test_optionality_can_be_ignored_for_legacy_schemas():
    change = schema_change(
        schema(a=NUMBER, b=struct(c=MAYBE)),
        schema(a=MAYBE, b=struct(c=NUMBER)),
        ignores_optionality=True,
    )

    assert change.kind is SchemaChangeKind.COSMETIC
