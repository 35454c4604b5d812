import asyncio
import copy
import pickle
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import zarr
from tests.builders import GROUP, array_json, array_of, repository, repository_with_array
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import cpu, default_buffer_prototype

from icestream.errors import (
    AlreadyExistsError,
    ErrorKind,
    IcestreamError,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
)
from icestream.repository.session import Session
from icestream.zarr_store.store import IcestreamStore


@pytest.fixture
def session() -> Session:
    return repository_with_array().writable_session("main")


@pytest.fixture
def store(session: Session) -> IcestreamStore:
    return session.store


def _buffer(data: bytes) -> cpu.Buffer:
    return cpu.Buffer.from_bytes(data)


def _all(iterator: AsyncIterator[str]) -> list[str]:
    async def collect() -> list[str]:
        return [item async for item in iterator]

    return asyncio.run(collect())


# -- errors that callers can act on --------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "data", "error", "kind", "remedy"),
    [
        ("foo", b"1", InvalidInputError, ErrorKind.INVALID_KEY, "path/zarr.json"),
        ("a/0", b"1", InvalidInputError, ErrorKind.INVALID_KEY, "path/c/0/0"),
        ("/a/c/0", b"1", InvalidInputError, ErrorKind.INVALID_KEY, "path/c/0/0"),
        (".zarray", b"{}", SessionStateError, ErrorKind.UNIMPLEMENTED, "zarr_format=3"),
        ("a/c/4", b"1", InvalidInputError, ErrorKind.INVALID_CHUNK_INDEX, "resize the array"),
        ("a/c/0/0", b"1", InvalidInputError, ErrorKind.INVALID_CHUNK_INDEX, "resize the array"),
        ("a/c", b"1", InvalidInputError, ErrorKind.INVALID_CHUNK_INDEX, "resize the array"),
        ("a/c/0", b"", InvalidInputError, ErrorKind.ZERO_LENGTH_CHUNK, "delete the key"),
        ("nope/c/0", b"1", NodeNotFoundError, ErrorKind.NODE_NOT_FOUND, "create it"),
        ("c/0", b"1", InvalidInputError, ErrorKind.NOT_AN_ARRAY, "group"),
        ("b/zarr.json", b"no json", InvalidInputError, ErrorKind.BAD_METADATA, "not JSON"),
        ("b/zarr.json", b"{}", InvalidInputError, ErrorKind.BAD_METADATA, "Zarr version 3"),
        ("b/zarr.json", b"", InvalidInputError, ErrorKind.BAD_METADATA, "not JSON"),
        ("a/b/zarr.json", GROUP, InvalidInputError, ErrorKind.NOT_A_GROUP, "delete the array"),
        ("a/zarr.json", GROUP, AlreadyExistsError, ErrorKind.NODE_ALREADY_EXISTS, "delete it"),
        ("zarr.json", array_json(), AlreadyExistsError, ErrorKind.NODE_ALREADY_EXISTS, "delete"),
    ],
)
@pytest.mark.parametrize("blocking", [True, False])
def test_a_bad_write_is_refused(  # noqa: PLR0913, PLR0917  columns of a table
    store: IcestreamStore,
    key: str,
    data: bytes,
    error: type[IcestreamError],
    kind: ErrorKind,
    remedy: str,
    blocking: bool,  # noqa: FBT001
) -> None:
    write = store.set_sync if blocking else lambda *pair: asyncio.run(store.set(*pair))
    with pytest.raises(error, match=remedy) as caught:
        write(key, _buffer(data))

    assert caught.value.kind is kind
    assert not store.session.has_uncommitted_changes


def test_an_array_cannot_be_put_over_nodes_below_it(store: IcestreamStore) -> None:
    store.set_sync("x/y/zarr.json", _buffer(GROUP))

    with pytest.raises(AlreadyExistsError, match="delete them first"):
        store.set_sync("x/zarr.json", _buffer(array_json()))


def test_a_value_that_is_no_buffer_is_refused(store: IcestreamStore) -> None:
    with pytest.raises(InvalidInputError, match="not a zarr Buffer"):
        store.set_sync("a/c/0", b"1234")  # type: ignore[arg-type]


def test_a_chunk_refused_is_not_uploaded() -> None:
    repo = repository_with_array()
    store = repo.writable_session("main").store
    before = {info.path for info in repo.storage.list()}

    for key in ("a/c/4", "nope/c/0"):
        with pytest.raises(IcestreamError):
            asyncio.run(store.set(key, _buffer(bytes(5000))))

    assert {info.path for info in repo.storage.list()} == before


@pytest.mark.parametrize("how", ["view", "session", "committed"])
def test_read_only_stores_refuse_every_write(session: Session, how: str) -> None:
    if how == "view":
        store = session.store.with_read_only(read_only=True)
    elif how == "session":
        store = repository_with_array().readonly_session("main").store
    else:
        array_of(session)[0] = 1
        session.commit("done")
        store = session.store
    value = _buffer(b"1234")

    for write in (
        lambda: store.set_sync("a/c/0", value),
        lambda: asyncio.run(store.set("a/c/0", value)),
        lambda: asyncio.run(store.set_if_not_exists("a/c/0", value)),
        lambda: store.delete_sync("a/c/0"),
        lambda: asyncio.run(store.delete("nope")),
        lambda: asyncio.run(store.delete_dir("nope")),
        lambda: asyncio.run(store.clear()),
        store.sync_clear,
    ):
        with pytest.raises(ReadOnlyError, match="writable_session") as caught:
            write()
        assert caught.value.kind is ErrorKind.READ_ONLY_STORE


def test_zarr_2_hierarchies_are_refused_with_a_remedy() -> None:
    store = repository().writable_session("main").store

    with pytest.raises(SessionStateError, match="zarr_format=3"):
        zarr.create_group(store, zarr_format=2)
    with pytest.raises(SessionStateError, match="zarr_format=3"):
        zarr.create_array(store, shape=(1,), dtype="i4", zarr_format=2)


def test_metadata_is_not_consolidated(store: IcestreamStore) -> None:
    assert not store.supports_consolidated_metadata
    with pytest.raises(TypeError, match="consolidated"):
        zarr.consolidate_metadata(store)


# -- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", ["", "foo", "a/0", "a/c/9", "a/c", "nope/c/0", "nope/zarr.json", ".zgroup", "/zarr.json"]
)
def test_keys_that_do_not_or_cannot_exist_are_absent(store: IcestreamStore, key: str) -> None:
    assert store.get_sync(key) is None
    assert asyncio.run(store.get(key)) is None
    assert not asyncio.run(store.exists(key))
    with pytest.raises(FileNotFoundError):
        asyncio.run(store.getsize(key))
    store.delete_sync(key)
    assert not store.session.has_uncommitted_changes


def test_partial_values_come_in_the_order_asked_for(store: IcestreamStore) -> None:
    store.set_sync("a/c/0", _buffer(bytes(range(100)) * 10))
    requests: list[Any] = [
        ("a/c/0", RangeByteRequest(5, 8)),
        ("nope", None),
        ("a/c/0", SuffixByteRequest(2)),
    ]

    found = asyncio.run(store.get_partial_values(default_buffer_prototype(), requests))

    assert [part and part.to_bytes() for part in found] == [b"\5\6\7", None, b"\x62\x63"]


# -- listing -------------------------------------------------------------------------------------


@pytest.fixture
def tree(session: Session) -> IcestreamStore:
    store = session.store
    for path in ("g", "g/h", "g-2"):
        store.set_sync(f"{path}/zarr.json", _buffer(GROUP))
    for path in ("g/b", "g/bb", "x/y/z"):
        store.set_sync(f"{path}/zarr.json", _buffer(array_json((3, 20), (1, 1))))
    for index in ("0/0", "0/11", "2/1"):
        store.set_sync(f"g/b/c/{index}", _buffer(b"12345"))
    store.set_sync("g/b/c/2/2", _buffer(bytes(1000)))
    return store


@pytest.mark.parametrize(
    ("directory", "names"),
    [
        ("", ["a", "g", "g-2", "x", "zarr.json"]),
        ("a", ["c", "zarr.json"]),
        ("g", ["b", "bb", "h", "zarr.json"]),
        ("g/b", ["c", "zarr.json"]),
        ("g/b/c", ["0", "2"]),
        ("g/b/c/0", ["0", "11"]),
        ("g/b/c/1", []),
        ("g/b/c/0/0", []),
        ("g/bb", ["zarr.json"]),
        ("g/bb/c", []),
        ("x", ["y"]),
        ("x/y", ["z"]),
        ("nope", []),
        ("/g", []),
        ("g//b", []),
    ],
)
def test_directories_are_listed(tree: IcestreamStore, directory: str, names: list[str]) -> None:
    assert sorted(_all(tree.list_dir(directory))) == names
    assert sorted(_all(tree.list_dir(directory + "/"))) == names


@pytest.mark.parametrize(
    "prefix",
    ["", "g", "g/", "g/b", "g/b/", "g/b/c", "g/b/c/", "g/b/c/0", "g/b/c/0/1", "g-", "x", "/", "no"],
)
def test_keys_with_a_prefix_are_listed(tree: IcestreamStore, prefix: str) -> None:
    everything = _all(tree.list())

    assert len(everything) == len(set(everything)) == 4 + 1 + 1 + 6 + 4
    start = f"{prefix}/" if f"{prefix}/zarr.json" in everything else prefix
    assert sorted(_all(tree.list_prefix(prefix))) == sorted(
        key for key in everything if key.startswith(start)
    )


def test_chunks_of_an_array_are_counted_beside_one_whose_name_begins_alike() -> None:
    session = repository().writable_session("main")
    group = zarr.group(session.store)
    group.create_array("t", shape=(4,), chunks=(2,), dtype="f8")[:2] = 1
    group.create_array("time", shape=(4,), chunks=(1,), dtype="f8")[:] = 2

    arrays: Any = [group[name] for name in ("t", "time")]
    counts = [array.nchunks_initialized for array in arrays]

    assert counts == [1, 4]


@pytest.mark.parametrize("directory", ["", "g", "g/b", "g/b/c", "g/b/c/0", "g/b/c/2/2", "x", "no"])
def test_the_size_of_a_directory_is_that_of_its_values(
    tree: IcestreamStore, directory: str
) -> None:
    inside = [key for key in _all(tree.list()) if key.startswith(f"{directory}/".lstrip("/"))]

    expected = sum(asyncio.run(tree.getsize(key)) for key in inside)
    assert asyncio.run(tree.getsize_prefix(directory)) == expected


@pytest.mark.parametrize(
    "directory", ["", "a", "g", "g/b", "g/b/c", "g/b/c/0", "g/b/c/2/2", "x", "x/y", "no", "g//b"]
)
def test_directories_are_deleted_with_all_that_is_in_them(
    tree: IcestreamStore, directory: str
) -> None:
    before = _all(tree.list())

    asyncio.run(tree.delete_dir(directory))

    prefix = f"{directory}/".lstrip("/")
    assert _all(tree.list()) == [key for key in before if not key.startswith(prefix)]


# -- views and copies ----------------------------------------------------------------------------


def test_views_show_the_same_session(session: Session) -> None:
    store = session.store
    view = store.with_read_only(read_only=True)

    store.set_sync("a/c/0", _buffer(b"new!"))

    assert view.session is session
    found = view.get_sync("a/c/0")
    assert found is not None
    assert found.to_bytes() == b"new!"
    assert view.with_read_only(read_only=False).read_only is False


def test_a_view_of_a_read_only_session_stays_read_only() -> None:
    store = repository_with_array().readonly_session("main").store

    assert store.with_read_only(read_only=False).read_only


def test_stores_of_read_only_sessions_and_forks_are_pickled(session: Session) -> None:
    fork = session.fork().store
    array_of(fork.session)[0] = 5
    reader = repository_with_array().readonly_session("main").store

    assert pickle.loads(pickle.dumps(reader)) == reader
    assert copy.deepcopy(reader) == reader
    shipped = pickle.loads(pickle.dumps(fork))
    assert array_of(shipped.session)[:].tolist() == [5, 0, 0, 0]
    assert pickle.loads(pickle.dumps(fork.with_read_only(read_only=True))).read_only


def test_stores_of_writable_sessions_are_not_pickled(store: IcestreamStore) -> None:
    with pytest.raises(SessionStateError, match=r"session\.fork\(\)") as caught:
        pickle.dumps(store)

    assert caught.value.kind is ErrorKind.PICKLE


def test_stores_are_equal_when_they_show_the_same(session: Session) -> None:
    assert session.store == session.store
    assert session.store != repository_with_array().writable_session("main").store
    assert session.store != "a store"
    with pytest.raises(TypeError, match="unhashable"):
        hash(session.store)


def test_a_store_says_what_it_shows(session: Session) -> None:
    assert str(session.store) == f"icestream://{session.snapshot_id}"
    assert "writable" in repr(session.store)


# -- overwriting and resizing --------------------------------------------------------------------


def test_chunks_dropped_by_a_resize_do_not_come_back() -> None:
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[:] = 9
    array_of(session).resize((2,))
    array_of(session).resize((4,))

    assert array_of(session)[:].tolist() == [9, 9, -1, -1]
    session.commit("down and up")
    assert array_of(repo.readonly_session("main"))[:].tolist() == [9, 9, -1, -1]


def test_metadata_written_by_hand_drops_chunks_too(session: Session) -> None:
    session.store.set_sync("a/zarr.json", _buffer(array_json((2,), fill_value=-1)))
    session.store.set_sync("a/zarr.json", _buffer(array_json((4,), fill_value=-1)))

    assert sorted(_all(session.store.list_prefix("a/c/"))) == ["a/c/0", "a/c/1"]


def test_another_rank_makes_another_array(session: Session) -> None:
    before = session.get_node_id("/a")
    session.store.set_sync("a/zarr.json", _buffer(array_json((2, 2), (1, 1))))

    assert session.get_node_id("/a") != before
    assert _all(session.store.list_prefix("a/c")) == []


def test_an_array_created_anew_has_none_of_the_old_chunks() -> None:
    repo = repository_with_array()
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(4,), chunks=(1,), dtype="i4", fill_value=7, overwrite=True
    )[0] = 1
    assert array_of(session)[:].tolist() == [1, 7, 7, 7]
    session.commit("anew")

    assert array_of(repo.readonly_session("main"))[:].tolist() == [1, 7, 7, 7]


def test_a_deleted_group_takes_all_below_with_it() -> None:
    repo = repository_with_array()
    session = repo.writable_session("main")
    zarr.open_group(session.store).create_group("g/h").create_array("x", data=np.arange(3))
    session.commit("group")
    session = repo.writable_session("main")
    del zarr.open_group(session.store)["g"]
    session.commit("gone")

    assert _all(repo.readonly_session("main").store.list_prefix("g")) == []


def test_clearing_and_starting_again_keeps_nothing(session: Session) -> None:
    session.store.sync_clear()
    assert _all(session.store.list()) == []
    assert asyncio.run(session.store.is_empty(""))

    zarr.create_group(session.store)
    assert _all(session.store.list()) == ["zarr.json"]
