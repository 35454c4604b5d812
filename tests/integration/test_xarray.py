"""Xarray over the store of a session: open, write, append, write regions; with and without dask."""

from pathlib import Path
from typing import Any

import dask
import icechunk
import numpy as np
import pytest
import xarray as xr

from icestream.errors import InvalidInputError, SessionStateError
from icestream.repository.repository import Repository
from icestream.storage.factories import local_filesystem_storage
from icestream.xarray import to_icestream


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository.create(local_filesystem_storage(str(tmp_path)))


def _dataset(start: int = 0, days: int = 6) -> xr.Dataset:
    numbers = np.arange(start * 4, (start + days) * 4, dtype="f8").reshape(days, 4)
    first = np.datetime64("2020-01-01T00:00:00", "ns")
    return xr.Dataset(
        {
            "temperature": (("time", "x"), numbers, {"units": "K"}),
            "name": (("x",), np.array(["a", "bb", "", "ddd"])),
            "elevation": ((), 12.5),
        },
        coords={"time": first + np.arange(start, start + days) * np.timedelta64(1, "D")},
        attrs={"title": "test"},
    )


ENCODING = {
    "temperature": {"chunks": (2, 2)},
    "time": {"units": "days since 2020-01-01", "dtype": "i4", "chunks": (2,)},
}


def _read(repo: Repository, group: str | None = None, **options: Any) -> xr.Dataset:
    store = repo.readonly_session("main").store
    dataset: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False, **options)
    return dataset.load()


def _write(repo: Repository, obj: xr.Dataset | xr.DataArray, **options: Any) -> None:
    session = repo.writable_session("main")
    to_icestream(obj, session, **options)
    session.commit("written")


@pytest.fixture(params=["numpy", "dask"])
def lazily(request: pytest.FixtureRequest) -> Any:
    """A function that makes a dataset lazy, or leaves it as it is."""

    def convert(dataset: xr.Dataset) -> xr.Dataset:
        return dataset.chunk({"time": 2}) if request.param == "dask" else dataset

    return convert


def test_what_was_written_is_read_back(repo: Repository, lazily: Any) -> None:
    _write(repo, lazily(_dataset()), encoding=ENCODING)

    xr.testing.assert_identical(_read(repo), _dataset())
    xr.testing.assert_identical(_read(repo, chunks={}), _dataset())


def test_icechunk_reads_the_same_dataset(repo: Repository, tmp_path: Path, lazily: Any) -> None:
    _write(repo, lazily(_dataset()), encoding=ENCODING)

    icechunk.set_logs_filter("error")
    peer = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path)))
    read = xr.open_zarr(peer.readonly_session("main").store, consolidated=False).load()

    xr.testing.assert_identical(read, _dataset())


def test_to_zarr_of_xarray_itself_writes_too(repo: Repository) -> None:
    session = repo.writable_session("main")
    _dataset().to_zarr(session.store, consolidated=False, encoding=ENCODING)
    session.commit("written")

    xr.testing.assert_identical(_read(repo), _dataset())


def test_appends_along_a_dimension(repo: Repository, lazily: Any) -> None:
    _write(repo, lazily(_dataset(0, 6)), encoding=ENCODING)
    _write(repo, lazily(_dataset(6, 4)).drop_vars(["name", "elevation"]), append_dim="time")

    xr.testing.assert_identical(_read(repo), _dataset(0, 10))
    first = next(info for info in repo.ancestry(branch="main") if info.message == "written")
    assert first.parent_id is not None
    earlier = repo.readonly_session(snapshot_id=first.parent_id).store
    xr.testing.assert_identical(xr.open_zarr(earlier, consolidated=False).load(), _dataset(0, 6))


def test_appends_twice_in_one_session(repo: Repository, lazily: Any) -> None:
    session = repo.writable_session("main")
    to_icestream(lazily(_dataset(0, 4)), session, encoding=ENCODING)
    for start in (4, 8):
        part = lazily(_dataset(start, 4)).drop_vars(["name", "elevation"])
        to_icestream(part, session, append_dim="time")
    session.commit("all")

    xr.testing.assert_identical(_read(repo), _dataset(0, 12))


@pytest.mark.parametrize("region", [{"time": slice(2, 4)}, {"time": "auto"}, "auto"])
def test_writes_a_region(repo: Repository, lazily: Any, region: Any) -> None:
    _write(repo, _dataset(), encoding=ENCODING)
    part = _dataset().isel(time=slice(2, 4))[["temperature"]] * -1
    if region == {"time": slice(2, 4)}:
        part = part.drop_vars("time")

    _write(repo, lazily(part), region=region)

    expected = _dataset()
    expected["temperature"][2:4] *= -1
    xr.testing.assert_equal(_read(repo), expected)


def test_replaces_a_group_and_leaves_others(repo: Repository, lazily: Any) -> None:
    _write(repo, lazily(_dataset()), group="one", encoding=ENCODING)
    _write(repo, lazily(_dataset(3)), group="two/deep", encoding=ENCODING)
    _write(repo, lazily(_dataset(9, 2)), group="one", mode="w", encoding=ENCODING)

    xr.testing.assert_identical(_read(repo, "one"), _dataset(9, 2))
    xr.testing.assert_identical(_read(repo, "two/deep"), _dataset(3))


def test_a_data_array_comes_back_under_its_name(repo: Repository) -> None:
    named = _dataset()["temperature"]
    _write(repo, named, group="named")
    _write(repo, named.rename("time").drop_vars("time"), group="clash")
    _write(repo, named.rename(None).chunk({"time": 2}), group="unnamed")

    store: Any = repo.readonly_session("main").store
    for group, expected in {
        "named": named,
        "clash": named.rename("time").drop_vars("time"),
        "unnamed": named.rename(None),
    }.items():
        read = xr.open_dataarray(store, engine="zarr", group=group, consolidated=False)
        xr.testing.assert_identical(read.load(), expected)


def test_zero_length_dimensions_are_written(repo: Repository, lazily: Any) -> None:
    _write(repo, lazily(_dataset().isel(time=slice(0, 0))), encoding=ENCODING)

    assert _read(repo).sizes == {"time": 0, "x": 4}


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_any_dask_scheduler_will_do(repo: Repository, scheduler: str) -> None:
    with dask.config.set(scheduler=scheduler, num_workers=2):
        _write(repo, _dataset().chunk({"time": 2}), encoding=ENCODING, split_every=2)

    xr.testing.assert_identical(_read(repo), _dataset())


def test_dask_chunks_that_share_a_zarr_chunk_are_refused_or_aligned(repo: Repository) -> None:
    lazy = _dataset().chunk({"time": 1})
    with pytest.raises(ValueError, match="would overlap"):
        _write(repo, lazy, encoding=ENCODING)

    _write(repo, lazy, encoding=ENCODING, align_chunks=True, mode="w")
    xr.testing.assert_identical(_read(repo), _dataset())


def test_an_existing_group_is_not_replaced_unasked(repo: Repository) -> None:
    _write(repo, _dataset())

    with pytest.raises(FileExistsError):
        _write(repo, _dataset())


def test_a_read_only_session_is_refused(repo: Repository) -> None:
    with pytest.raises(ValueError, match="read-only"):
        to_icestream(_dataset(), repo.readonly_session("main"))


def test_something_else_than_a_session_is_refused(repo: Repository) -> None:
    with pytest.raises(InvalidInputError, match="writable_session"):
        to_icestream(_dataset(), repo.readonly_session("main").store)  # type: ignore[arg-type]


def test_to_zarr_with_processes_says_how_to_write_from_workers(repo: Repository) -> None:
    lazy = _dataset().chunk({"time": 2})[["temperature"]]
    session = repo.writable_session("main")

    with (
        dask.config.set(scheduler="processes", num_workers=2),
        pytest.raises(SessionStateError, match="to_icestream"),
    ):
        lazy.to_zarr(session.store, consolidated=False)
