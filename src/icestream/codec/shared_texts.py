"""The texts that the columns of several tables use, each to be written once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icestream.codec.columns import Int64
from icestream.model.text_pools import Int32

TextCodes = tuple[Int32 | None, pa.ChunkedArray]
"""A column of texts: codes into a pool, None when no row has a text."""

_ROWS_TO_COUNT = 2**18
_FEW_TEXTS = 2**16
_MANY_EDGES = 2**7


@dataclass(frozen=True, slots=True)
class SharedTexts:
    """Distinct texts in use, and where each pool entry of each column is among them."""

    texts: pa.ChunkedArray
    entries: Sequence[npt.NDArray[np.int32] | None]
    """Per column: pool entry to row in `texts`, -1 for an entry not in use; None if they agree."""
    num_rows: int
    """Rows that have a text."""
    row_bytes: int
    """Bytes of the texts of all rows, a shared text counted for each row."""

    def by_entry[T: np.generic](self, column: int, values: npt.NDArray[T]) -> npt.NDArray[T]:
        """Return, for each pool entry of a column, the value of its text.

        There is at least one value, so that -1, the code of rows without a text, is an index.
        """
        entries = self.entries[column]
        found = values if entries is None or not len(values) else values[entries]
        return found if len(found) else np.zeros(1, values.dtype)


def share_texts(columns: Sequence[TextCodes]) -> SharedTexts:
    """Collect the texts in use, merging equal ones where they are few enough to be merged fast."""
    pools = {id(pool): pool for code, pool in columns if code is not None}
    uses = {
        key: _count_uses([c for c, p in columns if p is pool and c is not None], len(pool))
        for key, pool in pools.items()
    }
    chunks = [c for key, pool in pools.items() for c in _used_entries(pool, uses[key]).chunks]
    texts = pa.chunked_array(chunks, pa.large_string())
    num_rows = sum(int(count.sum()) for count in uses.values())
    row_bytes = _weigh(texts, uses)
    renamed = None
    if texts.num_chunks > 1 and len(texts) <= max(num_rows // 4, _FEW_TEXTS):
        encoded = texts.combine_chunks().dictionary_encode()
        renamed, texts = encoded.indices.to_numpy(), pa.chunked_array([encoded.dictionary])
    by_pool = _entries_by_pool(uses, renamed)
    entries = [None if code is None else by_pool[id(pool)] for code, pool in columns]
    return SharedTexts(texts, entries, num_rows, row_bytes)


def _count_uses(codes: Sequence[Int32], pool_size: int) -> Int64:
    """Count how many rows use each pool entry."""
    counts = np.zeros(pool_size + 1, np.int64)
    step = max(_ROWS_TO_COUNT, pool_size)
    for code in codes:
        for start in range(0, len(code), step):
            # one up, so that rows without a text are counted at 0
            counts += np.bincount(code[start : start + step] + 1, minlength=pool_size + 1)
    return counts[1:]


def _used_entries(pool: pa.ChunkedArray, uses: Int64) -> pa.ChunkedArray:
    """Return the texts in use: as views between the gaps, copied only where gaps are many."""
    is_used = uses > 0
    if is_used.all():
        return pool
    edges = np.flatnonzero(np.diff(is_used, prepend=False, append=False))
    if len(edges) > _MANY_EDGES:
        return pool.filter(pa.array(is_used))
    runs = [pool.slice(start, end - start) for start, end in edges.reshape(-1, 2).tolist()]
    return pa.chunked_array([chunk for run in runs for chunk in run.chunks], pa.large_string())


def _weigh(texts: pa.ChunkedArray, uses: dict[int, Int64]) -> int:
    if not uses:
        return 0
    counts = np.concatenate([count[count > 0] for count in uses.values()])
    return int(pc.binary_length(texts).to_numpy() @ counts)


def _entries_by_pool(
    uses: dict[int, Int64], renamed: Int32 | None
) -> dict[int, npt.NDArray[np.int32] | None]:
    entries: dict[int, npt.NDArray[np.int32] | None] = {}
    first = 0
    for key, counts in uses.items():
        is_used = counts > 0
        rows = np.arange(first, first + int(is_used.sum()), dtype=np.int32)
        first += len(rows)
        if renamed is None and len(uses) == 1 and len(rows) == len(counts):
            return {key: None}
        places = np.full(len(counts), -1, np.int32)
        places[is_used] = rows if renamed is None else renamed[rows]
        entries[key] = places
    return entries
