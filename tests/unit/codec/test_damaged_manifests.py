"""Manifests that are damaged, incomplete or hostile are refused, in bounded memory."""

import struct
import tracemalloc

import pytest
from tests.foreign_manifests import MANIFEST_ID, NODE, Ref, Walker, file_of, manifest_body
from tests.tables import virtual_table

from icestream.codec.header import FileType, decode_body
from icestream.codec.manifests import decode_manifest, encode_manifest
from icestream.errors import FormatError
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import ManifestId, NodeId
from icestream.model.manifests import Manifest

ID = ManifestId(MANIFEST_ID)


def encode(table: ChunkTable) -> bytes:
    return encode_manifest(ID, {NodeId(NODE): table}, spec=2)


def body_of(data: bytes) -> bytes:
    return decode_body(data, FileType.MANIFEST, name="m")[1]


def decode(data: bytes) -> Manifest:
    return decode_manifest(data, name="manifests/M")


def assert_refused(data: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why) as caught:
        decode(data)
    assert "manifests/M" in str(caught.value)


def test_a_manifest_with_another_id_is_refused() -> None:
    data = encode(virtual_table(1))

    assert decode_manifest(data, name="m", expected_id=ID).id == ID
    with pytest.raises(FormatError, match="carries the id"):
        decode_manifest(data, name="m", expected_id=ManifestId(b"another--id."))


@pytest.mark.parametrize("field", ["id", "arrays", "node_id", "refs"])
def test_a_missing_required_field_is_named(field: str) -> None:
    refs = [{"index": (0,), "inline": b"x"}]

    assert_refused(file_of(manifest_body([(NODE, refs)], without=[field])), f"'{field}'")


def test_a_reference_without_an_index_is_refused() -> None:
    body = manifest_body([(NODE, [{"index": (0,), "inline": b"a"}, {"inline": b"b"}])])

    assert_refused(file_of(body), "'index'")


def test_a_reference_of_no_kind_is_refused() -> None:
    body = manifest_body([(NODE, [{"index": (0,), "length": 7}])])

    assert_refused(file_of(body), "neither inline, native nor virtual")


def test_references_of_different_rank_are_refused() -> None:
    refs = [{"index": (0,), "inline": b"a"}, {"index": (0, 1), "inline": b"b"}]

    assert_refused(file_of(manifest_body([(NODE, refs)])), "different rank")


@pytest.mark.parametrize("index", [(), (3,), (2**32 - 1, 0, 2**32 - 1)])
def test_two_references_for_one_chunk_are_refused(index: tuple[int, ...]) -> None:
    refs = [{"index": index, "inline": b"a"}, {"index": index, "inline": b"b"}]

    assert_refused(file_of(manifest_body([(NODE, refs)])), "two references|several chunks")


def test_an_array_that_is_listed_twice_is_refused() -> None:
    assert_refused(file_of(manifest_body([(NODE, []), (NODE, [])])), "twice")


@pytest.mark.parametrize("field", ["location", "etag"])
def test_text_that_is_not_utf8_is_refused(field: str) -> None:
    ref: Ref = {"index": (0,), "location": "s3://b", "length": 1} | {field: b"\xff\xfe"}

    assert_refused(file_of(manifest_body([(NODE, [ref])])), "UTF-8")


def test_offsets_out_of_the_file_are_refused() -> None:
    body = bytearray(body_of(encode(virtual_table(3))))
    struct.pack_into("<I", body, 0, len(body))

    assert_refused(file_of(bytes(body)), "points at bytes")


def test_counts_larger_than_the_file_are_refused() -> None:
    body = bytearray(manifest_body([(NODE, [{"index": (0,), "inline": b"x"}])]))
    walker = Walker(bytes(body))
    (table,) = walker.tables(walker.root()[1])
    at, _ = walker.vector(walker.fields(table)[1], 4)
    struct.pack_into("<I", body, at - 4, 2**32 - 1)

    assert_refused(file_of(bytes(body)), "points at bytes")


def test_a_number_that_is_not_aligned_is_refused() -> None:
    body = bytearray(body_of(encode(virtual_table(1))))
    walker = Walker(bytes(body))
    (array,) = walker.tables(walker.root()[1])
    (ref,) = walker.tables(walker.fields(array)[1])
    vtable = ref - walker.number(ref, "i")
    struct.pack_into("<H", body, vtable + 4 + 2 * 3, 20)

    assert_refused(file_of(bytes(body)), "not aligned")


def test_an_empty_body_is_refused() -> None:
    assert_refused(file_of(b""), "holds 0 bytes")


def test_files_of_other_types_are_refused() -> None:
    data = file_of(manifest_body([]), file_type=FileType.SNAPSHOT)

    assert_refused(data, "expected manifest")


def shared_refs_body(arrays: int, refs: int) -> bytes:
    """Return a manifest whose arrays all list the same references."""
    body = bytearray(manifest_body([(struct.pack("<Q", i), []) for i in range(arrays)]))
    big = manifest_body(
        [(NODE, [{"index": (i,), "inline": b"x"} for i in range(refs)])],
    )
    walker = Walker(big)
    (table,) = walker.tables(walker.root()[1])
    start = len(body) + (-len(body) % 8)
    small = Walker(bytes(body))
    for array in small.tables(small.root()[1]):
        at = small.fields(array)[1]
        struct.pack_into("<I", body, at, start + walker.target(walker.fields(table)[1]) - at)
    return bytes(body).ljust(start, b"\0") + big


def test_arrays_may_share_one_list_of_references() -> None:
    manifest = decode(file_of(shared_refs_body(3, 5)))

    assert [len(table) for table in manifest.arrays.values()] == [5, 5, 5]


def test_sharing_cannot_turn_a_small_file_into_huge_columns() -> None:
    data = file_of(shared_refs_body(2_000, 2_000))

    tracemalloc.start()
    try:
        assert_refused(data, "shared so often")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40e6


def test_strings_that_overlap_cannot_turn_a_small_file_into_huge_pools() -> None:
    n = 3_000
    refs = [{"index": (i,), "location": "x" * 12, "length": 1} for i in range(n)]
    body = bytearray(manifest_body([(NODE, refs)]))
    walker = Walker(bytes(body))
    (array,) = walker.tables(walker.root()[1])
    for table in walker.tables(walker.fields(array)[1]):
        at = walker.target(walker.fields(table)[5])
        struct.pack_into("<I", body, at, len(body) - at - 4)

    assert_refused(file_of(bytes(body)), "shared so often")
