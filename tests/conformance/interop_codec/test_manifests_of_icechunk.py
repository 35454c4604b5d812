"""Manifests and transaction logs of the icechunk package are read, and it reads ours."""

import asyncio
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from tests.tables import refs_of

from icestream.codec.header import FileType, decode_body
from icestream.codec.manifests import decode_manifest, encode_manifest
from icestream.codec.snapshots import decode_snapshot, encode_snapshot
from icestream.codec.transaction_logs import decode_transaction_log, encode_transaction_log
from icestream.model.chunk_refs import ChunkRef, InlineRef, NativeRef, VirtualRef
from icestream.model.chunk_tables import concat
from icestream.model.ids import INITIAL_SNAPSHOT_ID, ManifestId, SnapshotId, id_text, parse_id
from icestream.model.manifests import LocationCompression, ManifestFile
from icestream.model.nodes import ArrayNode

MANY = 1200
"""Enough virtual references for icechunk to compress their locations."""
MODIFIED = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
EAGER = LocationCompression(min_num_chunks=1)
ARRAYS = ("inline", "native", "virtual", "checked", "mixed", "scalar")

Row = tuple[tuple[int, ...], int, str, int, int, bytes | None]


def build_repository(path: Path, spec: int) -> None:
    storage = icechunk.local_filesystem_storage(str(path))
    repo = icechunk.Repository.create(
        storage,
        config=icechunk.RepositoryConfig(inline_chunk_threshold_bytes=8),
        spec_version=spec,
    )
    session = repo.writable_session("main")
    fill_arrays(session, zarr.create_group(session.store))
    session.commit("arrays")
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="mixed")[0] = 7
    session.commit("one chunk")
    session = repo.writable_session("main")
    del zarr.open_group(session.store)["inline"].attrs["x"]
    session.store.set_virtual_ref(
        "native/c/1/1", "s3://b/x", offset=2**40, length=3, validate_container=False
    )
    session.commit("attributes and a reference")


def fill_arrays(session: icechunk.Session, root: zarr.Group) -> None:
    root.create_array("inline", shape=(9,), chunks=(2,), dtype="u1", attributes={"x": 1})[:] = 1
    root.create_array("native", shape=(9, 8), chunks=(3, 4), dtype="i8")[:] = np.arange(72).reshape(
        9, 8
    )
    root.create_array("scalar", shape=(), dtype="u1")[...] = 5
    grid = (MANY // 100, 10, 10)
    for name in ("virtual", "checked"):
        root.create_array(name, shape=grid, chunks=(1, 1, 1), dtype="u1")
    numbers = np.arange(MANY, dtype=np.uint64)
    urls = [f"s3://bucket/archive/file-{i // 7:05d}-ü.nc" for i in range(MANY)]
    session.store.set_virtual_refs_arr(
        "virtual", grid, urls, numbers * 11, numbers + 1, validate_containers=False
    )
    session.store.set_virtual_refs_arr(
        "checked",
        grid,
        urls,
        numbers,
        numbers + 1,
        validate_containers=False,
        checksum=MODIFIED,
    )
    mixed = root.create_array("mixed", shape=(20,), chunks=(2,), dtype="i8")
    mixed[:4] = 1
    for i, checksum in enumerate((None, "etag-1", MODIFIED, "etag-1"), start=3):
        session.store.set_virtual_ref(
            f"mixed/c/{i}",
            f"s3://b/{i % 2}",
            offset=0,
            length=16,
            checksum=checksum,
            validate_container=False,
        )


@pytest.fixture(scope="module", params=[1, 2])
def spec(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, spec: int) -> Path:
    path = tmp_path_factory.mktemp("icechunk") / "repo"
    build_repository(path, spec)
    return path


def open_peer(path: Path) -> icechunk.Repository:
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))


def peer_rows(session: icechunk.Session, array: str) -> list[Row]:
    """Return every reference of an array, as icechunk tells it."""

    async def collect() -> list[Any]:
        return [batch async for batch in session.store.array_chunk_iterator(array)]

    rows: list[Row] = []
    for index, kind, path, offset, length, inlined in asyncio.run(collect()):
        columns = (index.tolist(), kind.tolist(), path, offset.tolist(), length.tolist())
        for row, (at, *rest) in enumerate(zip(*columns, strict=True)):
            rows.append((tuple(at), *rest, inlined.get(row)))
    return sorted(rows, key=lambda row: row[0])


def row_of(index: tuple[int, ...], ref: ChunkRef | None) -> Row:
    match ref:
        case InlineRef(data):
            return (index, 3, "", 0, len(data), data)
        case NativeRef(chunk_id, offset, length):
            return (index, 1, id_text(chunk_id), offset, length, None)
        case VirtualRef(location, offset, length):
            return (index, 2, location, offset, length, None)
        case None:
            raise AssertionError("a manifest holds no deletions")


def own_rows(path: Path, snapshot_id: str, array: str) -> list[Row]:
    file = path / "snapshots" / snapshot_id
    node = decode_snapshot(file.read_bytes(), name=file.name).get_array(f"/{array}")
    tables = [
        decode_manifest((path / "manifests" / id_text(ref.manifest_id)).read_bytes(), name="m")
        for ref in node.manifests
    ]
    table = concat([manifest.arrays[node.id] for manifest in tables])
    return [row_of(index, ref) for index, ref in refs_of(table).items()]


def replace_files(path: Path, spec: int, locations: LocationCompression | None) -> None:
    """Encode every manifest, transaction log and snapshot anew."""
    files = {}
    for file in (path / "manifests").iterdir():
        manifest_id = ManifestId(parse_id(file.name))
        manifest = decode_manifest(file.read_bytes(), name=file.name, expected_id=manifest_id)
        data = encode_manifest(manifest.id, manifest.arrays, spec=spec, locations=locations)
        files[manifest.id] = ManifestFile(manifest.id, len(data), manifest.num_refs)
        file.write_bytes(data)
    for file in (path / "transactions").iterdir():
        log_id = SnapshotId(parse_id(file.name))
        log = decode_transaction_log(file.read_bytes(), name=file.name, expected_id=log_id)
        file.write_bytes(encode_transaction_log(log, spec=spec))
    for file in (path / "snapshots").iterdir():
        snapshot = decode_snapshot(file.read_bytes(), name=file.name)
        changed = {key: files[key] for key in snapshot.manifest_files}
        file.write_bytes(
            encode_snapshot(replace(snapshot, manifest_files=changed), spec=spec, level=3)
        )


@pytest.fixture(scope="module", params=[None, EAGER], ids=["plain", "dictionary"])
def rewritten(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    original: Path,
    spec: int,
) -> Path:
    path = tmp_path_factory.mktemp("rewritten") / "repo"
    shutil.copytree(original, path)
    replace_files(path, spec, request.param)
    return path


@pytest.mark.parametrize("array", ARRAYS)
def test_every_reference_of_icechunk_is_read(original: Path, array: str) -> None:
    repo = open_peer(original)
    for snapshot in list(repo.ancestry(branch="main"))[:-1]:
        expected = peer_rows(repo.readonly_session(snapshot_id=snapshot.id), array)

        assert own_rows(original, snapshot.id, array) == expected
        assert expected


def test_checksums_of_icechunk_are_read(original: Path) -> None:
    repo = open_peer(original)
    newest = original / "snapshots" / repo.lookup_branch("main")
    node = decode_snapshot(newest.read_bytes(), name="s").get_array("/mixed")
    (manifest_ref,) = node.manifests
    file = original / "manifests" / id_text(manifest_ref.manifest_id)

    refs = refs_of(decode_manifest(file.read_bytes(), name="m").arrays[node.id])

    seconds = int(MODIFIED.timestamp())
    assert [refs[i,] for i in (3, 4, 5, 6)] == [
        VirtualRef("s3://b/1", 0, 16),
        VirtualRef("s3://b/0", 0, 16, etag="etag-1"),
        VirtualRef("s3://b/1", 0, 16, last_modified=seconds),
        VirtualRef("s3://b/0", 0, 16, etag="etag-1"),
    ]


def test_icechunk_compresses_locations_in_spec_2_only(original: Path, spec: int) -> None:
    bodies = [
        decode_body(file.read_bytes(), FileType.MANIFEST, name=file.name)[1]
        for file in (original / "manifests").iterdir()
    ]

    dictionary_magic = bytes.fromhex("37a430ec")
    assert any(dictionary_magic in body for body in bodies) is (spec == 2)


@pytest.mark.parametrize("array", ARRAYS)
def test_icechunk_reads_the_same_references_from_files_written_here(
    original: Path, rewritten: Path, array: str
) -> None:
    before, after = open_peer(original), open_peer(rewritten)
    for snapshot in list(before.ancestry(branch="main"))[:-1]:
        expected = peer_rows(before.readonly_session(snapshot_id=snapshot.id), array)

        assert peer_rows(after.readonly_session(snapshot_id=snapshot.id), array) == expected


def test_icechunk_reads_the_same_values_from_files_written_here(
    original: Path, rewritten: Path
) -> None:
    before: Any
    after: Any
    before, after = (
        zarr.open_group(open_peer(path).readonly_session("main").store, mode="r")
        for path in (original, rewritten)
    )

    for name in ("inline", "scalar"):
        assert np.array_equal(after[name][...], before[name][...])
    assert after["native"][:3].tolist() == np.arange(24).reshape(3, 8).tolist()
    assert after["mixed"][:3].tolist() == [7, 1, 1]


def test_icechunk_sees_the_same_changes_in_logs_written_here(
    original: Path, rewritten: Path
) -> None:
    before, after = open_peer(original), open_peer(rewritten)
    ids = [snapshot.id for snapshot in before.ancestry(branch="main")][::-1]

    for older, newer in pairwise(ids):
        expected = before.diff(from_snapshot_id=older, to_snapshot_id=newer)
        found = after.diff(from_snapshot_id=older, to_snapshot_id=newer)

        assert repr(found) == repr(expected)
        assert found.updated_chunks == expected.updated_chunks


def test_icechunk_commits_on_top_of_files_written_here(rewritten: Path, tmp_path: Path) -> None:
    path = tmp_path / "repo"
    shutil.copytree(rewritten, path)
    repo = open_peer(path)
    expected = peer_rows(repo.readonly_session("main"), "virtual")
    session = repo.writable_session("main")
    session.store.set_virtual_ref(
        "virtual/c/0/0/0", "s3://new/x", offset=1, length=2, validate_container=False
    )

    snapshot_id = session.commit("on top")

    rows = own_rows(path, snapshot_id, "virtual")
    assert rows[0] == ((0, 0, 0), 2, "s3://new/x", 1, 2, None)
    assert rows[1:] == expected[1:]


def test_the_log_of_the_initial_snapshot_is_that_of_icechunk(original: Path, spec: int) -> None:
    file = original / "transactions" / id_text(INITIAL_SNAPSHOT_ID)

    assert file.exists() is (spec == 2)
    if spec == 2:
        assert decode_transaction_log(file.read_bytes(), name="t").is_empty


def test_logs_of_icechunk_list_what_was_written(original: Path) -> None:
    repo = open_peer(original)
    newest, middle, first, _ = (snapshot.id for snapshot in repo.ancestry(branch="main"))
    logs = {
        snapshot_id: decode_transaction_log(
            (original / "transactions" / snapshot_id).read_bytes(), name="t"
        )
        for snapshot_id in (newest, middle, first)
    }
    nodes = decode_snapshot((original / "snapshots" / newest).read_bytes(), name="s").nodes
    by_path = {path: node.id for path, node in nodes.items() if isinstance(node, ArrayNode)}

    assert logs[first].new_arrays == frozenset(by_path.values())
    assert len(logs[first].updated_chunks[by_path["/virtual"]]) == MANY
    assert logs[first].updated_chunks[by_path["/scalar"]].shape == (1, 0)
    assert logs[middle].updated_chunks[by_path["/mixed"]].tolist() == [[0]]
    assert logs[newest].updated_arrays == {by_path["/inline"]}
    assert logs[newest].updated_chunks[by_path["/native"]].tolist() == [[1, 1]]
