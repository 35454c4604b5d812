"""What snapshots say about manifests and growth."""

import numpy as np
import pytest
import zarr
from tests.builders import repository

from icestream.model.ids import parse_snapshot_id
from icestream.model.manifest_config import ManifestConfig
from icestream.packing.advice import Goals
from icestream.repository.manifest_advice import (
    GrowthAssumption,
    assumed,
    estimated_references,
    measured_workload,
    with_growth,
)
from icestream.repository.repository import Repository
from icestream.storage import in_memory_storage
from icestream.testing.doubles import CountingStorage


def add(repo, name, grid, *, filled=None, dimension_names=None):
    session = repo.writable_session("main")
    array = zarr.open_group(session.store, mode="a").create_array(
        name, shape=grid, chunks=(1,) * len(grid), dtype="i4", dimension_names=dimension_names
    )
    array[: grid[0] if filled is None else filled] = 1
    return session.commit(name)


def resize(repo, name, length):
    session = repo.writable_session("main")
    array = zarr.open_array(session.store, path=name)
    before = array.shape[0]
    array.resize((length, *array.shape[1:]))
    array[before:] = 1
    return session.commit(f"{name} has {length}")


def snapshot_of(repo, snapshot_id):
    return repo._context.assets.load_snapshot(parse_snapshot_id(snapshot_id))


def test_references_of_arrays_that_share_a_manifest_are_shared_out_by_their_boxes():
    repo = repository()
    add(repo, "a", (30,))
    snapshot = snapshot_of(repo, add(repo, "b", (10,)))

    assert len(snapshot.manifest_files) == 1
    references = estimated_references(snapshot)
    assert [references[snapshot.get_array(path).id] for path in ("/a", "/b")] == [30, 10]


def test_an_array_without_chunks_has_no_references():
    repo = repository()
    snapshot = snapshot_of(repo, add(repo, "a", (30,), filled=0))

    assert list(estimated_references(snapshot).values()) == [0]
    assert measured_workload(snapshot).references == 0


def test_growth_is_measured_along_the_dimension_that_grew():
    repo = repository()
    before = measured_workload(snapshot_of(repo, add(repo, "a", (2, 3))))
    resize(repo, "a", 4)
    after = measured_workload(snapshot_of(repo, resize(repo, "a", 8)))

    (array,) = with_growth(after, before, commits=2).arrays

    assert (array.append_axis, array.chunks_per_append) == (0, 3)
    assert array.references_per_append == 9


def test_filling_a_grid_that_was_made_in_advance_is_growth():
    repo = repository()
    before = measured_workload(snapshot_of(repo, add(repo, "a", (100, 2), filled=10)))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a")[10:20] = 1
    after = measured_workload(snapshot_of(repo, session.commit("more")))

    (array,) = with_growth(after, before, commits=1).arrays

    assert array.references == 40
    assert array.references_per_append == pytest.approx(20)


def test_growth_can_be_assumed():
    repo = repository()
    add(repo, "a", (2, 3), dimension_names=("x", "time"))
    workload = measured_workload(snapshot_of(repo, add(repo, "x", (2,), dimension_names=("x",))))
    growth = GrowthAssumption(appends_per_day=3, append_dimension="time", chunks_per_append=2)

    grown = assumed(workload, growth)

    assert grown.appends_per_day == 3
    assert [(a.path, a.append_axis, a.chunks_per_append) for a in grown.arrays] == [
        ("/a", 1, 2),
        ("/x", 0, 0),
    ]
    assert assumed(workload, GrowthAssumption()) == workload


def test_lists_and_advice_load_no_manifest():
    storage = CountingStorage(in_memory_storage())
    repo = Repository.create(storage)
    add(repo, "a", (5,))
    resize(repo, "a", 9)
    reopened = Repository.open(storage)
    storage.reset()

    listed = reopened.list_manifests(branch="main")
    advice = reopened.advise_manifests(branch="main", goals=Goals(years=2))

    assert [(one.set_name, one.arrays, one.references) for one in listed] == [
        ("coordinates", ("/a",), 9)
    ]
    assert advice.now.total.references == 9
    assert advice.later.total.references == 9 + 4 * 2 * 365
    assert {path.partition("/")[0] for _, path in storage.log} <= {"repo", "snapshots"}


def lengthen(repo, name, length):
    """Make an array of (time, x) longer, with references to files; return what the commit did."""
    session = repo.writable_session("main")
    array = zarr.open_array(session.store, path=name)
    start, width = array.shape
    array.resize((length, width))
    count = (length - start) * width
    session.store.set_virtual_refs_arr(
        name,
        (length - start, width),
        ["s3://bucket/file"] * count,
        np.arange(count, dtype=np.uint64),
        np.ones(count, np.uint64),
        arr_offset=(start, 0),
        validate_containers=False,
    )
    session.commit("append")
    statistics = session.commit_statistics
    assert statistics is not None
    return statistics


def test_predictions_and_proposals_are_what_commits_then_do():
    """The last cell of the proposal is full after the append, as predicted for the worst case."""
    repo = repository()
    add(repo, "a", (0, 10), dimension_names=("time", "x"))
    lengthen(repo, "a", 549)
    add(repo, "x", (10,), dimension_names=("x",))
    growth = GrowthAssumption(appends_per_day=1, append_dimension="time")

    advice = repo.advise_manifests(
        branch="main", growth=growth, goals=Goals(max_manifest_size=500, years=0)
    )
    unsplit = lengthen(repo, "a", 550)
    repo.config.chunk_manifests = advice.proposal.chunk_manifests
    repo.config.manifest = ManifestConfig(splitting=advice.proposal.splitting)
    repo.save_config()
    reopened = Repository.open(repo.storage)
    reopened.rewrite_manifests("as proposed", branch="main")
    listed = reopened.list_manifests(branch="main")
    split = lengthen(reopened, "a", 600)

    assert unsplit.manifests_written == advice.now.commit.manifests == 1
    assert unsplit.references_written == advice.now.commit.references == 5500
    assert len(listed) == advice.proposed.total.manifests == 12
    assert split.manifests_written == advice.proposed.commit.manifests == 1
    assert split.references_written == advice.proposed.commit.references == 500
