"""Pickles of a storage in memory pass a reference, and only inside one process."""

import pickle
import subprocess
import sys

import pytest

from icestream.errors import ErrorKind, StorageError
from icestream.storage.memory import InMemoryStorage


def test_a_pickle_gives_the_same_storage_back() -> None:
    storage = InMemoryStorage()

    assert pickle.loads(pickle.dumps(storage)) is storage


def test_another_process_is_told_why_it_cannot() -> None:
    storage = InMemoryStorage()
    code = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code],
        input=pickle.dumps(storage),
        capture_output=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        check=False,
    )

    assert result.returncode == 1
    assert b"only in the process that made it" in result.stderr


def test_a_pickle_does_not_outlive_its_storage() -> None:
    pickled = pickle.dumps(InMemoryStorage())

    with pytest.raises(StorageError) as caught:
        pickle.loads(pickled)
    assert caught.value.kind is ErrorKind.PICKLE


def test_storages_do_not_share_objects() -> None:
    first, second = InMemoryStorage(), InMemoryStorage()
    first.put("a", b"x")

    assert list(second.list()) == []


def test_does_not_see_later_changes_of_what_was_put() -> None:
    storage = InMemoryStorage()
    data = bytearray(b"before")
    storage.put("a", data)  # type: ignore[arg-type] # any buffer is taken
    data[:] = b"after!"

    assert storage.get("a") == b"before"
