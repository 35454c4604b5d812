"""Dask arrays written into a session, and forks merged by hand."""

from pathlib import Path
from typing import Any

import dask
import dask.array as da
import icechunk
import numpy as np
import pytest
import zarr
from dask.delayed import delayed
from tests.builders import array_of

from icestream.dask import session_merge_reduction, store_dask
from icestream.distributed import extract_session, merge_sessions
from icestream.errors import ErrorKind, InvalidInputError, SessionStateError
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.storage.factories import local_filesystem_storage

VALUES = np.arange(96.0).reshape(12, 8)


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository.create(local_filesystem_storage(str(tmp_path)))


def _session_with_arrays(repo: Repository) -> Session:
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    for name in ("a", "b"):
        group.create_array(name, shape=(12, 8), chunks=(3, 4), dtype="f8", fill_value=-1)
    return session


def _open(session: Session, path: str) -> Any:
    return zarr.open_array(session.store, path=path, mode="r+")


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
@pytest.mark.parametrize("split_every", [None, 2])
def test_arrays_are_stored_and_merged(
    repo: Repository, scheduler: str, split_every: int | None, tmp_path: Path
) -> None:
    session = _session_with_arrays(repo)
    fork = session.fork()
    lazy = da.from_array(VALUES, chunks=(3, 4))

    with dask.config.set(scheduler=scheduler, num_workers=2):
        merged = store_dask(
            sources=[lazy, lazy * 2],
            targets=[_open(fork, "a"), _open(fork, "b")],
            split_every=split_every,
        )
    session.merge(merged)
    session.commit("stored")

    icechunk.set_logs_filter("error")
    peer = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path)))
    for reader in (repo.readonly_session("main"), peer.readonly_session("main")):
        group = zarr.open_group(reader.store, mode="r")
        np.testing.assert_array_equal(group["a"][:], VALUES)
        np.testing.assert_array_equal(group["b"][:], VALUES * 2)


def test_regions_are_stored(repo: Repository) -> None:
    session = _session_with_arrays(repo)
    fork = session.fork()
    lazy = da.from_array(VALUES[:6, :4], chunks=(3, 4))

    session.merge(
        store_dask(
            sources=[lazy],
            targets=[_open(fork, "a")],
            regions=[(slice(6, 12), slice(4, 8))],
        )
    )

    expected = np.full((12, 8), -1.0)
    expected[6:, 4:] = VALUES[:6, :4]
    np.testing.assert_array_equal(array_of(session)[:], expected)


def test_blocks_that_are_zarr_arrays_are_reduced_to_one_fork(repo: Repository) -> None:
    session = _session_with_arrays(repo)
    forks = [session.fork(), session.fork()]
    for row, fork in enumerate(forks):
        _open(fork, "a")[row * 3 : row * 3 + 3] = row
    blocks = [delayed(_open)(fork, "a") for fork in forks]
    stacked = da.concatenate([da.from_delayed(block, (6, 8), float) for block in blocks])

    with dask.config.set(scheduler="synchronous"):
        session.merge(session_merge_reduction(stacked, split_every=2))

    np.testing.assert_array_equal(
        array_of(session)[:6], np.repeat([[0.0], [1.0]], 3, 0) * np.ones(8)
    )


def test_targets_must_be_in_a_fork(repo: Repository) -> None:
    session = _session_with_arrays(repo)

    with pytest.raises(SessionStateError, match=r"session\.fork") as caught:
        store_dask(sources=[da.ones((12, 8))], targets=[_open(session, "a")])

    assert caught.value.kind is ErrorKind.MERGE_NOT_ALLOWED


def test_the_session_of_an_array_is_extracted(repo: Repository) -> None:
    session = _session_with_arrays(repo)

    assert extract_session(_open(session, "a"), axis=0, keepdims=True) is session


def test_an_array_in_another_store_has_no_session() -> None:
    with pytest.raises(InvalidInputError, match="MemoryStore"):
        extract_session(zarr.create_array({}, shape=(1,), dtype="i4"))


def test_forks_in_nested_lists_are_merged_into_the_first(repo: Repository) -> None:
    session = _session_with_arrays(repo)
    forks = [session.fork() for _ in range(4)]
    for row, fork in enumerate(forks):
        _open(fork, "a")[row * 3 : row * 3 + 3] = row

    merged = merge_sessions(forks[0], [forks[1]], [[forks[2], forks[3]], [forks[0]]])

    assert merged is forks[0]
    np.testing.assert_array_equal(_open(merged, "a")[:, 0], np.repeat(np.arange(4.0), 3))


def test_only_forks_are_merged(repo: Repository) -> None:
    session = _session_with_arrays(repo)

    with pytest.raises(SessionStateError, match=r"session\.merge\(fork\)"):
        merge_sessions(session.fork(), session)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="no session"):
        merge_sessions([])


def test_a_node_deleted_in_a_fork_is_deleted_after_the_merge(repo: Repository) -> None:
    session = _session_with_arrays(repo)
    fork = session.fork()
    del zarr.open_group(fork.store)["b"]

    session.merge(fork)
    session.commit("without b")

    assert list(zarr.open_group(repo.readonly_session("main").store, mode="r")) == ["a"]


def test_an_array_replaced_in_a_fork_is_replaced_after_the_merge(repo: Repository) -> None:
    session = _session_with_arrays(repo)
    _open(session, "a")[:] = 1
    fork = session.fork()
    zarr.open_group(fork.store).create_array("a", data=np.arange(3), overwrite=True)

    session.merge(fork)
    session.commit("another a")

    np.testing.assert_array_equal(array_of(repo.readonly_session("main"))[:], [0, 1, 2])


def test_forks_that_create_one_node_each_are_not_merged(repo: Repository) -> None:
    session = _session_with_arrays(repo)
    forks = [session.fork(), session.fork()]
    for fork in forks:
        zarr.open_group(fork.store).create_group("new")
    session.merge(forks[0])

    with pytest.raises(SessionStateError, match="/new independently") as caught:
        session.merge(forks[1])

    assert caught.value.kind is ErrorKind.MERGE_FAILED


def test_chunks_of_an_array_that_was_deleted_meanwhile_are_not_dropped_silently(
    repo: Repository,
) -> None:
    session = _session_with_arrays(repo)
    fork = session.fork()
    _open(fork, "a")[:] = 1
    del zarr.open_group(session.store)["a"]

    with pytest.raises(SessionStateError, match="deleted meanwhile") as caught:
        session.merge(fork)

    assert caught.value.kind is ErrorKind.MERGE_FAILED
