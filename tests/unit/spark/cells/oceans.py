"""A small ocean: a cube with packed values, coordinates of several kinds, and gaps."""

from pathlib import Path

import numpy as np
import xarray as xr

from icestream.model.config import RepositoryConfig
from icestream.repository.repository import Repository
from icestream.storage import local_filesystem_storage
from icestream.storage.protocol import Storage
from icestream.xarray import to_icestream

DAYS, LATITUDES, LONGITUDES = 10, 6, 8
CHUNKS = (4, 3, 4)


def ocean() -> xr.Dataset:
    """Decoded, as people see it."""
    rng = np.random.default_rng(7)
    shape = (DAYS, LATITUDES, LONGITUDES)
    temperature = np.round(rng.uniform(-2, 30, shape), 2)
    temperature[0, 0, 0] = np.nan
    dimensions = ("time", "lat", "lon")
    return xr.Dataset(
        {
            "temperature": (dimensions, temperature),
            "depth": (dimensions, rng.integers(0, 9_000, shape).astype("u2")),
        },
        coords={
            "time": np.datetime64("2024-05-29", "ns") + np.arange(DAYS) * np.timedelta64(1, "D"),
            "lat": np.linspace(40.1, 45.1, LATITUDES, dtype="f4"),
            "area": (("lat", "lon"), np.arange(48.0).reshape(LATITUDES, LONGITUDES)),
            "height": 2.0,
        },
    )


def write_ocean(storage: Storage, dataset: xr.Dataset | None = None) -> Repository:
    """Store it in a repository in which every chunk is an object."""
    repo = Repository.create(storage, RepositoryConfig(inline_chunk_threshold_bytes=0))
    session = repo.writable_session("main")
    packed = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 10.0, "_FillValue": -32768}
    encoding = {
        "temperature": {**packed, "chunks": CHUNKS},
        "depth": {"chunks": CHUNKS},
        "time": {"units": "hours since 2024-05-01", "dtype": "i4"},
    }
    to_icestream(ocean() if dataset is None else dataset, session, encoding=encoding)
    session.commit("an ocean")
    return repo


def local_ocean(folder: Path) -> Repository:
    """Store it in a directory."""
    return write_ocean(local_filesystem_storage(str(folder)))
