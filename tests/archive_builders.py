"""Archives of NetCDF4 files, as producers leave them: one file per day, written in milliseconds."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import xarray as xr

from icestream.ingest.declaration.archives import Archive, Axis, Combination, Policies, Target

FIRST_DAY = np.datetime64("2024-02-20")
"""Nine days before a leap day."""

_LONG_AGO = datetime(2024, 6, 1, tzinfo=UTC).timestamp()
"""When files were made: a change that is made now is at another second."""
_FILL = -32768


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a producer stores a day; a new release of its software may have another."""

    shape: tuple[int, int] = (36, 72)
    """Latitudes and longitudes."""
    chunks: tuple[int, int] = (18, 36)
    dtype: str = "i2"
    scale: float = 0.01
    """Stored numbers count steps of this size."""
    variables: tuple[str, ...] = ("sst",)
    calendar: str = "standard"


PLAIN = Form()


def day(number: int) -> np.datetime64:
    """Return the date of a file by its number."""
    return FIRST_DAY + np.timedelta64(number, "D")


def number_of(date: str) -> int:
    """Return the number of the file of a date."""
    return int((np.datetime64(date) - FIRST_DAY).astype(int))


def path_of(folder: Path, number: int) -> Path:
    """Return where the file of a day is."""
    return folder / f"sst-{str(day(number)).replace('-', '')}.nc"


def temperatures(number: int, shape: tuple[int, int], seed: int = 0) -> npt.NDArray[np.float64]:
    """Return a field in degrees, warm at the equator and in July; no number where land is."""
    latitude = np.linspace(-89, 89, shape[0])[:, None]
    season = 8 * np.sin(2 * np.pi * number / 365) * np.sin(np.radians(latitude))
    noise = np.random.default_rng([seed, number]).normal(0, 0.5, shape)
    degrees: npt.NDArray[np.float64] = 28 * np.cos(np.radians(latitude)) + season + noise
    degrees[:, : shape[1] // 8] = np.nan
    return degrees


# -- writing --------------------------------------------------------------------------------------


def write_days(folder: Path, numbers: Iterable[int], form: Form = PLAIN) -> list[Path]:
    """Write the files of days: leave out numbers for gaps, write some later for late files."""
    return [write_day(folder, number, form) for number in numbers]


def write_day(folder: Path, number: int, form: Form = PLAIN, *, seed: int = 0) -> Path:
    """Write the file of one day, which counts hours since its own midnight."""
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(folder, number)
    with h5py.File(path, "w", track_order=True) as file:
        file.attrs["title"] = "sea surface temperature, daily means"
        file.attrs["Conventions"] = "CF-1.11"
        _write_coordinates(file, number, form)
        for i, name in enumerate(form.variables):
            _write_variable(file, name, temperatures(number, form.shape, seed + i), form)
    os.utime(path, (_LONG_AGO, _LONG_AGO))
    return path


def _write_coordinates(file: h5py.File, number: int, form: Form) -> None:
    rows, columns = form.shape
    units = f"hours since {day(number)} 00:00:00"
    scales: dict[str, tuple[npt.NDArray[Any], Mapping[str, str]]] = {
        "time": (np.array([12.0]), {"units": units, "calendar": form.calendar}),
        "lat": (np.linspace(-89, 89, rows, dtype="f4"), {"units": "degrees_north"}),
        "lon": (np.linspace(0, 355, columns, dtype="f4"), {"units": "degrees_east"}),
    }
    for name, (values, attributes) in scales.items():
        scale = file.create_dataset(name, data=values)
        scale.make_scale(name)
        scale.attrs.update(attributes)


def _write_variable(
    file: h5py.File, name: str, values: npt.NDArray[np.float64], form: Form
) -> None:
    is_packed = np.dtype(form.dtype).kind == "i"
    stored = np.where(np.isnan(values), _FILL, np.round(values / form.scale))[None]
    fill = np.dtype(form.dtype).type(_FILL if is_packed else np.nan)
    variable = file.create_dataset(
        name,
        data=(stored if is_packed else values[None]).astype(form.dtype),
        chunks=(1, *form.chunks),
        compression="gzip",
        compression_opts=4,
        shuffle=True,
        fillvalue=fill,
    )
    variable.attrs["units"] = "degree_C"
    variable.attrs["_FillValue"] = fill
    if is_packed:
        variable.attrs["scale_factor"] = form.scale
        variable.attrs["add_offset"] = 0.0
    for axis, dimension in enumerate(("time", "lat", "lon")):
        variable.dims[axis].attach_scale(file[dimension])


# -- damaging -------------------------------------------------------------------------------------


def change_day(folder: Path, number: int, form: Form = PLAIN) -> Path:
    """Write the file of a day anew with other values, now."""
    path = write_day(folder, number, form, seed=99)
    os.utime(path)
    return path


def cut_short(path: Path, part: float = 0.5) -> Path:
    """Leave the first part of a file, as an upload does that was interrupted."""
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    return path


def write_error_page(path: Path) -> Path:
    """Write what a web server says, as downloads do that did not look at the status."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("<html><body>503 Service Unavailable</body></html>\n")
    return path


# -- declaring, and the truth ---------------------------------------------------------------------


def daily_archive(folder: Path, repository: Path | str, **settings: Any) -> Archive:
    """Return the declaration of daily files; `step`, `policies` and fields of `Archive` differ."""
    axis = Axis(dimension="time", step=settings.pop("step", None))
    target = Target(repository=str(repository), **settings.pop("target", {}))
    given: dict[str, Any] = {
        "name": "sst",
        "sources": (f"{folder}/*.nc",),
        "combine": Combination(along=(axis,)),
        "policies": Policies(**settings.pop("policies", {})),
        "target": target,
    }
    return Archive(**{**given, **settings})


def opened_files(paths: Iterable[Path], dimension: str = "time") -> xr.Dataset:
    """Return what xarray reads of the files themselves, one after the other: the truth."""
    parts = [xr.load_dataset(path, engine="h5netcdf") for path in sorted(paths)]
    together: xr.Dataset = xr.concat(
        parts, dimension, data_vars="all", coords="minimal", compat="override", join="exact"
    )
    return together
