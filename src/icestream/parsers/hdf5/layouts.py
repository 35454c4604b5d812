"""Where the values of a dataset lie in its file."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5d, h5p

from icestream.errors import ErrorKind, SourceError
from icestream.model.chunk_tables import ChunkTable
from icestream.parsers.file_references import inline_chunks, references_to
from icestream.parsers.hdf5.filters import Codec, codecs_of
from icestream.parsers.source_files import SourceFile

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """The chunks of a dataset, and how they are encoded."""

    chunk_shape: tuple[int, ...]
    references: ChunkTable
    codecs: Sequence[Codec] = ()


def layout_of(source: SourceFile, dataset: h5d.DatasetID) -> Layout:
    """Return the chunks of a dataset of values with a fixed size.

    Raises:
        SourceError: Its values are in other files, or encoded in a way that no codec undoes.
    """
    properties = dataset.get_create_plist()
    match properties.get_layout():
        case h5d.CHUNKED:
            return _chunked(source, dataset, properties)
        case h5d.COMPACT:
            return _compact(dataset)
        case h5d.CONTIGUOUS:
            return _contiguous(source, dataset, properties)
        case _:
            raise SourceError(
                "it is a virtual dataset of HDF5, whose values are in other datasets; scan the "
                "files that hold them",
                kind=ErrorKind.UNIMPLEMENTED,
            )


def whole_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of one chunk that covers everything; no dimension of it is zero."""
    return tuple(max(length, 1) for length in shape)


def _contiguous(source: SourceFile, dataset: h5d.DatasetID, properties: h5p.PropDCID) -> Layout:
    shape = dataset.shape
    if properties.get_external_count():
        raise SourceError(
            "its values are in an external file; copy the variable instead",
            kind=ErrorKind.UNIMPLEMENTED,
        )
    offset, length = dataset.get_offset(), dataset.get_storage_size()
    if offset is None or not length or not math.prod(shape):
        return Layout(whole_shape(shape), ChunkTable.empty(len(shape)))
    index = np.zeros((1, len(shape)), np.uint32)
    return Layout(whole_shape(shape), references_to(source, index, [offset], [length]))


def _compact(dataset: h5d.DatasetID) -> Layout:
    shape = dataset.shape
    if not math.prod(shape):
        return Layout(whole_shape(shape), ChunkTable.empty(len(shape)))
    values: npt.NDArray[Any] = np.empty(shape, dataset.dtype)
    dataset.read(*_everything(dataset), values)
    chunks = {(0,) * len(shape): values.tobytes()}
    return Layout(whole_shape(shape), inline_chunks(chunks, len(shape)))


def _everything(dataset: h5d.DatasetID) -> tuple[Any, Any]:
    space = dataset.get_space()
    return space, space


def _chunked(source: SourceFile, dataset: h5d.DatasetID, properties: h5p.PropDCID) -> Layout:
    stored_shape = properties.get_chunk()
    infos: list[Any] = []
    dataset.chunk_iter(infos.append)
    if not infos:
        shape = _trimmed(dataset, stored_shape, codecs := codecs_of(properties))
        return Layout(shape, ChunkTable.empty(len(shape)), codecs)
    positions, masks, offsets, sizes = zip(*infos, strict=True)
    codecs = codecs_of(properties, _common_mask(masks))
    chunk_shape = _trimmed(dataset, stored_shape, codecs)
    index = np.array(positions, np.int64) // np.array(stored_shape, np.int64)
    lengths = np.array(sizes, np.uint64)
    if chunk_shape != stored_shape:
        # what is left out lies behind the rest: a shorter range leaves it out
        lengths = np.full(len(infos), math.prod(chunk_shape) * dataset.dtype.itemsize, np.uint64)
    return Layout(chunk_shape, references_to(source, index, offsets, lengths), codecs)


def _common_mask(masks: Sequence[int]) -> int:
    """Return which filters all chunks went without."""
    different = set(masks)
    if len(different) > 1:
        raise SourceError(
            f"{sum(map(bool, masks))} of its {len(masks)} chunks went without some of the HDF5 "
            "filters, and Zarr has the same codecs for all; copy the variable instead",
            kind=ErrorKind.UNIMPLEMENTED,
        )
    return different.pop()


def _trimmed(
    dataset: h5d.DatasetID, chunk_shape: tuple[int, ...], codecs: Sequence[Codec]
) -> tuple[int, ...]:
    """Return a chunk shape that does not exceed the array, where bytes can be left out for it.

    Datasets that may grow have chunks longer than they are. Where those are not encoded and exceed
    the array along their first dimension only, the values of the array come first.
    """
    fitting = tuple(min(c, max(s, 1)) for c, s in zip(chunk_shape, dataset.shape, strict=True))
    can_trim = not codecs and fitting[1:] == chunk_shape[1:]
    return fitting if can_trim else chunk_shape
