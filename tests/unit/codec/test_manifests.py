"""Manifest files: what is written, what is read, what is refused."""

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

from icestream.codec.header import HEADER_SIZE, FileType, decode_body
from icestream.codec.manifests import decode_manifest, encode_manifest
from icestream.errors import FormatError, InvalidInputError
from icestream.model.chunk_refs import InlineRef, NativeRef, VirtualRef
from icestream.model.chunk_tables import ChunkTable, concat, replace_columns
from icestream.model.ids import ChunkId, ManifestId, NodeId
from icestream.model.manifests import Manifest

ID = ManifestId(MANIFEST_ID)
A = NodeId(b"array--a")
B = NodeId(b"array--b")
U64 = 2**64 - 1

EVERY_FORM: Refs = {
    (0, 0): InlineRef(b""),
    (0, 1): InlineRef(b"inline"),
    (0, 7): NativeRef(ChunkId(b"chunk-id-001"), 0, 5),
    (1, 0): NativeRef(ChunkId(b"chunk-id-002"), U64, U64),
    (1, 1): VirtualRef("s3://bucket/a.nc", 0, 1),
    (1, 2): VirtualRef("s3://bucket/ä.nc", 7, 9, etag="abc"),
    (1, 3): VirtualRef("s3://bucket/a.nc", 7, 9, last_modified=1_700_000_000),
    (1, 4): VirtualRef("s3://bucket/a.nc", 7, 9, etag="", last_modified=2**32 - 1),
    (2**32 - 1, 2**32 - 1): VirtualRef("", U64, U64),
}


def table_of(refs: Refs) -> ChunkTable:
    return ChunkTable.from_refs(refs, len(next(iter(refs))))


def body_of(data: bytes) -> bytes:
    return decode_body(data, FileType.MANIFEST, name="m")[1]


def encode(*tables: ChunkTable, spec: int = 2, **options: Any) -> bytes:
    arrays = {NodeId(b"array--" + bytes([97 + i])): table for i, table in enumerate(tables)}
    return encode_manifest(ID, arrays, spec=spec, **options)


def decode(data: bytes) -> Manifest:
    return decode_manifest(data, name="manifests/M")


def decode_body_of(*refs: Ref, **options: Any) -> ChunkTable:
    return decode(file_of(manifest_body([(NODE, refs)], **options))).arrays[NodeId(NODE)]


def assert_refused(data: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why) as caught:
        decode(data)
    assert "manifests/M" in str(caught.value)


# -- round trips ------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [1, 2])
def test_every_form_of_reference_survives(spec: int) -> None:
    manifest = decode(encode(table_of(EVERY_FORM), spec=spec))

    assert manifest.id == ID
    assert refs_of(manifest.arrays[A]) == EVERY_FORM


@pytest.mark.parametrize("index", EVERY_FORM)
def test_each_form_of_reference_survives_alone(index: tuple[int, ...]) -> None:
    refs = {index: EVERY_FORM[index]}

    assert refs_of(decode(encode(table_of(refs))).arrays[A]) == refs


@pytest.mark.parametrize("rank", [0, 1, 2, 5])
def test_arrays_of_any_rank_survive(rank: int) -> None:
    refs: Refs = {(3,) * rank: InlineRef(b"x")}

    assert refs_of(decode(encode(ChunkTable.from_refs(refs, rank))).arrays[A]) == refs


def test_a_manifest_without_arrays_survives() -> None:
    assert decode(encode()).arrays == {}


def test_an_array_without_references_survives() -> None:
    manifest = decode(encode(ChunkTable.empty(3), virtual_table(2)))

    assert len(manifest.arrays[A]) == 0
    assert refs_of(manifest.arrays[B]) == refs_of(virtual_table(2))
    assert manifest.num_refs == 2


def test_tables_longer_than_a_block_survive() -> None:
    table = virtual_table(70_000, texts=7)

    decoded = decode(encode(table)).arrays[A]

    assert np.array_equal(decoded.index, table.index)
    assert np.array_equal(decoded.byte_offset, table.byte_offset)
    assert decoded.location_column().to_pylist() == table.location_column().to_pylist()
    assert len(decoded.locations) == 7


def test_long_tables_of_mixed_forms_survive() -> None:
    forms = list(EVERY_FORM.values())
    n = 40_000
    one = ChunkTable.from_refs({(i,): ref for i, ref in enumerate(forms)}, 1)
    rows = np.arange(n) % len(forms)
    index = np.arange(n, dtype=np.uint32)[:, None]
    table = replace_columns(one.take(rows), index=index)

    decoded = decode(encode(table)).arrays[A]

    assert [decoded.ref(row) for row in range(n)] == [forms[i % len(forms)] for i in range(n)]


def test_columns_that_are_views_of_one_value_are_written_in_full() -> None:
    n = 1000
    table = ChunkTable(
        index=np.arange(n, dtype=np.uint32)[:, None],
        kind=np.broadcast_to(np.uint8(2), n),
        byte_offset=np.broadcast_to(np.uint64(4), n),
        length=np.broadcast_to(np.uint64(8), n),
        location_code=np.broadcast_to(np.int32(0), n),
        locations=pa.chunked_array([pa.array(["s3://b/x"], pa.large_string())]),
        last_modified=np.broadcast_to(np.uint32(9), n),
    )

    decoded = decode(encode(table)).arrays[A]

    assert decoded.ref(n - 1) == VirtualRef("s3://b/x", 4, 8, last_modified=9)


def test_an_independent_reader_finds_the_same_references() -> None:
    arrays = read_manifest(body_of(encode(table_of(EVERY_FORM))))

    found = {ref["index"]: ref for ref in arrays[A]}
    assert list(found) == sorted(EVERY_FORM)
    assert found[0, 1]["inline"] == b"inline"
    assert found[1, 0]["chunk_id"] == b"chunk-id-002"
    assert found[1, 0]["offset"] == U64
    assert found[1, 2]["location"] == "s3://bucket/ä.nc"
    assert found[1, 2]["etag"] == "abc"
    assert found[1, 3]["modified"] == 1_700_000_000
    assert {"etag", "location", "chunk_id"}.isdisjoint(found[0, 1])


def test_equal_input_gives_equal_bytes() -> None:
    table = table_of(EVERY_FORM)

    assert encode(table) == encode(table)


# -- sharing ------------------------------------------------------------------------------------


def test_a_location_that_many_references_use_is_written_once() -> None:
    body = body_of(encode(virtual_table(50, texts=2)))

    assert body.count(b"s3://bucket/some/folder/000000.nc\0") == 1
    assert body.count(b"s3://bucket/some/folder/000001.nc\0") == 1


def test_two_arrays_share_their_locations() -> None:
    body = body_of(encode(virtual_table(5), virtual_table(7)))

    assert body.count(b"s3://bucket/some/folder/") == 1


def test_locations_of_joined_pools_are_merged() -> None:
    first, second = virtual_table(4), virtual_table(4)
    joined = concat([first, second.with_index(second.index + np.uint32(4))])

    assert body_of(encode(joined)).count(b"s3://bucket/some/folder/") == 1
    assert (
        decode(encode(joined)).arrays[A].location_column().to_pylist()
        == ["s3://bucket/some/folder/000000.nc"] * 8
    )


def test_locations_that_no_reference_uses_are_not_written() -> None:
    part = virtual_table(10, texts=10).take(slice(3, 4))

    body = body_of(encode(part))

    assert body.count(b"s3://") == 1
    assert b"000003.nc" in body


def test_the_location_pool_of_unshared_strings_holds_each_once() -> None:
    refs = [{"index": (i,), "location": f"s3://b/{i % 2}", "length": 1} for i in range(100)]

    assert decode_body_of(*refs).locations.to_pylist() == ["s3://b/0", "s3://b/1"]


# -- what is refused on writing -----------------------------------------------------------------


def test_deletions_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="deletions"):
        encode(table_of({(0,): InlineRef(b""), (1,): None}))


@pytest.mark.parametrize(
    ("index", "column"), [((0, 1), "inline"), ((0, 7), "chunk_id"), ((1, 1), "location_code")]
)
def test_tables_without_the_column_they_need_are_refused(
    index: tuple[int, ...], column: str
) -> None:
    table = replace_columns(table_of({index: EVERY_FORM[index]}), **{column: None})

    with pytest.raises(InvalidInputError, match="lacks the column"):
        encode(table)


def test_virtual_references_without_a_location_are_refused() -> None:
    table = replace_columns(virtual_table(2), location_code=np.array([0, -1], np.int32))

    with pytest.raises(InvalidInputError, match="without a location"):
        encode(table)


# -- files of other writers ---------------------------------------------------------------------


def test_absent_numbers_are_zero() -> None:
    refs: list[Ref] = [
        {"index": (0,), "location": "s3://b/x"},
        {"index": (1,), "location": "s3://b/x", "offset": 3, "length": 4},
        {"index": (2,), "chunk_id": b"chunk-id-001", "length": 2**40},
    ]

    assert refs_of(decode_body_of(*refs)) == {
        (0,): VirtualRef("s3://b/x", 0, 0),
        (1,): VirtualRef("s3://b/x", 3, 4),
        (2,): NativeRef(ChunkId(b"chunk-id-001"), 0, 2**40),
    }


def test_fields_of_the_future_are_ignored() -> None:
    table = decode_body_of({"index": (1,), "inline": b"abc", "unknown": 17})

    assert refs_of(table) == {(1,): InlineRef(b"abc")}


def test_the_kind_is_told_by_the_first_field_that_is_there() -> None:
    every: Ref = {
        "chunk_id": b"chunk-id-001",
        "location": "s3://b/x",
        "inline": b"abc",
        "etag": "e",
        "modified": 3,
        "offset": 1,
        "length": 2,
    }
    refs = [
        {"index": (0,)} | every,
        {"index": (1,)} | {k: v for k, v in every.items() if k != "chunk_id"},
        {"index": (2,)} | {k: v for k, v in every.items() if k not in {"chunk_id", "location"}},
    ]

    assert refs_of(decode_body_of(*refs)) == {
        (0,): NativeRef(ChunkId(b"chunk-id-001"), 1, 2),
        (1,): VirtualRef("s3://b/x", 1, 2, "e", 3),
        (2,): InlineRef(b"abc"),
    }


def test_what_does_not_apply_to_a_row_is_left_out_of_its_columns() -> None:
    refs = [
        {"index": (0,), "inline": b"abc", "modified": 3, "offset": 1, "length": 2, "etag": "e"},
        {"index": (1,), "location": "s3://b/x", "modified": 4, "length": 1},
    ]

    table = decode_body_of(*refs)

    assert table.last_modified is not None
    assert table.last_modified.tolist() == [0, 4]
    assert table.byte_offset.tolist() == [0, 0]
    assert table.etag_code is None


def test_texts_of_every_length_are_read() -> None:
    refs = [
        {"index": (i,), "location": "é" * (i // 2) + "x" * (i % 2), "length": 1} for i in range(40)
    ]

    table = decode_body_of(*refs)

    assert table.location_column().to_pylist() == [ref["location"] for ref in refs]


# -- the traps of the format --------------------------------------------------------------------


def test_trap_1_the_compression_byte_is_zstd() -> None:
    data = encode(virtual_table(1))

    assert data[HEADER_SIZE - 1] == 1
    uncompressed = data[: HEADER_SIZE - 1] + b"\0" + body_of(data)
    assert_refused(uncompressed, "compression 0")


@pytest.mark.parametrize("count", [1, 100_000])
def test_trap_2_there_is_exactly_one_frame_with_its_size(count: int) -> None:
    data = encode(virtual_table(count))
    frame = data[HEADER_SIZE:]

    assert zstandard.get_frame_parameters(frame).content_size == len(body_of(data))
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    decompressor.decompress(frame)
    assert decompressor.eof
    assert decompressor.unused_data == b""
    assert_refused(data + b"\0", "behind it")


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
@pytest.mark.parametrize("index", EVERY_FORM)
def test_trap_3_numbers_are_aligned_from_the_start_of_the_buffer(
    rank: int, index: tuple[int, ...]
) -> None:
    table = ChunkTable.from_refs({(1,) * rank: EVERY_FORM[index]}, rank)

    # the walker asserts the alignment of everything it reads
    arrays = read_manifest(body_of(encode(table, table_of(EVERY_FORM), table)))

    assert [len(refs) for refs in arrays.values()] == [1, len(EVERY_FORM), 1]


def test_trap_4_plain_manifests_say_so() -> None:
    body = body_of(encode(virtual_table(1)))

    root = Walker(body).root()
    assert body[root[3]] == 0
    assert 2 not in root


def test_trap_4_spec_1_has_no_algorithm() -> None:
    assert set(Walker(body_of(encode(virtual_table(1), spec=1))).root()) == {0, 1}


def test_trap_6_empty_lists_are_written() -> None:
    body = body_of(encode())
    assert Walker(body).tables(Walker(body).root()[1]) == []

    assert read_manifest(body_of(encode(ChunkTable.empty(2)))) == {A: []}


def test_trap_11_references_and_arrays_are_written_in_order() -> None:
    data = encode_manifest(ID, {B: virtual_table(3), A: virtual_table(300)}, spec=2)

    arrays = read_manifest(body_of(data))

    assert list(arrays) == [A, B]
    assert [ref["index"] for ref in arrays[A]] == [(i,) for i in range(300)]


def test_trap_11_references_that_a_writer_left_unsorted_are_not_lost() -> None:
    refs = [{"index": (i, 0), "inline": bytes([i])} for i in (3, 200, 1, 0)]

    table = decode_body_of(*refs)

    assert refs_of(table) == {(i, 0): InlineRef(bytes([i])) for i in (0, 1, 3, 200)}


def test_trap_16_shared_texts_that_readers_would_count_too_often_are_refused() -> None:
    n = 5000
    table = replace_columns(
        virtual_table(n),
        locations=pa.chunked_array([pa.array(["s3://b/" + "x" * 1_000_000], pa.large_string())]),
    )

    with pytest.raises(InvalidInputError, match="split it into several manifests"):
        encode(table)
    assert len(encode(table.take(slice(0, 100)))) < 10_000


def test_trap_21_the_spec_version_is_that_of_the_file() -> None:
    table = table_of(EVERY_FORM)

    assert encode(table, spec=1)[36] == 1
    assert encode(table, spec=2)[36] == 2
    # files of spec 1 have no algorithm, whose default would be "compressed"
    body = manifest_body([(NODE, [{"index": (0,), "location": "s3://b/x"}])], algorithm=None)
    decoded = decode(file_of(body, spec=1)).arrays[NodeId(NODE)]
    assert refs_of(decoded) == {(0,): VirtualRef("s3://b/x", 0, 0)}
