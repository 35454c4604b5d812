"""Files that xarray writes become a repository, whose values are those of the files."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tests.followed_archives import combined, found_in
from tests.ingested_archives import ArchiveOnDisk, opened

from icestream.errors import InvalidInputError
from icestream.ingest.declaration.archives import Axis, OnMismatch, OnVanished, PlaceBy, Policies

pytestmark = pytest.mark.usefixtures("quick_runs")

TIME = Axis(dimension="time")


def day(number: int) -> np.datetime64:
    return np.datetime64("2020-02-20") + np.timedelta64(number, "D")


def dataset(number: int) -> xr.Dataset:
    rng = np.random.default_rng(number)
    time = np.array([day(number)], "M8[ns]")
    sst = rng.normal(280, 5, (1, 6, 8)).astype("f4")
    return xr.Dataset(
        {
            "sst": (("time", "lat", "lon"), sst, {"units": "K"}),
            "count": (("time", "lat"), rng.integers(0, 9, (1, 6), "i4")),
            "crs": ((), np.int32(4326), {"grid_mapping_name": "latitude_longitude"}),
        },
        coords={"time": time, "lat": np.linspace(-50, 50, 6), "lon": np.arange(8.0)},
        attrs={"title": "daily fields"},
    )


def save(folder: Path, number: int, content: xr.Dataset, **encoding: Any) -> Path:
    path = folder / f"sst_{day(number)}.nc"
    defaults: dict[str, Any] = {
        "sst": {"chunksizes": (1, 3, 4), "zlib": True, "shuffle": True},
        "time": {"units": f"hours since {day(number)} 00:00:00", "dtype": "f8"},
    }
    known = {name: options for name, options in {**defaults, **encoding}.items() if name in content}
    content.to_netcdf(path, engine="h5netcdf", encoding=known)
    return path


def concatenated(paths: Iterable[Path]) -> xr.Dataset:
    parts = [xr.load_dataset(path, engine="h5netcdf") for path in paths]
    together: xr.Dataset = xr.concat(
        parts, "time", data_vars="minimal", coords="minimal", compat="override", join="exact"
    )
    return together


@pytest.fixture
def daily(on_disk: ArchiveOnDisk) -> Callable[[Iterable[int]], list[Path]]:
    return lambda numbers: [save(on_disk.files, number, dataset(number)) for number in numbers]


def test_thirty_files_are_one_dataset_with_the_values_of_the_files(daily, on_disk):
    paths = daily(range(30))
    on_disk.run(combined(on_disk, TIME))
    xr.testing.assert_identical(found_in(on_disk), concatenated(paths))


def test_a_missing_leap_day_reads_as_fill_values(daily, on_disk):
    leap_day = 9
    paths = daily([number for number in range(12) if number != leap_day])
    on_disk.run(combined(on_disk, Axis(dimension="time", step="1 day")))
    found = found_in(on_disk)
    assert found.sizes["time"] == 12
    assert found.time.values[leap_day] == np.datetime64("2020-02-29")
    assert found.sst[leap_day].isnull().all()
    xr.testing.assert_equal(
        found.drop_isel(time=leap_day), concatenated(paths).assign_coords(lat=found.lat)
    )


def test_a_late_file_gets_its_place_on_the_next_run(daily, on_disk):
    early = daily([0, 1, 3, 4])
    on_disk.run(combined(on_disk, TIME))
    xr.testing.assert_identical(found_in(on_disk), concatenated(early))
    late = daily([2])
    on_disk.run(combined(on_disk, TIME))
    xr.testing.assert_identical(found_in(on_disk), concatenated(sorted([*early, *late])))


def test_a_scalar_that_differs_between_files_may_be_left_out(daily, on_disk):
    paths = daily(range(3))
    for number in range(3):
        save(on_disk.files, number, dataset(number).assign(run=number))
    with pytest.raises(InvalidInputError, match="/run: files differ in values"):
        on_disk.run(combined(on_disk, TIME))
    on_disk.run(combined(on_disk, TIME, drop=("run",)))
    xr.testing.assert_identical(found_in(on_disk), concatenated(paths).drop_vars("run"))


def test_a_vanished_file_leaves_fill_values_behind(daily, on_disk):
    paths = daily(range(4))
    policies = Policies(on_vanished=OnVanished.REMOVE)
    declared = combined(on_disk, Axis(dimension="time", step="1 day"), policies=policies)
    on_disk.run(declared)
    assert not found_in(on_disk).sst[1].isnull().any()
    paths[1].unlink()
    on_disk.run(declared)
    assert found_in(on_disk).sst[1].isnull().all()


def test_files_without_the_dimension_get_it_from_their_names(daily, on_disk):
    paths = daily(range(4))
    flat = [xr.load_dataset(path, engine="h5netcdf").isel(time=0, drop=True) for path in paths]
    for number, content in enumerate(flat):
        save(on_disk.files, number, content, sst={"chunksizes": (3, 4)})
    axis = Axis(
        dimension="time",
        by=PlaceBy.NAME,
        pattern=r"(?P<time>\d{4}-\d\d-\d\d)",
        format="%Y-%m-%d",
        new=True,
    )
    on_disk.run(combined(on_disk, axis, loaded=("crs",)))
    found = found_in(on_disk)
    assert found.time.values.tolist() == [day(n).astype("M8[ns]").item() for n in range(4)]
    expected = xr.concat([part[["sst", "count"]] for part in flat], "time", join="exact")
    xr.testing.assert_equal(found[["sst", "count"]].drop_vars("time"), expected)
    assert found.crs.item() == 4326


def test_texts_in_names_become_a_coordinate(daily, on_disk):
    paths = daily(range(2))
    named = [
        path.rename(path.with_name(f"{name}.nc")) for path, name in zip(paths, "ba", strict=True)
    ]
    axis = Axis(
        dimension="run", by=PlaceBy.NAME, pattern=r"(?P<run>\w+)\.nc", format="text", new=True
    )
    with pytest.raises(InvalidInputError, match="/time"):  # which is not the same in both
        on_disk.run(combined(on_disk, axis, loaded=("crs",)))
    for path in named:
        content = xr.load_dataset(path, engine="h5netcdf").isel(time=0, drop=True)
        content.to_netcdf(path, engine="h5netcdf")
    on_disk.run(combined(on_disk, axis, loaded=("crs",)))
    assert found_in(on_disk).run.values.tolist() == ["a", "b"]


def test_eras_are_groups_that_open_alone(daily, on_disk):
    paths = daily(range(3))
    later = [
        save(on_disk.files, number, dataset(number), sst={"chunksizes": (1, 6, 8)})
        for number in (3, 4)
    ]
    with pytest.raises(InvalidInputError, match="chunk shape"):
        on_disk.run(combined(on_disk, TIME))
    policies = Policies(on_mismatch=OnMismatch.ERA)
    on_disk.run(combined(on_disk, TIME, policies=policies))
    xr.testing.assert_equal(found_in(on_disk, group="era-2020-02-20"), concatenated(paths))
    xr.testing.assert_equal(found_in(on_disk, group="era-2020-02-23"), concatenated(later))


def test_packed_values_of_another_scale_are_refused(daily, on_disk):
    paths = daily(range(2))
    packed = {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -9999, "chunksizes": (1, 3, 4)}
    for number, scale in enumerate((0.01, 0.02)):
        save(on_disk.files, number, dataset(number), sst={**packed, "scale_factor": scale})
    with pytest.raises(InvalidInputError, match="scale_factor") as caught:
        on_disk.run(combined(on_disk, TIME))
    assert str(paths[1]) in caught.value.message


def test_packed_values_of_one_scale_are_read_as_from_the_files(daily, on_disk):
    paths = daily(range(3))
    for number in range(3):
        packed = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -9999}
        content = dataset(number)
        content["sst"][0, 0, 0] = np.nan
        save(on_disk.files, number, content, sst={**packed, "chunksizes": (1, 3, 4)})
    on_disk.run(combined(on_disk, TIME))
    xr.testing.assert_equal(found_in(on_disk), concatenated(paths))


def test_bounds_that_count_like_their_coordinate_are_encoded_with_it(daily, on_disk):
    paths = daily(range(3))
    for number in range(3):
        content = dataset(number)
        edges = np.array([[day(number), day(number + 1)]], "M8[ns]")
        content["time_bnds"] = (("time", "nv"), edges)
        content["time"].attrs["bounds"] = "time_bnds"
        save(on_disk.files, number, content)
    on_disk.run(combined(on_disk, TIME, loaded=("time_bnds",)))
    xr.testing.assert_equal(found_in(on_disk), concatenated(paths))


def test_the_icechunk_library_reads_the_same(daily, on_disk):
    paths = daily(range(4))
    on_disk.run(combined(on_disk, TIME))
    _, theirs = on_disk.stores()
    xr.testing.assert_identical(opened(theirs), concatenated(paths))
