"""Chunk coordinates read from a flatbuffer: one vector per row into one matrix."""

import numpy as np

from icestream.codec.columns import FlatColumns, Positions
from icestream.model.chunk_tables import UInt32


class IndexColumn:
    """The (n, rank) coordinates of one array, or of several, collected block by block."""

    def __init__(self, flat: FlatColumns, count: int, arrays: int = 1) -> None:
        self._flat = flat
        self._count = count
        self._arrays = arrays
        self._index: UInt32 | None = None

    def add(self, rows: slice, vectors: Positions) -> None:
        """Read the coordinates of some rows, each a vector at one of these positions."""
        ranks = self._flat.gather(vectors, "<u4")
        if self._index is None:
            self._index = self._allocate(int(ranks[0]))
        rank = self._index.shape[1]
        if not bool((ranks == rank).all()):
            raise self._flat.wrong("has chunk indexes of different rank in one array")
        self._flat.check_range(vectors, 4 + 4 * rank)
        for axis in range(rank):
            self._index[rows, axis] = self._flat.gather(vectors.shift(4 + 4 * axis), "<u4")

    def finish(self) -> UInt32:
        """Return the coordinates; of no rank when there are no rows."""
        return np.empty((0, 0), np.uint32) if self._index is None else self._index

    def _allocate(self, rank: int) -> UInt32:
        # an array without dimensions has one chunk
        if not rank and self._count > self._arrays:
            raise self._flat.wrong("has several chunks of rank 0 in one array")
        self._flat.charge(self._count * rank * 4)
        return np.empty((self._count, rank), np.uint32)
