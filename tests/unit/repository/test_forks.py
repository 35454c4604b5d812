"""Forks: many workers write, one session commits."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import zarr
from tests.builders import array_of, messages, repository_with_array, values

from icestream.errors import ErrorKind, SessionStateError
from icestream.repository.session import ForkSession
from icestream.storage import local_filesystem_storage


def fill(fork: ForkSession, cell: int) -> ForkSession:
    array_of(fork)[cell] = cell + 1
    return fork


def test_forks_in_other_processes_are_merged_into_one_commit(tmp_path):
    repo = repository_with_array(local_filesystem_storage(str(tmp_path)))
    session = repo.writable_session("main")
    forks = [session.fork() for _ in range(4)]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        session.merge(*pool.map(fill, forks, range(4)))
    session.commit("by four workers")

    assert values(repo) == [1, 2, 3, 4]
    assert messages(repo)[0] == "by four workers"


def test_a_fork_sees_uncommitted_changes_and_leaves_no_trace_in_the_history():
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[0] = 9
    zarr.open_group(session.store).create_array("n", shape=(2,), chunks=(1,), dtype="i4")[0] = 5
    fork = pickle.loads(pickle.dumps(session.fork()))
    assert array_of(fork)[0] == 9
    array_of(fork, "n")[1] = 6
    array_of(fork)[1] = 8
    session.merge(fork)
    session.commit("both")

    assert values(repo) == [9, 8, 0, 0]
    assert values(repo, "n") == [5, 6]
    assert messages(repo) == ["both", "array", "Repository initialized"]
    assert len(repo.inspect_repo_info()["snapshots"]) == 3


def test_changes_made_after_a_fork_stay_unless_the_fork_wrote_the_same_chunk():
    repo = repository_with_array()
    session = repo.writable_session("main")
    fork = session.fork()
    array_of(session)[:2] = 1
    array_of(fork)[1:3] = 2
    session.merge(fork)
    session.commit("merged")

    assert values(repo) == [1, 2, 2, 0]


def test_forks_of_forks_are_merged_upwards():
    repo = repository_with_array()
    session = repo.writable_session("main")
    fork = session.fork()
    inner = fork.fork()
    array_of(inner)[0] = 1
    fork.merge(inner)
    session.merge(fork)
    session.commit("nested")

    assert values(repo)[0] == 1


def test_new_arrays_of_forks_are_merged_and_clashes_are_refused():
    repo = repository_with_array()
    session = repo.writable_session("main")
    one, two = session.fork(), session.fork()
    zarr.open_group(one.store).create_array("x", shape=(1,), dtype="i4")[:] = 1
    zarr.open_group(two.store).create_array("y", shape=(1,), dtype="i4")[:] = 2
    clash = session.fork()
    zarr.open_group(clash.store).create_array("x", shape=(1,), dtype="i4")
    session.merge(one, two)
    with pytest.raises(SessionStateError) as raised:
        session.merge(clash)
    assert raised.value.kind is ErrorKind.MERGE_FAILED
    session.commit("x and y")

    assert values(repo, "x") == [1]
    assert values(repo, "y") == [2]


def test_forks_cannot_commit_and_readers_cannot_fork():
    repo = repository_with_array()
    fork = repo.writable_session("main").fork()
    array_of(fork)[0] = 1
    with pytest.raises(SessionStateError) as raised:
        fork.commit("no")
    assert raised.value.kind is ErrorKind.COMMIT_NOT_ALLOWED
    with pytest.raises(SessionStateError) as raised:
        repo.readonly_session("main").fork()
    assert raised.value.kind is ErrorKind.CANNOT_FORK_READ_ONLY_SESSION
    with pytest.raises(SessionStateError) as raised:
        repo.readonly_session("main").merge(fork)
    assert raised.value.kind is ErrorKind.MERGE_NOT_ALLOWED


def test_a_fork_with_many_references_pickles_small():
    repo = repository_with_array(chunks=10)
    session = repo.writable_session("main")
    zarr.open_group(session.store).create_array("v", shape=(50, 100), chunks=(1, 1), dtype="i1")
    fork = session.fork()
    n = 5000
    locations = [f"s3://bucket/{i // 1000}.nc" for i in range(n)]
    offsets = np.arange(n, dtype=np.uint64) * 40_000
    fork.store.set_virtual_refs_arr(
        "v",
        (50, 100),
        locations,
        offsets,
        np.full(n, 40_000, np.uint64),
        validate_containers=False,
    )
    shipped = pickle.dumps(fork)
    assert len(shipped) < 20 * n
    session.merge(pickle.loads(shipped))

    assert sorted(session.all_virtual_chunk_locations()) == sorted(locations)


def test_threads_write_into_one_session():
    repo = repository_with_array(chunks=64)
    session = repo.writable_session("main")
    array = array_of(session)

    def write(cell: int) -> None:
        array[cell] = cell

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(64)))
    session.commit("threads")

    assert values(repo) == list(range(64))
