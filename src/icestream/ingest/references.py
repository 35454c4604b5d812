"""From the chunks of files to the chunks of the arrays that files make together."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.placement.placing import Placement
from icestream.ingest.placement.virtual_arrays import VirtualArray
from icestream.model.chunk_tables import ChunkTable, concat, replace_columns
from icestream.parsers.scanned_files import ScannedFile


def reference_tables(
    placement: Placement, files: Iterable[ScannedFile], *, group: str = "/"
) -> dict[str, ChunkTable]:
    """Return the references of all virtual arrays, by path in the repository.

    Args:
        placement: Where files go.
        files: All files that supply chunks, in any order.
        group: The group of the archive.

    Raises:
        InvalidInputError: A file that has a place was not given.
    """
    by_url = {file.url: file for file in files}
    return {
        section.target(path, group): _table(array, placement.urls, by_url)
        for section in placement.sections
        for path, array in section.virtual.items()
    }


def file_at(url: str, path: str, files: Mapping[str, ScannedFile]) -> ScannedFile:
    """Return the file that has a place in an array.

    Raises:
        InvalidInputError: It was not given.
    """
    file = files.get(url)
    if file is None:
        raise InvalidInputError(
            f"{url} has a place in {path}, and was not given: scan it again",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    return file


def shifted(table: ChunkTable, offset: npt.NDArray[Any], num_new: int = 0) -> ChunkTable:
    """Return the references of one file at their place in the whole array."""
    index = table.index
    if num_new:
        index = np.concatenate([np.zeros((len(index), num_new), np.uint32), index], axis=1)
    if offset.any():
        index = index + offset.astype(np.uint32)
    return table if index is table.index else replace_columns(table, index=index)


def _table(
    array: VirtualArray, urls: tuple[str, ...], files: Mapping[str, ScannedFile]
) -> ChunkTable:
    tables = []
    for row, offset in zip(array.files.tolist(), array.chunk_offset, strict=True):
        file = file_at(urls[row], array.path, files)
        tables.append(shifted(file.arrays[array.path].references, offset, array.num_new))
    return concat(tables) if tables else ChunkTable.empty(array.chunk_offset.shape[1])
