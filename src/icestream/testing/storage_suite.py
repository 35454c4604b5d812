"""Tests that every storage must pass; a backend's test class inherits them.

class TestLocalStorage(StorageSuite):
    @pytest.fixture
    def storage(self, tmp_path):
        return LocalStorage(tmp_path)
"""

import asyncio
import os
import pickle
import signal
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from icestream.storage.protocol import Storage
from icestream.testing.conditional_reads import ConditionalReadSuite

# ruff: noqa: S101, S301, D102 - a test suite; the names of its tests are sentences


class StorageSuite(ConditionalReadSuite):
    """What the verbs of a storage promise; `storage` must be a fixture with an empty one."""

    odd_keys: ClassVar[Sequence[str]] = (
        "with space",
        "refs/branch.mañana/ref.json",
        "hash#1",
        "percent%41",
        "question?star*",
        "tilde~",
        "colon:dot.",
        "brackets{}[]<>|^`",
        "quotes'\"",
        "plus+and&equals=",
        "deep/er/and/deeper/still",
    )
    listed_objects: ClassVar[int] = 1050
    """More than one page of the usual 1000."""
    increments: ClassVar[int] = 10
    """Per thread, in the race of compare-and-swap."""
    conditions_are_atomic: ClassVar[bool] = True
    """Whether the server compares and writes in one step; elsewhere a race proves nothing."""
    shared_after_fork: ClassVar[bool] = True
    """Whether a forked child sees the same objects; memory is copied instead."""

    # reading and writing

    def test_returns_what_was_put(self, storage: Storage) -> None:
        storage.put("chunks/A", b"content")

        assert storage.get("chunks/A") == b"content"

    def test_put_replaces_what_was_there(self, storage: Storage) -> None:
        storage.put("a", b"long content")
        storage.put("a", b"short")

        assert storage.get("a") == b"short"

    def test_holds_empty_objects(self, storage: Storage) -> None:
        storage.put("a", b"")

        assert storage.get("a") == b""
        assert storage.get_versioned("a")[0] == b""
        assert storage.head("a").size_bytes == 0

    def test_holds_objects_of_some_megabytes(self, storage: Storage) -> None:
        data = bytes(range(256)) * 12_000
        storage.put("big", data)

        assert storage.get("big") == data
        assert storage.get("big", (1_000_001, 1_000_259)) == data[1_000_001:1_000_259]

    def test_a_missing_object_is_not_found(self, storage: Storage) -> None:
        for read in (storage.get, storage.get_versioned, storage.head):
            with pytest.raises(NotFoundError) as caught:
                read("chunks/missing")
            assert caught.value.kind is ErrorKind.OBJECT_NOT_FOUND
        with pytest.raises(NotFoundError):
            storage.get("chunks/missing", (0, 1))
        with pytest.raises(NotFoundError):
            storage.get_ranges("chunks/missing", [(0, 1)])

    def test_a_folder_is_not_an_object(self, storage: Storage) -> None:
        storage.put("chunks/A", b"x")

        with pytest.raises(NotFoundError):
            storage.get("chunks")
        with pytest.raises(NotFoundError):
            storage.head("chunks")

    def test_returns_a_range(self, storage: Storage) -> None:
        storage.put("a", b"0123456789")

        assert storage.get("a", (0, 10)) == b"0123456789"
        assert storage.get("a", (3, 6)) == b"345"
        assert storage.get("a", (9, 10)) == b"9"
        assert storage.get("a", (4, 4)) == b""

    def test_returns_many_ranges_in_the_order_asked(self, storage: Storage) -> None:
        storage.put("a", b"0123456789")

        assert storage.get_ranges("a", [(8, 10), (0, 2), (5, 5), (1, 4)]) == [
            b"89",
            b"01",
            b"",
            b"123",
        ]
        assert storage.get_ranges("a", []) == []

    @pytest.mark.parametrize("byte_range", [(5, 11), (10, 11), (50, 60)])
    def test_a_range_past_the_end_is_an_error(
        self, storage: Storage, byte_range: tuple[int, int]
    ) -> None:
        storage.put("a", b"0123456789")

        with pytest.raises(StorageError):
            storage.get("a", byte_range)
        with pytest.raises(StorageError):
            storage.get_ranges("a", [(0, 1), byte_range])

    @pytest.mark.parametrize("byte_range", [(-1, 3), (5, 4)])
    def test_an_impossible_range_is_refused(
        self, storage: Storage, byte_range: tuple[int, int]
    ) -> None:
        storage.put("a", b"0123456789")

        with pytest.raises(InvalidInputError):
            storage.get("a", byte_range)

    def test_head_tells_size_and_time(self, storage: Storage) -> None:
        storage.put("a", b"12345")

        info = storage.head("a")
        assert (info.path, info.size_bytes) == ("a", 5)
        assert abs(info.last_modified - datetime.now(UTC)) < timedelta(minutes=5)

    @pytest.mark.parametrize("path", ["", "/a", "a//b", "a/", "../a", "a/../../b", ".", "a/./b"])
    def test_a_key_that_is_no_path_is_refused(self, storage: Storage, path: str) -> None:
        with pytest.raises(InvalidInputError):
            storage.put(path, b"x")

    def test_keeps_odd_keys_apart(self, storage: Storage) -> None:
        for key in self.odd_keys:
            storage.put(key, key.encode())

        assert {info.path for info in storage.list()} == set(self.odd_keys)
        assert [storage.get(key).decode() for key in self.odd_keys] == list(self.odd_keys)
        assert [storage.head(key).path for key in self.odd_keys] == list(self.odd_keys)
        assert storage.delete_many(self.odd_keys).deleted == len(self.odd_keys)
        assert list(storage.list()) == []

    # conditional writes

    def test_creates_only_what_is_absent(self, storage: Storage) -> None:
        storage.put_if_absent("repo", b"first")

        with pytest.raises(AlreadyExistsError):
            storage.put_if_absent("repo", b"second")
        with pytest.raises(AlreadyExistsError):
            storage.put_if_absent("repo", b"first")
        assert storage.get("repo") == b"first"

    def test_of_sixteen_creators_one_wins(self, storage: Storage) -> None:
        self._skip_races_without_atomic_conditions()

        def create(writer: int) -> bool:
            try:
                storage.put_if_absent("repo", b"%d" % writer)
            except AlreadyExistsError:
                return False
            return True

        with ThreadPoolExecutor(16) as threads:
            won = list(threads.map(create, range(16)))

        assert won.count(True) == 1
        assert storage.get("repo") == b"%d" % won.index(True)

    def test_replaces_only_the_version_that_was_read(self, storage: Storage) -> None:
        storage.put("repo", b"1")
        _, version = storage.get_versioned("repo")
        storage.put_if_version("repo", b"2", version)

        with pytest.raises(ConflictError) as caught:
            storage.put_if_version("repo", b"3", version)
        assert caught.value.kind is ErrorKind.PRECONDITION_FAILED
        assert storage.get("repo") == b"2"

    def test_a_written_version_can_be_replaced(self, storage: Storage) -> None:
        version = storage.put_if_absent("repo", b"1")
        version = storage.put_if_version("repo", b"2", version)
        version = storage.put_if_version("repo", b"3", version)

        assert version.same_as(storage.get_versioned("repo")[1])
        assert storage.get("repo") == b"3"

    def test_does_not_replace_what_is_gone(self, storage: Storage) -> None:
        version = storage.put_if_absent("repo", b"1")
        storage.delete_many(["repo"])

        with pytest.raises(ConflictError):
            storage.put_if_version("repo", b"2", version)
        with pytest.raises(NotFoundError):
            storage.get("repo")

    def _skip_races_without_atomic_conditions(self) -> None:
        if not self.conditions_are_atomic:
            pytest.skip("this server compares and writes in two steps, and may let two writers win")

    def test_eight_counting_threads_lose_no_increment(self, storage: Storage) -> None:
        self._skip_races_without_atomic_conditions()
        storage.put_if_absent("counter", b"0")

        def increment() -> None:
            while True:
                data, version = storage.get_versioned("counter")
                try:
                    storage.put_if_version("counter", b"%d" % (int(data) + 1), version)
                except ConflictError:
                    continue
                return

        with ThreadPoolExecutor(8) as threads:
            for done in [threads.submit(increment) for _ in range(8 * self.increments)]:
                done.result()

        assert int(storage.get("counter")) == 8 * self.increments

    def test_honours_preconditions(self, storage: Storage) -> None:
        storage.put("other", b"x")
        storage.check_conditional_writes()

        assert [info.path for info in storage.list()] == ["other"]

    def test_equal_bytes_do_not_hide_a_conflict(self, storage: Storage) -> None:
        storage.put_if_absent("repo", b"1")
        _, version = storage.get_versioned("repo")
        storage.put_if_version("repo", b"2", version)

        with pytest.raises(ConflictError):
            storage.put_if_version("repo", b"2", version)

    # listing and deleting

    def test_lists_more_objects_than_a_page_holds(self, storage: Storage) -> None:
        paths = {f"chunks/{number:05}" for number in range(self.listed_objects)}
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda path: storage.put(path, b"x"), paths))
        storage.put("manifests/other", b"yy")

        listed = [info.path for info in storage.list("chunks/")]
        assert len(listed) == self.listed_objects
        assert set(listed) == paths
        assert storage.delete_many(paths).deleted == self.listed_objects
        assert [info.path for info in storage.list()] == ["manifests/other"]

    def test_lists_below_a_prefix_only(self, storage: Storage) -> None:
        for path in ("refs/branch.main/ref.json", "refs/tag.x/ref.json", "refsx", "repo"):
            storage.put(path, path.encode())

        assert {info.path for info in storage.list("refs/")} == {
            "refs/branch.main/ref.json",
            "refs/tag.x/ref.json",
        }
        assert [info.path for info in storage.list("refs/branch.")] == ["refs/branch.main/ref.json"]
        assert list(storage.list("nothing/")) == []
        assert storage.list_objects(prefix="refsx") == [("refsx", 5)]
        assert [info.key for info in storage.list_objects_metadata(prefix="rep")] == ["repo"]

    def test_a_listing_tells_sizes_and_versions(self, storage: Storage) -> None:
        storage.put("a/b", b"12345")

        (info,) = storage.list()
        head = storage.head("a/b")
        assert (info.path, info.size_bytes) == ("a/b", 5)
        assert info.version.same_as(head.version)
        assert info.version.same_as(storage.get_versioned("a/b")[1])

    def test_deletes_what_is_there_and_counts_what_is_not(self, storage: Storage) -> None:
        for path in ("a", "b/c", "b/d"):
            storage.put(path, b"x")

        result = storage.delete_many(["a", "b/c", "missing", "b/missing"])

        assert (result.deleted, dict(result.failed)) == (4, {})
        assert [info.path for info in storage.list()] == ["b/d"]
        assert storage.delete_many([]).deleted == 0

    # event loops, pickles, processes

    def test_async_verbs_work_on_any_loop(self, storage: Storage) -> None:
        async def round_trip() -> tuple[bytes, bytes, bytes]:
            await storage.put_async("a", b"0123456789")
            whole, part, empty = await asyncio.gather(
                storage.get_async("a"),
                storage.get_async("a", (2, 5)),
                storage.get_async("a", (2, 2)),
            )
            with pytest.raises(NotFoundError):
                await storage.get_async("missing")
            return whole, part, empty

        for _ in range(2):
            assert asyncio.run(round_trip()) == (b"0123456789", b"234", b"")
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(asyncio.run, round_trip()).result()[0] == b"0123456789"

    def test_sync_verbs_work_inside_a_running_loop(self, storage: Storage) -> None:
        async def round_trip() -> bytes:
            storage.put("a", b"x")
            return storage.get("a")

        assert asyncio.run(round_trip()) == b"x"

    def test_a_pickled_copy_sees_the_same_objects(self, storage: Storage) -> None:
        storage.put("a", b"x")

        copy = pickle.loads(pickle.dumps(storage))
        copy.put("b", b"y")

        assert copy.get("a") == b"x"
        assert storage.get("b") == b"y"

    def test_works_in_a_forked_child(self, storage: Storage) -> None:
        storage.put("a", b"x")
        version = storage.put_if_absent("repo", b"1")

        def in_child() -> None:
            assert storage.get("a") == b"x"
            storage.put("child", b"y")
            storage.put_if_version("repo", b"2", version)
            assert sorted(info.path for info in storage.list()) == ["a", "child", "repo"]

            async def read() -> bytes:
                return await storage.get_async("a")

            assert asyncio.run(read()) == b"x"

        assert _exit_code_of_child(in_child) == 0
        assert storage.get("a") == b"x"
        if self.shared_after_fork:
            assert (storage.get("child"), storage.get("repo")) == (b"y", b"2")


def _exit_code_of_child(work: Callable[[], None]) -> int:
    """Run `work` in a forked child that cannot hang and never returns to the test run."""
    with warnings.catch_warnings():
        # Python warns of forks with threads: that is what is tested
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # test runners catch it
        signal.alarm(60)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
