"""Conditions of reads: what is asked, what is compared, what the error carries."""

import os
import pickle
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from icestream.errors import ErrorKind, NotFoundError, ObjectChangedError, StorageError
from icestream.storage import http_storage
from icestream.storage.conditions import ReadCondition, plain_etag
from icestream.storage.local import LocalStorage
from icestream.storage.local_files import LocalFiles
from icestream.testing.fake_servers import FakeWebServer

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def _condition(etag: str | None = None, not_after: datetime | None = None) -> ReadCondition:
    condition = ReadCondition.of(etag, not_after)
    assert condition is not None
    return condition


@pytest.mark.parametrize(
    ("etag", "plain"), [("a", "a"), ('"a"', "a"), ('W/"a"', 'W/"a"'), ("", ""), ('"a-2"', "a-2")]
)
def test_quotes_around_an_etag_do_not_count(etag: str, plain: str) -> None:
    assert plain_etag(etag) == plain
    assert plain_etag(plain) == plain


@pytest.mark.parametrize(
    ("etag", "options"),
    [
        ("abc", {"if_match": '"abc"'}),
        ('"abc-17"', {"if_match": '"abc-17"'}),
        ("0x8D%/+=", {"if_match": '"0x8D%/+="'}),
        ('W/"abc"', {}),
        ("a\r\nHost: b", {}),
        ("ñ", {}),
        ("a b", {}),
    ],
)
def test_only_an_etag_that_a_header_can_hold_is_sent(etag: str, options: dict[str, str]) -> None:
    assert _condition(etag).get_options(None) == options


def test_asks_for_whole_seconds_and_a_range() -> None:
    options = _condition(not_after=NOON + timedelta(milliseconds=700)).get_options((2, 5))

    assert options == {"if_unmodified_since": NOON, "range": (2, 5)}


def test_there_is_no_condition_without_a_record() -> None:
    assert ReadCondition.of(None, None) is None


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (NOON - timedelta(days=1), True),
        (NOON, True),
        (NOON + timedelta(microseconds=999_999), True),
        (NOON + timedelta(seconds=1), False),
    ],
)
def test_what_changed_within_the_recorded_second_passes(*, found: datetime, holds: bool) -> None:
    assert _condition(not_after=NOON).holds(found) is holds


def test_times_of_other_zones_are_the_same_times() -> None:
    east = timezone(timedelta(hours=2))

    assert _condition(not_after=NOON.astimezone(east)).holds(NOON)
    assert not _condition(not_after=NOON.astimezone(east)).holds(NOON + timedelta(seconds=1))


def test_the_error_carries_what_was_recorded_and_found_across_processes() -> None:
    for condition, found in (
        (_condition('"a"'), "b"),
        (_condition(not_after=NOON), NOON + timedelta(hours=1)),
    ):
        with pytest.raises(ObjectChangedError) as caught:
            condition.require("folder/file.nc", str(found), NOON + timedelta(hours=1))
        copy = pickle.loads(pickle.dumps(caught.value))

        assert (copy.location, copy.recorded, copy.found) == (
            "folder/file.nc",
            condition.recorded,
            found,
        )
        assert copy.kind is ErrorKind.VIRTUAL_CHUNK_MODIFIED
        assert str(found) in str(copy)


@pytest.mark.parametrize(
    ("condition", "missing"),
    [(_condition("a"), "ETag"), (_condition(not_after=NOON), "time of change")],
)
def test_a_store_that_tells_nothing_is_not_believed(condition: ReadCondition, missing: str) -> None:
    with pytest.raises(StorageError, match=f"names no {missing}") as caught:
        condition.require("a", None, None)
    assert caught.value.kind is ErrorKind.PRECONDITIONS_IGNORED


@pytest.mark.parametrize("named", [[], ["ETag"], ["Last-Modified"]])
def test_a_web_server_that_leaves_out_what_was_recorded(named: list[str]) -> None:
    with FakeWebServer(conditions=False, named=named) as server:
        etag = server.put("/a", b"0123").etag
        storage = http_storage(server.url)
        conditions = {"ETag": {"etag": etag}, "Last-Modified": {"not_after": datetime.now(UTC)}}
        for header, condition in conditions.items():
            if header in named:
                assert storage.get_if_unchanged("a", (0, 2), **condition) == b"01"  # type: ignore[arg-type] # one of two
                continue
            with pytest.raises(StorageError, match="cannot tell") as caught:
                storage.get_if_unchanged("a", (0, 2), **condition)  # type: ignore[arg-type] # one of two
            assert caught.value.kind is ErrorKind.PRECONDITIONS_IGNORED


def test_one_request_reads_and_a_second_one_explains_a_refusal() -> None:
    with FakeWebServer() as server:
        server.put("/a", b"0123456789")
        storage = http_storage(server.url)
        etag = storage.head("a").version.etag
        server.requests.clear()

        storage.get_if_unchanged("a", (2, 5), etag=etag)
        assert [request.method for request in server.requests] == ["GET"]
        assert server.requests[0].headers["if-match"] == f'"{etag}"'
        assert server.requests[0].headers["range"] == "bytes=2-4"
        with pytest.raises(ObjectChangedError):
            storage.get_if_unchanged("a", (2, 5), etag="other")
        assert [request.method for request in server.requests] == ["GET", "GET", "HEAD"]


# files


def test_a_time_just_before_a_second_is_not_rounded_up_to_it(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"0123")
    os.utime(file, ns=(0, 1_794_782_499_999_999_999))
    storage = LocalStorage(tmp_path)

    assert storage.head("a").last_modified.microsecond == 999_999
    not_after = datetime.fromtimestamp(1_794_782_499, UTC)
    assert storage.get_if_unchanged("a", (0, 1), not_after=not_after) == b"0"


def test_a_rewrite_that_restores_the_time_is_found_by_size_or_inode(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"0123")
    storage = LocalFiles(str(tmp_path))
    status, etag = file.stat(), storage.head("a").version.etag
    file.write_bytes(b"01234")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    with pytest.raises(ObjectChangedError):
        storage.get_if_unchanged("a", (0, 1), etag=etag)
    other = tmp_path / "other"
    other.write_bytes(b"abcd")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(file)
    with pytest.raises(ObjectChangedError):
        storage.get_if_unchanged("a", (0, 1), etag=etag)


def test_a_file_changed_while_it_is_read_is_called_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"0123")
    os.utime(file, (0, 0))
    storage = LocalFiles(str(tmp_path))
    etag = storage.head("a").version.etag
    read = os.pread

    def read_and_change(fd: int, size: int, offset: int) -> bytes:
        data = read(fd, size, offset)
        file.write_bytes(b"abcd")
        return data

    monkeypatch.setattr(os, "pread", read_and_change)
    with pytest.raises(ObjectChangedError):
        storage.get_if_unchanged("a", (0, 4), etag=etag)


def test_a_file_of_1970_has_a_time_too(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"0123")
    os.utime(file, (0, 0))

    epoch = datetime.fromtimestamp(0, UTC)
    assert LocalFiles(str(tmp_path)).get_if_unchanged("a", (0, 2), not_after=epoch) == b"01"


def test_no_memory_is_set_aside_for_bytes_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123")
    storage = LocalFiles(str(tmp_path))

    with pytest.raises(StorageError) as caught:
        storage.get("a", (0, 1 << 62))
    assert caught.value.kind is ErrorKind.INVALID_OBJECT_SIZE


def test_a_missing_object_is_not_called_changed(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        LocalFiles(str(tmp_path)).get_if_unchanged("a", (0, 1), not_after=NOON)
