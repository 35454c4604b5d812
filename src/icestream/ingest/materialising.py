"""Files of another form, copied into the array that the others make together.

Only the chunks that such a file has in one array are read and written; all others stay where they
are. What is needed can be sent to other processes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.errors import (
    ErrorKind,
    FormatError,
    InvalidInputError,
    ObjectChangedError,
    SourceError,
)
from icestream.ingest.conversion.blocks import Box, block_boxes
from icestream.ingest.conversion.converting import convert, obstacle_between
from icestream.ingest.conversion.meanings import meaning_of
from icestream.model.chunk_refs import ChunkRef, InlineRef, VirtualRef
from icestream.model.chunk_tables import ChunkTable
from icestream.parsers.array_values import decode_chunks, encode_chunks
from icestream.parsers.foreign_faults import told, translated
from icestream.parsers.scanned_files import ScannedArray, ScannedFile
from icestream.parsers.source_files import FindObject, find_with_environment
from icestream.virtual.fetcher import checksum_of

type ReadChunk = Callable[[VirtualRef], bytes]
"""Reads a chunk of a file, if the file is still the one that was scanned."""

type SaveChunk = Callable[[bytes], ChunkRef]
"""Keeps the bytes of a chunk, and returns where."""

_BLOCK_BYTES = 1 << 26
_CONCURRENCY = 8
"""Chunks that are read, and then saved, at once."""


def materialise(
    file: ScannedFile,
    path: str,
    target_metadata: Mapping[str, Any],
    offset: Sequence[int],
    *,
    save_chunk: SaveChunk,
    read_chunk: ReadChunk | None = None,
) -> ChunkTable:
    """Copy the values of one array of a file, and return references to the copies.

    Values are decoded, unpacked and packed anew as the target has it; missing ones stay missing.
    Values are in memory block by block: 64 MB or one chunk, a few times over.

    Args:
        file: As it was scanned.
        path: Of the array in the file.
        target_metadata: The document zarr.json of the whole array.
        offset: The element of the whole array at which the file begins, per dimension.
        save_chunk: Keeps the bytes of a chunk; called by several threads.
        read_chunk: Reads a chunk of the file, such as `VirtualReader.read`; called by several
            threads. By default the file is found with what the environment offers.

    Returns:
        References at the chunk indexes of the whole array. Chunks of nothing but fill values are
        left out.

    Raises:
        SourceError: A value has no place in the target, the file begins or ends inside of a chunk,
            its values cannot be decoded, or it was changed since it was scanned.
        StorageError: A store fails.
    """
    array = file.arrays[path]
    try:
        copy = _Copy.planned(array, target_metadata, tuple(map(int, offset)))
        return copy.run(read_chunk or reads_with(find_with_environment), save_chunk)
    except ObjectChangedError as error:
        raise SourceError(
            f"{file.url} was changed since it was scanned; scan it again",
            kind=ErrorKind.VIRTUAL_CHUNK_MODIFIED,
        ) from error
    except (FormatError, InvalidInputError) as error:
        raise SourceError(
            f"{path} of {file.url} cannot be copied to the array of the other files: "
            f"{error.message}; declare on-mismatch: era or set-aside",
            kind=ErrorKind.INVALID_ARRAY_METADATA,
        ) from error


def reads_with(find_object: FindObject) -> ReadChunk:
    """Return a function that reads chunks of the files that another finds; picklable if that is."""
    return partial(_read, find_object)


def obstacle_to_place(
    offset: Sequence[int], lengths: Sequence[int], target_metadata: Mapping[str, Any]
) -> str | None:
    """Return why a file does not fill whole chunks of an array, or None if it does."""
    chunks = _chunk_shape(target_metadata)
    shape = target_metadata["shape"]
    for start, length, chunk, whole in zip(offset, lengths, chunks, shape, strict=True):
        stop = start + length
        if start % chunk or (stop % chunk and stop < whole):
            return (
                f"it has the positions {start} to {stop - 1} of a dimension, and would share a "
                f"chunk of {chunk} with other files"
            )
    return None


@dataclass(frozen=True, slots=True)
class _Copy:
    """One array of a file on its way into another."""

    array: ScannedArray
    target: Mapping[str, Any]
    offset: tuple[int, ...]

    @classmethod
    def planned(
        cls, array: ScannedArray, target: Mapping[str, Any], offset: tuple[int, ...]
    ) -> "_Copy":
        """Check all that can be checked without the values."""
        names = tuple(target.get("dimension_names") or ())
        copy = cls(array, target, offset)
        if names and array.dimension_names != names[copy.num_new :]:
            raise InvalidInputError(f"its dimensions are {array.dimension_names}, and not {names}")
        lengths = ((1,) * copy.num_new) + array.shape
        obstacle = obstacle_between(array.metadata, target) or obstacle_to_place(
            offset, lengths, target
        )
        if obstacle:
            raise InvalidInputError(obstacle)
        return copy

    @property
    def num_new(self) -> int:
        """Dimensions in front that the file does not have."""
        return len(self.target["shape"]) - len(self.array.shape)

    def run(self, read_chunk: ReadChunk, save_chunk: SaveChunk) -> ChunkTable:
        """Copy block by block."""
        refs: dict[tuple[int, ...], ChunkRef | None] = {}
        source, target = meaning_of(self.array.metadata), meaning_of(self.target)
        with ThreadPoolExecutor(_CONCURRENCY) as pool:
            for box in self._boxes(max(source.stored.itemsize, target.stored.itemsize, 1)):
                rows = _rows_inside(self.array, box)
                chunks = dict(pool.map(partial(_chunk, self.array, read_chunk), rows.tolist()))
                values = convert(self._decoded(chunks, box), source, target)
                encoded = self._encoded(values, box)
                refs.update(zip(encoded, pool.map(save_chunk, encoded.values()), strict=True))
        return ChunkTable.from_refs(refs, len(self.target["shape"]))

    def _boxes(self, itemsize: int) -> Iterator[Box]:
        copies = _chunk_shape(self.target)[self.num_new :]
        chunks = (self.array.chunk_shape, copies)
        return block_boxes(self.array.shape, chunks, _BLOCK_BYTES // itemsize)

    def _decoded(self, chunks: Mapping[tuple[int, ...], bytes], box: Box) -> npt.NDArray[Any]:
        region = tuple(slice(lo, hi) for lo, hi in box)
        with translated(partial(_not, "decoded")):
            return decode_chunks(self.array.metadata, chunks, region)

    def _encoded(self, values: npt.NDArray[Any], box: Box) -> dict[tuple[int, ...], bytes]:
        lengths = (*((0, 1) for _ in range(self.num_new)), *box)
        region = tuple(
            slice(first + lo, first + hi)
            for first, (lo, hi) in zip(self.offset, lengths, strict=True)
        )
        shape = tuple(part.stop - part.start for part in region)
        with translated(partial(_not, "encoded")):
            return encode_chunks(self.target, values.reshape(shape), region)


def _rows_inside(array: ScannedArray, box: Box) -> npt.NDArray[np.intp]:
    """Return the rows of the chunks that a box touches."""
    index = array.references.index
    inside = np.ones(len(index), np.bool_)
    for dim, ((lo, hi), size) in enumerate(zip(box, array.chunk_shape, strict=True)):
        inside &= (index[:, dim] >= lo // size) & (index[:, dim] < -(-hi // size))
    return np.flatnonzero(inside)


def _chunk(array: ScannedArray, read_chunk: ReadChunk, row: int) -> tuple[tuple[int, ...], bytes]:
    index = tuple(array.references.index[row].tolist())
    match array.references.ref(row):
        case InlineRef(data):
            return index, data
        case VirtualRef() as ref:
            return index, read_chunk(ref)
        case other:
            raise InvalidInputError(f"the chunk {index} is neither in a file nor known: {other}")


def _read(find_object: FindObject, ref: VirtualRef) -> bytes:
    storage, key = find_object(ref.location)
    span = (ref.byte_offset, ref.byte_offset + ref.length)
    checksum = checksum_of(ref)
    if not checksum.is_recorded:
        return storage.get(key, span)
    return storage.get_if_unchanged(key, span, etag=checksum.etag, not_after=checksum.not_after)


def _chunk_shape(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"])


def _not(done: str, error: BaseException) -> InvalidInputError:
    return InvalidInputError(f"its values cannot be {done} ({told(error)})")
