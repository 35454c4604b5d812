"""What a reader of virtual chunks can rely on, through zarr and from files to values."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import icestream as ice
from icestream.credentials import http_bearer_credentials
from icestream.testing.fake_servers import FakeS3, FakeWebServer

ITEMS = 4
CHUNKS = 500
VALUES = np.arange(ITEMS * CHUNKS, dtype="<i4")
CHUNK_BYTES = ITEMS * VALUES.itemsize
WRITTEN = 1_700_000_000


def add_array(session: ice.Session, location: str, **options: Any) -> None:
    """Let the array `a` be the values in one foreign object."""
    zarr.create_array(
        session.store, name="a", shape=VALUES.shape, chunks=(ITEMS,), dtype="<i4", compressors=None
    )
    session.store.set_virtual_refs_arr(
        "a",
        (CHUNKS,),
        [location] * CHUNKS,
        np.arange(CHUNKS, dtype=np.uint64) * CHUNK_BYTES,
        np.full(CHUNKS, CHUNK_BYTES, np.uint64),
        **options,
    )


def array_of(session: ice.Session) -> Any:
    return zarr.open_array(session.store, path="a", mode="r")


def files_in(folder: Path, **options: Any) -> ice.VirtualChunkContainer:
    """Return a container of local files."""
    folder.mkdir(exist_ok=True)
    return ice.VirtualChunkContainer(
        f"file://{folder}/", ice.local_filesystem_store(str(folder)), **options
    )


def repository_with(container: ice.VirtualChunkContainer, folder: Path) -> ice.Repository:
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(container)
    return ice.Repository.create(
        ice.in_memory_storage(), config, authorize_virtual_chunk_access={f"file://{folder}/": None}
    )


# -- change detection ------------------------------------------------------------------------------


def test_a_session_can_be_opened_without_checks(tmp_path: Path) -> None:
    file = tmp_path / "x.i4"
    repo = repository_with(files_in(tmp_path), tmp_path)
    VALUES.tofile(file)
    os.utime(file, (WRITTEN, WRITTEN))
    with repo.transaction("main", message="virtual") as store:
        add_array(store.session, f"file://{file}", checksum=WRITTEN)
    (VALUES * 2).tofile(file)

    with pytest.raises(ice.ObjectChangedError) as caught:
        array_of(repo.readonly_session("main"))[:]

    assert caught.value.location == f"file://{file}"
    assert caught.value.recorded.timestamp() == WRITTEN
    assert caught.value.found.timestamp() > WRITTEN
    careless = repo.readonly_session("main", check_virtual_chunks=False)
    assert array_of(careless)[:].tolist() == (VALUES * 2).tolist()
    again = pickle.loads(pickle.dumps(careless))
    assert array_of(again)[7] == 14


async def test_checksums_are_read_back_with_the_references(tmp_path: Path) -> None:
    repo = repository_with(files_in(tmp_path), tmp_path)
    checksums: list[Any] = ["tag", WRITTEN, None, '"quoted"'] * (CHUNKS // 4)
    with repo.transaction("main", message="virtual") as store:
        add_array(store.session, f"file://{tmp_path}/x.i4", checksum=checksums)

    store = repo.readonly_session("main").store
    batches = [batch async for batch in store.array_chunk_iterator("/a", batch_size=64)]

    assert [len(batch.etags) for batch in batches] == [64] * 7 + [52]
    etags = [etag for batch in batches for etag in batch.etags]
    assert etags == ["tag", None, None, "quoted"] * (CHUNKS // 4)
    seconds = np.concatenate([batch.last_modified for batch in batches])
    assert seconds.tolist() == [0, WRITTEN, 0, 0] * (CHUNKS // 4)


# -- relative locations and templates --------------------------------------------------------------


def test_changing_the_prefix_of_a_container_moves_the_data(tmp_path: Path) -> None:
    repo = repository_with(files_in(tmp_path / "old", name="files"), tmp_path)
    VALUES.tofile(tmp_path / "old" / "x.i4")
    with repo.transaction("main", message="virtual") as store:
        add_array(store.session, f"file://{tmp_path}/old/x.i4")
    assert array_of(repo.readonly_session("main"))[:].tolist() == VALUES.tolist()

    (tmp_path / "old").rename(tmp_path / "new")
    moved = repo.config
    moved.set_virtual_chunk_container(files_in(tmp_path / "new", name="files"))
    repo = repo.reopen(moved)
    repo.save_config(allow_container_removal=True)

    reader = ice.Repository.open(
        repo.storage, authorize_virtual_chunk_access={f"file://{tmp_path}/": None}
    )
    session = reader.readonly_session("main")
    assert array_of(session)[:].tolist() == VALUES.tolist()
    assert set(session.all_virtual_chunk_locations()) == {f"file://{tmp_path}/new/x.i4"}


def test_an_unknown_name_fails_when_it_is_read_with_the_names_that_exist(tmp_path: Path) -> None:
    repo = repository_with(files_in(tmp_path, name="files"), tmp_path)
    session = repo.writable_session("main")
    add_array(session, "vcc://other/x.i4", validate_containers=False)

    with pytest.raises(ice.AccessError, match=r"named 'other' \(names: files\).*a/c/3"):
        array_of(session)[3 * ITEMS]


def test_arguments_fill_a_template_when_a_chunk_is_read(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for number, name in enumerate(("2020-mean", "2021-mean", "2021-max")):
        (VALUES[:ITEMS] + number).tofile(tmp_path / "runs" / f"{name}.i4")
    container = ice.VirtualChunkContainer.of(
        name="runs",
        object_store="local_file_system",
        url_template=f"file://{tmp_path}/runs/{{}}-{{}}.i4",
        default_template_arguments=["2020", "mean"],
    )
    repo = repository_with(container, tmp_path)
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(3, ITEMS), chunks=(1, ITEMS), dtype="<i4", compressors=None
    )
    arguments: tuple[list[str | None], ...] = (
        [],  # missing
        ["2021", None],  # None
        ["2021", "max", "surplus"],
    )
    for row, given in enumerate(arguments):
        location = repo.template_location("runs", given)
        session.store.set_virtual_ref(f"a/c/{row}/0", location, 0, CHUNK_BYTES)

    assert array_of(session)[:, 0].tolist() == [0, 1, 2]
    assert repo.match_template(f"file://{tmp_path}/runs/2021-max.i4") == ("runs", ("2021", "max"))


# -- credentials -----------------------------------------------------------------------------------


@pytest.fixture
def web() -> Iterator[FakeWebServer]:
    """A fake web server that asks for a token."""
    with FakeWebServer(required_headers={"Authorization": "Bearer hush"}) as server:
        server.put("/x.i4", VALUES.tobytes())
        yield server


def test_pickled_readers_and_forks_carry_their_credentials(web: FakeWebServer) -> None:
    token = ice.Credentials.Http(http_bearer_credentials("hush"))
    repo = ice.Repository.create(
        ice.in_memory_storage(), authorize_virtual_chunk_access={f"{web.url}/": token}
    )
    with repo.transaction("main", message="virtual") as store:
        add_array(store.session, f"{web.url}/x.i4")
    writer = repo.writable_session("main")

    for session in (repo.readonly_session("main"), writer.fork()):
        again = pickle.loads(pickle.dumps(session))
        assert array_of(again)[:].tolist() == VALUES.tolist()
    with pytest.raises(ice.SessionStateError):
        pickle.dumps(writer)


# -- reading fast ----------------------------------------------------------------------------------


@pytest.fixture
def s3() -> Iterator[FakeS3]:
    """A fake S3 with one object."""
    with FakeS3({"bucket": "us-east-1"}) as server:
        server.put("/bucket/x.i4", VALUES.tobytes())
        yield server


@pytest.mark.parametrize("checked", [False, True])
def test_whole_arrays_take_few_requests_and_single_chunks_few_bytes(
    s3: FakeS3, *, checked: bool
) -> None:
    settings = zarr.config.get("async")
    place = ice.s3_store(
        endpoint_url=s3.url, allow_http=True, force_path_style=True, s3_compatible=True
    )
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(ice.VirtualChunkContainer("s3://bucket/", place))
    keys = ice.s3_credentials(access_key_id="id", secret_access_key="key")
    repo = ice.Repository.create(
        ice.in_memory_storage(),
        config,
        authorize_virtual_chunk_access={"s3://bucket/": keys, s3.url: None},
    )
    etag = s3.files["/bucket/x.i4"].etag if checked else None
    with repo.transaction("main", message="virtual") as store:
        add_array(store.session, "s3://bucket/x.i4", checksum=etag)

    assert array_of(repo.readonly_session("main"))[:].tolist() == VALUES.tolist()
    assert s3.count("GET") < CHUNKS // 20
    assert all(("if-match" in r.headers) is checked for r in s3.requests if r.method == "GET")

    s3.requests.clear()
    lonely = ice.Repository.open(
        repo.storage, authorize_virtual_chunk_access={"s3://bucket/": keys, s3.url: None}
    )
    assert array_of(lonely.readonly_session("main"))[100 * ITEMS] == 100 * ITEMS
    assert [r.headers["range"] for r in s3.requests] == ["bytes=1600-1615"]
    assert zarr.config.get("async") == settings
