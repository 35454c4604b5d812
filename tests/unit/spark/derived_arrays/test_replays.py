"""Derived arrays that are checked by computing them again."""

from pathlib import Path

import pytest
import zarr
from tests.derived_array_builders import Cube

from icestream.errors import InvalidInputError
from icestream.ledger.dataset import Dataset
from icestream.repository.repository import Repository
from icestream.spark.derived_arrays import reductions
from icestream.spark.derived_arrays.pulling import pull_derived_array
from icestream.spark.derived_arrays.replays import ReplayReport, verify_derived_array
from icestream.storage import local_filesystem_storage


@pytest.fixture
def cube(tmp_path: Path) -> Cube:
    """One with three pulls behind it."""
    cube = Cube(tmp_path)
    cube.create(50)
    cube.derive()
    pull(cube)
    cube.change(25, 3, 5, 99)
    pull(cube)
    cube.grow(70)
    pull(cube)
    return cube


def opened(cube: Cube) -> Dataset:
    return cube.workspace.open("monthly")


def pull(cube: Cube) -> None:
    pull_derived_array(cube.workspace, opened(cube), None)


def verify(cube: Cube) -> ReplayReport:
    return verify_derived_array(opened(cube), None)


def test_a_sound_array_is_valid(cube: Cube) -> None:
    report = verify(cube)

    assert report.is_valid
    assert (report.num_blocks, report.num_chunks) == (3, 12 + 1 + 4)
    assert report.skipped == ()


def test_a_chunk_that_somebody_changed_is_found(cube: Cube) -> None:
    repo = Repository.open(local_filesystem_storage(str(cube.folder / "derived")))
    with repo.transaction("main", message="tampered") as store:
        zarr.open_array(store, path="monthly/t")[1, 3, 5] = 0

    [fault] = verify(cube).faults

    second = list(opened(cube).blocks())[1]  # the second pull made this chunk last
    assert (fault.block, fault.chunk) == (str(second.block_hash), "1/1/1")
    assert "in the repository" in fault.reason


def test_results_that_change_are_found_at_their_block(
    cube: Cube, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube.change(0, 0, 0, 7)
    with monkeypatch.context() as patch:
        patch.setitem(reductions._KNOWN, "mean", reductions._KNOWN["max"])
        pull(cube)

    report = verify(cube)

    head = str(opened(cube).head)
    assert {(fault.block, fault.chunk) for fault in report.faults} == {(head, "0/0/0")}
    assert "computed again" in report.faults[0].reason


def test_a_version_that_is_gone_cannot_be_replayed(cube: Cube) -> None:
    repo = cube.repository
    repo.expire_snapshots(next(iter(repo.ancestry(branch="main"))).written_at)

    report = verify(cube)

    assert report.is_valid
    assert len(report.skipped) == 2
    assert report.num_blocks == 1


def test_other_datasets_are_refused(cube: Cube) -> None:
    with pytest.raises(InvalidInputError, match="no derived array"):
        verify_derived_array(cube.workspace.create("cities"), None)
