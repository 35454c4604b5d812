"""Metadata blocks as bytes: the canonical form, and what is no block."""

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any, get_args

import flatbuffers
import pytest
from tests.ledger_strategies import seeded_dataset_id

from icestream.errors import ErrorKind, IntegrityError, InvalidInputError
from icestream.ledger.blocks.attributes import ExtraAttributes
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.data_types import (
    DataField,
    DataType,
    DataTypeInt64,
    DataTypeList,
)
from icestream.ledger.blocks.decoding import decode_block, manifest_version
from icestream.ledger.blocks.documents import block_from_tree, block_tree
from icestream.ledger.blocks.encoding import block_hash, encode_block
from icestream.ledger.blocks.events import (
    AddData,
    DisablePushSource,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    MetadataEvent,
    SetDataSchema,
    SetInfo,
)
from icestream.ledger.blocks.hashes import Multihash, sha3_256
from icestream.ledger.blocks.times import Timestamp

VECTORS = json.loads((Path(__file__).parents[3] / "vectors/odf/blocks.json").read_text())["blocks"]
ENCODED = [
    pytest.param(
        vector["block"], version, vector[f"version_{version}"], id=f"{vector['name']}, {version}"
    )
    for vector in VECTORS
    for version in (2, 3)
    if f"version_{version}" in vector
]
NAME = "blocks/f1620ab"


def block_of(event: MetadataEvent) -> MetadataBlock:
    return MetadataBlock(system_time=Timestamp(2024, 1, 0), sequence_number=0, event=event)


def read_back(event: MetadataEvent) -> MetadataEvent:
    return decode_block(encode_block(block_of(event))).event


# -- the canonical form ---------------------------------------------------------------------------


@pytest.mark.parametrize(("tree", "version", "facts"), ENCODED)
def test_blocks_are_written_byte_for_byte(
    tree: dict[str, Any], version: int, facts: dict[str, str]
):
    encoded = encode_block(block_from_tree(tree), version=version)

    assert encoded.hex() == facts["bytes"]
    assert str(block_hash(encoded)) == facts["hash"]


@pytest.mark.parametrize(("tree", "version", "facts"), ENCODED)
def test_blocks_of_both_versions_are_read(
    tree: dict[str, Any], version: int, facts: dict[str, str]
):
    data = bytes.fromhex(facts["bytes"])

    assert block_tree(decode_block(data)) == tree
    assert manifest_version(data) == version


def disabled_push_source_block(name: str, prev_block_hash: bytes) -> bytes:
    """Return the inner buffer of a block at 2024-02-01T00:00:05.000000006Z, field by field."""
    builder = flatbuffers.Builder()
    previous = builder.CreateByteVector(prev_block_hash)
    text = builder.CreateString(name)
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, text, 0)
    event = builder.EndObject()
    builder.StartObject(5)
    builder.Prep(4, 16)
    builder.PrependUint32(6)
    builder.PrependUint32(5)
    builder.Pad(2)
    builder.PrependUint16(32)
    builder.PrependInt32(2024)
    builder.PrependStructSlot(0, builder.Offset(), 0)
    builder.PrependUOffsetTRelativeSlot(1, previous, 0)
    builder.PrependUint64Slot(2, 7, 0)
    builder.PrependUint8Slot(3, 12, 0)
    builder.PrependUOffsetTRelativeSlot(4, event, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def test_the_event_that_no_vector_has_is_written_byte_for_byte_too():
    previous = sha3_256(b"")
    block = MetadataBlock(
        system_time=Timestamp(2024, 32, 5, 6),
        prev_block_hash=previous,
        sequence_number=7,
        event=DisablePushSource(source_name="a"),
    )

    encoded = encode_block(block)

    assert encoded == manifest(disabled_push_source_block("a", previous.to_bytes()))
    assert decode_block(encoded) == block


def test_all_thirteen_events_are_compared_byte_for_byte():
    compared = {vector["block"]["event"]["kind"] for vector in VECTORS} | {"DisablePushSource"}

    assert compared == {event.__name__ for event in get_args(MetadataEvent.__value__)}
    assert len(compared) == 13


def test_version_3_is_written():
    assert manifest_version(encode_block(block_of(SetInfo()))) == 3


def test_offset_zero_is_not_absence():
    first, none = (
        ExecuteTransform(
            query_inputs=(
                ExecuteTransformInput(
                    dataset_id=seeded_dataset_id("a"), prev_offset=offset, new_offset=offset
                ),
            ),
            prev_offset=offset,
        )
        for offset in (0, None)
    )

    assert read_back(first) == first
    assert read_back(none) == none
    assert encode_block(block_of(first)) != encode_block(block_of(none))


def test_an_empty_list_is_not_absence():
    empty, none = SetInfo(keywords=()), SetInfo()

    assert read_back(empty) == empty
    assert read_back(none) == none


def test_nanoseconds_survive():
    event = AddData(new_watermark=Timestamp(2024, 1, 0, 1))

    assert read_back(event) == event


def test_extra_attributes_are_written_as_compact_sorted_text():
    extra = ExtraAttributes.of({"b.c/d": {"y": "ü", "x": [1, None]}, "a.b/c": True})

    assert extra.entries == '{"a.b/c":true,"b.c/d":{"x":[1,null],"y":"ü"}}'
    assert read_back(AddData(extra=extra)) == AddData(extra=extra)


def test_types_nest_as_deep_as_tables_may():
    schema = DataSchema(fields=(DataField(name="a", type=nested_lists(59)),))

    assert read_back(SetDataSchema(schema=schema)) == SetDataSchema(schema=schema)


# -- what cannot be written -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        AddData(prev_offset=-1),
        AddData(prev_offset=2**64),
        SetInfo(description="\ud800"),
        AddData(prev_checkpoint="f1620ab"),  # type: ignore[arg-type]  # what the test is about
    ],
)
def test_values_that_do_not_fit_are_refused(event: MetadataEvent):
    with pytest.raises(InvalidInputError, match="block 0 cannot be written"):
        encode_block(block_of(event))


def test_types_that_nest_too_deep_are_refused():
    schema = DataSchema(fields=(DataField(name="a", type=nested_lists(70)),))

    with pytest.raises(InvalidInputError, match="nest deeper than 64"):
        encode_block(block_of(SetDataSchema(schema=schema)))


@pytest.mark.parametrize("version", [0, 1, 4])
def test_other_versions_are_not_written(version: int):
    with pytest.raises(InvalidInputError, match=f"version {version} "):
        encode_block(block_of(SetInfo()), version=version)


def nested_lists(depth: int) -> DataType:
    kind: DataType = DataTypeInt64()
    for _ in range(depth):
        kind = DataTypeList(item_type=kind)
    return kind


# -- what is no block -----------------------------------------------------------------------------


def manifest(content: bytes, *, kind: int = 0x400000, version: int = 3) -> bytes:
    builder = flatbuffers.Builder()
    vector = builder.CreateByteVector(content)
    builder.StartObject(3)
    builder.PrependInt64Slot(0, kind, 0)
    builder.PrependInt32Slot(1, version, 0)
    builder.PrependUOffsetTRelativeSlot(2, vector, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (1, "no sequence numbers"),
        (4, "newer program"),
        (0, "newer program"),
        (-1, "newer program"),
    ],
)
def test_unknown_versions_are_refused(version: int, reason: str):
    data = manifest(b"", version=version)

    with pytest.raises(IntegrityError, match=rf"^{NAME} has version {version}.*{reason}") as caught:
        decode_block(data, name=NAME)
    assert caught.value.kind is ErrorKind.UNSUPPORTED_SPEC_VERSION


def test_other_objects_are_refused():
    with pytest.raises(IntegrityError, match=f"{NAME} is damaged: its manifest is of kind 0x1,"):
        decode_block(manifest(b"", kind=1), name=NAME)


@pytest.mark.parametrize("data", [b"", b"\0", bytes(7), bytes(64), b"\xff" * 64, b"PAR1" * 10])
def test_other_bytes_are_refused(data: bytes):
    with pytest.raises(IntegrityError, match=f"^{NAME} is damaged") as caught:
        decode_block(data, name=NAME)
    assert caught.value.kind is ErrorKind.DESERIALIZATION


def test_every_truncation_is_refused():
    data = encode_block(block_of(SetInfo(description="x", keywords=("y",))))

    for length in range(len(data) - 3):  # the last bytes are padding
        with pytest.raises(IntegrityError, match=f"^{NAME} is damaged"):
            decode_block(data[:length], name=NAME)


def test_every_damaged_byte_gives_a_block_or_an_integrity_error():
    data = encode_block(block_from_tree(VECTORS[5]["block"]))

    n_refused = 0
    for position in range(len(data)):
        for value in (0, 1, 0x7F, 0xFF):
            damaged = bytearray(data)
            damaged[position] = value
            try:
                decode_block(bytes(damaged), name=NAME)
            except IntegrityError as error:
                assert str(error).startswith(NAME)  # noqa: PT017  most damage is refused, not all
                n_refused += 1

    assert n_refused > len(data)


def test_a_block_without_an_event_is_refused():
    builder = flatbuffers.Builder()
    builder.StartObject(5)
    builder.PrependStructSlot(0, timestamp(builder), 0)
    builder.Finish(builder.EndObject())

    with pytest.raises(IntegrityError, match="MetadataBlock lacks event"):
        decode_block(manifest(bytes(builder.Output())), name=NAME)


def test_events_of_a_newer_schema_are_refused():
    builder = flatbuffers.Builder()
    builder.StartObject(0)
    event = builder.EndObject()

    with pytest.raises(IntegrityError, match="14 is no kind of MetadataEvent"):
        decode_block(manifest(block_around(builder, event, tag=14)), name=NAME)


def test_extra_attributes_must_be_a_json_object():
    data = encode_block(block_of(AddData(extra=ExtraAttributes("[1]"))))

    with pytest.raises(IntegrityError, match="no JSON object"):
        decode_block(data, name=NAME)


def test_moments_must_exist():
    data = encode_block(block_of(AddData(new_watermark=Timestamp(2023, 365, 0))))
    damaged = data.replace(b"\xe7\x07\0\0\x6d\x01", b"\xe7\x07\0\0\x6e\x01")

    with pytest.raises(IntegrityError, match="day 366 of 2023"):
        decode_block(damaged, name=NAME)


def test_hashes_must_be_hashes():
    data = encode_block(block_of(AddData(prev_checkpoint=Multihash(0x16, b"x" * 32))))

    with pytest.raises(IntegrityError, match="a digest of 33 bytes has 32"):
        decode_block(data.replace(b"\x16\x20xx", b"\x16\x21xx"), name=NAME)


def test_shared_offsets_cannot_spell_out_a_huge_value():
    data = manifest(struct_of_structs(width=200, levels=8))

    tracemalloc.start()
    started = time.monotonic()
    with pytest.raises(IntegrityError, match="far more than it has bytes for"):
        decode_block(data, name=NAME)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert time.monotonic() - started < 5
    assert peak < 100 * len(data)


def test_tables_that_nest_too_deep_are_refused():
    data = manifest(struct_of_structs(width=1, levels=80))

    with pytest.raises(IntegrityError, match="nest deeper than 64"):
        decode_block(data, name=NAME)


def timestamp(builder: Any) -> Any:
    builder.Prep(4, 16)
    builder.Pad(10)
    builder.PrependUint16(1)
    builder.PrependInt32(2024)
    return builder.Offset()


def block_around(builder: Any, event: int, *, tag: int) -> bytes:
    builder.StartObject(5)
    builder.PrependStructSlot(0, timestamp(builder), 0)
    builder.PrependUint8Slot(3, tag, 0)
    builder.PrependUOffsetTRelativeSlot(4, event, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def struct_of_structs(*, width: int, levels: int) -> bytes:
    """Return a schema in which every struct has the same field `width` times."""
    builder = flatbuffers.Builder()
    name = builder.CreateString("a")
    fields = offsets(builder, [])
    for _ in range(levels):
        builder.StartObject(1)
        builder.PrependUOffsetTRelativeSlot(0, fields, 0)
        kind = builder.EndObject()
        builder.StartObject(4)
        builder.PrependUOffsetTRelativeSlot(0, name, 0)
        builder.PrependUint8Slot(1, 21, 0)
        builder.PrependUOffsetTRelativeSlot(2, kind, 0)
        fields = offsets(builder, [builder.EndObject()] * width)
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, fields, 0)
    schema = builder.EndObject()
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(1, schema, 0)
    return block_around(builder, builder.EndObject(), tag=10)


def offsets(builder: Any, places: list[int]) -> Any:
    builder.StartVector(4, len(places), 4)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    return builder.EndVector()
