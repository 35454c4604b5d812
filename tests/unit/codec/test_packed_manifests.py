"""Manifests that hold many small arrays: written and read together, handed out one by one."""

import pickle

import numpy as np
import pytest
from tests.foreign_manifests import MANIFEST_ID, file_of, manifest_body, read_manifest
from tests.tables import Refs, refs_of, virtual_table

from icestream.codec.header import FileType, decode_body
from icestream.codec.manifests import decode_manifest, encode_manifest
from icestream.errors import FormatError, InvalidInputError
from icestream.model.chunk_refs import ChunkRef, InlineRef, NativeRef, VirtualRef
from icestream.model.chunk_stacks import SMALL_TABLE_ROWS, ChunkStack
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import ChunkId, ManifestId, NodeId, id_text
from icestream.model.manifests import LocationCompression, Manifest

ID = ManifestId(MANIFEST_ID)
RANKS = (0, 1, 3)


def node_id(number: int) -> NodeId:
    return NodeId(b"%08d" % number)


def ref_of(number: int, row: int, kind: int) -> ChunkRef:
    match kind % 5:
        case 0:
            return InlineRef(b"%d-%d" % (number, row))
        case 1:
            return NativeRef(ChunkId(b"%06d%06d" % (number, row)), row, number)
        case 2:
            return VirtualRef(f"s3://bucket/{number}/{row}", row, number)
        case 3:
            return VirtualRef("s3://bucket/common", row, number, etag=f"etag-{number}")
        case _:
            return VirtualRef("s3://bucket/common", row, number, last_modified=number + 1)


def refs_of_array(number: int) -> Refs:
    """Return the references of one of many arrays: of any rank and kind, mixed, or none."""
    rank = RANKS[number % 3]
    rows = range(1 if rank == 0 else number % 4)
    return {(row,) * rank: ref_of(number, row, number + row * (number % 7 == 0)) for row in rows}


def arrays_of(count: int) -> dict[NodeId, ChunkTable]:
    return {node_id(i): ChunkTable.from_refs(refs_of_array(i), RANKS[i % 3]) for i in range(count)}


def decode(data: bytes) -> Manifest:
    return decode_manifest(data, name="manifests/M")


def packed(count: int) -> Manifest:
    return decode(encode_manifest(ID, arrays_of(count), spec=2))


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("locations", [None, LocationCompression(min_num_chunks=1)])
def test_many_small_arrays_of_every_rank_and_kind_survive(
    spec: int, locations: LocationCompression | None
) -> None:
    data = encode_manifest(ID, arrays_of(500), spec=spec, locations=locations)

    manifest = decode(data)

    assert list(manifest.arrays) == [node_id(i) for i in range(500)]
    for i in range(500):
        assert refs_of(manifest.arrays[node_id(i)]) == refs_of_array(i)


def test_an_independent_reader_finds_every_array() -> None:
    body = decode_body(encode_manifest(ID, arrays_of(200), spec=2), FileType.MANIFEST, name="m")[1]

    # it asserts the alignment of everything it reads
    found = read_manifest(body)

    assert [[ref["index"] for ref in found[node_id(i)]] for i in range(200)] == [
        list(refs_of_array(i)) for i in range(200)
    ]


def test_what_was_read_can_be_written_again() -> None:
    again = decode(encode_manifest(ID, packed(300).arrays, spec=2))

    for i in range(300):
        assert refs_of(again.arrays[node_id(i)]) == refs_of_array(i)


def test_a_big_array_between_small_ones_survives() -> None:
    big = virtual_table(SMALL_TABLE_ROWS + 1, texts=5)
    arrays = arrays_of(100) | {node_id(50): big}

    manifest = decode(encode_manifest(ID, arrays, spec=2))

    assert manifest.arrays[node_id(50)].location_column() == big.location_column()
    assert refs_of(manifest.arrays[node_id(49)]) == refs_of_array(49)
    assert refs_of(manifest.arrays[node_id(51)]) == refs_of_array(51)
    assert manifest.num_refs == sum(map(len, arrays.values()))


def test_more_small_arrays_than_make_a_block_survive() -> None:
    table = virtual_table(SMALL_TABLE_ROWS - 1, texts=3)
    arrays = {node_id(i): table for i in range(20)}

    manifest = decode(encode_manifest(ID, arrays, spec=2))

    for decoded in manifest.arrays.values():
        assert np.array_equal(decoded.index, table.index)
        assert np.array_equal(decoded.byte_offset, table.byte_offset)
        assert decoded.location_column() == table.location_column()


def test_columns_that_apply_to_no_row_of_an_array_are_absent() -> None:
    arrays = packed(50).arrays

    inline, native, virtual = arrays[node_id(10)], arrays[node_id(1)], arrays[node_id(2)]
    assert (inline.chunk_id, inline.location_code, inline.etag_code) == (None, None, None)
    assert (native.inline, native.location_code, native.last_modified) == (None, None, None)
    assert (virtual.inline, virtual.chunk_id, virtual.etag_code) == (None, None, None)


def test_a_location_of_many_arrays_is_written_once() -> None:
    arrays = {node_id(i): virtual_table(3) for i in range(100)}

    for again in (arrays, decode(encode_manifest(ID, arrays, spec=2)).arrays):
        body = decode_body(encode_manifest(ID, again, spec=2), FileType.MANIFEST, name="m")[1]
        assert body.count(b"s3://bucket/some/folder/") == 1


def test_an_array_does_not_hold_the_locations_of_all_others() -> None:
    refs: list[Refs] = [
        {(0,): VirtualRef(f"s3://b/{i}", 0, 1), (1,): VirtualRef(f"s3://b/{997 - i}", 0, 1)}
        for i in range(998)
    ]
    arrays = {node_id(i): ChunkTable.from_refs(refs[i], 1) for i in range(998)}

    manifest = decode(encode_manifest(ID, arrays, spec=2))

    assert max(len(table.locations) for table in manifest.arrays.values()) == 2
    assert [refs_of(table) for table in manifest.arrays.values()] == refs


def test_only_arrays_that_are_asked_for_are_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[int] = []
    original = ChunkStack.cut

    def counted(self: ChunkStack, number: int) -> ChunkTable:
        cut.append(number)
        return original(self, number)

    monkeypatch.setattr(ChunkStack, "cut", counted)
    manifest = packed(300)

    assert manifest.num_refs == sum(len(refs_of_array(i)) for i in range(300))
    assert manifest.num_bytes > 0
    assert node_id(7) in manifest.arrays
    assert not cut
    assert manifest.arrays[node_id(7)] is manifest.arrays[node_id(7)]
    assert len(cut) == 1
    assert manifest.arrays.get(NodeId(b"unknown-")) is None


def test_manifests_of_many_arrays_can_be_pickled() -> None:
    manifest = packed(200)
    assert len(manifest.arrays[node_id(5)]) == 1

    copy = pickle.loads(pickle.dumps(manifest))

    assert list(copy.arrays) == list(manifest.arrays)
    for i in range(200):
        assert refs_of(copy.arrays[node_id(i)]) == refs_of_array(i)


def test_memory_is_counted_once_for_arrays_that_lie_together() -> None:
    table = virtual_table(1000, texts=1000)
    manifest = decode(encode_manifest(ID, {node_id(i): table for i in range(10)}, spec=2))

    together = manifest.num_bytes

    assert together < sum(Manifest(ID, {i: part}).num_bytes for i, part in manifest.arrays.items())


# -- files of other writers ---------------------------------------------------------------------


def test_arrays_that_a_writer_left_unsorted_are_not_lost() -> None:
    rows = {node_id(i): [(3, i), (0, 1), (i, 2)] for i in range(4, 40)}
    body = manifest_body(
        [
            (array, [{"index": index, "inline": bytes(index)} for index in indexes])
            for array, indexes in rows.items()
        ]
    )

    manifest = decode(file_of(body))

    for array, indexes in rows.items():
        expected = {index: InlineRef(bytes(index)) for index in sorted(indexes)}
        assert refs_of(manifest.arrays[array]) == expected


@pytest.mark.parametrize("index", [(), (3,), (2**32 - 1, 0)])
def test_two_references_for_one_chunk_of_one_array_are_refused(index: tuple[int, ...]) -> None:
    once, twice = ([{"index": index, "inline": b"a"}] * n for n in (1, 2))

    assert len(decode(file_of(manifest_body([(node_id(i), once) for i in range(9)]))).arrays) == 9
    body = manifest_body([(node_id(i), twice if i == 4 else once) for i in range(9)])
    with pytest.raises(FormatError, match=r"manifests/M: .*(two references|several chunks)"):
        decode(file_of(body))


def test_references_of_different_rank_in_one_of_many_arrays_are_refused() -> None:
    good = [{"index": (0,), "inline": b"a"}, {"index": (1,), "inline": b"b"}]
    bad = [{"index": (0,), "inline": b"a"}, {"index": (0, 1), "inline": b"b"}]
    body = manifest_body([(node_id(i), bad if i == 3 else good) for i in range(9)])

    with pytest.raises(FormatError, match="different rank"):
        decode(file_of(body))


def test_the_array_that_is_listed_twice_is_named() -> None:
    body = manifest_body([(node_id(i), []) for i in (1, 2, 3, 2)])

    with pytest.raises(FormatError, match=f"lists the array {id_text(node_id(2))} twice"):
        decode(file_of(body))


def test_deletions_in_one_of_many_arrays_are_refused() -> None:
    arrays = arrays_of(20) | {node_id(3): ChunkTable.from_refs({(0,): None}, 1)}

    with pytest.raises(InvalidInputError, match="deletions"):
        encode_manifest(ID, arrays, spec=2)
