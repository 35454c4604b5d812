"""How many requests reading takes: they are what object storage costs."""

import asyncio
from collections import Counter
from typing import Any

import numpy as np
import pytest
import zarr

from icestream.repository.repository import Repository
from icestream.storage.factories import in_memory_storage
from icestream.testing.doubles import CountingStorage


@pytest.fixture
def storage() -> CountingStorage:
    storage = CountingStorage(in_memory_storage())
    session = Repository.create(storage).writable_session("main")
    group = zarr.create_group(session.store)
    group.create_array("big", shape=(1000, 100), chunks=(1, 100), dtype="f8", compressors=None)[
        :
    ] = np.arange(100_000.0).reshape(1000, 100)
    group.create_array("small", data=np.arange(3))
    session.commit("data")
    storage.reset()
    return storage


def _folders(storage: CountingStorage) -> dict[str, int]:
    """What was read, by folder."""
    assert all(verb.startswith("get") for verb, _ in storage.log), storage.log
    return dict(Counter(path.partition("/")[0] for _, path in storage.log))


def _open(storage: CountingStorage) -> Repository:
    """An open repository that has read nothing but what opening takes."""
    repo = Repository.open(storage)
    assert {path for _, path in storage.log} == {"repo"}
    storage.reset()
    return repo


def _group(repo: Repository) -> Any:
    return zarr.open_group(repo.readonly_session("main").store, mode="r")


def test_one_chunk_of_a_new_session_takes_one_read_of_each_kind(
    storage: CountingStorage,
) -> None:
    group = _group(_open(storage))

    assert group["big"][5, 3] == 503
    assert _folders(storage) == {"repo": 1, "snapshots": 1, "manifests": 1, "chunks": 1}


def test_inline_chunks_take_no_read_of_their_own(storage: CountingStorage) -> None:
    group = _group(_open(storage))

    assert group["small"][:].tolist() == [0, 1, 2]
    assert _folders(storage) == {"repo": 1, "snapshots": 1, "manifests": 1}


def test_listing_chunks_reads_none(storage: CountingStorage) -> None:
    store = _open(storage).readonly_session("main").store

    async def listed() -> list[str]:
        return [key async for key in store.list_prefix("big/c/")]

    assert len(asyncio.run(listed())) == 1000
    assert asyncio.run(store.getsize_prefix("big/c")) == 800_000
    assert _folders(storage) == {"repo": 1, "snapshots": 1, "manifests": 1}


def test_metadata_takes_no_manifest(storage: CountingStorage) -> None:
    group = _group(_open(storage))

    assert {name: array.shape for name, array in group.arrays()} == {
        "big": (1000, 100),
        "small": (3,),
    }
    assert _folders(storage) == {"repo": 1, "snapshots": 1}


def test_a_second_session_reads_neither_snapshot_nor_manifest_again(
    storage: CountingStorage,
) -> None:
    repo = _open(storage)
    assert _group(repo)["big"][5, 3] == 503
    storage.reset()

    assert _group(repo)["big"][5, 4] == 504
    assert _folders(storage) == {"repo": 1, "chunks": 1}
