"""Formats of files, known by their first bytes and by their names."""

import re
from collections.abc import Mapping
from enum import StrEnum

HEAD_BYTES = 2048
"""As many of the first bytes are looked at; an HDF5 file may begin with something else."""


class FileFormat(StrEnum):
    """Formats that are recognised, by the names of their parsers."""

    HDF5 = "hdf5"
    NETCDF3 = "netcdf3"
    GRIB = "grib"
    TIFF = "tiff"
    FITS = "fits"
    DMRPP = "dmrpp"
    KERCHUNK_JSON = "kerchunk-json"
    KERCHUNK_PARQUET = "kerchunk-parquet"
    ZARR = "zarr"


_HDF5_MARK = b"\x89HDF\r\n\x1a\n"
_HDF5_STARTS = (0, 512, 1024)
"""Where the mark may be: at the beginning, or behind a user block of a power of two."""
_BEGINNINGS: Mapping[bytes, FileFormat] = {
    b"CDF\x01": FileFormat.NETCDF3,
    b"CDF\x02": FileFormat.NETCDF3,
    b"CDF\x05": FileFormat.NETCDF3,
    b"GRIB": FileFormat.GRIB,
    b"II*\x00": FileFormat.TIFF,
    b"MM\x00*": FileFormat.TIFF,
    b"II+\x00": FileFormat.TIFF,
    b"MM\x00+": FileFormat.TIFF,
    b"SIMPLE  =": FileFormat.FITS,
}
_EXTENSIONS: Mapping[str, FileFormat] = {
    "nc": FileFormat.HDF5,
    "nc4": FileFormat.HDF5,
    "h5": FileFormat.HDF5,
    "hdf5": FileFormat.HDF5,
    "he5": FileFormat.HDF5,
    "grib": FileFormat.GRIB,
    "grib1": FileFormat.GRIB,
    "grib2": FileFormat.GRIB,
    "grb": FileFormat.GRIB,
    "grb2": FileFormat.GRIB,
    "tif": FileFormat.TIFF,
    "tiff": FileFormat.TIFF,
    "fits": FileFormat.FITS,
    "fit": FileFormat.FITS,
    "dmrpp": FileFormat.DMRPP,
    "json": FileFormat.KERCHUNK_JSON,
}
_FOLDERS: Mapping[str, FileFormat] = {
    "zarr": FileFormat.ZARR,
    "parq": FileFormat.KERCHUNK_PARQUET,
    "parquet": FileFormat.KERCHUNK_PARQUET,
}
_DMRPP = re.compile(rb"<Dataset[^>]*dmrpp", re.DOTALL)
_KERCHUNK = re.compile(rb'\s*\{.*"(?:refs|version|\.zgroup)"', re.DOTALL)


def format_of_folder(url: str) -> FileFormat | None:
    """Return the format of something that is a folder and no file, by its name."""
    return _FOLDERS.get(_extension(url))


def format_of_file(url: str, head: bytes) -> FileFormat | None:
    """Return the format of a file, by its first bytes; by its name where those say nothing."""
    return _format_of_head(head) or _EXTENSIONS.get(_extension(url))


def _format_of_head(head: bytes) -> FileFormat | None:
    for beginning, found in _BEGINNINGS.items():
        if head.startswith(beginning):
            return found
    if any(head.startswith(_HDF5_MARK, start) for start in _HDF5_STARTS):
        return FileFormat.HDF5
    if _DMRPP.search(head):
        return FileFormat.DMRPP
    if _KERCHUNK.match(head):
        return FileFormat.KERCHUNK_JSON
    return None


def _extension(url: str) -> str:
    name = url.rstrip("/").rpartition("/")[2].lower()
    return name.rpartition(".")[2] if "." in name else ""
