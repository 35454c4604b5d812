"""From the blobs of a scan to the manifests that hold their references: which goes where. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.ingest.engines.scanning import ReferenceBlob
from icestream.ingest.reference_blobs import decode_references, encode_references
from icestream.model.chunk_tables import ChunkTable, replace_columns
from icestream.packing.assignment import WHOLE_ARRAY, Cell
from icestream.packing.splits import CellSizes, cells_of

type Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Destination:
    """One array of a repository, and where in it the chunks of each file go."""

    offset: Offsets
    """(files, rank) the first chunk of each file, by its ordinal."""
    brings: npt.NDArray[np.bool_]
    """Whether a file brings chunks, by its ordinal."""
    num_new: int = 0
    """Dimensions in front that files do not have."""
    cell_sizes: CellSizes | None = None
    """How the references of the array are split over manifests."""
    tasks: Mapping[Cell, int] = field(default_factory=dict)
    """The number of the task that writes each cell."""


@dataclass(frozen=True, slots=True)
class RoutedBlob:
    """References for one task; they still have to be moved by `shift`."""

    task: int
    payload: bytes
    shift: tuple[int, ...] = ()
    """Empty if they are at their place."""
    num_new: int = 0

    def table(self) -> ChunkTable:
        """Return the references at their place in the array."""
        table = decode_references(self.payload)
        if not self.shift:
            return table
        return moved(table, np.array(self.shift, np.int64), self.num_new)


def route(blob: ReferenceBlob, destinations: tuple[Destination, ...]) -> Iterator[RoutedBlob]:
    """Yield what each task gets of a blob; one that goes to a single task is not opened."""
    for destination in destinations:
        if not blob.ordinals:
            yield from _route_one(blob, destination)
            continue
        table = placed_references(blob, destination)
        if table is not None:
            yield from cut_for(table, destination)


def placed_references(blob: ReferenceBlob, destination: Destination) -> ChunkTable | None:
    """Return the references of a blob that go to an array, at their places; None if none do."""
    if not blob.ordinals:
        if not destination.brings[blob.ordinal]:
            return None
        offset = destination.offset[blob.ordinal]
        return moved(decode_references(blob.payload), offset, destination.num_new)
    ordinals = blob.files_of_rows()
    goes = destination.brings[ordinals]
    if not goes.any():
        return None
    table, offset = decode_references(blob.payload), destination.offset[ordinals]
    if not goes.all():
        table, offset = table.take(goes), offset[goes]
    return moved(table, offset, destination.num_new)


def moved(table: ChunkTable, offset: npt.NDArray[Any], num_new: int) -> ChunkTable:
    """Return references with dimensions in front, moved by one offset for all or one for each."""
    index = table.index
    if num_new:
        index = np.concatenate([np.zeros((len(index), num_new), np.uint32), index], axis=1)
    index = (index + offset).astype(np.uint32)
    # one offset for all leaves the order as it is
    return replace_columns(table, index=index) if offset.ndim == 1 else table.with_index(index)


def _route_one(blob: ReferenceBlob, destination: Destination) -> Iterator[RoutedBlob]:
    """Route the references of one file by the box that they are in."""
    if not destination.brings[blob.ordinal]:
        return
    offset = destination.offset[blob.ordinal]
    cell = _only_cell(blob, offset, destination)
    if cell is None:
        table = moved(decode_references(blob.payload), offset, destination.num_new)
        yield from cut_for(table, destination)
        return
    shift = tuple(offset.tolist())
    yield RoutedBlob(destination.tasks[cell], blob.payload, shift, destination.num_new)


def _only_cell(blob: ReferenceBlob, offset: Offsets, destination: Destination) -> Cell | None:
    sizes = destination.cell_sizes
    if sizes is None:
        return WHOLE_ARRAY
    bounds = np.array(blob.extents, np.int64).reshape(-1, 2)
    new = np.zeros((destination.num_new, 2), np.int64)
    bounds = np.concatenate([new, bounds]) + offset[:, None]
    cells = bounds // np.array(sizes, np.int64)[:, None]
    if not np.array_equal(cells[:, 0], cells[:, 1]):
        return None
    return tuple(cells[:, 0].tolist())


def cut_for(table: ChunkTable, destination: Destination) -> Iterator[RoutedBlob]:
    """Yield what each task gets of references that are at their places."""
    if destination.cell_sizes is None:
        yield RoutedBlob(destination.tasks[WHOLE_ARRAY], encode_references(table))
        return
    for cell, rows in cells_of(table.index, destination.cell_sizes):
        yield RoutedBlob(destination.tasks[cell], encode_references(table.take(rows)))
