"""Snapshot files, in both versions of the specification."""

import struct
from dataclasses import replace
from typing import Any

import pytest

from icestream.codec import snapshots as codec
from icestream.codec.flatbuffer import FlatReader, FlatWriter, TableType
from icestream.codec.header import FileType, decode_body, encode_file
from icestream.codec.metadata_items import write_metadata
from icestream.codec.snapshots import decode_snapshot, encode_snapshot
from icestream.errors import ErrorKind, FormatError
from icestream.model.ids import INITIAL_SNAPSHOT_ID, ManifestId, NodeId, SnapshotId
from icestream.model.manifests import ManifestFile
from icestream.model.nodes import ArrayNode, DimensionShape, GroupNode, ManifestRef, Node
from icestream.model.snapshots import Snapshot, initial_snapshot

FLUSHED_AT = 1_795_298_492_939_694
SPECS = pytest.mark.parametrize("spec", [1, 2])

INITIAL_BODY = bytes.fromhex(
    "1c0000004963686b14002c000400000010002400140018001c00200014000000"
    "0b1cc8d6787580f0e33a65341c0000001c000000340000007400000078000000"
    "5c3bb1d35760060000000000160000005265706f7369746f727920696e697469"
    "616c697a65640000010000000c00000008000c00040008000800000020000000"
    "040000001200000069735f726f6f74000109010101016802240100000a000000"
    "5f5f6963656368756e6b0000000000000000000000000000"
)
"""The initial snapshot as icechunk 2.3.0 wrote it."""


def manifest_file(number: int) -> ManifestFile:
    return ManifestFile(ManifestId(bytes([number]) * 12), 1000 + number, number)


def group(path: str, number: int = 1) -> GroupNode:
    return GroupNode(NodeId(bytes([number]) * 8), path, b'{"node_type": "group"}')


def array(path: str, number: int = 2, **changes: Any) -> ArrayNode:
    node = ArrayNode(
        NodeId(bytes([number]) * 8),
        path,
        b'{"node_type":"array"}',
        (DimensionShape(5, 3, 2), DimensionShape(7, 3, 3)),
        ("zeit", None),
        (ManifestRef(manifest_file(9).id, ((0, 3), (1, 2))),),
    )
    return replace(node, **changes)


def snapshot_of(*nodes: Node, **changes: Any) -> Snapshot:
    snapshot = Snapshot(
        id=SnapshotId(b"twelve bytes"),
        flushed_at=FLUSHED_AT,
        message="größer",
        metadata={"b": [1, {"é": None}], "a": "x"},
        nodes={node.path: node for node in nodes},
        manifest_files={manifest_file(9).id: manifest_file(9)},
    )
    return replace(snapshot, **changes)


def as_spec_2(node: ArrayNode) -> ArrayNode:
    """Return the node as a file of spec 2 can hold it: without chunk lengths."""
    return replace(node, shape=tuple(replace(d, chunk_length=None) for d in node.shape))


def decode(data: bytes) -> Snapshot:
    return decode_snapshot(data, name="snapshots/X")


def decode_flatbuffer(body: bytes, spec: int = 2) -> Snapshot:
    return decode(encode_file(body, FileType.SNAPSHOT, spec, level=1))


def body_of(snapshot: Snapshot, spec: int) -> bytes:
    data = encode_snapshot(snapshot, spec=spec, level=3)
    return decode_body(data, FileType.SNAPSHOT, name="x")[1]


def write_snapshot(handles: list[int], writer: FlatWriter, **changes: Any) -> bytes:
    """Return a snapshot whose parts may be wrong."""
    slots: dict[str, Any] = {
        "id": bytes(12),
        "parent_id": None,
        "nodes": writer.offsets(handles),
        "flushed_at": 1,
        "message": writer.string("m"),
        "metadata": write_metadata(writer, {}, 2),
        "manifest_files": writer.vector(b""),
    }
    return writer.finish(writer.table(codec._SNAPSHOT, *(slots | changes).values()))


def test_spec_1_keeps_chunk_lengths_and_the_parent() -> None:
    snapshot = snapshot_of(group("/"), array("/a"), parent_id=INITIAL_SNAPSHOT_ID)
    data = encode_snapshot(snapshot, spec=1, level=3)

    assert data[36] == 1
    assert decode(data) == snapshot


def test_spec_2_keeps_chunk_counts_and_leaves_the_parent_to_the_repo_info() -> None:
    snapshot = snapshot_of(group("/"), array("/a"), parent_id=INITIAL_SNAPSHOT_ID)
    data = encode_snapshot(snapshot, spec=2, level=3)

    assert data[36] == 2
    expected = snapshot_of(group("/"), as_spec_2(array("/a")), parent_id=None)
    assert decode(data) == expected


@SPECS
def test_scalars_empty_arrays_and_arrays_without_names_survive(spec: int) -> None:
    scalar = array("/scalar", 3, shape=(), dimension_names=(), manifests=())
    empty = array("/empty", 4, shape=(DimensionShape(0, 0, 4),), dimension_names=(None,))
    unnamed = array("/unnamed", 5, dimension_names=None)
    decoded = decode(encode_snapshot(snapshot_of(scalar, empty, unnamed), spec=spec, level=3))

    for node in (scalar, empty, unnamed):
        assert decoded.get_array(node.path) == (node if spec == 1 else as_spec_2(node))


@SPECS
def test_extra_bytes_survive(spec: int) -> None:
    snapshot = snapshot_of(extra=b"of the future")

    assert decode(encode_snapshot(snapshot, spec=spec, level=3)).extra == b"of the future"


@SPECS
def test_nodes_are_ordered_by_the_bytes_of_their_path(spec: int) -> None:
    # U+FF5E sorts before U+1F9CA in UTF-8, and after it in UTF-16
    paths = ["/", "/a", "/a-b", "/a/b", "/ab", "/é", "/\uff5e", "/\U0001f9ca"]
    nodes = [group(path, number) for number, path in enumerate(reversed(paths))]
    encoded = encode_snapshot(snapshot_of(*nodes), spec=spec, level=3)

    assert list(decode(encoded).nodes) == paths
    assert paths == sorted(paths, key=str.encode)
    body = decode_body(encoded, FileType.SNAPSHOT, name="x")[1]
    reader = FlatReader(body, "x")
    stored = reader.positions(reader.read_root(codec._SNAPSHOT)[2], "nodes")
    assert [reader.string(reader.read(at, codec._NODE)[1], "p") for at in stored] == paths


@SPECS
def test_manifest_files_are_ordered_by_id(spec: int) -> None:
    files = [manifest_file(number) for number in (200, 9, 1, 90)]
    snapshot = snapshot_of(manifest_files={file.id: file for file in files})
    decoded = decode(encode_snapshot(snapshot, spec=spec, level=3))

    assert list(decoded.manifest_files.values()) == sorted(files, key=lambda file: file.id)


def test_unordered_files_of_others_are_ordered_when_read() -> None:
    writer = FlatWriter()
    nodes = [
        writer.table(
            codec._NODE,
            bytes(8),
            writer.string(path),
            writer.vector(b""),
            2,
            writer.table(codec._GROUP),
        )
        for path in ("/b", "/", "/a")
    ]

    assert list(decode_flatbuffer(write_snapshot(nodes, writer)).nodes) == ["/", "/a", "/b"]


def test_the_initial_snapshot_of_icechunk_is_read_byte_by_byte() -> None:
    decoded = decode_flatbuffer(INITIAL_BODY)

    flushed_at = int.from_bytes(INITIAL_BODY[0x40:0x48], "little")
    assert decoded == initial_snapshot(flushed_at)
    assert decoded.id == INITIAL_BODY[0x20:0x2C]


@SPECS
@pytest.mark.parametrize("message", ["", "a", "four", "eleven char"])
def test_trap_3_u64_fields_and_structs_are_aligned(spec: int, message: str) -> None:
    length, size = 0x1122334455667788, 0x1234567812345678
    node = array("/a", shape=(DimensionShape(length, 1, length),), dimension_names=None)
    file = replace(manifest_file(9), size_bytes=size)
    snapshot = snapshot_of(node, message=message, manifest_files={file.id: file})
    body = body_of(snapshot, spec)

    for number in (FLUSHED_AT, length, size):
        assert body.index(struct.pack("<Q", number)) % 8 == 0


def test_trap_6_required_vectors_are_there_even_when_empty() -> None:
    empty = Snapshot(id=SnapshotId(bytes(12)), flushed_at=1, message="")
    for spec in (1, 2):
        reader = FlatReader(body_of(empty, spec), "x")
        _, _, nodes, _, message, metadata, files, files_v2, _ = reader.read_root(codec._SNAPSHOT)
        assert [reader.vector(at, "v") for at in (nodes, metadata, files, message)] == [b""] * 4
        assert bool(files_v2) is (spec == 2)


def test_trap_6_the_old_shape_and_manifest_list_are_empty_in_spec_2() -> None:
    reader = FlatReader(body_of(snapshot_of(array("/a")), 2), "x")
    _, _, nodes, _, _, _, files, files_v2, _ = reader.read_root(codec._SNAPSHOT)
    node = reader.read(reader.positions(nodes, "n")[0], codec._NODE)
    shape, _, _, shape_v2 = reader.read(node[4], codec._ARRAY)

    assert reader.vector(files, "f") == reader.vector(shape, "s") == b""
    assert len(reader.positions(files_v2, "f")) == 1
    assert len(reader.positions(shape_v2, "s")) == 2


@pytest.mark.parametrize("slot", ["nodes", "message", "metadata", "manifest_files"])
def test_trap_6_a_missing_required_field_is_named(slot: str) -> None:
    body = write_snapshot([], FlatWriter(), **{slot: None})
    with pytest.raises(FormatError, match=rf"^snapshots/X: Snapshot: .* lacks .*{slot}"):
        decode_flatbuffer(body)


def test_trap_9_the_initial_snapshot_has_its_well_known_id_and_no_nodes() -> None:
    decoded = decode(encode_snapshot(initial_snapshot(FLUSHED_AT), spec=2, level=3))

    assert decoded.id.hex() == "0b1cc8d6787580f0e33a6534"
    assert (decoded.nodes, decoded.manifest_files) == ({}, {})
    assert decoded.metadata == {"__icechunk": {"is_root": True}}
    assert decoded.message == "Repository initialized"


@SPECS
def test_trap_10_a_manifest_that_is_used_must_be_listed(spec: int) -> None:
    with pytest.raises(FormatError, match=r"/a uses manifest .* does not list") as error:
        encode_snapshot(snapshot_of(array("/a"), manifest_files={}), spec=spec, level=3)

    assert error.value.kind is ErrorKind.INCONSISTENT_MANIFESTS


def test_trap_13_arrays_are_1_and_groups_are_2() -> None:
    reader = FlatReader(body_of(snapshot_of(group("/"), array("/a")), 2), "x")
    nodes = reader.positions(reader.read_root(codec._SNAPSHOT)[2], "n")

    assert [reader.read(at, codec._NODE)[3] for at in nodes] == [2, 1]


@pytest.mark.parametrize("kind", [None, 0, 3, 255])
def test_trap_13_an_unknown_kind_of_node_is_refused(kind: int | None) -> None:
    writer = FlatWriter()
    content = writer.table(codec._GROUP)
    node = writer.table(
        codec._NODE, bytes(8), writer.string("/odd"), writer.vector(b""), kind, content
    )
    with pytest.raises(FormatError, match=rf"/odd is of unknown kind {kind or 0}"):
        decode_flatbuffer(write_snapshot([node], writer))


def test_trap_21_metadata_is_decoded_by_the_spec_byte_of_the_file() -> None:
    snapshot = snapshot_of(metadata={"größe": {"a": [1, 2.5, None]}})
    files = {spec: encode_snapshot(snapshot, spec=spec, level=3) for spec in (1, 2)}

    assert decode(files[1]).metadata == decode(files[2]).metadata == snapshot.metadata
    disguised = files[1][:36] + b"\x02" + files[1][37:]
    with pytest.raises(FormatError, match="metadata 'größe'"):
        decode(disguised)


def test_shapes_of_spec_1_are_read_from_files_of_spec_2() -> None:
    disguised = bytearray(encode_snapshot(snapshot_of(array("/a"), metadata={}), spec=1, level=3))
    disguised[36] = 2

    decoded = decode(bytes(disguised))
    assert decoded.get_array("/a") == array("/a")
    assert list(decoded.manifest_files.values()) == [manifest_file(9)]


def test_the_parent_in_a_file_of_spec_2_is_ignored() -> None:
    body = write_snapshot([], FlatWriter(), parent_id=bytes(12))

    assert decode_flatbuffer(body).parent_id is None


def test_the_chunk_count_of_spec_1_is_rounded_up() -> None:
    shape = (DimensionShape(7, 4, 2), DimensionShape(0, 0, 0), DimensionShape(1, 1, 10**9))
    node = array("/a", shape=shape, dimension_names=None)

    decoded = decode(encode_snapshot(snapshot_of(node), spec=1, level=3)).get_array("/a")
    assert decoded.num_chunks == (4, 0, 1)


def test_a_chunk_length_of_zero_is_refused() -> None:
    node = array("/a", shape=(DimensionShape(7, 0, 0),), dimension_names=None)
    with pytest.raises(FormatError, match="/a has a chunk length of 0"):
        decode(encode_snapshot(snapshot_of(node), spec=1, level=3))


def test_a_grid_without_chunk_lengths_needs_spec_2() -> None:
    with pytest.raises(FormatError, match=r"/a: .* upgrade the repository") as error:
        encode_snapshot(snapshot_of(as_spec_2(array("/a"))), spec=1, level=3)

    assert error.value.kind is ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION


def test_another_snapshot_than_expected_is_refused() -> None:
    data = encode_snapshot(snapshot_of(), spec=2, level=3)

    assert decode_snapshot(data, name="x", expected_id=snapshot_of().id) == snapshot_of()
    with pytest.raises(FormatError, match=r"x: Snapshot.id: the file holds snapshot EHVPAV3PCM"):
        decode_snapshot(data, name="x", expected_id=INITIAL_SNAPSHOT_ID)


def test_a_path_that_is_there_twice_is_refused() -> None:
    writer = FlatWriter()
    content, path = writer.table(codec._GROUP), writer.string("/a")
    node = writer.table(codec._NODE, bytes(8), path, writer.vector(b""), 2, content)
    with pytest.raises(FormatError, match="a path is there twice"):
        decode_flatbuffer(write_snapshot([node, node], writer))


def test_dimension_names_must_fit_the_shape() -> None:
    broken = array("/a", dimension_names=("one",))
    with pytest.raises(FormatError, match="/a has 1 names for 2 dimensions"):
        decode(encode_snapshot(snapshot_of(broken), spec=2, level=3))


def test_a_time_after_the_year_9999_is_refused() -> None:
    late = snapshot_of(flushed_at=2**63)
    with pytest.raises(FormatError, match=r"Snapshot.flushed_at: .* after the year 9999"):
        decode(encode_snapshot(late, spec=2, level=3))


@pytest.mark.parametrize(
    "change",
    [
        {"flushed_at": -1},
        {"manifest_files": {manifest_file(9).id: ManifestFile(manifest_file(9).id, -5, 1)}},
    ],
)
@SPECS
def test_numbers_that_do_not_fit_are_refused(spec: int, change: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="does not fit"):
        encode_snapshot(snapshot_of(**change), spec=spec, level=3)


def test_arrays_of_one_shape_share_it_in_the_file_and_in_memory() -> None:
    nodes = [array(f"/array{number:03}", number) for number in range(200)]
    decoded = decode(encode_snapshot(snapshot_of(*nodes), spec=2, level=3))

    shapes = {id(node.shape) for node in decoded.nodes.values() if isinstance(node, ArrayNode)}
    assert len(shapes) == 1
    assert [decoded.get_array(node.path) for node in nodes] == [as_spec_2(n) for n in nodes]


def test_a_small_file_cannot_spell_out_a_huge_snapshot() -> None:
    writer = FlatWriter()
    content, document = writer.table(codec._GROUP), writer.vector(bytes(2**20))
    node = writer.table(codec._NODE, bytes(8), writer.string("/a"), document, 2, content)
    data = encode_file(write_snapshot([node] * 50_000, writer), FileType.SNAPSHOT, 2, level=3)

    assert len(data) < 200_000
    with pytest.raises(FormatError, match="far more than the file has bytes for"):
        decode(data)


def test_fields_of_a_newer_schema_are_ignored() -> None:
    newer = TableType("GroupNodeData", "colour I")
    writer = FlatWriter()
    content = writer.table(newer, 7)
    node = writer.table(codec._NODE, bytes(8), writer.string("/"), writer.vector(b"{}"), 2, content)

    decoded = decode_flatbuffer(write_snapshot([node], writer))
    assert decoded.nodes == {"/": GroupNode(NodeId(bytes(8)), "/", b"{}")}
