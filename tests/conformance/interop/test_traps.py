"""Traps of the format that show only in whole repositories, checked with the icechunk package."""

import icechunk
import numpy as np
import pytest
import zarr
from tests.builders import array_of, repository_with_array, values

import icestream as ice
from icestream.repository import flush


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "repo")


def theirs(place, **options):
    return icechunk.Repository.open(icechunk.local_filesystem_storage(place), **options)


def test_trap_12_grids_and_extents_hold_every_chunk(place):
    repo = ice.Repository.create(ice.local_filesystem_storage(place))
    with repo.transaction("main", message="odd shapes") as store:
        array = zarr.create_array(store, name="a", shape=(7, 5), chunks=(3, 2), dtype="i4")
        array[6, 4] = 1
        array[3, 0] = 2
    node = repo.inspect_snapshot(repo.lookup_branch("main"))["nodes"][-1]
    assert [d["num_chunks"] for d in node["shape"]] == [3, 3]
    assert node["manifest_refs"][0]["extents"] == [[1, 3], [0, 3]]

    read = zarr.open_array(theirs(place).readonly_session("main").store, path="a", mode="r")
    assert (read[6, 4], read[3, 0]) == (1, 2)


def test_trap_14_the_log_of_a_commit_names_its_chunks(place):
    repo = repository_with_array(ice.local_filesystem_storage(place))
    peer = theirs(place)
    late = peer.writable_session("main")
    zarr.open_array(late.store, path="a")[2] = 9
    session = repo.writable_session("main")
    array_of(session)[2] = 1
    session.commit("first")
    log = repo.inspect_transaction_log(repo.lookup_branch("main"))

    assert log["updated_chunks"][0]["chunks"] == [[2]]
    with pytest.raises(icechunk.RebaseFailedError):
        late.rebase(icechunk.ConflictDetector())


def test_trap_18_percent_signs_and_the_relative_scheme(place, tmp_path):
    data = np.arange(4, dtype="<i4")
    (tmp_path / "a%b c.bin").write_bytes(data.tobytes())
    prefix = f"file://{tmp_path}/"
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(
        ice.VirtualChunkContainer(prefix, ice.local_filesystem_store(str(tmp_path)), name="files")
    )
    repo = ice.Repository.create(
        ice.local_filesystem_storage(place), config, authorize_virtual_chunk_access={prefix: None}
    )
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(4,), chunks=(4,), dtype="<i4", compressors=None
    )
    session.store.set_virtual_ref("a/c/0", f"{prefix}a%25b%20c.bin", 0, 16)
    assert session.all_virtual_chunk_locations(stored=True) == ["vcc://files/a%25b%20c.bin"]
    with pytest.raises(ice.InvalidInputError):
        session.store.set_virtual_ref("a/c/0", "_vcc://files/a.bin", 0, 16)
    session.commit("virtual")

    access = {prefix: icechunk.credentials.LocalFileSystemAccess}
    peer = theirs(place, authorize_virtual_chunk_access=access)
    for reader in (repo, peer):
        store = reader.readonly_session("main").store
        assert zarr.open_array(store, path="a", mode="r")[:].tolist() == data.tolist()


def test_trap_19_a_stored_configuration_opens_everywhere(place):
    config = ice.RepositoryConfig(
        storage=ice.StorageSettings(unsafe_use_conditional_update=False),
        manifest=ice.ManifestConfig(
            preload=ice.ManifestPreloadConfig(preload_if=ice.ManifestPreloadCondition.true())
        ),
    )
    ice.Repository.create(ice.local_filesystem_storage(place), config)
    stored = ice.Repository.fetch_config(ice.local_filesystem_storage(place))

    assert stored is not None
    assert stored.storage is None
    assert theirs(place).config.manifest.preload.preload_if is not None
    with pytest.raises(ice.InvalidInputError):
        ice.Repository.create(
            ice.in_memory_storage(),
            ice.RepositoryConfig(max_concurrent_requests="many"),  # type: ignore[arg-type]  # on purpose
        )


def test_trap_20_keys_that_are_not_ascii_are_read_by_both(place):
    metadata = {"größe": {"日本": [1, None, "ü"]}}
    repo = ice.Repository.create(ice.local_filesystem_storage(place))
    session = repo.writable_session("main")
    zarr.create_group(session.store)
    session.commit("named", metadata)
    peer = theirs(place)

    assert next(iter(peer.ancestry(branch="main"))).metadata == metadata
    peer.set_metadata(metadata)
    assert repo.get_metadata() == metadata


def test_trap_22_a_slow_clock_never_writes_a_child_older_than_its_parent(place, monkeypatch):
    repo = repository_with_array(ice.local_filesystem_storage(place))
    parent = next(repo.ancestry(branch="main"))
    monkeypatch.setattr(flush, "now_micros", lambda: 1_000_000)
    session = repo.writable_session("main")
    array_of(session)[0] = 1
    session.commit("by a slow clock")
    child = next(repo.ancestry(branch="main"))

    assert child.written_at > parent.written_at
    late = theirs(place).writable_session("main")
    zarr.open_array(late.store, path="a")[1] = 2
    late.commit("icechunk commits on top")
    assert values(repo) == [1, 2, 0, 0]


def test_trap_24_a_location_without_container_or_consent_fails_when_it_is_read(place):
    config = ice.RepositoryConfig()
    config.default_containers = False
    repo = ice.Repository.create(ice.local_filesystem_storage(place), config)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(1,), dtype="i1", compressors=None)
    with pytest.raises(ice.InvalidInputError) as refused:
        session.store.set_virtual_ref("a/c/0", "s3://bucket/x.nc", 0, 1)
    assert refused.value.kind is ice.ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK
    session.store.set_virtual_ref("a/c/0", "s3://bucket/x.nc", 0, 1, validate_containers=False)
    session.commit("stored all the same")

    with pytest.raises(ice.AccessError, match=r"s3://bucket/x\.nc.*set_virtual_chunk_container"):
        zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")[:]
    reopened = ice.Repository.open(repo.storage)
    reopened.config.default_containers = True
    with pytest.raises(ice.AccessError, match="authorize_virtual_chunk_access"):
        zarr.open_array(
            reopened.reopen(reopened.config).readonly_session("main").store, path="a", mode="r"
        )[:]
