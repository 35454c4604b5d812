"""Archives that are ingested: real NetCDF4 files, and files that a parser makes up."""

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np

VARIABLES = ("sst", "anomaly", "error", "ice")
CHUNKS_PER_VARIABLE = 20
REFERENCES_PER_FILE = CHUNKS_PER_VARIABLE * len(VARIABLES)

_SHAPE, _CHUNKS = (1, 80, 100), (1, 20, 20)
_FIRST_DAY = np.datetime64("2000-01-01")
_UNITS = b"hours since 2000-01-01 00:00:00"
_LONG_AGO = 1_700_000_000


def write_netcdf4_files(folder: Path, count: int) -> None:
    """Write daily files: four packed variables of 20 chunks each, and three coordinates.

    One is written by HDF5. The others are copies in which the day that hours are counted from is
    another: object headers and heaps of this version of the format carry no checksums.
    """
    folder.mkdir(parents=True, exist_ok=True)
    first = _write_netcdf4(folder / "template")
    content = first.read_bytes()
    first.unlink()
    before, after = _parts(content)
    for number in range(count):
        date = _FIRST_DAY + np.timedelta64(number, "D")
        path = folder / f"daily-{str(date).replace('-', '')}.nc"
        path.write_bytes(b"%s%s%s" % (before, str(date).encode(), after))
        os.utime(path, (_LONG_AGO, _LONG_AGO))


def _parts(content: bytes) -> tuple[bytes, bytes]:
    """Return what is before and behind the date in the units of time."""
    assert content.count(_UNITS) == 1
    start = content.index(_UNITS) + len(b"hours since ")
    return content[:start], content[start + len(b"2000-01-01") :]


def _write_netcdf4(path: Path) -> Path:
    random = np.random.default_rng(0)
    scales: dict[str, tuple[Any, str]] = {
        "time": (np.array([12.0]), _UNITS.decode()),
        "lat": (np.linspace(-89, 89, _SHAPE[1]), "degrees_north"),
        "lon": (np.linspace(0, 355, _SHAPE[2]), "degrees_east"),
    }
    with h5py.File(path, "w", libver="earliest") as file:
        for name, (values, units) in scales.items():
            scale = file.create_dataset(name, data=values)
            scale.make_scale(name)
            scale.attrs["units"] = units
        for name in VARIABLES:
            variable = file.create_dataset(
                name,
                data=random.integers(-200, 3_000, _SHAPE, "i2"),
                chunks=_CHUNKS,
                compression="gzip",
                shuffle=True,
                fillvalue=-999,
            )
            variable.attrs.update(
                {"units": "degree_C", "scale_factor": 0.01, "add_offset": 0.0, "_FillValue": -999}
            )
            for axis, scale_name in enumerate(scales):
                variable.dims[axis].attach_scale(file[scale_name])
    return path


# -- files that a parser makes up -----------------------------------------------------------------

CHUNK_BYTES = 40_000
_CHUNKS_PER_STEP = 1_000


def write_hollow_files(folder: Path, count: int, chunks_per_file: int) -> None:
    """Write files of the right size that take no room; `parse_hollow_file` says what is in them."""
    for number in range(count):
        path = folder / f"{number // 1_000:04}" / f"hollow-{number:07}-{chunks_per_file}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(chunks_per_file * CHUNK_BYTES)
        os.utime(path, (_LONG_AGO, _LONG_AGO))


def parse_hollow_file(url: str, _registry: Any) -> Any:
    """Return the references of a hollow file, as parsers of VirtualiZarr do: its name has all."""
    from virtualizarr.manifests import ManifestGroup, ManifestStore

    chunks = url.removesuffix(".bin").rpartition("-")[2]
    arrays = {"data": _hollow_array(url, int(chunks))}
    return ManifestStore(ManifestGroup(arrays=arrays, attributes={}))


def _hollow_array(url: str, chunks: int) -> Any:
    from virtualizarr.manifests import ChunkManifest, ManifestArray
    from virtualizarr.manifests.utils import create_v3_array_metadata

    columns = min(chunks, _CHUNKS_PER_STEP)
    grid = (chunks // columns, columns, 1)
    ends = np.arange(1, chunks + 1, dtype=np.uint64) * CHUNK_BYTES
    lengths = CHUNK_BYTES - np.random.default_rng(len(url)).integers(
        0, CHUNK_BYTES // 2, chunks, dtype=np.uint64
    )
    manifest = ChunkManifest.from_arrays(
        paths=np.full(grid, url, np.dtypes.StringDType()),
        offsets=(ends - CHUNK_BYTES).reshape(grid),
        lengths=lengths.reshape(grid),
    )
    metadata = create_v3_array_metadata(
        shape=(grid[0], grid[1], 10_000),
        chunk_shape=(1, 1, 10_000),
        data_type=np.dtype("f4"),
        codecs=[{"name": "bytes", "configuration": {"endian": "little"}}],
        dimension_names=["time", "cell", "value"],
        fill_value=np.float32(0),
    )
    return ManifestArray(metadata=metadata, chunkmanifest=manifest)
