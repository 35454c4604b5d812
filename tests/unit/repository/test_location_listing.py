"""Listing locations gives the same by every way, whatever the tables look like."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
import zarr
from tests.builders import repository

from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer
from icestream.repository.session import Session

FOLDER = "s3://bucket/a/long/folder/of/objects/"
NAMED = VirtualChunkContainer.of(prefix="s3://bucket/", name="bucket")


def session_with(
    *columns: Sequence[str | None] | pa.Array,
    containers: Sequence[VirtualChunkContainer] = (),
    relative: bool = False,
) -> Session:
    """Return a session of a commit with one array, and thus one table, per column of locations."""
    config = RepositoryConfig.default()
    for container in containers:
        config.set_virtual_chunk_container(container)
    repo = repository(config=config)
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    for number, locations in enumerate(columns):
        n = len(locations)
        group.create_array(f"x{number}", shape=(n,), chunks=(1,), dtype="u1")
        session.store.set_virtual_refs_arr(
            f"x{number}",
            (n,),
            locations,
            np.arange(n, dtype=np.uint64),
            np.ones(n, np.uint64),
            validate_containers=False,
            relative=relative or None,
        )
    session.commit("references")
    return repo.readonly_session("main")


def distinct(locations: Sequence[str | None]) -> list[str]:
    return list(dict.fromkeys(location for location in locations if location))


OBJECTS = [f"{FOLDER}{number:09d}" for number in range(40)]
COLUMNS: dict[str, list[str | None]] = {
    "one object each": [*OBJECTS],
    "one object each, not sorted": [*reversed(OBJECTS)],
    "few objects": [OBJECTS[number % 3] for number in range(40)],
    "holes": [location if number % 3 else None for number, location in enumerate(OBJECTS)],
    "short": ["s3://b/1", "s3://b/2", "s3://b/10"],
    "same ends": [
        f"s3://bucket/{number:03d}/a-name-that-is-always-the-same" for number in range(9)
    ],
    "multi-byte": ["s3://bücket/\u20ac", "s3://bücket/\U0001f600", "s3://bücket/\u20ac"],
    "one": ["s3://b/alone"],
}


@pytest.mark.parametrize("locations", COLUMNS.values(), ids=COLUMNS)
def test_every_way_lists_the_same(locations: list[str | None]) -> None:
    session = session_with(locations)
    present = [location for location in locations if location]

    assert session.all_virtual_chunk_locations() == present
    assert list(session.iter_virtual_chunk_locations(distinct=False)) == present
    assert list(session.iter_virtual_chunk_locations()) == distinct(present)
    [column] = session.iter_virtual_chunk_location_batches()
    assert column.to_pylist() == distinct(present)


def test_locations_of_an_array_in_several_pieces_are_listed_in_order() -> None:
    pieces = pa.chunked_array([OBJECTS[:7], [], OBJECTS[7:]], pa.large_string())
    session = session_with(pieces)
    assert session.all_virtual_chunk_locations() == OBJECTS
    assert list(session.iter_virtual_chunk_locations()) == OBJECTS


def test_no_location_is_in_two_columns() -> None:
    session = session_with(OBJECTS[:9], OBJECTS[5:12], OBJECTS[:3], OBJECTS[11:20])
    columns = [column.to_pylist() for column in session.iter_virtual_chunk_location_batches()]
    assert sorted(location for column in columns for location in column) == OBJECTS[:20]
    assert all(columns)
    assert len(session.all_virtual_chunk_locations()) == 28


def test_relative_locations_are_made_absolute_unless_stored_ones_are_wanted() -> None:
    session = session_with(OBJECTS, containers=[NAMED], relative=True)
    stored = [location.replace("s3://", "vcc://") for location in OBJECTS]

    assert session.all_virtual_chunk_locations() == OBJECTS
    assert session.all_virtual_chunk_locations(stored=True) == stored
    [absolute] = session.iter_virtual_chunk_location_batches()
    [as_stored] = session.iter_virtual_chunk_location_batches(stored=True)
    assert (absolute.to_pylist(), as_stored.to_pylist()) == (OBJECTS, stored)


def test_columns_are_filtered_by_prefix_and_array() -> None:
    session = session_with(OBJECTS[:5], ["s3://other/file"])
    [column] = session.iter_virtual_chunk_location_batches(prefix="s3://other/")
    assert column.to_pylist() == ["s3://other/file"]
    [column] = session.iter_virtual_chunk_location_batches(array_path="/x0")
    assert column.to_pylist() == OBJECTS[:5]


def test_a_session_without_virtual_chunks_lists_none() -> None:
    repo = repository()
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(2,), chunks=(1,), dtype="u1")[:] = 1
    assert session.all_virtual_chunk_locations() == []
    assert list(session.iter_virtual_chunk_locations()) == []
    assert list(session.iter_virtual_chunk_location_batches()) == []
