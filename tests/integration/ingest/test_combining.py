"""How files become one dataset, run after run: by what they say, and by what is declared."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tests.archive_builders import (
    FIRST_DAY,
    Form,
    daily_archive,
    day,
    opened_files,
    write_day,
    write_days,
)
from tests.followed_archives import (
    CHUNKS,
    SMALL,
    assert_as_at_once,
    assert_nothing_follows,
    combined,
    daily,
    found_in,
    statuses,
    versions,
)
from tests.ingested_archives import ArchiveOnDisk
from tests.run_results import results_of

from icestream.errors import InvalidInputError, SourceError
from icestream.ingest.declaration.archives import (
    Archive,
    Axis,
    Combination,
    OnMismatch,
    OnVanished,
    PlaceBy,
    Policies,
)
from icestream.model.chunk_refs import InlineRef, NativeRef, VirtualRef

pytestmark = pytest.mark.usefixtures("quick_runs")
OTHER_CHUNKS = Form(shape=(4, 6), chunks=(4, 3))
OTHER_SCALE = Form(shape=(4, 6), chunks=(2, 3), scale=0.02)


# -- files that disagree ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "named"),
    [(OTHER_CHUNKS, "chunk"), (OTHER_SCALE, "scale_factor")],
    ids=["chunks", "scale"],
)
def test_a_mismatch_names_files_and_attributes(
    on_disk: ArchiveOnDisk, form: Form, named: str
) -> None:
    archive = daily(on_disk)
    write_days(on_disk.files, range(3), SMALL)
    on_disk.run(archive)
    before = versions(archive)[:2]
    other = write_day(on_disk.files, 3, form)
    with pytest.raises(InvalidInputError, match=f"(?s){named}.*{other.name}|{other.name}.*{named}"):
        on_disk.run(archive)
    assert versions(archive)[:2] == before


def test_files_that_disagree_are_set_aside_where_that_is_the_policy(either: ArchiveOnDisk) -> None:
    archive = daily(either, policies={"on_mismatch": OnMismatch.SET_ASIDE})
    paths = write_days(either.files, range(3), SMALL)
    either.run(archive)
    other = write_day(either.files, 3, OTHER_CHUNKS)
    paths += write_days(either.files, [4], SMALL)
    report = either.run(archive)
    assert report.num_set_aside == 1
    assert statuses(archive) == {other.name: "set-aside", paths[-1].name: "ingested"}
    xr.testing.assert_equal(found_in(either), opened_files(paths))
    assert assert_nothing_follows(either, archive).num_set_aside == 1


def test_files_that_disagree_are_copied_where_that_is_the_policy(both_ways: ArchiveOnDisk) -> None:
    archive = daily(both_ways, policies={"on_mismatch": OnMismatch.MATERIALISE})
    paths = write_days(both_ways.files, [0, 1, 4, 5], SMALL)
    both_ways.run(archive)
    paths += write_days(both_ways.files, [2, 6], OTHER_CHUNKS)
    both_ways.run(archive)
    xr.testing.assert_equal(found_in(both_ways), opened_files(paths))
    paths += write_days(both_ways.files, [3], SMALL)
    report = both_ways.run(archive)
    assert report.num_scanned == 1
    xr.testing.assert_equal(found_in(both_ways), opened_files(paths))
    references = both_ways.ours().readonly_session("main").reference_table("/sst")
    kinds = [type(references.ref(row)) for row in range(len(references))]
    assert kinds.count(VirtualRef) == 5 * CHUNKS
    assert kinds.count(InlineRef) + kinds.count(NativeRef) == 2 * CHUNKS
    assert_nothing_follows(both_ways, archive)


def test_each_era_has_a_group(either: ArchiveOnDisk) -> None:
    archive = daily(either, policies={"on_mismatch": OnMismatch.ERA})
    old = write_days(either.files, range(3), SMALL)
    new = write_days(either.files, range(3, 6), OTHER_SCALE)
    either.run(archive)
    new += write_days(either.files, range(6, 8), OTHER_SCALE)
    either.run(archive)
    groups = sorted(results_of(archive).documents.keys() & eras(archive))
    first, second = (found_in(either, group=group) for group in groups)
    xr.testing.assert_equal(first, opened_files(old))
    xr.testing.assert_equal(second, opened_files(new))
    assert_nothing_follows(either, archive)


def eras(archive: Archive) -> set[str]:
    """Return the groups that hold a variable."""
    paths = results_of(archive).references
    return {path.rpartition("/")[0] or "/" for path in paths if path.endswith("/sst")}


# -- positions that cannot be ----------------------------------------------------------------------


def write_hours(folder: Path, name: str, hours: list[int], **coordinates: Any) -> Path:
    """Write a file of several times, with a variable that tells them."""
    path = folder / f"{name}.nc"
    folder.mkdir(parents=True, exist_ok=True)
    values = np.array(hours, "f4")[:, None] * 10 + np.arange(2, dtype="f4")
    dataset = xr.Dataset(
        {"height": (("time", "x"), values)},
        {"time": ("time", hours, {"units": f"hours since {FIRST_DAY}"}), **coordinates},
    )
    encoding = {"height": {"chunksizes": (1, 2)}}
    dataset.to_netcdf(path, engine="h5netcdf", encoding=encoding)
    return path


@pytest.mark.parametrize(
    ("hours", "told"),
    [
        ({"a": [0, 1], "b": [1, 2]}, r"files overlap.*a\.nc.*b\.nc"),
        ({"a": [0, 3], "b": [1, 2]}, r"time: files overlap.*a\.nc.*b\.nc"),
        ({"a": [0, 1], "b": [0, 1]}, r"several files have the same position.*a\.nc.*b\.nc"),
        ({"a": [0, 1], "b": [3, 2, 4]}, r"time: values are not sorted within files.*b\.nc"),
        ({"a": [0, 1], "b": [2, 2]}, r"time: values .* occur twice.*b\.nc"),
    ],
    ids=["overlapping", "interleaved", "duplicate", "unsorted", "repeated"],
)
def test_positions_that_cannot_be_are_explained(
    on_disk: ArchiveOnDisk, hours: dict[str, list[int]], told: str
) -> None:
    archive = combined(on_disk, Axis(dimension="time"))
    for name, values in hours.items():
        write_hours(on_disk.files, name, values)
    with pytest.raises(InvalidInputError, match=told):
        on_disk.run(archive)
    (on_disk.files / "b.nc").unlink()
    assert on_disk.run(archive).run == 1


# -- other declarations ----------------------------------------------------------------------------


def test_another_declaration_looks_at_all_files_again(either: ArchiveOnDisk) -> None:
    both = Form(shape=(4, 6), chunks=(2, 3), variables=("sst", "ice"))
    paths = write_days(either.files, range(4), both)
    either.run(daily(either))
    without = daily(either, drop=("ice",))
    report = either.run(without)
    assert report.num_scanned == 4
    assert "declaration" in report.notes[0]
    xr.testing.assert_equal(found_in(either), opened_files(paths).drop_vars("ice"))
    assert_nothing_follows(either, without)
    copied = daily(either, drop=("ice",), loaded=("sst",))
    assert either.run(copied).num_scanned == 4
    found = found_in(either)
    xr.testing.assert_equal(found, opened_files(paths).drop_vars("ice"))
    references = either.ours().readonly_session("main").reference_table("/sst")
    kinds = {type(references.ref(row)) for row in range(len(references))}
    assert VirtualRef not in kinds
    either.run(daily(either))
    xr.testing.assert_equal(found_in(either), opened_files(paths))
    results_of(daily(either))


def test_files_that_are_gone_cannot_follow_another_declaration(on_disk: ArchiveOnDisk) -> None:
    both = Form(shape=(4, 6), chunks=(2, 3), variables=("sst", "ice"))
    paths = write_days(on_disk.files, range(3), both)
    on_disk.run(daily(on_disk))
    gone = paths.pop(1)
    gone.unlink()
    on_disk.run(daily(on_disk))
    with pytest.raises(SourceError, match=f"{gone.name}.*on-vanished"):
        on_disk.run(daily(on_disk, drop=("ice",)))
    on_disk.run(daily(on_disk, drop=("ice",), policies={"on_vanished": OnVanished.REMOVE}))
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths).drop_vars("ice"))


def test_another_policy_is_no_reason_to_scan(on_disk: ArchiveOnDisk) -> None:
    write_days(on_disk.files, range(3), SMALL)
    on_disk.run(daily(on_disk))
    report = on_disk.run(daily(on_disk, policies={"on_vanished": OnVanished.REMOVE}))
    assert (report.num_scanned, report.snapshot) == (0, None)


def test_an_archive_does_not_move_to_another_group(on_disk: ArchiveOnDisk) -> None:
    write_days(on_disk.files, range(3), SMALL)
    on_disk.run(daily_archive(on_disk.files, on_disk.repository))
    moved = daily_archive(on_disk.files, on_disk.repository, target={"group": "/daily"})
    with pytest.raises(InvalidInputError, match="does not move"):
        on_disk.run(moved)


# -- other combinations ----------------------------------------------------------------------------


def test_each_file_is_a_group(on_disk: ArchiveOnDisk) -> None:
    by_group = Combination(group_per_file=r"(?P<group>\w+)\.nc$")
    archive = combined(on_disk, combine=by_group, policies=Policies(on_vanished=OnVanished.REMOVE))
    truth = {name: write_hours(on_disk.files, name, [0, 1]) for name in ("one", "two")}
    on_disk.run(archive)
    truth["three"] = write_hours(on_disk.files, "three", [5, 6, 7])
    report = on_disk.run(archive)
    assert report.num_scanned == 1
    truth.pop("one").unlink()
    on_disk.run(archive)
    paths = results_of(archive).documents
    assert {path for path in paths if path.count("/") == 1} == {"/", "/two", "/three"}
    for name, path in truth.items():
        expected = xr.load_dataset(path, engine="h5netcdf")
        xr.testing.assert_equal(found_in(on_disk, group=name), expected)
    assert_nothing_follows(on_disk, archive)


def write_tile(on_disk: ArchiveOnDisk, name: str, number: int, rows: slice) -> Path:
    """Write some latitudes of a day."""
    latitude = np.linspace(-60, 60, 6)[rows]
    values = number * 100 + latitude[:, None] + np.arange(3.0)
    path = on_disk.files / f"{name}-{number}-{rows.start}.nc"
    dataset = xr.Dataset(
        {name: (("time", "lat", "lon"), values[None])},
        {"time": [day(number).astype("M8[ns]")], "lat": latitude, "lon": np.arange(3.0)},
    )
    dataset.to_netcdf(path, engine="h5netcdf", encoding={name: {"chunksizes": (1, 2, 3)}})
    return path


def test_files_of_several_kinds_are_merged(either: ArchiveOnDisk) -> None:
    archive = combined(either, Axis(dimension="time"))
    kinds: dict[str, list[Path]] = {"sst": [], "wind": []}
    for numbers in ([0, 1, 4], [2], [3]):
        for name, paths in kinds.items():
            paths += [write_tile(either, name, number, slice(0, 6)) for number in numbers]
        either.run(archive)
    kinds["sst"] += [write_tile(either, "sst", 5, slice(0, 6))]
    either.run(archive)
    truth = xr.merge(
        [sorted_by_time(paths) for paths in kinds.values()], join="outer", compat="no_conflicts"
    )
    xr.testing.assert_equal(found_in(either), truth)
    assert_as_at_once(either, archive)


def sorted_by_time(paths: list[Path]) -> xr.Dataset:
    return opened_files(paths).sortby("time")


def test_tiles_are_put_along_two_dimensions(both_ways: ArchiveOnDisk) -> None:
    archive = combined(both_ways, Axis(dimension="time"), Axis(dimension="lat"))
    north, south = slice(2, 6), slice(0, 2)
    paths: list[Path] = []
    for number, rows in [(0, north), (2, north), (2, south), (0, south), (1, north), (1, south)]:
        paths.append(write_tile(both_ways, "sst", number, rows))
        both_ways.run(archive)
        truth = xr.combine_by_coords(
            [xr.load_dataset(path, engine="h5netcdf") for path in paths],
            join="outer",
            combine_attrs="override",
        )
        xr.testing.assert_equal(found_in(both_ways), truth)
    assert_as_at_once(both_ways, archive)


def test_names_tell_a_dimension_that_files_lack(either: ArchiveOnDisk) -> None:
    axis = Axis(
        dimension="member", by=PlaceBy.NAME, pattern=r"-(?P<member>\d+)", format="integer", new=True
    )
    archive = combined(either, axis)
    for members in ([2, 10], [1], [30, 3]):
        for member in members:
            write_hours(either.files, f"run-{member}", [0, 1])
        either.run(archive)
    found = found_in(either)
    assert found.member.values.tolist() == [1, 2, 3, 10, 30]
    for member in found.member.values.tolist():
        path = either.files / f"run-{member}.nc"
        expected = xr.load_dataset(path, engine="h5netcdf")
        assert np.array_equal(found.height.sel(member=member).values, expected.height.values)
    assert_as_at_once(either, archive)
