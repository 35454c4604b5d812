"""YAML and JSON forms of blocks, events and dataset snapshots."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.ledger_strategies import seeded_dataset_id

from icestream.codec.yaml_documents import load_yaml
from icestream.errors import InvalidInputError
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.data_types import DataField, DataTypeOption, DataTypeString
from icestream.ledger.blocks.documents import (
    DocumentForm,
    block_from_tree,
    document_tree,
    event_from_tree,
    event_tree,
    read_documents,
    read_snapshots,
    write_document,
)
from icestream.ledger.blocks.events import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    SetDataSchema,
    SetInfo,
    SetPollingSource,
    SetTransform,
)
from icestream.ledger.blocks.names import DatasetAlias
from icestream.ledger.blocks.snapshots import DatasetSnapshot
from icestream.ledger.blocks.sources import FetchStepFilesGlob, MergeStrategyAppend, ReadStepNdJson

VECTORS = Path(__file__).parents[3] / "vectors/odf"
FACTS = json.loads((VECTORS / "documents.json").read_text())
RFC = json.loads((VECTORS / "rfc_014.json").read_text())
DATASET_ID = str(seeded_dataset_id("input1"))
HASH = "f1620" + "ab" * 32
VALUES = {"dataset-id": DATASET_ID, "multihash": HASH, "uint64": 0}


# -- published documents --------------------------------------------------------------------------


@pytest.mark.parametrize("name", FACTS["forms"])
def test_published_documents_survive(name: str):
    text = FACTS["forms"][name].encode()

    (document,) = read_documents(text)

    assert load_yaml(write_document(document), name=name) == load_yaml(text, name=name)
    assert read_documents(write_document(document)) == (document,)


@pytest.mark.parametrize("form", DocumentForm)
def test_both_forms_hold_the_same(form: DocumentForm):
    (document,) = read_documents(FACTS["forms"]["metadata_block"].encode())

    assert read_documents(write_document(document, form=form), form=form) == (document,)


def test_a_file_may_hold_several_snapshots():
    forms = FACTS["forms"]
    text = "---\n".join(forms[name] for name in forms if name.startswith("dataset_snapshot"))

    snapshots = read_snapshots(text.encode())

    assert [str(snapshot.name) for snapshot in snapshots] == [
        "kamu.test",
        "com.naturalearthdata.admin0",
        "a/com.naturalearthdata.admin0",
    ]
    assert isinstance(snapshots[0].metadata[0], SetPollingSource)
    assert isinstance(snapshots[1].metadata[0], SetTransform)


def test_a_snapshot_may_be_without_metadata():
    snapshot = DatasetSnapshot(name=DatasetAlias.parse("a"), kind=DatasetKind.ROOT)

    assert read_snapshots(b"kind: DatasetSnapshot\nversion: 1\ncontent: {name: a, kind: root}") == (
        snapshot,
    )
    assert document_tree(snapshot)["content"] == {"name": "a", "kind": "Root", "metadata": []}


def test_only_snapshots_are_read_as_snapshots():
    with pytest.raises(InvalidInputError, match=r"^x\.yaml: every document must be of kind"):
        read_snapshots(write_document(SetInfo()), name="x.yaml")


# -- spellings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", FACTS["spellings"]["NdJson"]["accepted"])
def test_kinds_have_three_spellings(spelling: str):
    event = event_from_tree(polling_source(read={"kind": spelling}))

    assert isinstance(event, SetPollingSource)
    assert event.read == ReadStepNdJson()
    assert event_tree(event)["read"] == {"kind": "NdJson"}


@pytest.mark.parametrize("spelling", FACTS["spellings"]["NdJson"]["refused"])
def test_kinds_have_no_other_spelling(spelling: str):
    with pytest.raises(InvalidInputError, match=r"^event\.read: 'nDjson' is no ReadStep: use one"):
        event_from_tree(polling_source(read={"kind": spelling}))


@pytest.mark.parametrize("spelling", FACTS["spellings"]["ByEventTime"]["accepted"])
def test_enumerations_have_three_spellings(spelling: str):
    event = event_from_tree(polling_source(order=spelling))

    assert isinstance(event, SetPollingSource)
    assert isinstance(event.fetch, FetchStepFilesGlob)
    assert event_tree(event)["fetch"]["order"] == "ByEventTime"


@pytest.mark.parametrize("spelling", FACTS["spellings"]["ByEventTime"]["refused"])
def test_enumerations_have_no_other_spelling(spelling: str):
    with pytest.raises(InvalidInputError, match=r"^event\.fetch\.order: 'bYeventtime' is none of"):
        event_from_tree(polling_source(order=spelling))


def test_a_text_is_short_for_a_kind_without_fields():
    tree = polling_source(merge="append")
    schema = {"kind": "setDataSchema", "schema": {"fields": [{"name": "a", "type": "String"}]}}

    event = event_from_tree(tree)

    assert isinstance(event, SetPollingSource)
    assert event.merge == MergeStrategyAppend()
    assert event_from_tree(schema) == SetDataSchema(
        schema=DataSchema(fields=(DataField(name="a", type=DataTypeString()),))
    )


def test_short_forms_work_inside_of_types():
    kind = {"kind": "Option", "inner": "string"}
    tree = {"kind": "SetDataSchema", "schema": {"fields": [{"name": "a", "type": kind}]}}

    event = event_from_tree(tree)

    assert isinstance(event, SetDataSchema)
    assert event.schema is not None
    assert event.schema.fields[0].type == DataTypeOption(inner=DataTypeString())


def polling_source(**changes: Any) -> dict[str, Any]:
    order = changes.pop("order", "ByName")
    return {
        "kind": "SetPollingSource",
        "fetch": {"kind": "FilesGlob", "path": "*.csv", "order": order},
        "read": {"kind": "Csv"},
        "merge": {"kind": "Append"},
        **changes,
    }


# -- RFC-014 --------------------------------------------------------------------------------------


def transform_of(*inputs: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "ExecuteTransform", "queryInputs": list(inputs)}


def test_inputs_have_the_properties_of_the_rfc():
    everything = {key: VALUES[form] for key, form in RFC["input"]["properties"].items()}

    event = event_from_tree(transform_of(everything))

    assert event_tree(event)["queryInputs"] == [everything]
    assert list(event_tree(event)["queryInputs"][0]) == list(RFC["input"]["properties"])


def test_an_input_needs_no_more_than_the_rfc_requires():
    given = {key: VALUES[RFC["input"]["properties"][key]] for key in RFC["input"]["required"]}

    assert event_from_tree(transform_of(given)) == ExecuteTransform(
        query_inputs=(ExecuteTransformInput(dataset_id=seeded_dataset_id("input1")),)
    )


@pytest.mark.parametrize("key", RFC["input"]["required"])
def test_what_the_rfc_requires_is_missed_by_name(key: str):
    with pytest.raises(InvalidInputError, match=rf"^event\.queryInputs\[0\]: '{key}' is missing"):
        event_from_tree(transform_of({"newBlockHash": HASH}))


def test_unknown_properties_are_refused_by_path():
    assert RFC["input"]["additional_properties"] is False
    with pytest.raises(
        InvalidInputError, match=r"^event\.queryInputs\[1\]: unknown field 'slice': known are datas"
    ):
        event_from_tree(
            transform_of({"datasetId": DATASET_ID}, {"datasetId": DATASET_ID, "slice": 1})
        )


@pytest.mark.parametrize("key", RFC["replaced"])
def test_closed_intervals_of_inputs_are_refused_by_name(key: str):
    closed = {"datasetId": DATASET_ID, key: {"start": 0, "end": 9}}

    with pytest.raises(
        InvalidInputError, match=rf"^event\.queryInputs\[0\]\.{key}: .*RFC-014.*give prev"
    ):
        event_from_tree(transform_of(closed))


def test_names_of_the_time_of_the_rfc_are_read_and_todays_are_written():
    today = {
        "kind": "ExecuteTransform",
        "queryInputs": [{"datasetId": DATASET_ID, "newBlockHash": HASH, "newOffset": 0}],
        "prevCheckpoint": HASH,
        "prevOffset": 4,
        "newData": {
            "logicalHash": HASH,
            "physicalHash": HASH,
            "offsetInterval": {"start": 5, "end": 6},
            "size": 7,
        },
        "newCheckpoint": {"physicalHash": HASH, "size": 1},
        "newWatermark": "2024-01-01T00:00:00Z",
    }
    new_to_old = {new: old for old, new in RFC["old_names"].items()}
    then = {new_to_old.get(key, key): value for key, value in today.items()}
    then["kind"] = new_to_old["ExecuteTransform"]

    assert set(then) & set(RFC["old_names"])
    assert event_tree(event_from_tree(then)) == today


@pytest.mark.parametrize("spelling", ["ExecuteQuery", "executeQuery", "executequery"])
def test_old_kinds_have_three_spellings_too(spelling: str):
    tree = {"kind": spelling, "inputSlices": []}

    assert event_from_tree(tree) == ExecuteTransform(query_inputs=())


def test_the_source_state_had_another_name():
    state = {"sourceName": "default", "kind": "odf/etag", "value": "x"}

    event = event_from_tree({"kind": "AddData", "sourceState": state})

    assert event_tree(event) == {"kind": "AddData", "newSourceState": state}


def test_both_names_of_a_field_are_refused():
    tree = {"kind": "AddData", "newWatermark": "2024-01-01T00:00:00Z", "outputWatermark": None}

    with pytest.raises(
        InvalidInputError, match="'outputWatermark' and 'newWatermark' are the same"
    ):
        event_from_tree(tree)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (None, "event: expected a mapping, not None"),
        ([], "event: expected a mapping, not a list"),
        ({}, "event: kind is missing: one of AddData, ExecuteTransform"),
        ({"kind": 1}, "event: kind is missing"),
        ("SetWatermark", "event: 'SetWatermark' is no MetadataEvent: use one of AddData"),
        ({"kind": "AddData", "new_data": {}}, "event: unknown field 'new_data': known are prevCh"),
        ({"kind": "DisablePollingSource", "x": 1}, "event: unknown field 'x': there are none"),
        ({"kind": "DisablePushSource"}, "event: 'sourceName' is missing"),
        ({"kind": "DisablePushSource", "sourceName": None}, "event: 'sourceName' is missing"),
        ({"kind": "AddData", "prevOffset": -1}, "event.prevOffset: -1 is not between 0 and 184"),
        ({"kind": "AddData", "prevOffset": 2**64}, "event.prevOffset: 18446744073709551616 is"),
        ({"kind": "AddData", "prevOffset": "1"}, "event.prevOffset: expected an integer, not '1'"),
        ({"kind": "AddData", "prevOffset": 1.0}, "event.prevOffset: expected an integer, not 1.0"),
        ({"kind": "AddData", "prevOffset": True}, "event.prevOffset: expected an integer, not Tr"),
        ({"kind": "AddData", "prevCheckpoint": "x"}, "event.prevCheckpoint: 'x' is no hash"),
        ({"kind": "AddData", "newWatermark": "x"}, "event.newWatermark: 'x' is no time"),
        ({"kind": "AddData", "extra": {"x": 1}}, "event.extra: attribute 'x' is not of the form"),
        ({"kind": "SetInfo", "keywords": "ice"}, "event.keywords: expected a list, not 'ice'"),
        ({"kind": "SetInfo", "keywords": [1]}, "event.keywords[0]: expected a text, not 1"),
        ({"kind": "SetDataSchema", "rawArrowSchema": "*"}, "event.rawArrowSchema: "),
        (
            {"kind": "Seed", "datasetId": "net.example", "datasetKind": "Root"},
            "event.datasetId: 'net.example' is no dataset id",
        ),
        (
            {"kind": "AddData", "newData": {"size": 1}},
            "event.newData: 'logicalHash' is missing",
        ),
        (
            {"kind": "SetTransform", "inputs": [], "transform": {"kind": "Python"}},
            "event.transform: 'Python' is no Transform: use one of Sql",
        ),
    ],
)
def test_malformed_events_are_refused_by_path(tree: Any, message: str):
    with pytest.raises(InvalidInputError) as caught:
        event_from_tree(tree)

    assert str(caught.value).startswith(message)


def test_types_that_nest_too_deep_are_refused():
    kind: Any = "String"
    for _ in range(100):
        kind = {"kind": "Option", "inner": kind}
    tree = {"kind": "SetDataSchema", "schema": {"fields": [{"name": "a", "type": kind}]}}

    with pytest.raises(InvalidInputError, match="nest deeper than 64"):
        event_from_tree(tree)


def test_a_block_needs_its_number():
    with pytest.raises(InvalidInputError, match="block: 'sequenceNumber' is missing"):
        block_from_tree({"systemTime": "2024-01-01T00:00:00Z", "event": {"kind": "SetInfo"}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "x.yaml: no valid YAML"),
        ("[]", "x.yaml: a manifest is a mapping of kind, version and content"),
        ("kind: MetadataEvent", "x.yaml: a manifest is a mapping of"),
        ("{kind: A, version: 1, content: {}, more: 1}", "x.yaml: a manifest is a mapping of"),
        ("{kind: Flow, version: 1, content: {}}", "x.yaml.kind: 'Flow' is none of MetadataBl"),
        ("{kind: [], version: 1, content: {}}", "x.yaml.kind: [] is none of"),
        ("{kind: MetadataBlock, version: 1, content: {}}", "x.yaml.version: 1 of MetadataBlock"),
        ("{kind: MetadataEvent, version: 3, content: {}}", "x.yaml.version: 3 of MetadataEvent"),
        ("{kind: MetadataEvent, version: x, content: {}}", "x.yaml.version: 'x' of Metadata"),
        (
            "{kind: DatasetSnapshot, version: 1, content: {name: a_b, kind: Root}}",
            "x.yaml.name: 'a_b' is no name",
        ),
        (
            "{kind: MetadataEvent, version: 1, content: !tag {kind: SetInfo}}",
            "x.yaml: expected a mapping, not Tagged",
        ),
        (
            "--- {kind: MetadataEvent, version: 1, content: SetInfo}\n--- 1",
            "x.yaml#2: a manifest is a mapping",
        ),
    ],
)
def test_malformed_documents_are_refused_by_place(text: str, message: str):
    with pytest.raises(InvalidInputError) as caught:
        read_documents(text.encode(), name="x.yaml")

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a": 1, "a": 2}',
        "[" * 100_000,
        "\xff",
    ],
)
def test_malformed_json_is_refused(text: str):
    with pytest.raises(InvalidInputError, match=r"^x\.json: no JSON"):
        read_documents(text.encode("latin-1"), name="x.json", form=DocumentForm.JSON)


def test_texts_that_look_like_something_else_stay_texts():
    event = SetInfo(description="0x10", keywords=("true", "null", "1.0", "2024-01-01", "no"))

    assert read_documents(write_document(event)) == (event,)


def test_old_versions_of_blocks_are_read_and_the_newest_is_written():
    (block,) = read_documents(
        FACTS["forms"]["metadata_block"].replace("version: 3", "version: 2").encode()
    )

    assert isinstance(block, MetadataBlock)
    assert document_tree(block)["version"] == 3


def test_null_is_absence():
    assert event_from_tree({"kind": "AddData", "prevOffset": None}) == AddData()
