"""FITS files: images of any number of dimensions, each in one block of big-endian numbers.

Headers are read by astropy. Tables and compressed images are named: Zarr has no codec for them.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from astropy.io import fits
from astropy.utils.exceptions import AstropyWarning

from icestream.parsers.array_documents import array_document, encoded_cf_fill_value
from icestream.parsers.file_contents import FileContents, Loading
from icestream.parsers.file_references import references_to
from icestream.parsers.scanned_files import ScannedArray, ScanProblem
from icestream.parsers.source_files import SourceFile

_DTYPES = {8: "u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}
"""By the keyword BITPIX."""
_AXES = ("z", "y", "x")


def scan_fits(source: SourceFile, loading: Loading) -> FileContents:
    """Return the images of a FITS file; what has a header only is a group."""
    del loading  # values are read through the references
    contents = FileContents()
    with source.reader() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", AstropyWarning)  # of headers that are not as they should be
        with fits.open(
            file, memmap=False, do_not_scale_image_data=True, disable_image_compression=True
        ) as units:
            for name, unit in _named(units):
                _add(contents, source, name, unit)
    return contents


def _named(units: Any) -> Iterator[tuple[str, Any]]:
    """Yield header-data units with names of which each is there once."""
    known: set[str] = set()
    for number, unit in enumerate(units):
        name = (unit.name or str(number)).replace("/", "_")
        name = f"{name}_{number}" if name in known else name
        known.add(name)
        yield name, unit


def _add(contents: FileContents, source: SourceFile, name: str, unit: Any) -> None:
    path = f"/{name}"
    attributes, faults = _attributes(unit.header)
    if not unit.header.get("NAXIS"):
        place = "/" if isinstance(unit, fits.PrimaryHDU) else path
        contents.groups[place] = attributes
        contents.report(place, faults)
    elif isinstance(unit, fits.PrimaryHDU | fits.ImageHDU) and not isinstance(unit, fits.GroupsHDU):
        contents.arrays[path] = _image(source, name, unit, attributes)
        contents.report(path, faults)
    else:
        contents.problems.append(ScanProblem(_reason(unit), path))


def _reason(unit: Any) -> str:
    if unit.header.get("ZIMAGE"):
        kind = unit.header.get("ZCMPTYPE", "unknown")
        return f"an image with the compression {kind} is kept in tiles that no Zarr codec decodes"
    return (
        f"a unit of the kind {type(unit).__name__} is no image, and references cannot express it; "
        "copy what is needed of it"
    )


def _image(source: SourceFile, name: str, unit: Any, attributes: dict[str, Any]) -> ScannedArray:
    header = unit.header
    dtype = np.dtype(_DTYPES[header["BITPIX"]])
    shape = [int(header[f"NAXIS{number}"]) for number in range(header["NAXIS"], 0, -1)]
    document = array_document(
        shape,
        [max(length, 1) for length in shape],
        dtype,
        dimension_names=_dimension_names(name, len(shape)),
        attributes={**attributes, **_meaning(header, dtype)},
    )
    size = math.prod(shape) * dtype.itemsize
    count = min(size, 1)  # an image without pixels has no chunk
    index = np.zeros((count, len(shape)), np.uint32)
    table = references_to(source, index, [unit.fileinfo()["datLoc"]] * count, [size] * count)
    return ScannedArray(document, table)


def _meaning(header: Any, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return what stored numbers mean, as the CF conventions say it."""
    meaning: dict[str, Any] = {}
    if header.get("BSCALE", 1) != 1:
        meaning["scale_factor"] = float(header["BSCALE"])
    if header.get("BZERO", 0) != 0:
        meaning["add_offset"] = float(header["BZERO"])
    if dtype.kind in "iu" and "BLANK" in header:
        meaning["_FillValue"] = encoded_cf_fill_value(np.array([header["BLANK"]]), dtype)
    return meaning


def _dimension_names(name: str, rank: int) -> Sequence[str]:
    """Return names that belong to one image: another may have other lengths."""
    if rank > len(_AXES):
        return [f"{name}_axis{number}" for number in range(rank, 0, -1)]
    return [f"{name}_{axis}" for axis in _AXES[-rank:]]


def _attributes(header: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the cards of a header as JSON holds them, and why others are not among them."""
    plain: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for keyword in dict.fromkeys(header):
        try:
            value = header[keyword]
        except fits.VerifyError as error:
            faults[keyword] = str(error)
            continue
        if isinstance(value, bool | int | float | str):
            plain[keyword] = value
        elif keyword:  # many lines of a comment or of the history
            plain[keyword] = str(value)
    return plain, faults
