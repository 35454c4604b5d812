"""The chunks that changed in one part of an array, in little memory."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.model.chunk_tables import (
    UInt32,
    UInt64,
    fits_linear,
    lexicographic_order,
    linear_keys,
)
from icestream.model.nodes import Extents, bounding_box

BLOCK_ROWS = 2**15
"""Indexes that are decoded at a time."""
_PACKING_LEVEL = 3
"""The first level that finds long repetitions of numbers."""


@dataclass(frozen=True, slots=True)
class ChangedIndexes:
    """A sorted list of chunk indexes: a box that is full, or packed blocks."""

    box: Extents
    """The smallest that holds all of them."""
    count: int
    blocks: tuple[bytes, ...] | None = None
    """Each `BLOCK_ROWS` indexes but the last; None where every chunk of the box is listed."""

    @classmethod
    def of(cls, index: UInt32) -> Self:
        """Return a sorted (n, rank) index in little memory."""
        box = bounding_box(index)
        count = len(index)
        if count == _volume(box):
            return cls(box, count)
        starts = range(0, count, BLOCK_ROWS)
        return cls(box, count, tuple(_pack(index[at : at + BLOCK_ROWS], box) for at in starts))

    @property
    def rank(self) -> int:
        """Dimensions of the array."""
        return len(self.box)

    def __len__(self) -> int:
        return self.count

    def decode(self) -> UInt32:
        """Return the (n, rank) index."""
        parts = list(self)
        return np.concatenate(parts) if parts else np.empty((0, self.rank), np.uint32)

    def __iter__(self) -> Iterator[UInt32]:
        """Yield the index block by block."""
        for number, start in enumerate(range(0, self.count, BLOCK_ROWS)):
            rows = min(BLOCK_ROWS, self.count - start)
            if self.blocks is None:
                yield _unravel(np.arange(start, start + rows, dtype=np.uint64), self.box)
            else:
                yield _unpack(self.blocks[number], rows, self.box)


def merged(parts: Iterable[ChangedIndexes]) -> Iterator[UInt32]:
    """Yield the indexes of parts that have none in common, sorted, block by block.

    Parts are decoded when their turn comes; as many blocks are in memory as parts overlap.
    """
    waiting = sorted((part for part in parts if len(part)), key=_low_corner, reverse=True)
    open_parts: list[_OpenPart] = []
    while waiting or open_parts:
        bound = min((part.last for part in open_parts), default=None)
        if waiting and (bound is None or _low_corner(waiting[-1]) <= bound):
            open_parts.append(_OpenPart(iter(waiting.pop())))
            continue
        if bound is not None:
            yield _sorted([part.take_to(bound) for part in open_parts])
        open_parts = [part for part in open_parts if part.has_more()]


@dataclass(slots=True)
class _OpenPart:
    """A part that is being read: the rest of one block, and the blocks behind it."""

    blocks: Iterator[UInt32]
    block: UInt32 = field(init=False)

    def __post_init__(self) -> None:
        self.block = next(self.blocks)

    @property
    def last(self) -> list[int]:
        row: list[int] = self.block[-1].tolist()
        return row

    def take_to(self, bound: list[int]) -> UInt32:
        """Remove the indexes up to a bound from the block, and return them."""
        end = len(self.block) if self.last <= bound else _rows_up_to(self.block, bound)
        taken, self.block = self.block[:end], self.block[end:]
        return taken

    def has_more(self) -> bool:
        """Go on to the next block if this one is used up; tell whether there is one."""
        if not len(self.block):
            self.block = next(self.blocks, self.block)
        return len(self.block) > 0


def _low_corner(part: ChangedIndexes) -> list[int]:
    """Return an index that no index of a part comes before."""
    return [lo for lo, _ in part.box]


def _rows_up_to(block: UInt32, bound: list[int]) -> int:
    return bisect_right(range(len(block)), bound, key=lambda row: block[row].tolist())


def _sorted(blocks: list[UInt32]) -> UInt32:
    filled = [block for block in blocks if len(block)]
    if len(filled) == 1:
        return filled[0]
    joined = np.concatenate(filled)
    order = lexicographic_order(joined)
    return joined if order is None else joined[order]


def _volume(box: Extents) -> int:
    volume = 1
    for lo, hi in box:
        volume *= hi - lo
    return volume


def _pack(index: UInt32, box: Extents) -> bytes:
    if not fits_linear(box):
        return _compress(index.astype("<u4").T)
    # steps between neighbours: mostly the same small number
    return _compress(np.diff(linear_keys(index, box), prepend=np.uint64(0)).astype("<u8"))


def _unpack(block: bytes, rows: int, box: Extents) -> UInt32:
    if not fits_linear(box):
        data = pa.decompress(block, 4 * rows * len(box), codec="zstd")
        return np.frombuffer(data, "<u4").reshape(len(box), rows).T.astype(np.uint32)
    steps = np.frombuffer(pa.decompress(block, 8 * rows, codec="zstd"), "<u8")
    return _unravel(np.cumsum(steps, dtype=np.uint64), box)


def _compress(column: npt.NDArray[np.generic]) -> bytes:
    codec = pa.Codec("zstd", compression_level=_PACKING_LEVEL)
    packed: bytes = codec.compress(column.tobytes(), asbytes=True)
    return packed


def _unravel(keys: UInt64, box: Extents) -> UInt32:
    """Return the indexes at these positions of a box, counted in lexicographic order."""
    index = np.empty((len(keys), len(box)), np.uint32)
    for axis in reversed(range(len(box))):
        lo, hi = box[axis]
        keys, index[:, axis] = np.divmod(keys, np.uint64(max(hi - lo, 1)))
        index[:, axis] += np.uint32(lo)
    return index
