"""The doubles do what they say, so that tests with them prove something."""

import asyncio
import pickle
import time

import pytest

from icestream.errors import CommitUnknownError, StorageError
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.testing.doubles import (
    CountingStorage,
    LatentStorage,
    Loss,
    LossRule,
    LossyStorage,
    WrappedStorage,
)
from icestream.testing.storage_suite import StorageSuite


class TestWrappedStorage(StorageSuite):
    shared_after_fork = False
    listed_objects = 20

    @pytest.fixture
    def storage(self) -> WrappedStorage:
        return CountingStorage(LossyStorage(LatentStorage(InMemoryStorage())))


def test_counts_requests_per_verb() -> None:
    storage = CountingStorage(InMemoryStorage())
    storage.put("a", b"x")
    storage.get("a")
    storage.get("a", (0, 1))
    asyncio.run(storage.get_async("a"))
    storage.get_if_unchanged("a", etag=storage.inner.head("a").version.etag)
    asyncio.run(storage.get_if_unchanged_async("a"))
    list(storage.list())
    storage.delete_many(["a", "b"])

    assert storage.requests == {
        "put": 1,
        "get": 3,
        "get_if_unchanged": 2,
        "list": 1,
        "delete_many": 1,
    }
    assert (storage.reads, storage.writes) == (6, 2)
    assert storage.log[0] == ("put", "a")
    storage.reset()
    assert (storage.reads, storage.writes, storage.log) == (0, 0, [])


def test_a_counter_travels_with_its_counts() -> None:
    storage = CountingStorage(LocalStorage("/nowhere"))
    list(storage.list())

    assert pickle.loads(pickle.dumps(storage)).requests == {"list": 1}


def test_waits_as_long_as_told() -> None:
    storage = LatentStorage(InMemoryStorage(), write_latency_ms=20, read_latency_ms=40)
    start = time.perf_counter()
    storage.put("a", b"x")
    written = time.perf_counter()
    storage.get("a")

    assert written - start >= 0.02
    assert time.perf_counter() - written >= 0.04


def test_fails_before_anything_is_done() -> None:
    storage = LossyStorage(InMemoryStorage(), LossRule("put", Loss.FAIL_BEFORE))

    with pytest.raises(StorageError):
        storage.put("a", b"x")
    assert list(storage.list()) == []
    storage.put("a", b"x")
    assert storage.get("a") == b"x"


def test_loses_the_answer_to_what_was_done() -> None:
    storage = LossyStorage(InMemoryStorage(), LossRule("put_if_absent", Loss.LOSE_ANSWER))

    with pytest.raises(CommitUnknownError):
        storage.put_if_absent("repo", b"x")
    assert storage.get("repo") == b"x"


def test_a_rule_names_calls_and_paths() -> None:
    rule = LossRule("put", Loss.FAIL_BEFORE, first=2, last=3, path_prefix="chunks/")
    storage = LossyStorage(InMemoryStorage(), rule)
    lost = []
    for name in ("a", "chunks/1", "chunks/2", "b", "chunks/3", "chunks/4"):
        try:
            storage.put(name, b"x")
        except StorageError:
            lost.append(name)

    assert lost == ["chunks/2", "chunks/3"]
    assert storage.met == 4
    storage.rule = rule
    assert storage.met == 0
