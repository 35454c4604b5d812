"""The schema of blocks is that of the specification."""

from typing import TypeAliasType

from icestream.ledger.blocks.data_types import DataType, DataTypeDecimal, DataTypeMap
from icestream.ledger.blocks.events import (
    AddData,
    ExecuteTransformInput,
    MetadataBlock,
    MetadataEvent,
    SetPollingSource,
)
from icestream.ledger.blocks.shapes import shape_of, union_of
from icestream.ledger.blocks.sources import FetchStep, MergeStrategy, ReadStep


def slots(cls: type) -> dict[str, int]:
    return {field.key: field.slot for field in shape_of(cls).fields}


def tags(alias: TypeAliasType) -> list[str]:
    union = union_of(alias)
    return [union.kind_of(variant) for variant in union.variants]


def test_events_have_the_tags_of_the_specification():
    assert tags(MetadataEvent) == [
        "AddData",
        "ExecuteTransform",
        "Seed",
        "SetPollingSource",
        "SetTransform",
        "SetVocab",
        "SetAttachments",
        "SetInfo",
        "SetLicense",
        "SetDataSchema",
        "AddPushSource",
        "DisablePushSource",
        "DisablePollingSource",
    ]


def test_parts_of_sources_have_the_tags_of_the_specification():
    assert tags(ReadStep) == [
        "Csv",
        "GeoJson",
        "EsriShapefile",
        "Parquet",
        "Json",
        "NdJson",
        "NdGeoJson",
    ]
    assert tags(MergeStrategy) == [
        "Append",
        "Ledger",
        "Snapshot",
        "ChangelogStream",
        "UpsertStream",
    ]
    assert tags(FetchStep) == ["Url", "FilesGlob", "Container", "Mqtt", "EthereumLogs"]


def test_data_types_have_the_tags_of_the_specification():
    names = tags(DataType)

    assert [
        names.index(n) + 1 for n in ("Binary", "Int8", "UInt64", "List", "Option", "String")
    ] == [
        1,
        9,
        16,
        17,
        20,
        24,
    ]
    assert len(names) == 24


def test_unions_take_two_slots():
    assert slots(MetadataBlock) == {
        "systemTime": 0,
        "prevBlockHash": 1,
        "sequenceNumber": 2,
        "event": 3,
    }
    assert slots(SetPollingSource) == {
        "fetch": 0,
        "prepare": 2,
        "read": 3,
        "preprocess": 5,
        "merge": 7,
    }
    assert slots(DataTypeMap) == {"keyType": 0, "valueType": 2, "keysSorted": 4}
    assert shape_of(MetadataBlock).n_slots == 5


def test_absence_is_told_from_zero_where_fields_are_optional():
    optional = {
        (cls.__name__, field.key)
        for cls in (AddData, ExecuteTransformInput, DataTypeDecimal)
        for field in shape_of(cls).fields
        if field.is_optional
    }

    assert ("AddData", "prevOffset") in optional
    assert ("ExecuteTransformInput", "newOffset") in optional
    assert ("ExecuteTransformInput", "datasetId") not in optional
    assert ("DataTypeDecimal", "scale") not in optional
