"""Derived arrays that are checked by computing them again."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.derived_array_builders import Cube

import icestream as ice
from icestream.errors import AccessError, InvalidInputError
from icestream.ledger.dataset import Dataset
from icestream.model.ids import id_texts
from icestream.repository.repository import Repository
from icestream.spark.derived_arrays import reductions
from icestream.spark.derived_arrays.places import ArrayPlaces
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
    with cube.derived.transaction("main", message="tampered") as store:
        zarr.open_array(store, path="monthly/t")[1, 3, 5] = 0

    [fault] = verify(cube).faults

    second = list(opened(cube).blocks())[1]  # the second pull made this chunk last
    assert (fault.block, fault.chunk) == (str(second.block_hash), "1/1/1")
    assert "in the repository" in fault.reason
    assert "--recompute" in fault.reason


def delete(store: Any) -> None:
    del zarr.open_group(store, path="monthly")["t"]


def shorten(store: Any) -> None:
    zarr.open_array(store, path="monthly/t").resize((1, 4, 6))


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (delete, "there is no array /monthly/t any more"),
        (shorten, "has the shape (1, 4, 6) in chunks of (1, 2, 3), not (3, 4, 6)"),
    ],
)
def test_an_output_that_is_not_there_is_a_fault(
    cube: Cube, how: Callable[[Any], None], told: str
) -> None:
    with cube.derived.transaction("main", message="tampered") as store:
        how(store)

    report = verify(cube)

    [fault] = report.faults
    assert (fault.block, fault.chunk) == (str(opened(cube).head), None)
    assert told in fault.reason
    assert "--recompute" in fault.reason
    assert "None" not in report.problems[0].message
    assert report.num_blocks == 3


def test_a_repository_that_is_gone_is_a_fault_and_not_created(cube: Cube) -> None:
    shutil.rmtree(cube.folder / "derived")

    [fault] = verify(cube).faults

    assert "the output is gone: there is no repository" in fault.reason
    assert not (cube.folder / "derived").exists()


def test_a_chunk_whose_bytes_are_gone_is_a_fault(cube: Cube) -> None:
    config = ice.RepositoryConfig(inline_chunk_threshold_bytes=0)
    output = Repository.create(local_filesystem_storage(str(cube.folder / "apart")), config)
    places = ArrayPlaces(output=output)
    apart = cube.derive(name="apart")
    pull_derived_array(cube.workspace, apart, None, places=places)
    table = output.readonly_session("main").reference_table("/monthly/t")
    assert table.chunk_id is not None
    for chunk_id in id_texts(table.chunk_id):
        (cube.folder / "apart" / "chunks" / chunk_id).unlink()

    faults = verify_derived_array(apart, None, places=places).faults

    assert len(faults) == 12
    assert all("nothing that can be read" in fault.reason for fault in faults)
    pull_derived_array(cube.workspace, apart, None, places=places, recompute=True)
    assert verify_derived_array(apart, None, places=places).is_valid


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


@pytest.fixture
def virtual(tmp_path: Path) -> Cube:
    """One whose values are in files, with two pulls behind it."""
    cube = Cube(tmp_path)
    source = cube.create_virtual(70)
    cube.derive()
    places = ArrayPlaces(input=source)
    pull_derived_array(cube.workspace, opened(cube), None, places=places)
    with source.transaction("main", message="a better file") as store:
        cube.refer_to(store, 30, cube.write_day(999, 31.0))
    pull_derived_array(cube.workspace, opened(cube), None, places=places)
    return cube


def verify_virtual(cube: Cube) -> ReplayReport:
    prefix = f"file://{cube.folder}/files/"
    return verify_derived_array(opened(cube), None, places=ArrayPlaces(authorize=(prefix,)))


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_pull_whose_files_have_changed_is_a_fault_and_others_are_replayed(
    virtual: Cube, *, is_gone: bool
) -> None:
    assert verify_virtual(virtual).is_valid
    file = virtual.write_day(30, -5.0)
    os.utime(file, (file.stat().st_mtime + 100,) * 2)
    if is_gone:
        file.unlink()
    with virtual.derived.transaction("main", message="tampered") as store:
        zarr.open_array(store, path="monthly/t")[0, 0] = 0

    report = verify_virtual(virtual)

    first = list(opened(virtual).blocks())[1]  # the first pull used the file
    lost, tampered = report.faults
    assert (lost.block, lost.chunk) == (str(first.block_hash), None)
    assert "cannot be replayed" in lost.reason
    assert str(file) in lost.reason
    assert report.problems[0].rule == "transaction-is-reproducible"
    assert (report.num_blocks, report.num_chunks, report.skipped) == (1, 1, ())
    assert tampered.chunk == "0/0"


def test_consent_is_asked_of_whoever_verifies(virtual: Cube) -> None:
    with pytest.raises(AccessError):
        verify(virtual)


def test_other_datasets_are_refused(cube: Cube) -> None:
    with pytest.raises(InvalidInputError, match="no derived array"):
        verify_derived_array(cube.workspace.create("cities"), None)
