"""The store in event loops, threads, forked and spawned processes."""

import asyncio
import multiprocessing
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.builders import array_of

from icestream.errors import ErrorKind, ReadOnlyError
from icestream.repository.repository import Repository
from icestream.repository.session import ForkSession, Session
from icestream.storage.factories import local_filesystem_storage
from icestream.zarr_store.store import IcestreamStore

VALUES = np.arange(16_000.0).reshape(16, 1000)


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    repo = Repository.create(local_filesystem_storage(str(tmp_path)))
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=VALUES.shape, chunks=(1, 1000), dtype="f8", compressors=None
    )[:] = VALUES
    session.commit("values")
    return repo


# -- event loops --------------------------------------------------------------------------------


def test_the_sync_api_works_inside_a_running_event_loop(tmp_path: Path) -> None:
    async def in_a_notebook() -> Any:
        repo = Repository.create(local_filesystem_storage(str(tmp_path)))
        session = repo.writable_session("main")
        array = zarr.create_array(session.store, name="a", shape=(4,), chunks=(1,), dtype="i4")
        array[:] = [1, 2, 3, 4]
        fork = session.fork()
        array_of(fork)[3] = 40
        session.merge(fork)
        session.commit("first")
        assert next(info.message for info in repo.ancestry(branch="main")) == "first"
        return array_of(repo.readonly_session("main"))[:].tolist()

    assert asyncio.run(in_a_notebook()) == [1, 2, 3, 40]


def test_async_and_sync_use_of_one_session_meet(repo: Repository) -> None:
    async def both() -> None:
        session = repo.writable_session("main")
        array = await zarr.api.asynchronous.open_array(store=session.store, path="a")
        await array.setitem(slice(0, 1), -1)
        array_of(session)[1] = -2
        await session.commit_async("both")

    asyncio.run(both())

    assert array_of(repo.readonly_session("main"))[:2, 0].tolist() == [-1, -2]


def test_several_event_loops_may_share_a_store(repo: Repository) -> None:
    store = repo.readonly_session("main").store

    def read(row: int) -> bytes | None:
        found = asyncio.run(store.get(f"a/c/{row}/0"))
        return None if found is None else found.to_bytes()

    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(read, range(16)))

    assert rows == [row.tobytes() for row in VALUES]


# -- threads ------------------------------------------------------------------------------------


def test_threads_write_into_one_session_while_others_read(repo: Repository) -> None:
    session = repo.writable_session("main")
    store, stop = session.store, threading.Event()

    def keep_reading() -> None:
        while not stop.is_set():
            rows = array_of(session)[:, 0]
            assert ((rows == VALUES[:, 0]) | (rows == -1.0 - np.arange(16))).all()
            assert len(_list(store)) == 18

    def write(row: int) -> None:
        array_of(session)[row] = -1 - row

    with ThreadPoolExecutor(6) as pool:
        readers = [pool.submit(keep_reading) for _ in range(2)]
        list(pool.map(write, range(16)))
        stop.set()
        for reader in readers:
            reader.result()
    session.commit("threads")

    assert array_of(repo.readonly_session("main"))[:, 999].tolist() == [-1 - i for i in range(16)]


def test_readers_see_every_chunk_while_the_session_commits(repo: Repository) -> None:
    session = repo.writable_session("main")
    array_of(session)[:] = 7
    array: Any = zarr.open_array(session.store, path="a", mode="r")
    stop = threading.Event()

    def keep_reading() -> int:
        reads = 0
        while not stop.is_set() or not reads:
            assert (array[:] == 7).all()
            reads += 1
        return reads

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(keep_reading) for _ in range(2)]
        session.commit("sevens")
        stop.set()

        assert all(reader.result() for reader in readers)


def test_a_write_that_comes_after_the_commit_is_refused_not_lost(repo: Repository) -> None:
    session = repo.writable_session("main")
    store = session.store
    data = zarr.core.buffer.cpu.Buffer.from_bytes(b"1234")
    array_of(session)[0] = 1

    async def write_during_commit() -> None:
        chunk = store._begin_set("a/c/0/0", data)
        assert chunk is not None
        session.commit("in between")
        store._nodes.put_ref(chunk.path, chunk.coordinates, store._nodes.write(b"1234"))

    with pytest.raises(ReadOnlyError) as caught:
        asyncio.run(write_during_commit())

    assert caught.value.kind is ErrorKind.READ_ONLY_SESSION


# -- processes ----------------------------------------------------------------------------------


class Rows:
    """What a data loader asks of a data set: a length, and items by number."""

    def __init__(self, store: IcestreamStore) -> None:
        self.array: Any = zarr.open_array(store, path="a", mode="r")

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def __getitem__(self, row: int) -> list[float]:
        values: list[float] = self.array[row].tolist()
        return values


def _load(rows: Rows, wanted: Iterable[int], results: Any) -> None:
    results.put({row: rows[row] for row in wanted})


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_forked_loaders_read_through_an_inherited_store(repo: Repository) -> None:
    rows = Rows(repo.readonly_session("main").store)
    assert rows[0] == VALUES[0].tolist()  # zarr's loop, caches and locks are in use
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [
        context.Process(target=_load, args=(rows, range(first, 16, 2), results)) for first in (0, 1)
    ]

    for worker in workers:
        worker.start()
    loaded = results.get(timeout=60) | results.get(timeout=60)
    for worker in workers:
        worker.join(60)

    assert loaded == dict(enumerate(VALUES.tolist()))
    assert rows[1] == VALUES[1].tolist()


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_child_is_not_stopped_by_locks_that_were_held_when_it_was_forked(
    repo: Repository,
) -> None:
    session = repo.writable_session("main")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    worker = context.Process(target=_list_into, args=(session.store, results))

    held, release = threading.Event(), threading.Event()

    def hold_the_lock() -> None:
        with session._copy.lock:
            held.set()
            release.wait(60)

    holder = threading.Thread(target=hold_the_lock)
    holder.start()
    held.wait(60)
    worker.start()
    keys = results.get(timeout=60)
    release.set()
    holder.join()
    worker.join(60)

    assert len(keys) == 18


def _list_into(store: IcestreamStore, results: Any) -> None:
    results.put(_list(store))


def _list(store: IcestreamStore) -> list[str]:
    async def listed() -> list[str]:
        return [key async for key in store.list()]

    return asyncio.run(listed())


def test_spawned_workers_write_forks_that_merge_back(repo: Repository) -> None:
    session = repo.writable_session("main")
    array_of(session)[0] = 100  # uncommitted changes travel to the workers, too
    fork = session.fork()
    jobs = [(fork, range(first, 16, 2)) for first in (0, 1)]

    with multiprocessing.get_context("spawn").Pool(2) as pool:
        session.merge(*pool.starmap(_double_rows, jobs))
    session.commit("doubled")

    expected = VALUES * 2
    expected[0] = 200
    np.testing.assert_array_equal(array_of(repo.readonly_session("main"))[:], expected)


def _double_rows(fork: ForkSession, rows: Iterable[int]) -> ForkSession:
    array = array_of(fork)
    for row in rows:
        array[row] = array[row] * 2
    return fork


def test_spawned_workers_read_a_pickled_session(repo: Repository) -> None:
    session = repo.readonly_session("main")

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_sum, (session,)) == VALUES.sum()


def _sum(session: Session) -> float:
    return float(array_of(session)[:].sum())
