"""NetCDF files become a repository, whose values are those of the files."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tests.ingest_builders import archive

from icestream.errors import InvalidInputError
from icestream.ingest.declaration.archives import Archive, Axis, OnMismatch, PlaceBy, Policies
from icestream.ingest.facts import facts_of
from icestream.ingest.file_columns import gather
from icestream.ingest.placement.placing import place_files
from icestream.ingest.writing import write_placement
from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer
from icestream.model.object_stores import ObjectStoreConfig
from icestream.parsers.scanning import scan_file
from icestream.repository.repository import Repository
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage

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


def repository_for(folder: Path, storage: Any = None) -> Repository:
    prefix = f"file://{folder}/"
    config = RepositoryConfig.default()
    store = ObjectStoreConfig.LocalFileSystem(str(folder))
    config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store, "archive"))
    return Repository.create(
        storage or InMemoryStorage(), config=config, authorize_virtual_chunk_access={prefix: None}
    )


def ingest(repo: Repository, declared: Archive, paths: Iterable[Path]) -> None:
    files = [scan_file(str(path), loading=declared.loading) for path in paths]
    placement = place_files(gather(facts_of(file, declared) for file in files), declared)
    session = repo.writable_session("main")
    write_placement(session, placement, files, group=declared.target.group)
    session.commit("ingest")


def opened(repo: Repository, group: str | None = None) -> xr.Dataset:
    store = repo.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False, chunks=None)
    return found.load()


def concatenated(paths: Iterable[Path]) -> xr.Dataset:
    parts = [xr.load_dataset(path, engine="h5netcdf") for path in paths]
    together: xr.Dataset = xr.concat(
        parts, "time", data_vars="minimal", coords="minimal", compat="override", join="exact"
    )
    return together


@pytest.fixture
def daily(tmp_path: Path) -> Callable[[Iterable[int]], list[Path]]:
    folder = tmp_path / "archive"
    folder.mkdir()
    return lambda numbers: [save(folder, number, dataset(number)) for number in numbers]


def test_thirty_files_are_one_dataset_with_the_values_of_the_files(daily):
    paths = daily(range(30))
    repo = repository_for(paths[0].parent)
    ingest(repo, archive(TIME), reversed(paths))
    xr.testing.assert_identical(opened(repo), concatenated(paths))


def test_a_missing_leap_day_reads_as_fill_values(daily):
    leap_day = 9
    paths = daily([number for number in range(12) if number != leap_day])
    repo = repository_for(paths[0].parent)
    ingest(repo, archive(Axis(dimension="time", step="1 day")), paths)
    found = opened(repo)
    assert found.sizes["time"] == 12
    assert found.time.values[leap_day] == np.datetime64("2020-02-29")
    assert found.sst[leap_day].isnull().all()
    xr.testing.assert_equal(
        found.drop_isel(time=leap_day), concatenated(paths).assign_coords(lat=found.lat)
    )


def test_a_late_file_gets_its_place_on_the_next_run(daily):
    paths = daily(range(5))
    repo = repository_for(paths[0].parent)
    ingest(repo, archive(TIME), [*paths[:2], *paths[3:]])
    ingest(repo, archive(TIME), paths)
    xr.testing.assert_identical(opened(repo), concatenated(paths))


def test_a_scalar_that_differs_between_files_may_be_left_out(daily):
    paths = daily(range(3))
    for number in range(3):
        save(paths[0].parent, number, dataset(number).assign(run=number))
    repo = repository_for(paths[0].parent)
    with pytest.raises(InvalidInputError, match="/run: files differ in values"):
        ingest(repo, archive(TIME), paths)
    ingest(repo, archive(TIME, drop=("run",)), paths)
    xr.testing.assert_identical(opened(repo), concatenated(paths).drop_vars("run"))


def test_a_vanished_file_leaves_fill_values_behind(daily):
    paths = daily(range(4))
    repo = repository_for(paths[0].parent)
    declared = archive(Axis(dimension="time", step="1 day"))
    ingest(repo, declared, paths)
    assert not opened(repo).sst[1].isnull().any()
    ingest(repo, declared, [paths[0], *paths[2:]])
    assert opened(repo).sst[1].isnull().all()


def test_files_without_the_dimension_get_it_from_their_names(daily):
    paths = daily(range(4))
    flat = [xr.load_dataset(path, engine="h5netcdf").isel(time=0, drop=True) for path in paths]
    for number, content in enumerate(flat):
        save(paths[0].parent, number, content, sst={"chunksizes": (3, 4)})
    axis = Axis(
        dimension="time",
        by=PlaceBy.NAME,
        pattern=r"(?P<time>\d{4}-\d\d-\d\d)",
        format="%Y-%m-%d",
        new=True,
    )
    repo = repository_for(paths[0].parent)
    ingest(repo, archive(axis, loaded=("crs",)), paths)
    found = opened(repo)
    assert found.time.values.tolist() == [day(n).astype("M8[ns]").item() for n in range(4)]
    expected = xr.concat([part[["sst", "count"]] for part in flat], "time", join="exact")
    xr.testing.assert_equal(found[["sst", "count"]].drop_vars("time"), expected)
    assert found.crs.item() == 4326


def test_texts_in_names_become_a_coordinate(daily):
    paths = daily(range(2))
    named = [
        path.rename(path.with_name(f"{name}.nc")) for path, name in zip(paths, "ba", strict=True)
    ]
    axis = Axis(
        dimension="run", by=PlaceBy.NAME, pattern=r"(?P<run>\w+)\.nc", format="text", new=True
    )
    repo = repository_for(named[0].parent)
    with pytest.raises(InvalidInputError, match="/time"):  # which is not the same in both
        ingest(repo, archive(axis, loaded=("crs",)), named)
    for path in named:
        content = xr.load_dataset(path, engine="h5netcdf").isel(time=0, drop=True)
        content.to_netcdf(path, engine="h5netcdf")
    ingest(repo, archive(axis, loaded=("crs",)), named)
    assert opened(repo).run.values.tolist() == ["a", "b"]


def test_eras_are_groups_that_open_alone(daily):
    paths = daily(range(3))
    later = [
        save(paths[0].parent, number, dataset(number), sst={"chunksizes": (1, 6, 8)})
        for number in (3, 4)
    ]
    with pytest.raises(InvalidInputError, match="chunk shape"):
        ingest(repository_for(paths[0].parent), archive(TIME), [*paths, *later])
    repo = repository_for(paths[0].parent)
    policies = Policies(on_mismatch=OnMismatch.ERA)
    ingest(repo, archive(TIME, policies=policies), [*paths, *later])
    xr.testing.assert_equal(opened(repo, "era-2020-02-20"), concatenated(paths))
    xr.testing.assert_equal(opened(repo, "era-2020-02-23"), concatenated(later))


def test_packed_values_of_another_scale_are_refused(daily):
    paths = daily(range(2))
    packed = {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -9999, "chunksizes": (1, 3, 4)}
    for number, scale in enumerate((0.01, 0.02)):
        save(paths[0].parent, number, dataset(number), sst={**packed, "scale_factor": scale})
    with pytest.raises(InvalidInputError, match="scale_factor") as caught:
        ingest(repository_for(paths[0].parent), archive(TIME), paths)
    assert str(paths[1]) in caught.value.message


def test_packed_values_of_one_scale_are_read_as_from_the_files(daily):
    paths = daily(range(3))
    for number in range(3):
        packed = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -9999}
        content = dataset(number)
        content["sst"][0, 0, 0] = np.nan
        save(paths[0].parent, number, content, sst={**packed, "chunksizes": (1, 3, 4)})
    repo = repository_for(paths[0].parent)
    ingest(repo, archive(TIME), paths)
    xr.testing.assert_equal(opened(repo), concatenated(paths))


def test_bounds_that_count_like_their_coordinate_are_encoded_with_it(daily):
    paths = daily(range(3))
    for number in range(3):
        content = dataset(number)
        edges = np.array([[day(number), day(number + 1)]], "M8[ns]")
        content["time_bnds"] = (("time", "nv"), edges)
        content["time"].attrs["bounds"] = "time_bnds"
        save(paths[0].parent, number, content)
    repo = repository_for(paths[0].parent)
    ingest(repo, archive(TIME, loaded=("time_bnds",)), paths)
    xr.testing.assert_equal(opened(repo), concatenated(paths))


def test_the_icechunk_library_reads_the_same(daily, tmp_path):
    icechunk = pytest.importorskip("icechunk")
    paths = daily(range(4))
    folder = paths[0].parent
    repo = repository_for(folder, LocalStorage(str(tmp_path / "repo")))
    ingest(repo, archive(TIME), paths)
    theirs = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "repo")),
        authorize_virtual_chunk_access={
            f"file://{folder}/": icechunk.credentials.LocalFileSystemAccess
        },
    )
    store = theirs.readonly_session("main").store
    found = xr.open_zarr(store, consolidated=False, chunks=None).load()
    xr.testing.assert_identical(found, concatenated(paths))
