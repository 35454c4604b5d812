"""Snapshots, repo infos and refs: any value survives, and any bytes give a value or FormatError."""

import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icestream.codec.header import HEADER_SIZE, FileType, decode_body, encode_file
from icestream.codec.refs import (
    branch_path,
    decode_ref,
    encode_ref,
    find_ref,
    tag_path,
    tag_tombstone_path,
)
from icestream.codec.repo_infos import decode_repo_info, encode_repo_info
from icestream.codec.snapshots import decode_snapshot, encode_snapshot
from icestream.errors import FormatError
from icestream.model.ids import INITIAL_SNAPSHOT_ID, ManifestId, NodeId, SnapshotId, id_text
from icestream.model.manifests import ManifestFile
from icestream.model.nodes import ArrayNode, DimensionShape, GroupNode, ManifestRef, Node
from icestream.model.ops_log import (
    EVENT_KINDS,
    FeatureFlagChanged,
    RepoAvailability,
    RepoMigrated,
    RepoStatus,
    RepoStatusChanged,
    Update,
    UpdateType,
)
from icestream.model.repo_info import RepoInfo, SnapshotEntry
from icestream.model.snapshots import Snapshot
from icestream.model.times import datetime_of

MAX_MICROS = 253_402_300_799_999_999

texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=12)
micros = st.integers(0, MAX_MICROS)
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
snapshot_ids = st.binary(min_size=12, max_size=12).map(SnapshotId)
manifest_ids = st.binary(min_size=12, max_size=12).map(ManifestId)
node_ids = st.binary(min_size=8, max_size=8).map(NodeId)
optional_bytes = st.none() | st.binary(max_size=20)

# keys of FlexBuffers end at the first zero byte
key_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(key_texts, inner, max_size=4),
    max_leaves=8,
)
metadata = st.dictionaries(texts, json_values, max_size=3)


@st.composite
def dimensions(draw: st.DrawFn, spec: int) -> DimensionShape:
    if spec == 2:
        return DimensionShape(draw(u64), draw(u32))
    length = draw(u64)
    chunk = draw(st.integers(1, 2**64 - 1)) if length else draw(u64)
    return DimensionShape(length, -(-length // chunk) if length else 0, chunk)


@st.composite
def arrays(draw: st.DrawFn, path: str, spec: int, files: list[ManifestId]) -> ArrayNode:
    rank = draw(st.integers(0, 4))
    dimension_names = st.lists(st.none() | names, min_size=rank, max_size=rank).map(tuple)
    extents = st.lists(st.tuples(u32, u32), max_size=4).map(tuple)
    refs = st.lists(st.builds(ManifestRef, st.sampled_from(files), extents), max_size=3)
    return ArrayNode(
        draw(node_ids),
        path,
        draw(st.binary(max_size=40)),
        tuple(draw(st.lists(dimensions(spec), min_size=rank, max_size=rank))),
        draw(st.none() | dimension_names),
        tuple(draw(refs)) if files else (),
    )


@st.composite
def snapshots(draw: st.DrawFn, spec: int) -> Snapshot:
    files = draw(st.lists(st.builds(ManifestFile, manifest_ids, u64, u32), max_size=4))
    listed = {file.id: file for file in sorted(files, key=lambda file: file.id)}
    nodes: dict[str, Node] = {}
    for path in sorted(draw(st.sets(texts, max_size=6))):
        group = st.builds(GroupNode, node_ids, st.just(path), st.binary(max_size=40))
        nodes[path] = draw(group | arrays(path, spec, list(listed)))
    return Snapshot(
        id=draw(snapshot_ids),
        flushed_at=draw(micros),
        message=draw(texts),
        parent_id=draw(st.none() | snapshot_ids) if spec == 1 else None,
        metadata=draw(metadata),
        nodes=nodes,
        manifest_files=listed,
        extra=draw(optional_bytes),
    )


statuses = st.builds(
    RepoStatus,
    st.sampled_from(RepoAvailability),
    micros.map(datetime_of),
    st.none() | texts,
)


def events_of(kind: type[UpdateType]) -> st.SearchStrategy[UpdateType]:
    if kind is FeatureFlagChanged:
        return st.builds(kind, st.integers(0, 65535), st.sampled_from([None, True, False]))
    if kind is RepoStatusChanged:
        return st.builds(kind, statuses)
    if kind is RepoMigrated:
        return st.builds(kind, st.integers(0, 255), st.integers(0, 255))
    fields = getattr(kind, "__dataclass_fields__", {})
    ids = snapshot_ids.map(id_text)
    return st.builds(kind, *[ids if name.endswith("_id") else texts for name in fields])


updates = st.builds(
    Update, st.sampled_from(EVENT_KINDS).flatmap(events_of), micros, st.none() | texts
)


@st.composite
def repo_infos(draw: st.DrawFn) -> RepoInfo:
    ids = sorted(draw(st.sets(snapshot_ids, min_size=1, max_size=6)))
    known = st.sampled_from(ids)
    entries = [
        SnapshotEntry(
            id=id_,
            parent_id=draw(st.none() | known),
            flushed_at=draw(micros),
            message=draw(texts),
            metadata=draw(metadata),
            pruned_logs=tuple(draw(st.lists(snapshot_ids, max_size=3))),
        )
        for id_ in ids
    ]
    newest = replace(draw(updates), updated_at_micros=MAX_MICROS, backup_path=None)
    older = [
        replace(update, updated_at_micros=update.updated_at_micros // 2)
        for update in draw(st.lists(updates, max_size=4))
    ]
    flags = st.frozensets(st.integers(0, 65535), max_size=3)
    return RepoInfo(
        branches={"main": draw(known)} | draw(st.dictionaries(texts, known, max_size=3)),
        tags=draw(st.dictionaries(texts, known, max_size=3)),
        deleted_tags=draw(st.frozensets(texts, max_size=3)),
        snapshots={entry.id: entry for entry in entries},
        status=draw(statuses),
        metadata=draw(metadata),
        latest_updates=(newest, *older),
        repo_before_updates=draw(st.none() | texts),
        config=draw(optional_bytes),
        enabled_flags=draw(flags),
        disabled_flags=draw(flags),
        extra=draw(optional_bytes),
    )


@pytest.mark.parametrize("spec", [1, 2])
@given(data=st.data())
def test_any_snapshot_survives(data: st.DataObject, spec: int) -> None:
    snapshot = data.draw(snapshots(spec))
    encoded = encode_snapshot(snapshot, spec=spec, level=1)
    decoded = decode_snapshot(encoded, name="x", expected_id=snapshot.id)

    assert decoded == snapshot
    assert list(decoded.nodes) == sorted(snapshot.nodes, key=str.encode)
    assert encode_snapshot(decoded, spec=spec, level=1) == encoded


@given(repo_infos())
def test_any_repo_info_survives(info: RepoInfo) -> None:
    encoded = encode_repo_info(info, level=1)

    assert decode_repo_info(encoded, name="x") == info
    assert encode_repo_info(decode_repo_info(encoded, name="x"), level=1) == encoded


@given(snapshot_ids, names.filter(lambda name: "/" not in name))
def test_any_ref_survives(snapshot_id: SnapshotId, name: str) -> None:
    assert decode_ref(encode_ref(snapshot_id), name="x") == snapshot_id
    found = [find_ref(path(name)) for path in (branch_path, tag_path, tag_tombstone_path)]
    assert [ref and ref.name for ref in found] == [name] * 3
    assert len(set(found)) == 3


# -- hostile bytes --------------------------------------------------------------------------------


def decode_any(data: bytes, file_type: FileType) -> Any:
    """Decode as whatever it is; all but FormatError is a fault."""
    if file_type is FileType.SNAPSHOT:
        return decode_snapshot(data, name="x")
    return decode_repo_info(data, name="x")


def try_body(body: bytes, file_type: FileType, spec: int) -> None:
    started = time.perf_counter()
    with suppress(FormatError):
        decode_any(encode_file(body, file_type, spec, level=1), file_type)
    assert time.perf_counter() - started < 5


def some_body(file_type: FileType, spec: int) -> bytes:
    id_ = ManifestId(bytes(range(12)))
    array = ArrayNode(
        NodeId(b"nodeid12"),
        "/group/array",
        b"{}",
        (DimensionShape(10, 5, 2), DimensionShape(3, 1, 3)),
        ("time", None),
        (ManifestRef(id_, ((0, 5), (0, 1))),),
    )
    values = {"a": [1, "x", None, {"b": 2.5}], "c": "text", "d": [1, 2, 3]}
    snapshot = Snapshot(
        id=INITIAL_SNAPSHOT_ID,
        flushed_at=10**15,
        message="message",
        metadata=values,
        nodes={"/": GroupNode(NodeId(bytes(8)), "/", b"{}"), array.path: array},
        manifest_files={id_: ManifestFile(id_, 100, 5)},
    )
    if file_type is FileType.SNAPSHOT:
        data = encode_snapshot(snapshot, spec=spec, level=1)
    else:
        entry = replace(SnapshotEntry.of(snapshot, snapshot.id), pruned_logs=(snapshot.id,))
        status = RepoStatus(RepoAvailability.read_only, datetime_of(1), "why")
        events = [Update(RepoStatusChanged(status), 9), Update(FeatureFlagChanged(3, None), 8, "b")]
        info = RepoInfo(
            branches={"main": entry.id},
            tags={"v1": entry.id},
            deleted_tags=frozenset({"v0"}),
            snapshots={entry.id: entry},
            status=status,
            metadata=values,
            latest_updates=tuple(events),
            disabled_flags=frozenset({3}),
        )
        data = encode_repo_info(info, level=1)
    return decode_body(data, file_type, name="x")[1]


BODIES = {
    (FileType.SNAPSHOT, 1): some_body(FileType.SNAPSHOT, 1),
    (FileType.SNAPSHOT, 2): some_body(FileType.SNAPSHOT, 2),
    (FileType.REPO_INFO, 2): some_body(FileType.REPO_INFO, 2),
}
kinds = st.sampled_from(sorted(BODIES))


@given(st.binary(max_size=300), kinds)
def test_random_bytes_are_refused(data: bytes, kind: tuple[FileType, int]) -> None:
    with suppress(FormatError):
        decode_ref(data, name="x")
    with pytest.raises(FormatError):
        decode_any(data, kind[0])
    try_body(data, *kind)


@given(st.binary(min_size=1, max_size=100), st.integers(0, 100), kinds)
def test_a_damaged_file_is_refused_or_read(
    noise: bytes, position: int, kind: tuple[FileType, int]
) -> None:
    data = encode_file(BODIES[kind], *kind, level=1)
    start = HEADER_SIZE + position % (len(data) - HEADER_SIZE)
    with suppress(FormatError):
        decode_any(data[:start] + noise + data[start + len(noise) :], kind[0])


@pytest.mark.parametrize("kind", sorted(BODIES))
def test_a_body_cut_anywhere_is_refused_or_read(kind: tuple[FileType, int]) -> None:
    body = BODIES[kind]
    for length in range(len(body)):
        try_body(body[:length], *kind)


@pytest.mark.parametrize("kind", sorted(BODIES))
def test_every_byte_may_be_damaged(kind: tuple[FileType, int]) -> None:
    body = BODIES[kind]
    for position, byte in enumerate(body):
        for changed in {0, 0xFF, byte ^ 1, byte ^ 4, byte ^ 0x80} - {byte}:
            try_body(body[:position] + bytes([changed]) + body[position + 1 :], *kind)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=12), kinds
)
def test_several_bytes_may_be_damaged(
    changes: list[tuple[int, int]], kind: tuple[FileType, int]
) -> None:
    body = bytearray(BODIES[kind])
    for position, value in changes:
        body[position % len(body)] = value
    try_body(bytes(body), *kind)
