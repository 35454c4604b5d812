"""Lists of references, each right in front of the records that it lists.

The offsets in a list are then the same for every array with as many references, which compresses
far better than lists that lie apart from their records.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from icestream.codec.columns import Int64


@dataclass(frozen=True, slots=True)
class ListPlan:
    """Where the list and the records of each of some arrays lie, relative to the first list."""

    counts: Int64
    stride: int
    """Bytes from one record to the next."""
    list_bytes: Int64
    """Bytes of each list, with what aligns the records behind it."""
    starts: Int64
    """Where each list is."""
    size: int

    @classmethod
    def of(cls, counts: Int64, stride: int) -> Self:
        """Lay out lists of these lengths; arrays without records all have the first list."""
        if not stride:
            return cls(counts, 0, np.array([4]), np.zeros(len(counts), np.int64), 4)
        unit = 8 if stride % 8 == 0 else 4
        list_bytes = -(-4 * (counts + 1) // unit) * unit
        ends = np.cumsum(list_bytes + counts * stride)
        starts = np.append(0, ends[:-1])
        return cls(counts, stride, list_bytes, starts, int(ends[-1]))

    def record_positions(self) -> Int64:
        """Return where each record lies."""
        return self._by_row(self.starts + self.list_bytes, self.stride)

    def interleave(self, records: memoryview, table_at: int) -> bytes:
        """Return each list with its records behind it, whose tables start at `table_at` in them."""
        lists = memoryview(self._encode_lists(table_at)).cast("B")
        parts: list[memoryview] = []
        list_at = record_at = 0
        sizes = zip(self.list_bytes.tolist(), (self.counts * self.stride).tolist(), strict=True)
        for list_bytes, record_bytes in sizes:
            parts += (
                lists[list_at : list_at + list_bytes],
                records[record_at : record_at + record_bytes],
            )
            list_at += list_bytes
            record_at += record_bytes
        return b"".join(parts)

    def _encode_lists(self, table_at: int) -> npt.NDArray[np.uint32]:
        words = np.zeros(int(self.list_bytes.sum()) // 4, "<u4")
        heads = (np.cumsum(self.list_bytes) - self.list_bytes) // 4
        words[heads] = self.counts
        places = self._by_row(self.starts + 4, 4)
        words[self._by_row(heads + 1, 1)] = self.record_positions() + table_at - places
        return words

    def _by_row(self, first: Int64, step: int) -> Int64:
        """Return for each row the number of its array, and `step` more for each row before it."""
        before = np.cumsum(self.counts) - self.counts
        rows = np.arange(int(self.counts.sum()), dtype=np.int64)
        return np.repeat(first - step * before, self.counts) + step * rows
