"""Any run of an archive can be taken back: what is left is as if it had never been."""

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from tests.archive_builders import (
    Form,
    change_day,
    cut_short,
    daily_archive,
    opened_files,
    path_of,
    write_day,
    write_days,
)
from tests.ingested_archives import opened
from tests.quick_runs import NO_RULES, patch_large_arrays, patch_quick_scans
from tests.run_results import RunResults, results_of

from icestream.errors import (
    ConflictError,
    NotFoundError,
    ObjectChangedError,
    SessionStateError,
)
from icestream.ingest.declaration import archives
from icestream.ingest.declaration.archives import Archive, Axis, Combination, OnMismatch, OnVanished
from icestream.ingest.opened_archives import Places, open_archive
from icestream.ingest.publishing.steps import RunStep
from icestream.ingest.run_reports import RunReport
from icestream.ingest.runs import run_archive
from icestream.ingest.undoing import undo_run
from icestream.storage import in_memory_storage

SMALL = Form(shape=(4, 6), chunks=(2, 3))
COARSE = Form(shape=(4, 6), chunks=(4, 6))


class Life:
    """An archive, its repository and its ledger in one folder."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.files = folder / "files"
        self.files.mkdir(parents=True)
        self.places = Places(repository=in_memory_storage(), ledger=in_memory_storage())
        target = {"chunk_manifests": NO_RULES, "splits": {"time": 2}}
        self.settings = {"target": target, **settings}

    @property
    def archive(self) -> Archive:
        return daily_archive(self.files, "elsewhere", **self.settings)

    def run(self, **options: Any) -> RunReport:
        return run_archive(self.archive, places=self.places, **options)

    def undo(self, run: int | str, **options: Any) -> RunReport:
        return undo_run(self.archive, run, places=self.places, **options)

    def grow(self, *numbers: int, form: Form = SMALL) -> RunReport:
        """Run after files have come."""
        write_days(self.files, numbers, form)
        return self.run()

    def results(self) -> RunResults:
        return results_of(self.archive, self.places)

    def statuses(self, run: int) -> dict[str, int]:
        rows = self.results().files[run - 1]
        found = [status for _, status, *_ in rows]
        return {status: found.count(status) for status in found}

    def values(self, group: str | None = None) -> xr.Dataset:
        repository = open_archive(self.archive, self.places).repository
        access = {f"{self.files.as_uri()}/": None}
        reading = repository.reopen(authorize_virtual_chunk_access=access)
        return opened(reading.readonly_session("main").store, group=group)


@pytest.fixture(params=["small", "large"])
def start(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Life]:
    """Start an archive whose arrays are edited by the driver, or written by executors."""
    patch_quick_scans(monkeypatch)
    if request.param == "large":
        patch_large_arrays(monkeypatch)

    def started(name: str = "one", **settings: Any) -> Life:
        return Life(tmp_path / name, **settings)

    return started


def require_same(one: Life, other: Life) -> None:
    """Require that repositories hold the same, though one of them saw more."""
    theirs, found = other.results(), one.results()
    assert found.documents == theirs.documents
    assert {path: {*refs} for path, refs in found.references.items()} == {
        path: {*refs} for path, refs in theirs.references.items()
    }
    xr.testing.assert_identical(one.values(), other.values())


def test_undoing_the_last_run_leaves_what_was_before(start: Callable[..., Life]) -> None:
    life = start()
    life.grow(0, 1, 3)
    before = life.results()
    life.grow(2, 4)
    report = life.undo(2)
    after = life.results()
    assert (report.run, report.undoes, report.num_undone) == (3, 2, 2)
    assert after.documents == before.documents
    assert after.references == before.references
    assert after.committed == [1, 2, 3]
    assert life.statuses(3) == {"undone": 2}
    xr.testing.assert_equal(
        life.values(), opened_files(path_of(life.files, number) for number in (0, 1, 3))
    )


def test_undone_files_stay_out_until_they_change_or_are_asked_for(
    start: Callable[..., Life],
) -> None:
    life = start()
    life.grow(0, 1)
    life.grow(2, 3)
    with_all = life.results()
    life.undo(2)
    assert life.run().is_empty
    change_day(life.files, 3, SMALL)
    assert life.run().num_scanned == 1
    assert life.values().sizes["time"] == 3
    assert life.run(include_undone=True).num_scanned == 1
    assert {*life.results().references["/sst"]} == {*with_all.references["/sst"]}
    xr.testing.assert_equal(life.values(), opened_files(life.files.iterdir()))
    assert life.run(include_undone=True).is_empty


def test_a_run_in_the_middle_is_undone_though_late_files_followed(
    start: Callable[..., Life],
) -> None:
    life, never = start("one"), start("never")
    for numbers in ([4, 6], [0, 5], [1, 7]):
        life.grow(*numbers)
    life.undo(2)
    never.grow(4, 6)
    never.grow(1, 7)
    require_same(life, never)


def test_changed_files_become_what_they_were(start: Callable[..., Life], tmp_path: Path) -> None:
    life = start()
    life.grow(1, 2, 3)
    old = shutil.copy2(path_of(life.files, 2), tmp_path)
    before = life.results()
    change_day(life.files, 2, SMALL)
    life.grow(5)
    life.grow(0)  # what was restored moves
    life.undo("2")
    with pytest.raises(ObjectChangedError):
        life.values()
    assert life.run().is_empty
    shutil.copy2(old, path_of(life.files, 2))
    numbers = (0, 1, 2, 3)
    xr.testing.assert_equal(
        life.values(), opened_files(path_of(life.files, number) for number in numbers)
    )
    found = life.results().references["/sst"]
    assert {found[1 + at, *index] for at, *index in before.references["/sst"]} == {
        *before.references["/sst"].values()
    }


def test_a_change_that_was_undone_is_taken_in_again_when_asked_for(
    start: Callable[..., Life],
) -> None:
    life = start()
    life.grow(0, 1)
    change_day(life.files, 1, SMALL)
    life.run()
    changed = life.results()
    life.undo(2)
    assert life.results().references != changed.references
    life.run(include_undone=True)
    assert life.results().references == changed.references
    xr.testing.assert_equal(life.values(), opened_files(life.files.iterdir()))


def test_removed_files_are_restored_and_not_removed_again(start: Callable[..., Life]) -> None:
    life = start(policies={"on_vanished": OnVanished.REMOVE})
    life.grow(0, 1, 2)
    before = life.results()
    content = path_of(life.files, 1).read_bytes()
    path_of(life.files, 1).unlink()
    life.run()
    assert life.values().sizes["time"] == 2
    life.undo(2)
    assert life.results().references == before.references
    assert life.run().is_empty
    path_of(life.files, 1).write_bytes(content)
    life.run()
    xr.testing.assert_equal(life.values(), opened_files(life.files.iterdir()))


def test_a_file_that_broke_keeps_its_old_references_after_the_undo(
    start: Callable[..., Life],
) -> None:
    life = start()
    life.grow(0, 1)
    before = life.results()
    cut_short(path_of(life.files, 1))
    life.run()
    assert life.values().sizes["time"] == 1
    life.undo(2)
    assert life.results().references == before.references
    assert life.run().is_empty


def test_files_that_later_runs_touched_stay(start: Callable[..., Life]) -> None:
    life = start()
    life.grow(0, 1)
    life.grow(2, 3)
    change_day(life.files, 2, SMALL)
    life.run()
    report = life.undo(2)
    assert report.num_undone == 1
    assert "1 files touched again by later runs" in report.text()
    xr.testing.assert_equal(
        life.values(), opened_files(path_of(life.files, number) for number in (0, 1, 2))
    )


def test_runs_are_undone_one_after_the_other(start: Callable[..., Life]) -> None:
    life = start()
    life.grow(0)
    before = life.results()
    life.grow(1)
    change_day(life.files, 1, SMALL)
    life.run()
    life.undo(3)
    life.undo(2)
    assert life.results().references == before.references
    life.undo(1)
    assert life.results().references == {}
    assert life.run().is_empty
    life.run(include_undone=True)
    xr.testing.assert_equal(life.values(), opened_files(life.files.iterdir()))


def test_an_era_that_was_undone_is_gone(start: Callable[..., Life]) -> None:
    life, never = (
        start(name, policies={"on_mismatch": OnMismatch.ERA}) for name in ("one", "never")
    )
    life.grow(0, 1)
    life.grow(2, 3, form=COARSE)
    life.undo(2)
    never.grow(0, 1)
    require_same(life, never)


def test_copies_of_files_of_another_form_come_back(start: Callable[..., Life]) -> None:
    life = start(policies={"on_mismatch": OnMismatch.MATERIALISE})
    write_days(life.files, [0, 1, 2], SMALL)
    life.grow(3, form=COARSE)
    before = life.values()
    change_day(life.files, 3, COARSE)
    life.run()
    assert not life.values().equals(before)
    life.undo(2)
    xr.testing.assert_identical(life.values(), before)  # copies do not need the file


def test_attributes_do_not_stay_those_of_a_file_that_is_undone(
    start: Callable[..., Life],
) -> None:
    life, never = start("one"), start("never")
    life.grow(1, 2)
    odd = Form(shape=(4, 6), chunks=(2, 3), variables=("sst", "ice"))
    write_day(life.files, 0, odd)
    _set_title(path_of(life.files, 0), "another title")
    life.run()
    assert life.results().documents["/"]["attributes"]["title"] == "another title"
    life.grow(3)
    life.undo(2)
    never.grow(1, 2, 3)
    require_same(life, never)


def _set_title(path: Path, title: str) -> None:
    stat = path.stat()
    with h5py.File(path, "r+") as file:
        file.attrs["title"] = title
        file.attrs["comment"] = title
        file["sst"].attrs["long_name"] = title
    os.utime(path, (stat.st_atime, stat.st_mtime))


def test_another_file_supplies_what_is_the_same_in_all(
    start: Callable[..., Life], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_SMALL_CONSTANT", 0)  # nothing is copied to be compared
    combine = Combination(along=(Axis(dimension="time"),), constant=("mask",))
    life, never = (start(name, combine=combine) for name in ("one", "never"))
    for folder in (life.files, never.files):
        for path in write_days(folder, [0, 1, 2], SMALL):
            _add_mask(path)
    later = [path_of(life.files, number).rename(life.files / str(number)) for number in (1, 2)]
    life.run()
    for path, number in zip(later, (1, 2), strict=True):
        path.rename(path_of(life.files, number))
    life.run()
    report = life.undo(1)
    assert report.num_scanned == 1
    path_of(never.files, 0).unlink()
    never.run()
    require_same(life, never)


def _add_mask(path: Path) -> None:
    stat = path.stat()
    with h5py.File(path, "r+") as file:
        mask = file.create_dataset("mask", data=np.eye(4, 6, dtype="i2"), chunks=(2, 3))
        for axis, dimension in enumerate(("lat", "lon")):
            mask.dims[axis].attach_scale(file[dimension])
    os.utime(path, (stat.st_atime, stat.st_mtime))


# -- what is refused ------------------------------------------------------------------------------


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    patch_quick_scans(monkeypatch)
    return Life(tmp_path / "life")


def test_a_dry_run_tells_and_changes_nothing(life: Life) -> None:
    life.grow(0, 1)
    life.grow(2)
    before = life.results()
    report = life.undo(2, dry_run=True)
    assert report.num_undone == 1
    assert report.run is None
    assert "would take 1 files back; nothing was changed" in report.text()
    assert life.results() == before


def test_nothing_is_undone_twice(life: Life) -> None:
    life.grow(0, 1)
    life.grow(2)
    change_day(life.files, 1, SMALL)
    life.run()
    for number in (2, 3):
        life.undo(number)
        with pytest.raises(SessionStateError, match=f"run {number} of sst: it is already undone"):
            life.undo(number)
    with pytest.raises(SessionStateError, match="run 4 of sst took another one back"):
        life.undo(4)
    with pytest.raises(NotFoundError, match="no run 6: there are runs 1 to 5"):
        life.undo(6)


def test_files_that_were_taken_in_again_belong_to_the_later_run(life: Life) -> None:
    life.grow(0, 1)
    life.grow(2)
    life.undo(2)
    life.run(include_undone=True)
    with pytest.raises(SessionStateError, match="later runs have touched all its files"):
        life.undo(2)
    life.undo(4)
    assert life.values().sizes["time"] == 2


def test_an_archive_that_was_never_run_has_nothing_to_undo(life: Life) -> None:
    with pytest.raises(NotFoundError, match="the archive sst was never ingested"):
        life.undo(1)
    assert life.places.repository is not None
    assert not [*life.places.repository.list()]


def test_references_that_have_expired_cannot_be_restored(life: Life) -> None:
    life.grow(0, 1)
    change_day(life.files, 1, SMALL)
    life.grow(2)
    life.grow(3)
    repository = open_archive(life.archive, life.places).repository
    repository.expire_snapshots(datetime.now(UTC) + timedelta(hours=1))
    with pytest.raises(NotFoundError, match=r"last run before run 2 has expired.*sst-2024"):
        life.undo(2)
    life.undo(3)  # needs none
    assert life.values().sizes["time"] == 3


def test_listings_of_a_run_that_came_no_further_are_left_to_the_next_run(life: Life) -> None:
    life.grow(0, 1)
    life.grow(2)
    write_days(life.files, [3], SMALL)

    def stop(step: RunStep) -> None:
        if step is RunStep.INVENTORIED:
            raise ConflictError("stopped")

    with pytest.raises(ConflictError, match="stopped"):
        life.run(after_step=stop)
    life.undo(2)
    assert life.run().num_new == 1
    numbers = (0, 1, 3)
    xr.testing.assert_equal(
        life.values(), opened_files(path_of(life.files, number) for number in numbers)
    )


def test_an_undo_that_was_cut_off_before_the_ledger_moved_is_finished(life: Life) -> None:
    life.grow(0, 1)
    life.grow(2)

    def stop(step: RunStep) -> None:
        if step is RunStep.COMMITTED:
            raise ConflictError("stopped")

    with pytest.raises(ConflictError, match="stopped"):
        life.undo(2, after_step=stop)
    assert life.run().is_empty
    assert life.results().committed == [1, 2, 3]
    assert life.values().sizes["time"] == 2
