"""Small files that the icechunk package wrote are read, and files written here are read by it."""

import asyncio
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype

from icestream.codec.header import FileType, decode_body
from icestream.codec.refs import RefKind, branch_path, decode_ref, encode_ref, find_ref, tag_path
from icestream.codec.repo_infos import decode_repo_info, encode_repo_info
from icestream.codec.snapshots import decode_snapshot, encode_snapshot
from icestream.model.ids import INITIAL_SNAPSHOT_ID, id_text, parse_snapshot_id
from icestream.model.nodes import ArrayNode, GroupNode
from icestream.model.ops_log import (
    EVENT_KINDS,
    FeatureFlagChanged,
    RepoAvailability,
    RepoInitialized,
    RepoMigrated,
)
from icestream.model.repo_info import RepoInfo
from icestream.model.snapshots import Snapshot
from icestream.model.times import micros_of

SPECS = (1, 2)
COMMIT_METADATA: dict[str, Any] = {
    "größe": 3,
    "nested": {"list": [1, -2, 2.5, None, True, "ü"], "empty": {}, "none": None, "🧊": [[1], []]},
    "float": 0.1,
    "text": "x" * 300,
}


def open_peer(path: Path) -> icechunk.Repository:
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))


def build_repository(path: Path, spec: int) -> None:
    config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=3)
    storage = icechunk.local_filesystem_storage(str(path))
    repo = icechunk.Repository.create(storage, config=config, spec_version=spec)
    first = commit_hierarchy(repo)
    repo.create_tag("v1", first)
    repo.create_tag("gone", first)
    repo.delete_tag("gone")
    repo.create_branch("dev", first)
    commit_values(repo, "dev", 7)
    repo.create_branch("short-lived", first)
    repo.delete_branch("short-lived")
    for value in range(3):
        commit_values(repo, "main", value)
    expire_all_but_newest(repo)
    if spec == 2:
        use_features_of_spec_2(repo)


def commit_hierarchy(repo: icechunk.Repository) -> str:
    session = repo.writable_session("main")
    root = zarr.create_group(session.store, attributes={"title": "größe"})
    group = root.create_group("a-b").create_group("straße")
    values = group.create_array(
        "values", shape=(5, 7), chunks=(2, 3), dtype="i4", dimension_names=["zeit", None]
    )
    values[:] = np.arange(35).reshape(5, 7)
    root.create_array("a", shape=(5, 7), chunks=(2, 3), dtype="i4")[:] = 1
    root.create_array("scalar", shape=(), dtype="f8")[...] = 4.5
    root.create_array("empty", shape=(0, 4), chunks=(3, 4), dtype="u1")
    root.create_array("unwritten", shape=(10,), chunks=(1,), dtype="u1")
    return session.commit("create the hierarchy", metadata=COMMIT_METADATA)


def commit_values(repo: icechunk.Repository, branch: str, value: int) -> str:
    session = repo.writable_session(branch)
    zarr.open_array(session.store, path="a", mode="r+")[0, 0] = value
    return session.commit(f"write {value} on {branch}", metadata={"value": value})


def expire_all_but_newest(repo: icechunk.Repository) -> None:
    time.sleep(0.01)
    moment = datetime.now(UTC)
    time.sleep(0.01)
    commit_values(repo, "main", 100)
    commit_values(repo, "main", 101)
    repo.expire_snapshots(older_than=moment)


def use_features_of_spec_2(repo: icechunk.Repository) -> None:
    repo.set_metadata({"owner": {"name": "Jürgen", "ids": [1, 2, 70000]}, "ключ": None})
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a", mode="r+")[1, 1] = 55
    session.amend("amended", metadata={"amended": True})
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a", mode="r+")[1, 1] = 56
    session.flush("detached")
    repo.create_branch("with/slash", repo.lookup_branch("dev"))
    repo.reset_branch("with/slash", repo.lookup_tag("v1"))
    repo.set_feature_flag("move_node", False)
    repo.set_feature_flag("create_tag", True)
    repo.set_feature_flag("delete_tag", False)
    repo.set_feature_flag("delete_tag", None)
    read_only = icechunk.RepoAvailability.read_only
    repo.set_status(icechunk.RepoStatus(read_only, limited_availability_reason="wartung"))
    repo.set_status(icechunk.RepoStatus(icechunk.RepoAvailability.online))
    repo.save_config()


@pytest.fixture(scope="module", params=SPECS, ids=["spec 1", "spec 2"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp(f"spec{request.param}") / "repo"
    build_repository(path, request.param)
    return path


@pytest.fixture
def copied(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "copy"))


@pytest.fixture(scope="module")
def spec_2_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("only") / "repo"
    build_repository(path, 2)
    return path


def spec_of(path: Path) -> int:
    return 2 if (path / "repo").exists() else 1


def load_repo_info(path: Path) -> RepoInfo:
    return decode_repo_info((path / "repo").read_bytes(), name="repo")


def load_snapshot(path: Path, text: str) -> Snapshot:
    data = (path / "snapshots" / text).read_bytes()
    return decode_snapshot(data, name=text, expected_id=parse_snapshot_id(text))


def load_snapshots(path: Path) -> dict[str, Snapshot]:
    return {file.name: load_snapshot(path, file.name) for file in (path / "snapshots").iterdir()}


def refs_on_disk(path: Path) -> dict[tuple[RefKind, str], str | None]:
    found = {}
    for file in (path / "refs").rglob("*"):
        ref = find_ref(str(file.relative_to(path)))
        if ref is not None:
            data = file.read_bytes()
            found[ref] = id_text(decode_ref(data, name=str(file))) if data else None
    return {(ref.kind, ref.name): snapshot for ref, snapshot in found.items()}


def rewrite_all(path: Path) -> None:
    """Replace every small file by the same content encoded here."""
    for text, snapshot in load_snapshots(path).items():
        file = path / "snapshots" / text
        spec, _ = decode_body(file.read_bytes(), FileType.SNAPSHOT, name=text)
        file.write_bytes(encode_snapshot(snapshot, spec=spec, level=3))
    if spec_of(path) == 2:
        (path / "repo").write_bytes(encode_repo_info(load_repo_info(path), level=3))
    else:
        for file in (path / "refs").rglob("ref.json"):
            file.write_bytes(encode_ref(decode_ref(file.read_bytes(), name=str(file))))


def observe(repo: icechunk.Repository) -> dict[str, Any]:
    """Return all that the icechunk package tells about a repository."""
    branches = {name: repo.lookup_branch(name) for name in repo.list_branches()}
    tags = {name: repo.lookup_tag(name) for name in repo.list_tags()}
    tips = {*branches.values(), *tags.values()}
    seen = {
        "branches": branches,
        "tags": tags,
        "ancestry": {
            tip: [
                (s.id, s.parent_id, s.written_at, s.message, s.metadata)
                for s in repo.ancestry(snapshot_id=tip)
            ]
            for tip in tips
        },
        "documents": {tip: documents_of(repo, tip) for tip in tips},
        "snapshots": {tip: without_header(repo.inspect_snapshot(tip)) for tip in tips},
        "values": {tip: values_of(repo, tip) for tip in tips},
        "config": repr(repo.config),
    }
    if repo.spec_version == 1:
        return seen
    return seen | {
        "ops log": [(repr(u.kind), u.updated_at, u.backup_path) for u in repo.ops_log()],
        "metadata": repo.metadata,
        "status": repr(repo.status),
        "flags": repr(repo.feature_flags()),
        "repo info": without_header(repo.inspect_repo_info()),
    }


def without_header(inspection: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in inspection.items() if key != "header"}


def documents_of(repo: icechunk.Repository, snapshot: str) -> dict[str, bytes]:
    store = repo.readonly_session(snapshot_id=snapshot).store

    async def read() -> dict[str, bytes]:
        keys = [key async for key in store.list() if key.endswith("zarr.json")]
        found = [await store.get(key, default_buffer_prototype()) for key in keys]
        return {key: b.to_bytes() for key, b in zip(keys, found, strict=True) if b is not None}

    return asyncio.run(read())


def values_of(repo: icechunk.Repository, snapshot: str) -> dict[str, Any]:
    store = repo.readonly_session(snapshot_id=snapshot).store
    if "zarr.json" not in documents_of(repo, snapshot):
        return {}
    group = zarr.open_group(store, mode="r")
    return {
        name: np.asarray(node[...]).tolist()
        for name, node in group.members(max_depth=None)
        if isinstance(node, zarr.Array)
    }


def test_every_file_is_decoded_and_survives_a_round_trip(original: Path) -> None:
    snapshots = load_snapshots(original)

    assert len(snapshots) > 3
    for text, snapshot in snapshots.items():
        file = (original / "snapshots" / text).read_bytes()
        spec, _ = decode_body(file, FileType.SNAPSHOT, name=text)
        encoded = encode_snapshot(snapshot, spec=spec, level=3)
        assert decode_snapshot(encoded, name=text) == snapshot


def test_nodes_have_the_bytes_of_zarr_json(original: Path) -> None:
    repo = open_peer(original)
    for tip in (repo.lookup_branch("main"), repo.lookup_branch("dev"), repo.lookup_tag("v1")):
        nodes = load_snapshot(original, tip).nodes

        keys = {f"{path}/zarr.json".lstrip("/"): node.user_data for path, node in nodes.items()}
        assert keys == documents_of(repo, tip)
        assert list(nodes) == sorted(nodes, key=str.encode)


def test_arrays_have_their_grid_names_and_manifests(original: Path) -> None:
    snapshot = load_snapshot(original, open_peer(original).lookup_branch("dev"))
    values = snapshot.get_array("/a-b/straße/values")
    scalar, empty = snapshot.get_array("/scalar"), snapshot.get_array("/empty")

    assert [d.array_length for d in values.shape] == [5, 7]
    assert values.num_chunks == (3, 3)
    assert values.dimension_names == ("zeit", None)
    assert values.manifests[0].extents == ((0, 3), (0, 3))
    assert {d.chunk_length for d in values.shape} == ({2, 3} if spec_of(original) == 1 else {None})
    assert (scalar.shape, scalar.manifests[0].extents) == ((), ())
    assert (empty.num_chunks, empty.manifests) == ((0, 1), ())
    assert snapshot.get_array("/unwritten").dimension_names is None
    assert isinstance(snapshot.nodes["/a-b"], GroupNode)


def test_trap_10_manifest_files_have_the_exact_size_and_match_the_nodes(original: Path) -> None:
    for snapshot in load_snapshots(original).values():
        arrays = [node for node in snapshot.nodes.values() if isinstance(node, ArrayNode)]
        used = {ref.manifest_id for array in arrays for ref in array.manifests}

        assert set(snapshot.manifest_files) == used
        for manifest in snapshot.manifest_files.values():
            file = original / "manifests" / id_text(manifest.id)
            assert manifest.size_bytes == file.stat().st_size


def test_commit_metadata_of_any_json_is_read(original: Path) -> None:
    repo = open_peer(original)
    snapshot = load_snapshot(original, repo.lookup_tag("v1"))

    assert snapshot.metadata == COMMIT_METADATA
    assert snapshot.message == "create the hierarchy"
    written_at = repo.lookup_snapshot(repo.lookup_tag("v1")).written_at
    assert snapshot.flushed_at == micros_of(written_at)


def test_refs_of_spec_1_are_read(tmp_path: Path) -> None:
    build_repository(tmp_path / "repo", 1)
    repo = open_peer(tmp_path / "repo")

    assert refs_on_disk(tmp_path / "repo") == {
        (RefKind.BRANCH, "main"): repo.lookup_branch("main"),
        (RefKind.BRANCH, "dev"): repo.lookup_branch("dev"),
        (RefKind.TAG, "v1"): repo.lookup_tag("v1"),
        (RefKind.TAG, "gone"): repo.lookup_tag("v1"),
        (RefKind.TAG_TOMBSTONE, "gone"): None,
    }
    assert (tmp_path / "repo" / branch_path("main")).exists()
    assert (tmp_path / "repo" / tag_path("v1")).exists()


def test_parents_of_spec_1_are_in_the_snapshots(tmp_path: Path) -> None:
    build_repository(tmp_path / "repo", 1)
    repo = open_peer(tmp_path / "repo")
    for info in repo.ancestry(branch="main"):
        parent_id = load_snapshot(tmp_path / "repo", info.id).parent_id

        assert (parent_id and id_text(parent_id)) == info.parent_id


def test_the_repo_info_of_spec_2_is_read(spec_2_repository: Path) -> None:
    repo, info = open_peer(spec_2_repository), load_repo_info(spec_2_repository)
    listed = {f.name for f in (spec_2_repository / "snapshots").iterdir()}

    assert {n: id_text(i) for n, i in info.branches.items()} == {
        name: repo.lookup_branch(name) for name in repo.list_branches()
    }
    assert {n: id_text(i) for n, i in info.tags.items()} == {"v1": repo.lookup_tag("v1")}
    assert info.deleted_tags == {"gone"}
    assert {id_text(i) for i in info.snapshots} <= listed
    assert info.metadata == repo.metadata
    assert info.status.availability is RepoAvailability.online
    assert info.config is not None
    assert info.enabled_flags == {4}
    assert info.disabled_flags == {3}
    for entry in repo.ancestry(branch="main"):
        ours = info.entry(parse_snapshot_id(entry.id))
        assert (ours.parent_id and id_text(ours.parent_id)) == entry.parent_id
        assert (ours.message, ours.metadata) == (entry.message, entry.metadata)
        assert ours.flushed_at == micros_of(entry.written_at)


def test_the_ops_log_of_spec_2_is_read(spec_2_repository: Path) -> None:
    info = load_repo_info(spec_2_repository)
    theirs = list(open_peer(spec_2_repository).ops_log())

    assert [type(u.kind).__name__ for u in info.latest_updates] == [
        type(u.kind).__name__.split("_")[-1] for u in theirs
    ]
    assert [u.updated_at for u in info.latest_updates] == [u.updated_at for u in theirs]
    kinds = [u.kind for u in info.latest_updates]
    assert {type(kind) for kind in kinds} >= set(EVENT_KINDS) - {RepoMigrated, EVENT_KINDS[12]}
    assert FeatureFlagChanged(5, None) in kinds
    assert FeatureFlagChanged(3, False) in kinds
    assert kinds[-1] == RepoInitialized()


def test_pruned_logs_of_an_expiration_are_read(spec_2_repository: Path) -> None:
    info = load_repo_info(spec_2_repository)
    pruned = [entry for entry in info.snapshots.values() if entry.pruned_logs]

    assert pruned
    for entry in pruned:
        assert entry.parent_id == INITIAL_SNAPSHOT_ID
        for log in entry.pruned_logs:
            assert (spec_2_repository / "transactions" / id_text(log)).exists()


def test_trap_23_snapshots_and_repo_info_have_the_same_metadata(spec_2_repository: Path) -> None:
    info = load_repo_info(spec_2_repository)
    for snapshot_id, entry in info.snapshots.items():
        snapshot = load_snapshot(spec_2_repository, id_text(snapshot_id))

        assert entry == replace(
            type(entry).of(snapshot, entry.parent_id), pruned_logs=entry.pruned_logs
        )


def test_files_encoded_here_show_icechunk_the_same_repository(original: Path, copied: Path) -> None:
    rewrite_all(copied)

    assert observe(open_peer(copied)) == observe(open_peer(original))


def test_icechunk_goes_on_writing_over_files_encoded_here(copied: Path) -> None:
    rewrite_all(copied)
    repo = open_peer(copied)
    tip = repo.lookup_branch("main")

    commit_values(repo, "main", 200)
    commit_values(repo, "main", 201)
    repo.create_branch("another", tip)
    if repo.spec_version == 2:
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="a", mode="r+")[0, 1] = 202
        session.amend("amended again")
    repo.expire_snapshots(older_than=datetime.now(UTC))
    repo.garbage_collect(datetime.now(UTC))

    reopened = open_peer(copied)
    assert zarr.open_array(reopened.readonly_session("main").store, path="a")[0, 0] == 201
    assert tip in {s.id for s in reopened.ancestry(branch="another")}


def test_trap_21_a_migrated_repository_holds_files_of_both_specs(tmp_path: Path) -> None:
    path = tmp_path / "repo"
    build_repository(path, 1)
    icechunk.upgrade_icechunk_repository(open_peer(path), dry_run=False)
    commit_values(open_peer(path), "main", 300)
    files = [f.read_bytes() for f in (path / "snapshots").iterdir()]
    before = observe(open_peer(path))

    assert {decode_body(f, FileType.SNAPSHOT, name="f")[0] for f in files} == {1, 2}
    info = load_repo_info(path)
    assert RepoMigrated(1, 2) in [u.kind for u in info.latest_updates]
    for text, snapshot in load_snapshots(path).items():
        entry = info.snapshots.get(parse_snapshot_id(text))
        assert entry is None or entry.metadata == snapshot.metadata
    rewrite_all(path)
    assert observe(open_peer(path)) == before
