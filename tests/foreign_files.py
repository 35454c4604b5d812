"""Files of other programs, small and made on the spot."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

Arrays = dict[str, npt.NDArray[Any]]


def write_netcdf4(path: Path, days: int = 3, first_day: int = 0, seed: int = 0) -> Arrays:
    """Write packed sea-surface temperatures with their coordinates; return stored values."""
    rng = np.random.default_rng(seed)
    packed = rng.integers(0, 3000, (days, 6, 8)).astype("i2")
    packed[0, 0, 0] = -999
    unpacked = rng.normal(280, 5, (days, 6, 8)).astype("f4")
    unpacked[0, 1, 1] = np.nan
    time = np.arange(first_day, first_day + days, dtype="f8")
    attributes = {"units": "K", "scale_factor": 0.01, "add_offset": 273.15}
    dimensions = ("time", "lat", "lon")
    dataset = xr.Dataset(
        {
            "sst": (dimensions, packed, {**attributes, "_FillValue": np.int16(-999)}),
            "sst_unpacked": (dimensions, unpacked, {"_FillValue": np.float32("nan")}),
        },
        coords={
            "time": ("time", time, {"units": "days since 2000-01-01"}),
            "lat": ("lat", np.linspace(-75, 75, 6), {"units": "degrees_north"}),
            "lon": ("lon", np.linspace(0, 315, 8), {"units": "degrees_east"}),
        },
        attrs={"title": "test", "conventions": "CF-1.8"},
    )
    chunked = {"chunksizes": (1, 6, 8), "zlib": True, "shuffle": True}
    dataset.to_netcdf(
        path,
        engine="h5netcdf",
        encoding={"sst": chunked, "sst_unpacked": {**chunked, "fletcher32": True}},
    )
    return {str(name): variable.values for name, variable in dataset.variables.items()}


def write_netcdf3(path: Path, title: bytes = b"test") -> Arrays:
    """Write a file of the classic format with a record dimension; return stored values."""
    time, sst = np.arange(3, dtype=">i4"), np.arange(6, dtype=">f4").reshape(3, 2)
    places = np.array([1.5, 2.5], ">f8")
    dimensions = _named(b"time") + struct.pack(">i", 0) + _named(b"x") + struct.pack(">i", 2)
    head = b"CDF\x01" + struct.pack(">iii", 3, 10, 2) + dimensions + _attribute(b"title", title)
    fixed: Any = (_named(b"x"), [1], b"\x00" * 8, 6, 16)
    records: list[Any] = [
        (_named(b"time"), [0], b"\x00" * 8, 4, 4),
        (_named(b"sst"), [0, 1], _attribute(b"units", b"degC"), 5, 8),
    ]
    variables = [fixed, *records]
    size = len(head) + 8 + sum(len(_variable(*one, 0)) for one in variables)
    begins = [size, size + 16, size + 20]
    header = head + struct.pack(">ii", 11, len(variables))
    header += b"".join(_variable(*one, begin) for one, begin in zip(variables, begins, strict=True))
    body = b"".join(time[i : i + 1].tobytes() + sst[i].tobytes() for i in range(3))
    path.write_bytes(header + places.tobytes() + body)
    return {"time": time, "sst": sst, "x": places}


def _named(name: bytes) -> bytes:
    return struct.pack(">i", len(name)) + name + b"\x00" * (-len(name) % 4)


def _attribute(name: bytes, text: bytes) -> bytes:
    value = struct.pack(">ii", 2, len(text)) + text + b"\x00" * (-len(text) % 4)
    return struct.pack(">ii", 12, 1) + _named(name) + value


def _variable(name: bytes, axes: list[int], attributes: bytes, *numbers: int) -> bytes:
    """Return a variable; the numbers are its type, its size, and where it begins."""
    head = name + struct.pack(f">{1 + len(axes)}i", len(axes), *axes) + attributes
    return head + struct.pack(">iii", *numbers)


def write_fits(path: Path, image: npt.NDArray[Any], cards: Mapping[str, str] | None = None) -> None:
    """Write an image as the primary array of a FITS file."""
    axes = {f"NAXIS{i + 1}": str(n) for i, n in enumerate(reversed(image.shape))}
    fields = {"SIMPLE": "T", "BITPIX": "32", "NAXIS": str(image.ndim), **axes, **(cards or {})}
    lines = [f"{name:<8}= {value:>20}".ljust(80) for name, value in fields.items()]
    header = "".join([*lines, "END".ljust(80)])
    content = header.ljust(-(-len(header) // 2880) * 2880).encode()
    data = image.astype(">i4").tobytes()
    path.write_bytes(content + data.ljust(-(-len(data) // 2880) * 2880, b"\x00"))
