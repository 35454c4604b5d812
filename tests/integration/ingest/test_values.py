"""Runs over files of every format: what the repository holds is what is in the files."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import eccodes
import h5py
import numpy as np
import numpy.typing as npt
import pytest
import tifffile
import xarray as xr
from tests.archive_builders import Form, daily_archive, opened_files, write_day, write_days
from tests.foreign_files import write_netcdf3
from tests.ingested_archives import ArchiveOnDisk, opened

from icestream.ingest.declaration.archives import Archive, Axis, Combination, PlaceBy, Target

MESSAGE_HOURS = (0, 6, 12)


@pytest.fixture
def on_disk(tmp_path: Path) -> ArchiveOnDisk:
    return ArchiveOnDisk(tmp_path)


def archive(on_disk: ArchiveOnDisk, **combination: Any) -> Archive:
    return Archive(
        name="samples",
        sources=(f"{on_disk.files}/*",),
        combine=Combination(**combination),
        target=Target(repository=str(on_disk.repository)),
    )


def each_a_group(on_disk: ArchiveOnDisk) -> Archive:
    return archive(on_disk, group_per_file=r"(?P<group>[^/.]+)\.\w+$")


def sample(package: str, *parts: str) -> bytes:
    """Return a file that somebody else made, and an installed package brought."""
    found = files(package).joinpath(*parts)
    if not found.is_file():
        pytest.skip(f"this version of {package} does not bring {parts[-1]}")
    return found.read_bytes()


# -- NetCDF4 and HDF5 ------------------------------------------------------------------------------


def test_daily_netcdf4_files_become_one_dataset(on_disk: ArchiveOnDisk) -> None:
    paths = write_days(on_disk.files, range(15))
    on_disk.run(daily_archive(on_disk.files, on_disk.repository))
    for store in on_disk.stores():
        xr.testing.assert_equal(opened(store), opened_files(paths))


def test_a_variable_that_appears_later_is_missing_before(on_disk: ArchiveOnDisk) -> None:
    paths = write_days(on_disk.files, range(4))
    paths += write_days(on_disk.files, range(4, 7), Form(variables=("sst", "ice")))
    on_disk.run(daily_archive(on_disk.files, on_disk.repository))
    for store in on_disk.stores():
        found = opened(store)
        assert found.ice[:4].isnull().all()
        xr.testing.assert_equal(found, opened_files(paths))


def test_unpacked_values_keep_every_bit(on_disk: ArchiveOnDisk) -> None:
    form = Form(dtype="f4", chunks=(36, 72))
    paths = [write_day(on_disk.files, number, form) for number in range(3)]
    on_disk.run(daily_archive(on_disk.files, on_disk.repository))
    for store in on_disk.stores():
        xr.testing.assert_equal(opened(store), opened_files(paths))


def test_hdf5_of_other_programs_equals_what_h5py_reads(on_disk: ArchiveOnDisk) -> None:
    path = on_disk.files / "complex.h5"
    path.write_bytes(sample("h5py", "tests", "data_files", "compound-dtype-complex.h5"))
    on_disk.run(each_a_group(on_disk))
    with h5py.File(path) as file:
        expected = {name: dataset[:] for name, dataset in file.items()}
    for store in on_disk.stores():
        found = opened(store, group="complex")
        assert set(found.variables) == set(expected)
        for name, values in expected.items():
            assert np.array_equal(found[name].values, values)


# -- NetCDF3 ---------------------------------------------------------------------------------------


def test_netcdf3_equals_the_file(on_disk: ArchiveOnDisk) -> None:
    expected = write_netcdf3(on_disk.files / "classic.nc")
    on_disk.run(each_a_group(on_disk))
    for store in on_disk.stores():
        found = opened(store, group="classic", decode_times=False)
        assert set(found.variables) == set(expected)
        for name, values in expected.items():
            assert np.array_equal(found[name].values, values)


def test_the_example_of_netcdf_equals_its_description(on_disk: ArchiveOnDisk) -> None:
    path = on_disk.files / "example.nc"
    path.write_bytes(sample("xarray", "tests", "data", "example_1.nc"))
    on_disk.run(archive(on_disk, along=(Axis(dimension="time"),)))
    for store in on_disk.stores():
        found = opened(store)
        assert found.time.values == [np.datetime64("1996-01-01T12", "ns")]
        assert found.lat.values.tolist() == [20, 30, 40, 50, 60]
        assert found.level.values.tolist() == [1000, 850, 700, 500]
        humidity = [0.5, 0.2, 0.4, 0.2, 0.3, 0.2, 0.4, 0.5, 0.6, 0.7]
        assert np.array_equal(found.rh[0, 0], np.array(humidity, "f4"))
        assert found.rh.attrs["long_name"] == "relative humidity"


# -- GRIB ------------------------------------------------------------------------------------------


def fields_of(path: Path) -> dict[tuple[Any, ...], npt.NDArray[Any]]:
    """Return the values of all messages as eccodes decodes them, by what tells them apart."""
    found = {}
    with path.open("rb") as file:
        while (handle := eccodes.codes_grib_new_from_file(file)) is not None:
            keys = ("shortName", "number", "dataDate", "dataTime", "level")
            name = tuple(eccodes.codes_get(handle, key) for key in keys)
            shape = eccodes.codes_get(handle, "Nj"), eccodes.codes_get(handle, "Ni")
            found[name] = eccodes.codes_get_values(handle).reshape(shape)
            eccodes.codes_release(handle)
    return found


def test_grib_of_other_programs_equals_what_eccodes_decodes(on_disk: ArchiveOnDisk) -> None:
    path = on_disk.files / "ensemble.grib"
    path.write_bytes(sample("xarray", "tests", "data", "example.grib"))
    on_disk.run(each_a_group(on_disk))
    expected = fields_of(path)
    assert len(expected) == 24
    for store in on_disk.stores():
        found = opened(store, group="ensemble/isobaricInhPa")
        for (name, number, date, hour, level), values in expected.items():
            time = np.datetime64(f"{date // 10000}-{date // 100 % 100:02}-{date % 100:02}", "ns")
            time += np.timedelta64(hour // 100, "h")
            field = found[name].sel(number=number, time=time, level=level).squeeze()
            assert np.array_equal(field.values, values)


def test_grib_files_are_put_along_time(on_disk: ArchiveOnDisk) -> None:
    expected = []
    for hour in MESSAGE_HOURS:
        handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
        eccodes.codes_set(handle, "dataTime", 100 * hour)
        eccodes.codes_set_values(handle, np.arange(496.0) * 0.25 + hour)
        expected.append(eccodes.codes_get_values(handle))
        with (on_disk.files / f"t{hour:02}.grib2").open("wb") as file:
            eccodes.codes_write(handle, file)
        eccodes.codes_release(handle)
    axis = Axis(dimension="time", coordinate="/surface/time")
    on_disk.run(archive(on_disk, along=(axis,)))
    for store in on_disk.stores():
        found = opened(store, group="surface")
        (name,) = found.data_vars
        assert found.time.dt.hour.values.tolist() == list(MESSAGE_HOURS)
        assert np.array_equal(found[name].values.reshape(3, -1), expected)


# -- TIFF ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"compression": "deflate"}, {"bigtiff": True}], ids=str)
def test_tiffs_are_put_along_a_dimension_of_their_names(
    on_disk: ArchiveOnDisk, options: dict[str, Any]
) -> None:
    random = np.random.default_rng(0)
    images = {year: random.integers(0, 255, (64, 96), "u1") for year in (2019, 2020, 2021)}
    for year, image in images.items():
        path = on_disk.files / f"landcover-{year}.tif"
        tifffile.imwrite(path, image, tile=(32, 32), **options)
    axis = Axis(
        dimension="year",
        by=PlaceBy.NAME,
        pattern=r"(?P<year>\d{4})\.tif",
        format="integer",
        new=True,
    )
    on_disk.run(archive(on_disk, along=(axis,)))
    for store in on_disk.stores():
        found = opened(store)
        assert found.year.values.tolist() == list(images)
        assert np.array_equal(found["image"].values, np.stack(list(images.values())))
