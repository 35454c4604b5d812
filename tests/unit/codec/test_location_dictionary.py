"""Locations compressed with a dictionary: when, how, and what is refused."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from tests.foreign_manifests import (
    MANIFEST_ID,
    NODE,
    Ref,
    Walker,
    file_of,
    manifest_body,
    read_manifest,
)
from tests.tables import Refs, refs_of, virtual_table

from icestream.codec.header import FileType, decode_body
from icestream.codec.manifests import decode_manifest, encode_manifest
from icestream.errors import FormatError
from icestream.model.chunk_refs import InlineRef, VirtualRef
from icestream.model.chunk_tables import ChunkTable, replace_columns
from icestream.model.ids import ManifestId, NodeId
from icestream.model.manifests import LocationCompression

NODE_ID = NodeId(NODE)
DEFAULTS = LocationCompression()
EAGER = LocationCompression(min_num_chunks=1)
LOCATIONS = [f"s3://bucket/experiment/member-{i:03d}/variable.nc" for i in range(300)]
DICTIONARY = zstandard.train_dictionary(1024, [text.encode() for text in LOCATIONS])


def encode(table: ChunkTable, *, spec: int = 2, settings: LocationCompression = DEFAULTS) -> bytes:
    return encode_manifest(ManifestId(MANIFEST_ID), {NODE_ID: table}, spec=spec, locations=settings)


def decode(data: bytes) -> ChunkTable:
    return decode_manifest(data, name="manifests/M").arrays[NODE_ID]


def written(data: bytes) -> list[dict[str, Any]]:
    return read_manifest(decode_body(data, FileType.MANIFEST, name="m")[1])[NODE]


def is_compressed(data: bytes) -> bool:
    return any("compressed" in ref for ref in written(data))


def frame(text: str, **options: Any) -> bytes:
    return zstandard.ZstdCompressor(dict_data=DICTIONARY, **options).compress(text.encode())


def foreign(frames: Sequence[bytes], **changes: Any) -> bytes:
    refs = [{"index": (i,), "compressed": f, "length": 1} for i, f in enumerate(frames)]
    options: dict[str, Any] = {"algorithm": 1, "dictionary": DICTIONARY.as_bytes()} | changes
    return file_of(manifest_body([(NODE, refs)], **options))


def assert_refused(data: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        decode(data)


# -- writing ------------------------------------------------------------------------------------


def test_compressed_locations_survive() -> None:
    table = virtual_table(3000, texts=1500)

    data = encode(table)

    assert is_compressed(data)
    assert refs_of(decode(data)) == refs_of(table)


def test_every_compressed_location_is_one_frame_that_needs_the_stored_dictionary() -> None:
    table = virtual_table(1000, texts=1000)
    body = decode_body(encode(table), FileType.MANIFEST, name="m")[1]
    walker = Walker(body)
    root = walker.root()
    dictionary = zstandard.ZstdCompressionDict(walker.bytes(root[2]))
    decompressor = zstandard.ZstdDecompressor(dict_data=dictionary)

    refs = read_manifest(body)[NODE]

    assert body[root[3]] == 1
    assert walker.bytes(root[2])[:4].hex() == "37a430ec"
    texts = [decompressor.decompress(ref["compressed"]).decode() for ref in refs]
    assert texts == table.location_column().to_pylist()
    assert not any("location" in ref for ref in refs)


def test_a_location_that_many_references_use_is_compressed_once() -> None:
    table = virtual_table(2000, texts=2)
    body = decode_body(encode(table, settings=EAGER), FileType.MANIFEST, name="m")[1]

    assert body.count(bytes.fromhex("28b52ffd")) == 2


@pytest.mark.parametrize(("count", "compressed"), [(999, False), (1000, True)])
def test_a_thousand_locations_are_worth_a_dictionary(count: int, *, compressed: bool) -> None:
    assert is_compressed(encode(virtual_table(count, texts=count))) is compressed


def test_many_references_to_fewer_locations_are_not_because_texts_are_shared() -> None:
    assert not is_compressed(encode(virtual_table(3000, texts=999)))


def test_the_same_references_give_the_same_bytes() -> None:
    table = virtual_table(2000, texts=2000)

    assert encode(table) == encode(table)


@pytest.mark.parametrize(
    "settings",
    [
        LocationCompression(max_training_samples=0),
        LocationCompression(max_dictionary_bytes=1),
        LocationCompression(min_num_chunks=5000),
    ],
)
def test_settings_can_rule_it_out(settings: LocationCompression) -> None:
    table = virtual_table(2000, texts=2000)

    data = encode(table, settings=settings)

    assert not is_compressed(data)
    assert decode(data).location_column().to_pylist() == table.location_column().to_pylist()


def test_locations_too_short_to_learn_from_stay_plain() -> None:
    refs: Refs = {(i,): VirtualRef(f"s:{i}", 0, 1) for i in range(1000)}

    assert not is_compressed(encode(ChunkTable.from_refs(refs, 1)))


def test_locations_whose_frames_would_be_longer_stay_plain() -> None:
    refs: Refs = {(i,): VirtualRef(f"vcc://era5/{i}", 0, 1) for i in range(1000)}

    assert not is_compressed(encode(ChunkTable.from_refs(refs, 1)))


def test_locations_that_are_all_too_long_have_no_dictionary() -> None:
    refs: Refs = {(i,): VirtualRef("s3://b/" + "x" * 1020 + str(i), 0, 1) for i in range(1000)}
    body = decode_body(encode(ChunkTable.from_refs(refs, 1)), FileType.MANIFEST, name="m")[1]

    assert body[Walker(body).root()[3]] == 0


def test_spec_1_knows_no_compressed_locations() -> None:
    assert not is_compressed(encode(virtual_table(1000, texts=1000), spec=1))


def test_one_location_for_all_is_enough_to_train_on() -> None:
    table = virtual_table(1000, texts=1, prefix="s3://bucket/a/folder/with/a/long/name/")

    data = encode(table, settings=EAGER)

    assert is_compressed(data)
    assert refs_of(decode(data)) == refs_of(table)


def test_etags_and_other_kinds_go_with_compressed_locations() -> None:
    refs: Refs = {
        (i,): VirtualRef(LOCATIONS[i % 300], i, 1, etag="e" if i % 3 else None, last_modified=i % 2)
        for i in range(1500)
    }
    refs[1500,] = InlineRef(b"x")

    data = encode(ChunkTable.from_refs(refs, 1), settings=EAGER)

    assert is_compressed(data)
    assert refs_of(decode(data)) == refs


def test_trap_17_locations_longer_than_1024_bytes_stay_plain() -> None:
    texts = [*LOCATIONS, "s3://bucket/" + "y" * 1013, "s3://bucket/" + "x" * 1012]
    assert [len(text) for text in texts[-2:]] == [1025, 1024]
    code = (np.arange(1510) % len(texts)).astype(np.int32)
    pool = pa.chunked_array([pa.array(texts, pa.large_string())])
    table = replace_columns(virtual_table(1510), location_code=code, locations=pool)

    data = encode(table, settings=EAGER)

    by_text = {}
    for ref, row in zip(written(data), code, strict=True):
        by_text[texts[row]] = "compressed" in ref
    assert by_text == {text: len(text) <= 1024 for text in texts}
    assert decode(data).location_column().to_pylist() == [texts[row] for row in code]


def test_trap_17_longer_locations_are_refused_on_reading() -> None:
    assert_refused(foreign([frame("x" * 1025)]), "1025 bytes")
    assert_refused(foreign([frame("x" * 1025, write_content_size=False)]), "damaged")
    assert decode(foreign([frame("x" * 1024)])).location_column().to_pylist() == ["x" * 1024]


# -- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"level": 19},
        {"write_content_size": False},
        {"write_dict_id": False},
        {"write_checksum": True},
    ],
)
def test_frames_of_any_structure_are_read(options: dict[str, Any]) -> None:
    texts = [*LOCATIONS, "", "x", "x" * 300, "é" * 200]

    table = decode(foreign([frame(text, **options) for text in texts]))

    assert table.location_column().to_pylist() == texts


def test_frames_of_different_structure_are_read_together() -> None:
    frames = [frame("one" * 9), frame("two" * 9, write_checksum=True), frame("three" * 9)]

    table = decode(foreign(frames))

    assert table.location_column().to_pylist() == ["one" * 9, "two" * 9, "three" * 9]


def test_a_dictionary_of_plain_text_is_read() -> None:
    content = b"s3://bucket/experiment/member-"
    dictionary = zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    compressor = zstandard.ZstdCompressor(dict_data=dictionary)

    table = decode(foreign([compressor.compress(LOCATIONS[0].encode())], dictionary=content))

    assert table.location_column().to_pylist() == LOCATIONS[:1]


def test_plain_and_compressed_locations_mix() -> None:
    refs: list[Ref] = [
        {"index": (0,), "location": "s3://b/plain", "length": 1},
        {"index": (1,), "compressed": frame("s3://b/compressed"), "length": 1},
        {"index": (2,), "compressed": frame("s3://b/wins"), "location": "s3://b/loses"},
        {"index": (3,), "inline": b"x"},
    ]
    data = file_of(manifest_body([(NODE, refs)], algorithm=1, dictionary=DICTIONARY.as_bytes()))

    texts = decode(data).location_column().to_pylist()

    assert texts == ["s3://b/plain", "s3://b/compressed", "s3://b/wins", None]


@pytest.mark.parametrize("changes", [{"algorithm": 0}, {"dictionary": None}])
def test_compressed_locations_without_a_dictionary_are_refused(changes: dict[str, Any]) -> None:
    assert_refused(foreign([frame("s3://b/x")], **changes), "no dictionary")


def test_an_absent_algorithm_means_compressed() -> None:
    data = foreign([frame("s3://b/x")], algorithm=None)

    assert decode(data).location_column().to_pylist() == ["s3://b/x"]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\0" * 20,
        frame("s3://b/some/location")[:-1],
        frame("s3://b/some/location") + b"\0",
        frame("s3://b/some/location") * 2,
        struct.pack("<II", 0x184D2A50, 4) + b"skip",
        zstandard.ZstdCompressor(dict_data=DICTIONARY).compress(b"\xff\xfe"),
    ],
)
def test_damaged_frames_are_refused(damaged: bytes) -> None:
    assert_refused(foreign([frame("s3://b/fine"), damaged]), "damaged|UTF-8")


def test_a_damaged_dictionary_is_refused() -> None:
    broken = DICTIONARY.as_bytes()[:12] + b"\xff" * 40

    assert_refused(foreign([frame("s3://b/x")], dictionary=broken), "damaged")
