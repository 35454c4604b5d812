"""Tests of reads that must find an object unchanged; stores that only read pass them too.

class TestWebServer(ConditionalReadSuite):
    @pytest.fixture
    def storage(self, server):
        return http_storage(server.url)

    @pytest.fixture
    def write(self, server):
        return server.put
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from icestream.errors import (
    ErrorKind,
    InvalidInputError,
    NotFoundError,
    ObjectChangedError,
    StorageError,
)
from icestream.storage.protocol import Storage

# ruff: noqa: S101, D102 - a test suite; the names of its tests are sentences

Write = Callable[[str, bytes], object]

SECOND = timedelta(seconds=1)


class ConditionalReadSuite:
    """What `get_if_unchanged` promises; `storage` must be a fixture, `write` may be one."""

    @pytest.fixture
    def write(self, storage: Storage) -> Write:
        """How objects get into the storage."""
        return storage.put

    def test_reads_what_still_has_its_etag(self, storage: Storage, write: Write) -> None:
        write("a", b"0123456789")
        etag = storage.head("a").version.etag
        assert etag is not None

        assert storage.get_if_unchanged("a", (2, 5), etag=etag) == b"234"
        assert storage.get_if_unchanged("a", (2, 5), etag=f'"{etag}"') == b"234"
        assert storage.get_if_unchanged("a", etag=etag) == b"0123456789"
        assert storage.get_if_unchanged("a", (2, 2), etag=etag) == b""

    def test_reads_what_was_not_changed_since(self, storage: Storage, write: Write) -> None:
        write("a", b"0123456789")
        modified = storage.head("a").last_modified

        for not_after in (modified, modified.replace(microsecond=0), modified + SECOND):
            assert storage.get_if_unchanged("a", (2, 5), not_after=not_after) == b"234"
        assert storage.get_if_unchanged("a", not_after=modified) == b"0123456789"

    def test_reads_without_a_condition(self, storage: Storage, write: Write) -> None:
        write("a", b"0123456789")

        assert storage.get_if_unchanged("a", (2, 5)) == b"234"
        assert storage.get_if_unchanged("a") == b"0123456789"

    def test_refuses_what_has_another_etag(self, storage: Storage, write: Write) -> None:
        write("a", b"0123456789")
        etag = storage.head("a").version.etag
        write("a", b"abcdefghijk")

        with pytest.raises(ObjectChangedError, match="was changed") as caught:
            storage.get_if_unchanged("a", (2, 5), etag=etag)
        assert caught.value.kind is ErrorKind.VIRTUAL_CHUNK_MODIFIED
        assert caught.value.recorded == etag
        assert caught.value.found == storage.head("a").version.etag
        assert "a" in caught.value.location
        with pytest.raises(ObjectChangedError):
            storage.get_if_unchanged("a", etag=etag)

    def test_refuses_what_was_changed_later(self, storage: Storage, write: Write) -> None:
        write("a", b"0123456789")
        modified = storage.head("a").last_modified
        earlier = modified - SECOND

        with pytest.raises(ObjectChangedError, match="unchanged since") as caught:
            storage.get_if_unchanged("a", (2, 5), not_after=earlier)
        assert caught.value.recorded == earlier.replace(microsecond=0)
        assert caught.value.found == modified

    def test_the_etag_decides_where_both_are_given(self, storage: Storage, write: Write) -> None:
        write("a", b"0123456789")
        info = storage.head("a")
        long_ago = datetime(2001, 1, 1, tzinfo=UTC)

        read = storage.get_if_unchanged("a", (0, 1), etag=info.version.etag, not_after=long_ago)
        assert read == b"0"
        with pytest.raises(ObjectChangedError):
            storage.get_if_unchanged("a", (0, 1), etag="0" * 32, not_after=info.last_modified)

    def test_an_object_cut_short_is_called_changed(self, storage: Storage, write: Write) -> None:
        write("a", b"0123456789")
        etag = storage.head("a").version.etag
        write("a", b"01")

        for byte_range in ((1, 5), (4, 8)):
            with pytest.raises(ObjectChangedError):
                storage.get_if_unchanged("a", byte_range, etag=etag)

    def test_a_range_past_the_end_of_an_unchanged_object(
        self, storage: Storage, write: Write
    ) -> None:
        write("a", b"0123456789")
        etag = storage.head("a").version.etag

        for byte_range in ((5, 11), (50, 60)):
            with pytest.raises(StorageError) as caught:
                storage.get_if_unchanged("a", byte_range, etag=etag)
            assert caught.value.kind is ErrorKind.INVALID_OBJECT_SIZE

    @pytest.mark.parametrize("byte_range", [(-1, 3), (5, 4), (0, 1 << 64), (1 << 63, 1 << 64)])
    def test_a_range_that_no_object_has_is_no_condition(
        self, storage: Storage, write: Write, byte_range: tuple[int, int]
    ) -> None:
        write("a", b"0123456789")
        etag = storage.head("a").version.etag

        with pytest.raises(InvalidInputError):
            storage.get_if_unchanged("a", byte_range, etag=etag)

    def test_what_is_gone_is_not_found(self, storage: Storage) -> None:
        now = datetime.now(UTC)

        for etag, not_after in (("x", None), (None, now), (None, None)):
            with pytest.raises(NotFoundError) as caught:
                storage.get_if_unchanged("missing", (0, 1), etag=etag, not_after=not_after)
            assert caught.value.kind is ErrorKind.OBJECT_NOT_FOUND

    @pytest.mark.parametrize(
        "etag", ["*", '"*"', "a\r\nX-Header: b", 'a"b', "ñ", "", 'W/"a"', "\0", "x" * 3000]
    )
    def test_an_etag_that_no_object_has_matches_none(
        self, storage: Storage, write: Write, etag: str
    ) -> None:
        write("a", b"0123456789")

        with pytest.raises(ObjectChangedError):
            storage.get_if_unchanged("a", (0, 1), etag=etag)

    def test_a_time_without_zone_is_refused(self, storage: Storage, write: Write) -> None:
        write("a", b"0123456789")
        now = datetime.now(UTC).replace(tzinfo=None)

        with pytest.raises(InvalidInputError, match="time zone"):
            storage.get_if_unchanged("a", (0, 1), not_after=now)

    def test_does_the_same_on_an_event_loop(self, storage: Storage, write: Write) -> None:
        write("a", b"0123456789")
        info = storage.head("a")

        async def read(etag: str | None = None, not_after: datetime | None = None) -> bytes:
            return await storage.get_if_unchanged_async("a", (2, 5), etag=etag, not_after=not_after)

        assert asyncio.run(read(etag=info.version.etag)) == b"234"
        assert asyncio.run(read(not_after=info.last_modified)) == b"234"
        assert asyncio.run(read()) == b"234"
        with pytest.raises(ObjectChangedError) as caught:
            asyncio.run(read(etag="0" * 32))
        assert caught.value.found == info.version.etag
        with pytest.raises(NotFoundError):
            asyncio.run(storage.get_if_unchanged_async("missing", (0, 1), etag="x"))
