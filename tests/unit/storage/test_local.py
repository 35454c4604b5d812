"""What the local backend promises beyond the suite: locks, hidden files, whole objects."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import LocalStore

from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    InvalidInputError,
    StorageError,
)
from icestream.storage import Version
from icestream.storage.local import LocalStorage

COUNT_UP = """
import sys
from icestream.errors import ConflictError
from icestream.storage.local import LocalStorage
storage = LocalStorage(sys.argv[1])
for _ in range(int(sys.argv[2])):
    while True:
        data, version = storage.get_versioned("counter")
        try:
            storage.put_if_version("counter", b"%d" % (int(data) + 1), version)
        except ConflictError:
            continue
        break
"""


def test_two_processes_lose_no_increment(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("counter", b"0")
    command = [sys.executable, "-c", COUNT_UP, str(tmp_path), "200"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [subprocess.Popen(command, env=environment) for _ in range(2)]  # noqa: S603

    assert [process.wait() for process in processes] == [0, 0]
    assert storage.get("counter") == b"400"


def test_a_version_tells_apart_what_the_file_system_does_not(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("repo", b"one")
    _, version = storage.get_versioned("repo")
    file = tmp_path / "repo"
    before = file.stat()
    # same inode, size and time, as a fast writer that gets a freed inode leaves them
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert storage.head("repo").version.etag == version.etag
    with pytest.raises(ConflictError):
        storage.put_if_version("repo", b"three", version)
    assert storage.get("repo") == b"two"


def test_etags_are_those_of_the_object_store_crate(tmp_path: Path) -> None:
    LocalStorage(tmp_path).put("chunks/A", b"12345")
    theirs = obstore.head(LocalStore(tmp_path), "chunks/A")["e_tag"]

    assert theirs == f'"{LocalStorage(tmp_path).head("chunks/A").version.etag}"'


def test_leftover_temporary_and_lock_files_are_no_objects(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    version = storage.put_if_absent("repo", b"1")
    storage.put_if_version("repo", b"2", version)
    (tmp_path / "tmp#123").write_bytes(b"left by a crash")
    (tmp_path / "repo#1").write_bytes(b"left by icechunk")

    assert (tmp_path / "lock#0").exists()
    assert [info.path for info in storage.list()] == ["repo"]
    assert [meta["path"] for meta in obstore.list(LocalStore(tmp_path)).collect()] == ["repo"]


def test_leaves_no_temporary_files(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("a", b"1")
    version = storage.put_if_absent("repo", b"1")
    storage.put_if_version("repo", b"2", version)
    with pytest.raises(AlreadyExistsError):
        storage.put_if_absent("repo", b"3")
    with pytest.raises(ConflictError):
        storage.put_if_version("repo", b"3", Version("0-0-0"))

    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "lock#0", "repo"]


WRITES: dict[str, Callable[[LocalStorage, bytes], Any]] = {
    "put": lambda storage, data: storage.put("repo", data),
    "create": lambda storage, data: storage.put_if_absent("new", data),
    "replace": lambda storage, data: storage.put_if_version(
        "repo", data, storage.get_versioned("repo")[1]
    ),
}


@contextmanager
def _file_size_limit(limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_fails_half_way_changes_nothing(tmp_path: Path, write: str) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("repo", b"before")

    with _file_size_limit(1000), pytest.raises(StorageError, match="cannot write") as caught:
        WRITES[write](storage, bytes(2000))
    assert caught.value.kind is ErrorKind.IO
    assert [(info.path, info.size_bytes) for info in storage.list()] == [("repo", 6)]
    assert not list(tmp_path.glob("tmp*"))


def test_a_full_disk_is_named_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", no_space)

    with pytest.raises(StorageError, match=r"No space left.*free some space"):
        LocalStorage(tmp_path).put("a", b"x")


def test_creates_exclusively_where_hard_links_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("repo", b"1")

    with pytest.raises(AlreadyExistsError):
        storage.put_if_absent("repo", b"2")
    assert storage.get("repo") == b"1"


def test_refuses_to_commit_where_locks_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    storage = LocalStorage(tmp_path)
    version = storage.put_if_absent("repo", b"1")
    monkeypatch.setattr("fcntl.flock", no_locks)

    with pytest.raises(StorageError, match="not safe"):
        storage.put_if_version("repo", b"2", version)
    assert storage.get("repo") == b"1"


def test_a_directory_in_the_way_is_a_storage_error(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("a", b"x")

    with pytest.raises(StorageError, match="cannot write"):
        storage.put("a/b", b"x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="cannot write"):
        storage.put("folder", b"x")


def test_does_not_leave_its_root(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush")
    storage = LocalStorage(tmp_path / "root")

    for path in ("../secret", "a/../../secret", "/etc/passwd", "a\0b"):
        with pytest.raises(InvalidInputError):
            storage.get(path)
        with pytest.raises(InvalidInputError):
            storage.delete_many([path])
    with pytest.raises(InvalidInputError):
        list(storage.list("../"))


def test_reads_files_larger_than_a_read_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("a", bytes(range(200)))
    read, pread = os.read, os.pread
    monkeypatch.setattr(os, "read", lambda fd, size: read(fd, min(size, 7)))
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 7), offset))

    assert storage.get("a") == bytes(range(200))
    assert storage.get("a", (10, 90)) == bytes(range(10, 90))


def test_syncs_commits_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    counts = {}
    for policy in ("never", "commits", "always"):
        storage = LocalStorage(tmp_path / policy, sync=policy)
        synced.clear()
        storage.put("a", b"x")
        after_put = len(synced)
        storage.put_if_absent("b", b"x")
        counts[policy] = (after_put, len(synced) - after_put)

    # a file and its directory
    assert counts == {"never": (0, 0), "commits": (0, 2), "always": (2, 2)}


def test_an_unknown_sync_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="sometimes"):
        LocalStorage(tmp_path, sync="sometimes")  # type: ignore[arg-type] # what is tested
