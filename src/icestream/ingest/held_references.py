"""References of files as a version of the repository holds them, to be put elsewhere."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from icestream.ingest.engines.routing import moved
from icestream.ingest.file_columns import Lengths
from icestream.ingest.placement.placing import Placement
from icestream.ingest.placement.virtual_arrays import VirtualArray
from icestream.ingest.updates.array_updates import ArrayUpdate, chunk_sizes
from icestream.ingest.updates.chunk_moves import boxes_of_chunks
from icestream.ingest.updates.metadata_changes import have_same_layout
from icestream.model.chunk_tables import ChunkTable, concat, replace_columns
from icestream.model.index_maps import inside
from icestream.model.nodes import ArrayNode
from icestream.model.paths import ROOT
from icestream.repository.chunk_index import committed_tables
from icestream.repository.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class HeldFile:
    """The chunks of one file in one array of a version."""

    array: VirtualArray
    path: str
    """Of the array in the repository."""
    offset: Lengths
    """(rank) the first chunk."""
    extent: Lengths
    """(rank) how many chunks."""
    is_copy: bool
    """Whether the chunks are copies in the repository, in the form of the array."""

    def fits(self, update: ArrayUpdate, *, is_copy: bool) -> bool:
        """Tell whether the chunks can be taken over into an array; copies have its form."""
        if is_copy or self.is_copy:
            are_alike = have_same_layout(self.array.metadata, update.array.metadata)
            return is_copy and self.is_copy and are_alike
        return True


class Holdings:
    """Where a version of the repository has the chunks of files.

    Args:
        session: On the version.
        placement: By which files were placed there.
        group: The group of the archive.
    """

    def __init__(self, session: Session, placement: Placement, group: str = ROOT) -> None:
        self._session = session
        self._placement = placement
        self._group = group
        self._files: dict[str, dict[str, HeldFile]] = {}

    def find(self, url: str, path: str) -> HeldFile | None:
        """Return where the chunks of an array of a file are; None if they are not there.

        Args:
            url: Of the file.
            path: Of the array in the file.
        """
        if path not in self._files:
            self._files[path] = dict(self._held_files(path))
        return self._files[path].get(url)

    def tables(self, wanted: Sequence["Wanted"]) -> Iterator[ChunkTable]:
        """Yield the references of files at their new places in one array.

        Manifests without references of these files are not read.
        """
        copy = self._session._copy  # noqa: SLF001  sessions offer whole tables only
        by_path: dict[str, list[Wanted]] = defaultdict(list)
        for one in wanted:
            by_path[one.file.path].append(one)
        for path, found in by_path.items():
            node = copy.nodes.find(path)
            if not isinstance(node, ArrayNode):
                continue  # somebody deleted it, and there is nothing to take over
            boxes = boxes_of_chunks(*_stacked([one.file for one in found]))
            for table in committed_tables(copy.context.assets, _part_of(node, boxes)):
                for one, box in zip(found, boxes, strict=True):
                    yield _moved(_rows_in(table, box), one)

    def _held_files(self, path: str) -> Iterator[tuple[str, HeldFile]]:
        urls = self._placement.urls
        for section in self._placement.sections:
            array = section.virtual.get(path)
            if array is None:
                continue
            target = section.target(path, self._group)
            for rows, offset, extent, is_copy in _suppliers(array):
                for row, at, count in zip(rows.tolist(), offset, extent, strict=True):
                    yield urls[row], HeldFile(array, target, at, count, is_copy)


def _suppliers(
    array: VirtualArray,
) -> Iterator[tuple[npt.NDArray[np.intp], Lengths, Lengths, bool]]:
    yield array.files, array.chunk_offset, array.chunk_extent, False
    rows, start, extent = array.differing, array.differing_start, array.differing_extent
    if rows is not None and start is not None and extent is not None:
        yield rows, start // chunk_sizes(array), extent, True


def _stacked(files: Sequence[HeldFile]) -> tuple[Lengths, Lengths]:
    return np.stack([file.offset for file in files]), np.stack([file.extent for file in files])


def _part_of(node: ArrayNode, boxes: Lengths) -> ArrayNode:
    """Return an array with the manifests that may have something in one of the boxes."""
    manifests = tuple(
        ref
        for ref in node.manifests
        if not ref.extents or _overlaps(np.array(ref.extents, np.int64), boxes)
    )
    return replace(node, manifests=manifests)


def _overlaps(extents: Lengths, boxes: Lengths) -> bool:
    apart = (boxes[:, :, 0] >= extents[:, 1]) | (boxes[:, :, 1] <= extents[:, 0])
    return bool((~apart.any(axis=1)).any())


def _rows_in(table: ChunkTable, box: Lengths) -> ChunkTable:
    if not len(box):
        return table
    # rows are in order, so those of a range of the first dimension are together
    low, high = np.searchsorted(table.index[:, 0], box[0]).tolist()
    part = table.take(slice(low, high))
    return part.take(inside(part.index, tuple((lo, hi) for lo, hi in box.tolist())))


def _moved(table: ChunkTable, wanted: "Wanted") -> ChunkTable:
    known = wanted.file.array.num_new
    index = (table.index[:, known:] - wanted.file.offset[known:]).astype(np.uint32)
    return moved(replace_columns(table, index=index), wanted.offset, wanted.num_new)


# -- what updates need of it ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """The chunks of a file that an array lacks, and where they are."""

    holdings: Holdings
    file: HeldFile
    offset: Lengths
    """(rank) the first chunk at its new place."""
    num_new: int


def at_their_places(wanted: Iterable[Wanted]) -> ChunkTable | None:
    """Return references of files at their new places in one array; None if there are none."""
    by_holdings: dict[Holdings, list[Wanted]] = defaultdict(list)
    for one in wanted:
        by_holdings[one.holdings].append(one)
    tables = [table for held, ones in by_holdings.items() for table in held.tables(ones)]
    tables = [table for table in tables if len(table)]
    return concat(tables) if tables else None


def needed_files(update: ArrayUpdate, urls: Sequence[str]) -> Iterator[tuple[str, Lengths, bool]]:
    """Yield the files that bring references to an array: URL, first chunk, whether as a copy."""
    for row, offset in zip(update.files.tolist(), update.chunk_offset, strict=True):
        yield urls[row], offset, False
    copies = update.differing_start // chunk_sizes(update.array)
    for row, offset in zip(update.differing.tolist(), copies, strict=True):
        yield urls[row], offset, True


def with_held_copies(
    update: ArrayUpdate, urls: Sequence[str], held: Mapping[str, Wanted]
) -> ArrayUpdate:
    """Return an update that makes no copies of files whose copies are held."""
    is_held = np.array([urls[row] in held for row in update.differing.tolist()], np.bool_)
    if not is_held.any():
        return update
    starts = update.differing_start[is_held] // chunk_sizes(update.array)
    return replace(
        update,
        files=np.concatenate([update.files, update.differing[is_held]]),
        chunk_offset=np.concatenate([update.chunk_offset, starts]),
        chunk_extent=np.concatenate([update.chunk_extent, update.differing_extent[is_held]]),
        differing=update.differing[~is_held],
        differing_start=update.differing_start[~is_held],
        differing_extent=update.differing_extent[~is_held],
    )
