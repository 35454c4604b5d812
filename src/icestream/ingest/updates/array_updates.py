"""What becomes of one virtual array: what stays, what moves, what goes, and what is new."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from icestream.ingest.file_columns import Lengths, Rows
from icestream.ingest.placement.virtual_arrays import VirtualArray
from icestream.ingest.updates.chunk_moves import (
    Mask,
    Moves,
    axis_maps,
    boxes_of_chunks,
    index_map,
)
from icestream.ingest.updates.metadata_changes import are_same, have_same_layout
from icestream.model.index_maps import IndexMap


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ArrayUpdate:
    """What has to be done to a virtual array. Rows are those of the new placement."""

    path: str
    """In the files."""
    metadata: Mapping[str, Any] | None
    """The document zarr.json; None if it stays as it is."""
    old_metadata: Mapping[str, Any] | None
    """What earlier runs made of it; None if it is new."""
    is_new: bool
    """There was no such array, or another that is to be deleted first."""
    index_map: IndexMap | None
    """Where references go that are there already; None if all stay where they are."""
    files: Rows
    """Files that bring references."""
    chunk_offset: Lengths
    """(n, rank) index of the first chunk of each of these files."""
    chunk_extent: Lengths
    """(n, rank) chunks of each of these files."""
    num_new: int
    """Dimensions in front that files do not have."""
    differing: Rows
    """Files of another form that are to be copied into the array."""
    differing_start: Lengths
    """(n, rank) first element of each of these files."""
    differing_extent: Lengths
    """(n, rank) chunks of each of these files."""
    array: VirtualArray
    """As it is to be."""

    @property
    def added_boxes(self) -> Lengths:
        """(n, rank, 2) boxes of chunks that get new references, of copies too."""
        copies = self.differing_start // chunk_sizes(self.array)
        return np.concatenate(
            [
                boxes_of_chunks(self.chunk_offset, self.chunk_extent),
                boxes_of_chunks(copies, self.differing_extent),
            ]
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be done."""
        is_same = self.metadata is None and self.index_map is None
        return is_same and not len(self.files) and not len(self.differing)


@dataclass(frozen=True, slots=True, eq=False)
class FileRows:
    """How files of the old placement are found in the new one."""

    successor: Rows
    """By row of the old placement the row in the new one, or a negative number."""
    is_fresh: Mask
    """By row of the new placement: references are at hand, and those that were are void."""


def update_array(
    old: VirtualArray | None, new: VirtualArray, rows: FileRows
) -> tuple[ArrayUpdate, Rows]:
    """Return what has to be done, and the files that must be scanned for it although they stay."""
    after = _suppliers(new)
    is_new = old is None or not _is_compatible(old, new)
    if old is None or is_new:
        stays, mapped = np.zeros(len(after.files), np.bool_), None
    else:
        stays, mapped = _what_stays(_suppliers(old), after, rows, _grid(old))
    brought = ~stays & ~after.is_copy
    copied = np.flatnonzero((~stays)[after.is_copy])
    starts = _differing(new)
    update = ArrayUpdate(
        path=new.path,
        metadata=new.metadata if is_new or not _has_same_metadata(old, new) else None,
        old_metadata=None if old is None or is_new else old.metadata,
        is_new=is_new,
        index_map=mapped,
        files=after.files[brought],
        chunk_offset=after.offset[brought],
        chunk_extent=after.extent[brought],
        num_new=new.num_new,
        differing=starts.files[copied],
        differing_start=starts.start[copied],
        differing_extent=starts.extent[copied],
        array=new,
    )
    lacking = after.files[~stays]
    return update, lacking[~rows.is_fresh[lacking]]


# -- which files have chunks in an array -----------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Suppliers:
    """Files that have chunks in an array: those of its form, then those that are copied."""

    files: Rows
    offset: Lengths
    extent: Lengths
    is_copy: Mask


@dataclass(frozen=True, slots=True, eq=False)
class _Differing:
    files: Rows
    start: Lengths
    extent: Lengths


def _differing(array: VirtualArray) -> _Differing:
    files, start, extent = array.differing, array.differing_start, array.differing_extent
    if files is None or start is None or extent is None:
        none = np.empty((0, array.chunk_offset.shape[1]), np.int64)
        return _Differing(np.empty(0, np.intp), none, none)
    return _Differing(files, start, extent)


def _suppliers(array: VirtualArray) -> _Suppliers:
    copies = _differing(array)
    return _Suppliers(
        np.concatenate([array.files, copies.files]),
        np.concatenate([array.chunk_offset, copies.start // chunk_sizes(array)]),
        np.concatenate([array.chunk_extent, copies.extent]),
        np.arange(len(array.files) + len(copies.files)) >= len(array.files),
    )


def _what_stays(
    before: _Suppliers, after: _Suppliers, rows: FileRows, grid: Sequence[int]
) -> tuple[Mask, IndexMap | None]:
    """Return which files of the new array keep their references, and where these go."""
    ancestors = rows.successor[before.files]
    _, at_old, at_new = np.intersect1d(ancestors, after.files, return_indices=True)
    same = ~rows.is_fresh[after.files[at_new]]
    same &= before.is_copy[at_old] == after.is_copy[at_new]
    same &= (before.extent[at_old] == after.extent[at_new]).all(axis=1)
    at_old, at_new = at_old[same], at_new[same]
    moves = Moves(before.offset[at_old], after.offset[at_new], before.extent[at_old])
    axes, fits = axis_maps(moves, grid)
    stays = np.zeros(len(after.files), np.bool_)
    stays[at_new[fits]] = True
    goes = np.ones(len(before.files), np.bool_)
    goes[at_old[fits]] = False
    dropped = boxes_of_chunks(before.offset[goes], before.extent[goes])
    return stays, index_map(axes, dropped)


# -- documents -------------------------------------------------------------------------------------


def chunk_sizes(array: VirtualArray) -> Lengths:
    """Return the elements of a chunk per dimension, at least 1."""
    shape = array.metadata["chunk_grid"]["configuration"]["chunk_shape"]
    return np.maximum(np.array(shape, np.int64), 1)


def _grid(array: VirtualArray) -> list[int]:
    shape = np.array(array.metadata["shape"], np.int64)
    grid: list[int] = (-(-shape // chunk_sizes(array))).tolist()
    return grid


def _is_compatible(old: VirtualArray, new: VirtualArray) -> bool:
    return old.num_new == new.num_new and have_same_layout(old.metadata, new.metadata)


def _has_same_metadata(old: VirtualArray | None, new: VirtualArray) -> bool:
    return old is not None and are_same(old.metadata, new.metadata)
