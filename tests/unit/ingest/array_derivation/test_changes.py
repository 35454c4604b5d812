"""Chunks that differ between two versions of an array."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import zarr

from icestream.ingest.array_derivation.changes import changed_chunks, is_same_array
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.storage import in_memory_storage

LOCATION = "s3://bucket/x.nc"


@pytest.fixture
def repo() -> Repository:
    """One whose array /a has virtual, inline and native chunks, in manifests of two chunks."""
    repo = Repository.create(in_memory_storage())
    session = repo.writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(12,), chunks=(2,), dtype="i4")
    array[8:] = 1
    for chunk in range(3):
        session.store.set_virtual_ref(f"a/c/{chunk}", LOCATION, chunk * 8, 8, checksum="etag")
    session.commit("first")
    return repo


def changed_by(repo: Repository, change: Callable[[Session], Any]) -> list[list[int]]:
    before = repo.readonly_session("main")
    session = repo.writable_session("main")
    change(session)
    session.commit("second")
    after = repo.readonly_session("main")
    found: list[list[int]] = sorted(changed_chunks(before, after, "/a").tolist())
    return found


@pytest.mark.parametrize(
    ("key", "how"),
    [
        (1, {"location": "s3://bucket/other.nc", "offset": 8, "length": 8, "checksum": "etag"}),
        (1, {"location": LOCATION, "offset": 9, "length": 8, "checksum": "etag"}),
        (1, {"location": LOCATION, "offset": 8, "length": 7, "checksum": "etag"}),
        (1, {"location": LOCATION, "offset": 8, "length": 8, "checksum": "other"}),
        (1, {"location": LOCATION, "offset": 8, "length": 8, "checksum": None}),
        (
            1,
            {
                "location": LOCATION,
                "offset": 8,
                "length": 8,
                "checksum": datetime(2024, 5, 1, tzinfo=UTC),
            },
        ),
        (3, {"location": LOCATION, "offset": 8, "length": 8}),
        (5, {"location": LOCATION, "offset": 8, "length": 8}),
    ],
)
def test_a_reference_that_differs_in_anything_is_a_change(
    repo: Repository, key: int, how: dict[str, Any]
) -> None:
    def change(session: Session) -> None:
        session.store.set_virtual_ref(f"a/c/{key}", **how)

    assert changed_by(repo, change) == [[key]]


def test_the_same_reference_again_is_no_change(repo: Repository) -> None:
    def change(session: Session) -> None:
        session.store.set_virtual_ref("a/c/1", LOCATION, 8, 8, checksum="etag")

    assert changed_by(repo, change) == []


def test_chunks_that_are_written_or_deleted_are_changes(repo: Repository) -> None:
    def change(session: Session) -> None:
        array = zarr.open_array(session.store, path="a")
        array[6:8] = 3
        array[10:] = 5
        array[0:2] = 0  # the fill value, for which there is no chunk

    assert changed_by(repo, change) == [[0], [3], [5]]


def test_an_array_is_another_when_its_values_mean_something_else(repo: Repository) -> None:
    before = repo.readonly_session("main")
    with repo.transaction("main", message="longer, and described") as store:
        array = zarr.open_array(store, path="a")
        array.resize((20,))
        array.attrs["history"] = "described"
    longer = repo.readonly_session("main")
    with repo.transaction("main", message="packed") as store:
        zarr.open_array(store, path="a").attrs["scale_factor"] = 2.0
    packed = repo.readonly_session("main")

    assert is_same_array(before, longer, "/a", but_for=0)
    assert not is_same_array(before, longer, "/a", but_for=1)
    assert not is_same_array(longer, packed, "/a", but_for=0)
