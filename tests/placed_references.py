"""Where references of files belong, file by file: the oracle for updates and placements."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.ingest.placement.placing import Placement
from icestream.ingest.placement.virtual_arrays import VirtualArray
from icestream.model.chunk_tables import ChunkTable, concat, replace_columns
from icestream.parsers.scanned_files import ScannedFile


def reference_tables(placement: Placement, files: Iterable[ScannedFile]) -> dict[str, ChunkTable]:
    """Return the references of all virtual arrays, by path in the repository."""
    by_url = {file.url: file for file in files}
    return {
        section.target(path): _table(array, placement.urls, by_url)
        for section in placement.sections
        for path, array in section.virtual.items()
    }


def shifted(table: ChunkTable, offset: npt.NDArray[Any], num_new: int = 0) -> ChunkTable:
    """Return the references of one file at their place in the whole array."""
    new = np.zeros((len(table), num_new), np.uint32)
    index = np.concatenate([new, table.index], axis=1) + offset.astype(np.uint32)
    return replace_columns(table, index=index)


def _table(
    array: VirtualArray, urls: tuple[str, ...], files: Mapping[str, ScannedFile]
) -> ChunkTable:
    tables = [
        shifted(files[urls[row]].arrays[array.path].references, offset, array.num_new)
        for row, offset in zip(array.files.tolist(), array.chunk_offset, strict=True)
    ]
    return concat(tables) if tables else ChunkTable.empty(array.chunk_offset.shape[1])
