"""An archive lives: files arrive, come late, change, break and vanish between runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from tests.archive_builders import (
    Form,
    change_day,
    cut_short,
    daily_archive,
    number_of,
    opened_files,
    path_of,
    write_day,
    write_days,
    write_error_page,
)
from tests.ingested_archives import ArchiveOnDisk, opened

from icestream.errors import InvalidInputError, NotFoundError, ObjectChangedError
from icestream.ingest.declaration.archives import Archive, OnMismatch, OnVanished
from icestream.ingest.publishing.steps import RunStep
from icestream.ingest.runs import run_archive
from icestream.ingest.statuses import archive_status

LEAP_DAY = number_of("2024-02-29")


@pytest.fixture
def on_disk(tmp_path: Path) -> ArchiveOnDisk:
    return ArchiveOnDisk(tmp_path)


def daily(on_disk: ArchiveOnDisk, **settings: object) -> Archive:
    return daily_archive(on_disk.files, on_disk.repository, **settings)


def found_in(on_disk: ArchiveOnDisk, group: str | None = None) -> xr.Dataset:
    """Return what both libraries read, which must be the same."""
    ours, theirs = (opened(store, group=group) for store in on_disk.stores())
    xr.testing.assert_identical(theirs, ours)
    return ours


def tip(on_disk: ArchiveOnDisk) -> str:
    return on_disk.ours().lookup_branch("main")


def test_a_growing_archive_is_appended_to(on_disk: ArchiveOnDisk) -> None:
    paths = write_days(on_disk.files, range(5))
    on_disk.run(daily(on_disk))
    for first in (5, 8, 11):
        paths += write_days(on_disk.files, range(first, first + 3))
        on_disk.run(daily(on_disk))
        xr.testing.assert_equal(found_in(on_disk), opened_files(paths))


def test_a_run_that_finds_nothing_new_makes_no_version(on_disk: ArchiveOnDisk) -> None:
    write_days(on_disk.files, range(3))
    on_disk.run(daily(on_disk))
    before = tip(on_disk)
    objects = {path for path in on_disk.repository.rglob("*") if path.is_file()}
    on_disk.run(daily(on_disk))
    assert tip(on_disk) == before
    assert {path for path in on_disk.repository.rglob("*") if path.is_file()} == objects


def test_a_late_file_gets_its_place(on_disk: ArchiveOnDisk) -> None:
    paths = write_days(on_disk.files, [0, 1, 4, 5])
    on_disk.run(daily(on_disk))
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths))
    paths += write_days(on_disk.files, [3])
    on_disk.run(daily(on_disk))
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths))


def test_a_missing_leap_day_is_room_until_it_comes(on_disk: ArchiveOnDisk) -> None:
    numbers = range(LEAP_DAY - 2, LEAP_DAY + 3)
    write_days(on_disk.files, [number for number in numbers if number != LEAP_DAY])
    on_disk.run(daily(on_disk, step="1 day"))
    found = found_in(on_disk)
    assert found.time.values[2] == np.datetime64("2024-02-29T12", "ns")
    assert found.sst[2].isnull().all()
    paths = write_days(on_disk.files, numbers)
    on_disk.run(daily(on_disk, step="1 day"))
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths))


def test_a_changed_file_is_refused_until_the_next_run(on_disk: ArchiveOnDisk) -> None:
    paths = write_days(on_disk.files, range(4))
    on_disk.run(daily(on_disk))
    before = opened_files(paths)
    change_day(on_disk.files, 2)
    with pytest.raises(ObjectChangedError, match=path_of(on_disk.files, 2).name):
        opened(on_disk.ours().readonly_session("main").store)
    on_disk.run(daily(on_disk))
    found = found_in(on_disk)
    xr.testing.assert_equal(found, opened_files(paths))
    assert not found.sst[2].equals(before.sst[2])


def test_broken_files_are_set_aside_until_they_are_whole(on_disk: ArchiveOnDisk) -> None:
    good = write_days(on_disk.files, [0, 1, 3])
    cut_short(write_day(on_disk.files, 2))
    write_error_page(path_of(on_disk.files, 4))
    on_disk.run(daily(on_disk))
    xr.testing.assert_equal(found_in(on_disk), opened_files(good))
    paths = [*good, *write_days(on_disk.files, [2, 4])]
    on_disk.run(daily(on_disk))
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths))


def test_a_vanished_file_leaves_when_it_is_asked_to(on_disk: ArchiveOnDisk) -> None:
    paths = write_days(on_disk.files, range(5))
    on_disk.run(daily(on_disk))
    paths.pop(1).unlink()
    on_disk.run(daily(on_disk))
    assert found_times(on_disk) == 5  # kept, though its values are gone
    on_disk.run(daily(on_disk, policies={"on_vanished": OnVanished.REMOVE}))
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths))


def found_times(on_disk: ArchiveOnDisk) -> int:
    store = on_disk.ours().readonly_session("main").store
    return int(xr.open_zarr(store, consolidated=False, chunks=None).sizes["time"])


def test_a_new_era_begins_in_a_later_run(on_disk: ArchiveOnDisk) -> None:
    declared = daily(on_disk, policies={"on_mismatch": OnMismatch.ERA})
    old = write_days(on_disk.files, range(3))
    on_disk.run(declared)
    new = write_days(on_disk.files, range(3, 6), Form(chunks=(36, 36), scale=0.02))
    on_disk.run(declared)
    # what is published stays where it is: only the new era gets a group
    [group] = zarr.open_group(next(on_disk.stores()), mode="r").group_keys()
    xr.testing.assert_equal(found_in(on_disk), opened_files(old))
    xr.testing.assert_equal(found_in(on_disk, group), opened_files(new))


def test_files_of_another_form_are_copied_where_that_is_asked_for(on_disk: ArchiveOnDisk) -> None:
    declared = daily(on_disk, policies={"on_mismatch": OnMismatch.MATERIALISE})
    paths = write_days(on_disk.files, range(3))
    paths += write_days(on_disk.files, [3], Form(chunks=(36, 36)))
    on_disk.run(declared)
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths))


def test_many_runs_give_what_one_run_gives(tmp_path: Path) -> None:
    in_steps, at_once = (ArchiveOnDisk(tmp_path / name) for name in ("in-steps", "at-once"))
    for numbers in ([4, 5], [0], [2], [1, 7], [3]):
        write_days(in_steps.files, numbers)
        in_steps.run(daily(in_steps))
    write_days(at_once.files, [0, 1, 2, 3, 4, 5, 7])
    at_once.run(daily(at_once))
    xr.testing.assert_identical(found_in(in_steps), found_in(at_once))


def test_what_others_say_about_an_array_survives_the_next_run(on_disk: ArchiveOnDisk) -> None:
    write_days(on_disk.files, range(2))
    on_disk.run(daily(on_disk))
    with on_disk.ours().transaction("main", message="a note") as store:
        group = zarr.open_group(store)
        group.attrs["owner"] = "somebody"
        group["sst"].attrs["comment"] = "checked"
        group["sst"].attrs["long_name"] = "a better name"
    write_days(on_disk.files, range(2, 4))
    on_disk.run(daily(on_disk))

    found = found_in(on_disk)
    assert found.sizes["time"] == 4
    assert found.attrs["owner"] == "somebody"
    assert found["sst"].attrs["comment"] == "checked"
    assert found["sst"].attrs["long_name"] == "a better name"


def test_a_first_run_that_fails_leaves_no_repository(on_disk: ArchiveOnDisk) -> None:
    """So nothing of a declaration that was wrong is in the way of the corrected one."""
    first = write_days(on_disk.files, range(2))
    other = write_days(on_disk.files, [2], Form(chunks=(36, 72)))
    with pytest.raises(InvalidInputError, match="chunk shape"):
        on_disk.run(daily(on_disk))
    assert not on_disk.repository.exists()
    with pytest.raises(NotFoundError, match="was never ingested"):
        archive_status(daily(on_disk))
    declared = daily(on_disk, container="files", policies={"on_mismatch": OnMismatch.MATERIALISE})
    assert on_disk.run(declared).run == 1
    xr.testing.assert_equal(found_in(on_disk), opened_files([*first, *other]))


def test_a_first_run_without_a_file_that_can_be_read_is_a_run(on_disk: ArchiveOnDisk) -> None:
    broken = write_error_page(path_of(on_disk.files, 0))
    assert on_disk.run(daily(on_disk)).num_set_aside == 1
    assert [url for url, _ in archive_status(daily(on_disk)).set_aside] == [broken.as_uri()]


def test_what_is_in_the_way_of_a_repository_is_told_before_files_are_scanned(
    on_disk: ArchiveOnDisk,
) -> None:
    write_days(on_disk.files, range(1))
    on_disk.repository.mkdir()
    (on_disk.repository / "thesis.txt").write_text("my only copy")
    steps: list[RunStep] = []
    with pytest.raises(InvalidInputError, match="holds other objects"):
        run_archive(daily(on_disk), after_step=steps.append)
    assert steps == []


def test_a_mistyped_source_leaves_nothing_behind(on_disk: ArchiveOnDisk) -> None:
    declared = replace(daily(on_disk), sources=(f"{on_disk.files}/nothing-*.nc",))
    write_days(on_disk.files, range(1))
    with pytest.raises(NotFoundError, match="nothing-"):
        on_disk.run(declared)
    assert {path.name for path in on_disk.files.parent.iterdir()} == {on_disk.files.name}
