"""A cube of daily values that grows, and an array of its monthly means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
import zarr

import icestream as ice
from icestream.ingest.array_derivation.declarations import ArrayDerivation, ArrayPlace, Period
from icestream.ingest.array_derivation.ledger_side import create_derived_array
from icestream.ledger.dataset import Dataset
from icestream.ledger.workspace import Workspace
from icestream.repository.repository import Repository
from icestream.storage import local_filesystem_storage

FIRST_DAY = np.datetime64("2023-12-20")
LATITUDES, LONGITUDES = 4, 6
CHUNKS = (10, 2, 3)


@dataclass(frozen=True)
class Cube:
    """A repository of daily values, and a workspace for what is derived from them."""

    folder: Path

    @property
    def address(self) -> str:
        return str(self.folder / "daily")

    @property
    def repository(self) -> Repository:
        return Repository.open_or_create(local_filesystem_storage(self.address))

    @property
    def workspace(self) -> Workspace:
        return Workspace(local_filesystem_storage(str(self.folder / "ledger")))

    def create_from(
        self, arrays: Mapping[str, tuple[Any, Sequence[str], Mapping[str, Any]]]
    ) -> None:
        """Store arrays, each with its dimensions and attributes."""
        with self.repository.transaction("main", message="some arrays") as store:
            root = zarr.open_group(store, mode="a")
            for name, (values, dimensions, attributes) in arrays.items():
                root.create_array(
                    name,
                    data=np.asarray(values),
                    dimension_names=dimensions,
                    attributes=dict(attributes),
                )

    def create_virtual(self, days: int) -> Repository:
        """Store a cube of six values for each day, which are in a file of the day."""
        files = self.folder / "files"
        files.mkdir()
        prefix = f"file://{files}/"
        config = ice.RepositoryConfig()
        config.set_virtual_chunk_container(
            ice.VirtualChunkContainer(prefix, ice.local_filesystem_store(str(files)))
        )
        repo = Repository.create(
            local_filesystem_storage(self.address),
            config,
            authorize_virtual_chunk_access={prefix: None},
        )
        session = repo.writable_session("main")
        root = zarr.group(session.store)
        root.create_array(
            "t",
            shape=(days, 6),
            chunks=(1, 6),
            dtype="<f4",
            compressors=None,
            dimension_names=["time", "x"],
        )
        time = root.create_array("time", data=np.arange(days), dimension_names=["time"])
        time.attrs["units"] = "days since 2024-01-10"
        for day in range(days):
            self.refer_to(session.store, day, self.write_day(day, day))
        session.commit("files")
        return repo

    def write_day(self, day: int, value: float) -> Path:
        """Write a file with the values of a day."""
        file = self.folder / "files" / f"{day}.bin"
        file.write_bytes(np.full(6, value, "<f4").tobytes())
        return file

    def refer_to(self, store: Any, day: int, file: Path) -> None:
        """Let the values of a day be those of a file, as it is now."""
        moment = datetime.fromtimestamp(file.stat().st_mtime + 1, UTC)
        store.set_virtual_ref(f"t/c/{day}/0", f"file://{file}", 0, 24, checksum=moment)

    def create(self, days: int) -> None:
        """Store the first days, packed, with a gap."""
        session = self.repository.writable_session("main")
        root = zarr.group(session.store)
        packing: dict[str, Any] = {
            "scale_factor": 0.5,
            "add_offset": 10.0,
            "_FillValue": -1,
            "units": "K",
        }
        root.create_array(
            "t",
            shape=(0, LATITUDES, LONGITUDES),
            chunks=CHUNKS,
            dtype="i2",
            fill_value=-1,
            dimension_names=["time", "lat", "lon"],
            attributes=packing,
        )
        root.create_array(
            "time",
            shape=(0,),
            chunks=(100,),
            dtype="i4",
            dimension_names=["time"],
            attributes={"units": "days since 2023-12-20", "standard_name": "time"},
        )
        latitudes = np.linspace(40, 50, LATITUDES)
        root.create_array("lat", data=latitudes, dimension_names=["lat"])
        session.commit("an empty cube")
        self.grow(days)

    def grow(self, days: int) -> str:
        """Let there be so many days; return the version."""
        session = self.repository.writable_session("main")
        root = zarr.open_group(session.store, mode="r+")
        array, time = _array(root, "t"), _array(root, "time")
        known = array.shape[0]
        array.resize((days, LATITUDES, LONGITUDES))
        time.resize((days,))
        array[known:] = stored_values(days)[known:]
        time[known:] = np.arange(known, days)
        return session.commit(f"{days} days")

    def change(self, day: int, lat: int, lon: int, value: int) -> str:
        """Give one cell another value."""
        session = self.repository.writable_session("main")
        _array(zarr.open_group(session.store, mode="r+"), "t")[day, lat, lon] = value
        return session.commit("a correction")

    def daily(self) -> xr.DataArray:
        """Return the values as xarray decodes them."""
        store = self.repository.readonly_session("main").store
        found: xr.DataArray = xr.open_zarr(store, consolidated=False, zarr_format=3).load()["t"]
        return found

    @property
    def derived(self) -> Repository:
        """The repository of what was derived."""
        return Repository.open(local_filesystem_storage(str(self.folder / "derived")))

    def monthly(self, name: str = "monthly") -> xr.Dataset:
        """Return what was derived."""
        store = self.derived.readonly_session("main").store
        found: xr.Dataset = xr.open_zarr(
            store, group=name, consolidated=False, zarr_format=3
        ).load()
        return found

    def derivation(self, **changes: Any) -> ArrayDerivation:
        given: dict[str, Any] = {
            "name": "monthly",
            "input": ArrayPlace(repository=self.address, array="/t"),
            "output": ArrayPlace(repository=str(self.folder / "derived"), array="/monthly/t"),
            "along": "time",
            "group": Period.MONTH,
        }
        return ArrayDerivation(**{**given, **changes})

    def derive(self, **changes: Any) -> Dataset:
        """Declare a derived array."""
        return create_derived_array(self.workspace, self.derivation(**changes))


def stored_values(days: int) -> npt.NDArray[np.int16]:
    """Return the packed values of the first days."""
    rng = np.random.default_rng(11)
    values = rng.integers(0, 100, (400, LATITUDES, LONGITUDES)).astype("i2")
    values[3, 0, 0] = -1
    values[12:43, 1, 1] = -1  # no value in all of January
    return values[:days]


def _array(group: zarr.Group, name: str) -> Any:
    return group[name]


def failing(block: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    """Fail, as functions of people do."""
    raise ZeroDivisionError(f"{block.ndim} dimensions, and {axis}")


def twice_the_largest(block: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    """Return something that no known reduction gives."""
    return np.asarray(2 * np.nanmax(np.nan_to_num(block), axis=axis))
