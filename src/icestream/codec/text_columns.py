"""Columns of text read from a flatbuffer: each distinct text is kept once."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.codec.columns import FlatColumns, Int64, Positions, distinct
from icestream.model.text_pools import ABSENT, NO_POOL, Int32

Expand = Callable[[pa.Array], pa.Array]
"""Turns stored byte vectors into texts, one by one."""

_FEW_TEXTS = 2**16
_ROWS_TO_JUDGE_BY = 2**12


class TextColumn:
    """Codes into a pool of texts, collected block by block."""

    def __init__(self, flat: FlatColumns, count: int) -> None:
        self._flat = flat
        self._count = count
        self._codes: Int32 | None = None
        self._pool: list[pa.Array] = []
        self._pool_size = 0
        self._repeats = True

    def add(self, rows: Int64, positions: Positions, expand: Expand | None = None) -> None:
        """Read the text of some rows from the vectors at these positions."""
        if self._codes is None:
            self._codes = np.full(self._count, ABSENT, np.int32)
        places, codes = _distinct_places(positions)
        vectors = self._flat.view_vectors(places)
        vectors, codes = self._merge_equal(vectors, codes)
        texts = as_texts(self._flat, vectors) if expand is None else expand(vectors)
        self._codes[rows] = self._pool_size + (np.arange(len(texts)) if codes is None else codes)
        self._pool.append(texts)
        self._pool_size += len(texts)

    def finish(self) -> tuple[Int32 | None, pa.ChunkedArray]:
        """Return the codes of all rows and the pool; (None, empty) when no row has a text."""
        if self._codes is None:
            return None, NO_POOL
        pool = pa.chunked_array(self._pool, pa.large_string())
        if pool.num_chunks == 1 or len(pool) > max(self._count // 4, _FEW_TEXTS):
            return self._codes, pool
        encoded = pool.combine_chunks().dictionary_encode()
        # the last entry keeps -1, the code of rows without a text, as it is
        renamed = np.append(encoded.indices.to_numpy(), ABSENT).astype(np.int32)
        return renamed[self._codes], pa.chunked_array([encoded.dictionary])

    def _merge_equal(self, vectors: pa.Array, codes: Int32 | None) -> tuple[pa.Array, Int32 | None]:
        """Keep equal vectors once; give up for good where nearly all are different."""
        if not self._repeats or len(vectors) == 1:
            return vectors, codes
        encoded = vectors.dictionary_encode()
        if len(vectors) >= _ROWS_TO_JUDGE_BY:
            self._repeats = len(encoded.dictionary) <= len(vectors) // 2
        merged = encoded.indices.to_numpy()
        return encoded.dictionary, merged if codes is None else merged[codes]


def as_texts(flat: FlatColumns, vectors: pa.Array) -> pa.Array:
    """Return byte vectors as texts of their own, checked to be UTF-8."""
    try:
        return vectors.cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise flat.wrong("has a location or checksum that is not valid UTF-8") from error


def _distinct_places(positions: Positions) -> tuple[Positions, npt.NDArray[np.int32] | None]:
    """Return each place once, and which one each row has; None when all differ."""
    if positions.listed is None:
        return (
            (positions, None)
            if positions.step or positions.count == 1
            else (
                Positions(1, positions.start),
                np.zeros(positions.count, np.int32),
            )
        )
    steps = np.diff(positions.listed)
    if bool((steps > 0).all()) or bool((steps < 0).all()):
        return positions, None
    places, codes = distinct(positions.listed)
    if len(places) == positions.count:
        return positions, None
    return Positions.of(places), codes
