"""Listings as columns, from every kind of storage."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from icestream.errors import StorageError
from icestream.storage.column_listing import (
    LISTING_SCHEMA,
    BatchPages,
    list_columns,
    listed_page,
    listing_of,
)
from icestream.storage.listing import resumed_pages
from icestream.storage.local_files import LocalFiles
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import ObjectInfo
from icestream.storage.retries import RetryPolicy

QUICK = RetryPolicy(max_tries=3, initial_backoff_s=0.001, max_backoff_s=0.001)
EPOCH, NOON = datetime.fromtimestamp(0, UTC), datetime(2024, 5, 1, 12, tzinfo=UTC)


def batch(*keys: str) -> pa.RecordBatch:
    """Return a page as obstore gives it."""
    columns = {
        "path": pa.array(keys, pa.string()),
        "last_modified": pa.array([NOON] * len(keys), pa.timestamp("us", "UTC")),
        "size": pa.array([1] * len(keys), pa.uint64()),
        "e_tag": pa.array([f'"{key}"' for key in keys], pa.string()),
    }
    return pa.record_batch(columns)


def test_any_storage_is_listed() -> None:
    storage = InMemoryStorage()
    for key in ("a/b", "a/c", "d"):
        storage.put(key, b"data")

    listing = list_columns(storage, "a/")

    assert listing.table.schema == LISTING_SCHEMA
    assert listing.table["path"].to_pylist() == ["a/b", "a/c"]
    assert listing.table["etag"].to_pylist() == [
        storage.head(key).version.etag for key in ("a/b", "a/c")
    ]
    assert listing.num_requests == 1


def test_a_time_that_a_server_does_not_tell_is_none() -> None:
    listing = listing_of(ObjectInfo("a", 3, EPOCH))

    assert listing.table.to_pylist() == [
        {"path": "a", "size": 3, "etag": None, "last_modified": None}
    ]


def test_etags_lose_their_quotes_unless_they_are_weak() -> None:
    page = batch("a", "b", "c")
    etags = pa.array(['"x"', 'W/"y"', None], pa.string())

    table = listed_page(page.set_column(3, "e_tag", etags))

    assert table["etag"].to_pylist() == ["x", 'W/"y"', None]
    assert table.schema == LISTING_SCHEMA


def test_a_listing_that_breaks_goes_on_behind_the_last_key() -> None:
    starts: list[str | None] = []

    def pages(offset: str | None) -> Iterator[pa.RecordBatch]:
        starts.append(offset)
        if offset is None:
            yield batch("a", "b")
            raise ConnectionResetError
        yield batch("b", "c")  # as Azure does: it repeats the key

    found = list(resumed_pages(pages, QUICK, BatchPages()))

    assert [page["path"].to_pylist() for page in found] == [["a", "b"], ["c"]]
    assert starts == [None, "b"]


def test_folders_are_looked_into_only_where_asked_for(tmp_path: Path) -> None:
    for name in ("a.nc", "x/b.nc", "y/c.nc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"data")

    listing = list_columns(LocalFiles(str(tmp_path)), descends=lambda path: path != "y")

    assert sorted(listing.table["path"].to_pylist()) == ["a.nc", "x/b.nc"]


def test_a_folder_that_may_not_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_: str) -> list[object]:
        raise StorageError("cannot list it: permission denied")

    monkeypatch.setattr("icestream.storage.column_listing.scan_folder", denied)

    with pytest.raises(StorageError, match="permission"):
        list_columns(LocalFiles(str(tmp_path)))
