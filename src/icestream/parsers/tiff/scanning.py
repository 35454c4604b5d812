"""A walk through the images of one TIFF file."""

import math
from collections.abc import Iterator
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
from tifffile import TiffFile, TiffPage, TiffPageSeries

from icestream.errors import ErrorKind, SourceError
from icestream.model.chunk_tables import ChunkTable, dense_index
from icestream.model.paths import parent_of
from icestream.parsers.array_documents import array_document, encoded_cf_fill_value
from icestream.parsers.file_contents import FileContents, Loading
from icestream.parsers.file_references import inline_chunks, references_to
from icestream.parsers.scanned_files import ScannedArray, ScanProblem
from icestream.parsers.source_files import SourceFile
from icestream.parsers.tiff.compressions import encoding_of
from icestream.parsers.tiff.georeferences import pixel_centres, plain_tags

_DIMENSIONS = {"Y": "y", "X": "x", "S": "band", "C": "channel", "T": "time", "Z": "z"}
_DIMENSIONS |= dict.fromkeys("IQ", "page")  # of a stack, by index or by nothing that is known
_FLOAT = np.dtype("<f8")


def scan_tiff(source: SourceFile, loading: Loading) -> FileContents:
    """Return the images of a TIFF file; overviews are in groups of their own."""
    del loading  # coordinates are made here
    contents = FileContents()
    with source.reader() as reader, TiffFile(cast("IO[bytes]", reader)) as file:
        for path, image in _images(file):
            contents.groups.setdefault(parent_of(path), {})
            try:
                _add_image(contents, source, path, (file, image))
            except SourceError as error:
                contents.problems.append(ScanProblem(str(error), path))
    return contents


def _images(file: TiffFile) -> Iterator[tuple[str, TiffPageSeries]]:
    for number, series in enumerate(file.series):
        name = "image" if number == 0 else f"image_{number}"
        for level, image in enumerate(series.levels):
            yield f"/overview_{level}/{name}" if level else f"/{name}", image


def _add_image(
    contents: FileContents, source: SourceFile, path: str, image: tuple[TiffFile, TiffPageSeries]
) -> None:
    file, series = image
    page = series.keyframe
    if page.dtype is None:
        raise SourceError("its samples are of different types, or of none that NumPy has")
    dtype = page.dtype.newbyteorder(file.byteorder)
    encoding = encoding_of(page, dtype)
    chunk_shape, table = _chunks(source, series, page)
    attributes: dict[str, Any] = {}
    nodata = _nodata(page, dtype)
    if nodata is not None:
        attributes["_FillValue"] = encoded_cf_fill_value(np.array([nodata]), dtype)
    if page.geotiff_tags:
        attributes["geotiff"] = plain_tags(page.geotiff_tags)
    document = array_document(
        series.shape,
        chunk_shape,
        dtype,
        serializer=encoding.serializer,
        codecs=encoding.codecs,
        fill_value=nodata,
        dimension_names=_dimension_names(series),
        attributes=attributes,
    )
    document["codecs"] = [*encoding.filters, *document["codecs"]]
    contents.arrays[path] = ScannedArray(document, table)
    _add_coordinates(contents, path.rpartition("/")[0], series, page)


def _chunks(
    source: SourceFile, series: TiffPageSeries, page: TiffPage
) -> tuple[tuple[int, ...], ChunkTable]:
    """Return the shape of chunks, and where they are.

    Raises:
        SourceError: The last strip is shorter than the others.
    """
    outer = series.shape[: len(series.shape) - len(page.shape)]
    if page.is_contiguous and not _divides(page):
        # nothing is between its strips: one chunk is all of them
        inner, grid = page.shape, (1,) * len(page.shape)
        whole = page.nbytes
    else:
        inner = (1,) * (len(page.shape) - len(page.chunks)) + page.chunks
        grid, whole = page.chunked, 0
        if not page.is_tiled and not _divides(page):
            raise SourceError(
                f"its strips have {page.rowsperstrip} rows, which do not divide its "
                f"{page.imagelength}: the last one is shorter than a chunk; copy the image",
                kind=ErrorKind.UNIMPLEMENTED,
            )
    ranges = [_ranges(one, whole, math.prod(grid)) for one in series.pages]
    offsets, lengths = np.concatenate(ranges, axis=1)
    index = dense_index([*outer, *grid])
    if len(index) != len(offsets):
        raise SourceError(
            f"its {series.shape} samples are behind one page of {page.shape}; copy the image",
            kind=ErrorKind.UNIMPLEMENTED,
        )
    present = lengths > 0
    table = references_to(source, index[present], offsets[present], lengths[present])
    return (*[1] * len(outer), *inner), table


def _divides(page: TiffPage) -> bool:
    return page.is_tiled or page.imagelength % min(page.rowsperstrip, page.imagelength) == 0


def _ranges(page: Any, whole: int, count: int) -> npt.NDArray[np.int64]:
    """Return offsets and lengths of the chunks of one page; those of a missing one are zero."""
    if page is None:
        return np.zeros((2, count), np.int64)
    if whole:
        return np.array([[page.dataoffsets[0]], [whole]], np.int64)
    return np.array([page.dataoffsets, page.databytecounts], np.int64)


def _nodata(page: TiffPage, dtype: np.dtype[Any]) -> Any:
    tag = page.tags.get("GDAL_NODATA")
    if tag is None:
        return None
    try:
        value = dtype.type(str(tag.value).strip("\x00 "))
    except (OverflowError, ValueError):
        return None  # outside the range of the samples: none of them is missing
    return value


def _dimension_names(series: TiffPageSeries) -> list[str]:
    return [_DIMENSIONS.get(axis, axis.lower()) for axis in series.axes]


def _add_coordinates(
    contents: FileContents, group: str, series: TiffPageSeries, page: TiffPage
) -> None:
    centres = pixel_centres(page.geotiff_tags, page.imagelength, page.imagewidth)
    if centres is None or not {"X", "Y"} <= set(series.axes):
        return
    for name, values in zip(("y", "x"), centres, strict=True):
        path = f"{group}/{name}"
        document = array_document(
            values.shape, values.shape, _FLOAT, fill_value=np.nan, dimension_names=[name]
        )
        chunks = inline_chunks({(0,): values.astype(_FLOAT).tobytes()}, 1)
        contents.arrays.setdefault(path, ScannedArray(document, chunks))
        contents.values.setdefault(path, values)
