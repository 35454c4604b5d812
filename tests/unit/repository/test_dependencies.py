from collections.abc import Sequence
from typing import Any

import pytest
import zarr
from tests.builders import one_manifest_per_array, repository

from icestream.assets import layout
from icestream.errors import AccessError, InvalidInputError, RefNotFoundError
from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer, VirtualChunkSpec
from icestream.model.object_stores import ObjectStoreConfig
from icestream.repository.location_listing import (
    Listing,
    all_locations,
    iter_distinct_batches,
    stream_locations,
)
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.storage import in_memory_storage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import CountingStorage

ONE, TWO, THREE = "s3://bucket/a/one.nc", "s3://bucket/a/b/two.nc", "s3://other/three.nc"


def archive() -> VirtualChunkContainer:
    return VirtualChunkContainer.of(prefix="s3://bucket/a/", name="archive")


def with_archive() -> RepositoryConfig:
    config = RepositoryConfig()
    config.set_virtual_chunk_container(archive())
    return config


def set_refs(
    repo: Repository, array: str, locations: Sequence[str], *, branch: str = "main", **options: Any
) -> str:
    """Commit an array whose chunks are 10 bytes each of these locations."""
    session = repo.writable_session(branch)
    put_refs(session, array, locations, **options)
    return session.commit(f"{array} on {branch}")


def put_refs(
    session: Session, array: str, locations: Sequence[str], *, etag: str | None = None
) -> None:
    group = zarr.open_group(session.store, mode="a")
    if array not in group:
        group.create_array(array, shape=(len(locations),), chunks=(1,), dtype="i4")
    session.store.set_virtual_refs(
        array,
        [VirtualChunkSpec([i], text, 10 * i, 10, etag) for i, text in enumerate(locations)],
        validate_containers=False,
    )


def rows(repo: Repository, **options: Any) -> dict[str, tuple[int, ...]]:
    records = repo.dependencies(**options).records()
    return {str(place): tuple(counts) for place, *counts in (r.values() for r in records)}


# -- forwards -------------------------------------------------------------------------------------


def test_objects_are_counted_by_references_bytes_and_arrays() -> None:
    repo = repository()
    set_refs(repo, "x", [ONE, TWO, ONE, THREE])
    set_refs(repo, "y", [ONE])

    report = repo.dependencies(branch="main")

    assert report.records()[0] == {
        "location": ONE,
        "references": 3,
        "num_bytes": 30,
        "arrays": 2,
    }
    assert rows(repo, branch="main") == {ONE: (3, 30, 2), TWO: (1, 10, 1), THREE: (1, 10, 1)}


def test_prefixes_are_counted_to_a_depth() -> None:
    repo = repository()
    set_refs(repo, "x", [ONE, TWO, ONE, THREE])

    assert rows(repo, level="prefixes") == {
        "s3://bucket/": (3, 30, 1, 2),
        "s3://other/": (1, 10, 1, 1),
    }
    assert rows(repo, level="prefixes", depth=3) == {
        "s3://bucket/a/": (2, 20, 1, 1),
        "s3://bucket/a/b/": (1, 10, 1, 1),
        "s3://other/": (1, 10, 1, 1),
    }


def test_containers_are_told_from_the_configuration_alone() -> None:
    storage = CountingStorage(in_memory_storage())
    repo = repository(storage, config=with_archive())
    set_refs(repo, "x", [ONE, THREE])
    repo = Repository.open(storage)
    storage.reset()

    report = repo.dependencies(level="containers")

    assert report.records() == [
        {"name": "archive", "prefix": "s3://bucket/a/", "platform": "s3", "template": None}
    ]
    assert storage.reads == 0


def test_a_manifest_that_many_snapshots_share_is_read_and_counted_once() -> None:
    storage = CountingStorage(in_memory_storage())
    repo = repository(storage, config=one_manifest_per_array())
    set_refs(repo, "x", [ONE, TWO])
    for i in range(3):
        set_refs(repo, f"y{i}", [THREE])
    storage.reset()

    found = rows(Repository.open(storage))

    assert found == {ONE: (1, 10, 1), TWO: (1, 10, 1), THREE: (3, 30, 3)}
    read = reads_of(storage, layout.MANIFESTS)
    assert len(read) == len(set(read)) == 4


def test_all_snapshots_count_unless_a_version_is_named() -> None:
    repo = repository()
    first = set_refs(repo, "x", [ONE])
    repo.create_branch("side", first)
    repo.create_tag("v1", first)
    set_refs(repo, "x", [TWO])
    set_refs(repo, "z", [THREE], branch="side")

    assert rows(repo).keys() == {ONE, TWO, THREE}
    assert rows(repo, branch="main").keys() == {TWO}
    assert rows(repo, branch="main", history=True).keys() == {ONE, TWO}
    assert rows(repo, tag="v1").keys() == {ONE}
    assert rows(repo, snapshot_id=first).keys() == {ONE}


def test_snapshots_without_a_branch_count_among_all() -> None:
    repo = repository()
    session = repo.writable_session("main")
    put_refs(session, "x", [ONE])
    session.flush("aside")

    assert rows(repo).keys() == {ONE}
    assert rows(repo, branch="main") == {}


def test_all_snapshots_of_the_older_format_are_those_of_branches_and_tags() -> None:
    repo = repository(spec_version=1)
    set_refs(repo, "x", [ONE])
    set_refs(repo, "x", [TWO])

    assert rows(repo).keys() == {ONE, TWO}


def test_relative_locations_are_told_as_absolute_ones() -> None:
    repo = repository(config=with_archive())
    set_refs(repo, "x", [ONE, TWO, THREE])

    session = repo.readonly_session("main")

    assert rows(repo).keys() == {ONE, TWO, THREE}
    assert all_locations(session._copy, stored=True) == [
        "vcc://archive/one.nc",
        "vcc://archive/b/two.nc",
        THREE,
    ]


def test_chunks_outside_a_shrunken_array_do_not_count() -> None:
    repo = repository()
    before = set_refs(repo, "x", [ONE, TWO])
    session = repo.writable_session("main")
    array = zarr.open_array(session.store, path="x")
    array.resize((1,))
    session.commit("smaller")

    assert rows(repo, branch="main").keys() == {ONE}
    assert rows(repo, snapshot_id=before).keys() == {ONE, TWO}


def test_arrays_that_were_deleted_do_not_count() -> None:
    repo = repository()
    set_refs(repo, "x", [ONE])
    set_refs(repo, "y", [TWO])
    session = repo.writable_session("main")
    del zarr.open_group(session.store)["x"]
    session.commit("without x")

    assert rows(repo, branch="main").keys() == {TWO}


def test_a_repository_without_virtual_chunks_depends_on_nothing() -> None:
    repo = repository()

    assert rows(repo) == {}
    assert rows(repo, level="prefixes") == {}
    assert not repo.users_of("s3://bucket").is_used
    assert repo.unchecked_references().total.references == 0
    assert repo.advise_containers().shares == ()


def test_a_version_is_named_in_one_way() -> None:
    repo = repository()

    with pytest.raises(InvalidInputError, match="give one of branch, tag and snapshot_id"):
        repo.dependencies(branch="main", tag="v1")
    with pytest.raises(InvalidInputError, match="history goes with"):
        repo.dependencies(history=True)
    with pytest.raises(InvalidInputError, match="the level is one of"):
        repo.dependencies(level="files")  # type: ignore[arg-type]  # not a level
    with pytest.raises(InvalidInputError, match="depth at least 1"):
        repo.dependencies(level="prefixes", depth=0)
    with pytest.raises(RefNotFoundError):
        repo.dependencies(branch="nowhere")


# -- backwards ------------------------------------------------------------------------------------


def test_users_of_an_object_are_arrays_snapshots_branches_and_tags() -> None:
    repo = repository()
    first = set_refs(repo, "x", [ONE, TWO, ONE])
    repo.create_tag("v1", first)
    repo.create_branch("side", first)
    second = set_refs(repo, "y", [ONE])
    third = set_refs(repo, "x", [TWO, TWO, TWO])
    set_refs(repo, "y", [TWO])

    users = repo.users_of(ONE)

    assert users.is_used
    assert users.arrays == ("/x", "/y")
    assert (users.chunks_of("/x"), users.chunks_of("/y"), users.chunks_of("/z")) == (2, 1, 0)
    assert users.snapshots == (third, second, first)
    assert (users.branches, users.tags) == (("side",), ("v1",))
    assert {(use.snapshot_id, use.array_path, use.num_bytes) for use in users.uses} == {
        (third, "/y", 10),
        (second, "/y", 10),
        (second, "/x", 20),
        (first, "/x", 20),
    }


def test_an_object_that_only_older_versions_use_may_go_for_a_branch() -> None:
    repo = repository()
    set_refs(repo, "x", [ONE])
    set_refs(repo, "x", [TWO])

    assert not repo.users_of(ONE, branch="main").is_used
    assert repo.users_of(ONE, branch="main", history=True).is_used


@pytest.mark.parametrize(
    ("place", "chunks"),
    [
        ("s3://bucket", 3),
        ("s3://bucket/a/", 3),
        ("s3://bucket/a/b", 1),
        ("s3", 4),
        ("s3://bucket/a/on", 0),
        ("s3://bucket/a/one.nc/", 0),
        ("s3://buck", 0),
        ("vcc://archive/b/", 1),
        ("vcc://archive/one.nc", 2),
    ],
)
def test_users_of_a_prefix_are_those_below_it(place: str, chunks: int) -> None:
    repo = repository(config=with_archive())
    set_refs(repo, "x", [ONE, TWO, ONE, THREE])

    assert repo.users_of(place).chunks_of("/x") == chunks


def test_users_of_an_unknown_container_are_refused() -> None:
    with pytest.raises(AccessError, match="no virtual chunk container is named 'lost'"):
        repository().users_of("vcc://lost/x.nc")


def test_users_are_found_by_reading_each_manifest_once() -> None:
    storage = CountingStorage(in_memory_storage())
    repo = repository(storage)
    for i in range(3):
        set_refs(repo, f"x{i}", [ONE])
    storage.reset()

    Repository.open(storage).users_of(ONE)

    read = reads_of(storage, layout.MANIFESTS)
    assert len(read) == len(set(read)) == 3


# -- checksums ------------------------------------------------------------------------------------


def test_references_without_a_checksum_are_counted() -> None:
    repo = repository()
    set_refs(repo, "x", [ONE, TWO, THREE])
    set_refs(repo, "y", [ONE, TWO], etag="abc")
    session = repo.writable_session("main")
    session.store.set_virtual_ref("x/c/0", ONE, 0, 10, checksum=1_700_000_000)
    array = zarr.open_array(session.store, path="y")
    array[1] = 5
    session.commit("one checksum, one inline chunk")

    report = repo.unchecked_references(branch="main")

    counts = {path: (c.references, c.with_etag, c.with_time) for path, c in report.arrays.items()}
    assert counts == {"/x": (3, 0, 1), "/y": (1, 1, 0)}
    assert (report.total.references, report.total.unchecked) == (4, 2)


# -- listing --------------------------------------------------------------------------------------


def test_locations_are_listed_once_or_once_per_chunk() -> None:
    repo = repository(config=with_archive())
    set_refs(repo, "x", [ONE, TWO, ONE])
    set_refs(repo, "y", [THREE, ONE])
    copy = repo.readonly_session("main")._copy

    assert list(stream_locations(copy)) == [ONE, TWO, THREE]
    assert list(stream_locations(copy, distinct=False)) == [ONE, TWO, ONE, THREE, ONE]
    assert all_locations(copy) == [ONE, TWO, ONE, THREE, ONE]
    assert list(stream_locations(copy, array_path="/y")) == [THREE, ONE]
    assert list(stream_locations(copy, prefix="s3://bucket/a/b")) == [TWO]
    assert list(stream_locations(copy, prefix="vcc://archive/", distinct=False)) == [
        ONE,
        TWO,
        ONE,
        ONE,
    ]
    assert list(stream_locations(copy, stored=True, array_path="y")) == [
        THREE,
        "vcc://archive/one.nc",
    ]


def test_uncommitted_references_are_listed_too() -> None:
    repo = repository()
    set_refs(repo, "x", [ONE, TWO])
    session = repo.writable_session("main")
    session.store.set_virtual_ref("x/c/1", THREE, 0, 10)

    assert all_locations(session._copy) == [ONE, THREE]
    assert list(stream_locations(session._copy)) == [ONE, THREE]


def test_listing_reads_a_manifest_only_when_it_comes_to_it() -> None:
    storage = CountingStorage(in_memory_storage())
    repo = repository(storage, config=one_manifest_per_array())
    set_refs(repo, "x", [ONE])
    set_refs(repo, "y", [TWO])
    copy = Repository.open(storage).readonly_session("main")._copy
    storage.reset()

    locations = stream_locations(copy)

    assert next(locations) == ONE
    assert len(reads_of(storage, layout.MANIFESTS)) == 1
    assert list(locations) == [TWO]
    assert len(reads_of(storage, layout.MANIFESTS)) == 2


def test_batches_hold_each_location_once() -> None:
    repo = repository()
    long = [f"s3://bucket/a-long-enough-prefix/{i // 2}.nc" for i in range(6)]
    set_refs(repo, "x", long)
    set_refs(repo, "y", [long[0], ONE])
    copy = repo.readonly_session("main")._copy

    batches = list(iter_distinct_batches(copy, Listing(containers=copy.context.reader.containers)))

    assert [batch.to_pylist() for batch in batches] == [long[::2], [ONE]]


# -- containers -----------------------------------------------------------------------------------


def test_missing_containers_are_added_one_per_bucket() -> None:
    repo = repository(config=with_archive())

    added = repo.ensure_containers(
        [ONE, "s3://bucket/z.nc", "gs://maps/x", THREE, "s3://other/four.nc", "file:///data/a/b.nc"]
    )

    assert [(c.url_prefix, c.name) for c in added] == [
        ("s3://bucket/", "bucket"),
        ("gcs://maps/", "maps"),
        ("s3://other/", "other"),
        ("file:///data/", "data"),
    ]
    assert isinstance(added[1].store, ObjectStoreConfig.Gcs)
    assert repo.ensure_containers([ONE, THREE, "gs://maps/y"]) == []
    assert len(repo.config.list_virtual_chunk_containers()) == 5


def test_a_template_that_matches_needs_no_other_container() -> None:
    config = RepositoryConfig()
    config.set_virtual_chunk_container(
        VirtualChunkContainer.of(name="runs", url_template="s3://bucket/run-{}.nc")
    )
    repo = repository(config=config)

    assert repo.ensure_containers(["s3://bucket/run-7.nc"]) == []
    assert [c.url_prefix for c in repo.ensure_containers(["s3://bucket/x"])] == ["s3://bucket/"]


@pytest.mark.parametrize("location", ["models/dev/x.nc", "mine://bucket/x.nc", "s3://bucket"])
def test_containers_are_added_for_all_locations_or_for_none(location: str) -> None:
    repo = repository()

    with pytest.raises(InvalidInputError):
        repo.ensure_containers([ONE, location])

    assert repo.config.list_virtual_chunk_containers() == []


def reads_of(storage: Storage, folder: str) -> list[str]:
    """Return the paths below a folder that were read."""
    assert isinstance(storage, CountingStorage)
    return [path for verb, path in storage.log if verb == "get" and path.startswith(folder)]
