"""Histories for tests of maintenance: random ones as values, and real ones made by any library."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import icechunk
import numpy as np
import zarr
from hypothesis import strategies as st
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

import icestream
from icestream.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icestream.model.ops_log import ExpirationRan, RepoAvailability, RepoStatus, Update
from icestream.model.repo_info import RepoInfo, SnapshotEntry
from icestream.model.times import datetime_of
from icestream.storage.protocol import Storage
from icestream.testing.doubles import WrappedStorage

LIBRARIES = [icestream, icechunk]
AN_HOUR = timedelta(hours=1)


def soon() -> datetime:
    """Return a moment after everything that exists."""
    return datetime.now(UTC) + AN_HOUR


# -- as values ------------------------------------------------------------------------------------


def snapshot_id(number: int) -> SnapshotId:
    """Return the id of the snapshot with a number; number 0 is the root."""
    return INITIAL_SNAPSHOT_ID if not number else SnapshotId(number.to_bytes(12))


@st.composite
def repo_infos(draw: st.DrawFn) -> RepoInfo:
    """Draw a tree of snapshots written at times 0, 10, 20 and so on, with branches and tags."""
    count = draw(st.integers(1, 12))
    entries = [
        SnapshotEntry(
            id=snapshot_id(number),
            parent_id=snapshot_id(draw(st.integers(0, number - 1))) if number else None,
            flushed_at=number * 10,
            message=str(number),
            pruned_logs=_earlier_logs(draw, number),
        )
        for number in range(count)
    ]
    numbers = st.integers(0, count - 1)
    names = st.sampled_from("abcd")
    branches = {"main": draw(numbers), **draw(st.dictionaries(names, numbers))}
    return RepoInfo(
        branches={name: snapshot_id(number) for name, number in branches.items()},
        tags={n: snapshot_id(i) for n, i in draw(st.dictionaries(names, numbers)).items()},
        snapshots={entry.id: entry for entry in entries},
        status=RepoStatus(RepoAvailability.online, datetime_of(0)),
        latest_updates=(Update(ExpirationRan(), 0),),
    )


def _earlier_logs(draw: st.DrawFn, number: int) -> tuple[SnapshotId, ...]:
    """Return ids of logs that an earlier expiration left with a snapshot."""
    count = draw(st.integers(0, 2)) if number else 0
    return tuple(snapshot_id(1000 * number + i) for i in range(1, count + 1))


def logs_of_history(info: RepoInfo, tip: SnapshotId) -> list[SnapshotId]:
    """Return the ids of all logs that lead to a snapshot, oldest first, without the root's."""
    newest_first = [
        log
        for entry in info.ancestry(tip)
        if entry.parent_id is not None
        for log in (entry.id, *reversed(entry.pruned_logs))
    ]
    return newest_first[::-1]


# -- as repositories ------------------------------------------------------------------------------


def create_repository(library: ModuleType, folder: Path, **options: Any) -> Any:
    """Create a repository in a folder."""
    return library.Repository.create(library.local_filesystem_storage(str(folder)), **options)


def open_repository(library: ModuleType, folder: Path, **options: Any) -> Any:
    """Open the repository in a folder."""
    return library.Repository.open(library.local_filesystem_storage(str(folder)), **options)


def copy_of(folder: Path, name: str) -> Path:
    """Return a copy of a folder, with the times of its files."""
    return Path(shutil.copytree(folder, folder.parent / name))


def write(repo: Any, branch: str, value: int, *, method: str = "commit", **options: Any) -> str:
    """Write a value to a native and an inline chunk on a branch; return the snapshot's id."""
    session = repo.writable_session(branch)
    group: Any = zarr.open_group(session.store)
    if "inline" not in group:
        group.create_array("inline", shape=(4, 2), chunks=(2, 2), dtype="i4", fill_value=-1)
        group.create_array("sub/native", shape=(400,), chunks=(200,), dtype="f8", compressors=None)
    group["inline"][:2] = value
    group["sub/native"][:200] = value
    made: str = getattr(session, method)(f"{method} {value} on {branch}", **options)
    return made


def make_long_history(repo: Any, *, spec: int) -> datetime:
    """Make branches, tags and snapshots of all kinds; return a moment in the middle."""
    first = [write(repo, "main", value) for value in range(3)]
    repo.create_branch("old", first[0])
    write(repo, "old", 10)
    repo.create_branch("spanning", first[1])
    repo.create_branch("deleted", first[1])
    write(repo, "deleted", 11)
    write(repo, "deleted", 12)
    repo.delete_branch("deleted")
    repo.create_tag("middle", first[1])
    repo.create_tag("gone", first[2])
    repo.delete_tag("gone")
    write(repo, "main", 13, method="flush")
    time.sleep(0.01)
    middle = datetime.now(UTC)
    time.sleep(0.01)
    write(repo, "spanning", 20)
    write(repo, "main", 21)
    if spec == 2:
        write(repo, "main", 22, method="amend")
    write(repo, "main", 23)
    write(repo, "main", 24, method="flush")
    return middle


def all_values(repo: Any) -> dict[str, list[Any]]:
    """Return the content of every branch and tag: zarr.json bytes and array values."""
    versions = [{"branch": name} for name in sorted(repo.list_branches())]
    versions += [{"tag": name} for name in sorted(repo.list_tags())]
    return {str(version): _content(repo.readonly_session(**version)) for version in versions}


def _content(session: Any) -> list[Any]:
    group: Any = zarr.open_group(session.store, mode="r")
    nodes = [node for _, node in sorted(group.members(max_depth=None), key=lambda item: item[0])]
    arrays = [node for node in nodes if isinstance(node, zarr.Array)]
    documents = sync(_documents(session.store))
    return [documents, *(np.asarray(array[...]).tolist() for array in arrays)]


async def _documents(store: Any) -> dict[str, bytes]:
    prototype = default_buffer_prototype()
    keys = [key async for key in store.list() if key.endswith("zarr.json")]
    return {key: (await store.get(key, prototype)).to_bytes() for key in sorted(keys)}


def history(repo: Any) -> dict[str, list[tuple[str, str | None, str]]]:
    """Return ids, parents and messages of the ancestry of every branch and tag."""
    versions = [{"branch": name} for name in sorted(repo.list_branches())]
    versions += [{"tag": name} for name in sorted(repo.list_tags())]
    return {
        str(version): [(s.id, s.parent_id, s.message) for s in repo.ancestry(**version)]
        for version in versions
    }


def files_below(folder: Path) -> set[str]:
    """Return the objects of a repository in a folder, without backups and locks."""
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    return {file for file in files if not file.startswith(("overwritten/", "lock"))}


class InterruptingStorage(WrappedStorage):
    """Does something once, just before a call of `verb` below a prefix."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._interruptions: list[tuple[str, str, Any]] = []

    @contextmanager
    def interrupted(self, verb: str, prefix: str, action: Any) -> Iterator[None]:
        """Interrupt the next such call; it must come within the block."""
        self._interruptions.append((verb, prefix, action))
        yield
        assert not self._interruptions, f"{verb} {prefix} was never called"

    def around(self, verb: str, path: str, call: Any) -> Any:
        """Interrupt the call if it is the one."""
        for interruption in list(self._interruptions):
            if verb == interruption[0] and path.startswith(interruption[1]):
                self._interruptions.remove(interruption)
                interruption[2]()
        return call()
