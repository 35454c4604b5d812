"""What becomes of one array whose values are copied: which of its chunks are written anew."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from icestream.ingest.placement.copied_arrays import (
    CopiedArray,
    chunk_indexes,
    chunk_values,
    encoded_chunk,
)
from icestream.ingest.updates.metadata_changes import are_same

Index = tuple[int, ...]

_LAYOUT = ("data_type", "chunk_grid", "codecs", "fill_value", "dimension_names")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CopiedUpdate:
    """What has to be done to an array whose values are copied."""

    metadata: Mapping[str, Any] | None
    """The document zarr.json; None if it stays as it is."""
    old_metadata: Mapping[str, Any] | None = None
    """What earlier runs made of it; None if it is new."""
    is_new: bool
    """There was no such array, or another that is to be deleted first."""
    changed: tuple[Index, ...]
    """Chunks to write."""
    gone: tuple[Index, ...]
    """Chunks beyond the end of an array that has become shorter."""
    array: CopiedArray
    """As it is to be."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be done."""
        return self.metadata is None and not self.changed and not self.gone

    def chunks(self) -> Iterator[tuple[Index, bytes]]:
        """Yield the chunks to write by index, as Zarr stores them."""
        return ((index, encoded_chunk(self.array, index)) for index in self.changed)


def update_copied(old: CopiedArray | None, new: CopiedArray) -> CopiedUpdate:
    """Return what has to be done."""
    every = tuple(chunk_indexes(new))
    if old is None or not _have_same_layout(old, new):
        metadata, changed = new.metadata, every
        return CopiedUpdate(metadata=metadata, is_new=True, changed=changed, gone=(), array=new)
    there = frozenset(chunk_indexes(old))
    changed = tuple(
        index for index in every if index not in there or not _are_equal(old, new, index)
    )
    return CopiedUpdate(
        metadata=None if are_same(old.metadata, new.metadata) else new.metadata,
        old_metadata=old.metadata,
        is_new=False,
        changed=changed,
        gone=tuple(sorted(there - {*every})),
        array=new,
    )


def _have_same_layout(old: CopiedArray, new: CopiedArray) -> bool:
    return are_same(*({key: array.metadata.get(key) for key in _LAYOUT} for array in (old, new)))


def _are_equal(old: CopiedArray, new: CopiedArray, index: Index) -> bool:
    one, other = chunk_values(old, index), chunk_values(new, index)
    if one.dtype.kind == "U" or one.dtype != other.dtype:
        return bool((one == other).all())
    return one.tobytes() == other.tobytes()
