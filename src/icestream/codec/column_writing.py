"""Writing flatbuffers whose size is known beforehand, block by block, into one zstd frame."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from icestream.codec.columns import BLOCK_ROWS, MAX_BUFFER_BYTES, Int64
from icestream.errors import InternalError, InvalidInputError

IDENTIFIER = b"Ichk"

_MAX_LEVEL = 22
_BLOCK_BYTES = 2**21


def align(position: int, to: int) -> int:
    """Return the first multiple of `to` that is not before `position`."""
    return -(-position // to) * to


class FrameWriter:
    """A file in the making: header, then a flatbuffer of known size compressed on the way."""

    def __init__(self, header: bytes, size: int, level: int) -> None:
        if size > MAX_BUFFER_BYTES:
            raise InvalidInputError(
                f"the file would hold {size} bytes, readers take {MAX_BUFFER_BYTES}; "
                "split it, for example by smaller manifests or smaller commits"
            )
        # the format stores the level as any u8, and zstd takes what is too high as its highest
        compressor = zstandard.ZstdCompressor(level=min(level, _MAX_LEVEL), write_checksum=True)
        self._frame = compressor.compressobj(size=size)
        self._file = io.BytesIO()
        self._file.write(header)
        self._size = size
        self.position = 0

    def write(self, block: Any) -> None:
        """Append contiguous bytes."""
        self._file.write(self._frame.compress(block))
        self.position += memoryview(block).nbytes

    def pad_to(self, position: int) -> None:
        """Append zeros up to a position."""
        if position > self.position:
            self.write(bytes(position - self.position))

    def finish(self) -> bytes:
        """Return the file."""
        if self.position != self._size:
            raise InternalError(f"wrote {self.position} bytes, planned {self._size}")
        self._file.write(self._frame.flush())
        return self._file.getvalue()


def encode_vtable(offsets: Sequence[int], table_bytes: int) -> bytes:
    """Return a vtable: where in the table the field of each slot is, 0 for an absent field."""
    words = [4 + 2 * len(offsets), table_bytes, *offsets]
    return np.array(words, "<u2").tobytes()


def write_uoffsets(writer: FrameWriter, first: int, step: int, count: int) -> None:
    """Write a vector of offsets to `count` tables that lie `step` bytes apart."""
    writer.write(np.uint32(count).tobytes())
    for start in range(0, count, BLOCK_ROWS):
        rows = np.arange(start, min(start + BLOCK_ROWS, count), dtype=np.int64)
        writer.write((first + rows * step - (writer.position + (rows - start) * 4)).astype("<u4"))


# -- byte vectors and strings -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorPlan:
    """Byte vectors that are written one behind the other."""

    values: pa.ChunkedArray
    """large_binary or large_string, without nulls."""
    size: int
    """Bytes that all take together."""
    terminated: bool
    """Whether a NUL follows each: strings."""


def plan_vectors(values: pa.ChunkedArray, *, terminated: bool) -> tuple[VectorPlan, Int64]:
    """Lay out byte vectors, or strings, and tell where each lies relative to the first.

    Each is preceded by its length and takes a multiple of 4 bytes.
    """
    sizes = _lengths(values) + (4 + terminated + 3)
    sizes &= ~3
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return VectorPlan(values, int(bounds[-1]), terminated), bounds[:-1]


def write_vectors(writer: FrameWriter, plan: VectorPlan) -> None:
    """Write vectors as planned."""
    for values in _blocks(plan.values, plan.size):
        writer.write(_join_vectors(values, terminated=plan.terminated))


def _lengths(values: pa.Array | pa.ChunkedArray) -> Int64:
    lengths: Int64 = pc.binary_length(values).to_numpy().astype(np.int64, copy=False)
    return lengths


def _blocks(values: pa.ChunkedArray, size: int) -> Iterator[pa.Array]:
    """Yield slices of a few megabytes."""
    rows = max(1, _BLOCK_BYTES * len(values) // max(size, 1))
    for chunk in values.chunks:
        for start in range(0, len(chunk), rows):
            yield chunk.slice(start, rows)


def _join_vectors(values: pa.Array, *, terminated: bool) -> memoryview:
    lengths = _lengths(values)
    if len(lengths) and lengths[0] and bool((lengths == lengths[0]).all()):
        return _join_equal(values, int(lengths[0]), terminated=terminated)
    n = len(values)
    prefixes = _binary(np.arange(0, 4 * n + 1, 4), lengths.astype("<u4"))
    padding = -(4 + lengths + terminated) % 4 + terminated
    ends = np.concatenate([[0], np.cumsum(padding)])
    paddings = _binary(ends, np.zeros(int(ends[-1]), np.uint8))
    values = values.cast(pa.large_binary())
    joined = pc.binary_join_element_wise(prefixes, values, paddings, pa.scalar(b"", values.type))
    size = int(4 * n + lengths.sum() + ends[-1])
    return memoryview(joined.buffers()[2])[:size]


def _join_equal(values: pa.Array, length: int, *, terminated: bool) -> memoryview:
    """Join vectors of the same length: dates, numbers and hashes often make texts so."""
    _, offsets, data = values.buffers()
    first = int(np.frombuffer(offsets, np.int64)[values.offset])
    stride = (4 + length + terminated + 3) & ~3
    record = np.dtype(
        {
            "names": ["length", "data"],
            "formats": ["<u4", f"V{length}"],
            "offsets": [0, 4],
            "itemsize": stride,
        }
    )
    records = np.zeros(len(values), record)
    records["length"] = length
    records["data"] = np.frombuffer(data, f"V{length}", count=len(values), offset=first)
    return records.view(np.uint8).data


def _binary(offsets: npt.NDArray[Any], data: npt.NDArray[Any]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int64, copy=False)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
