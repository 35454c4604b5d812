"""The distinct coordinate values of many files, packed as columns: no object per file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.ingest.facts import DIGEST_SIZE, Coordinate
from icestream.ingest.row_numbers import Codes, number_rows, ragged_index
from icestream.ingest.times.encodings import TimeEncoding

Lengths = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

NOWHERE = -1
_TEXT = pa.large_string()

WORD = 8
"""Bytes: values of one entry start at a whole word, so that they can be looked at in place."""


class ValueKind(NamedTuple):
    """What a few entries or a million have in common."""

    dtype: str
    unit: str | None = None
    """In which times are counted, if they are times."""
    calendar: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CoordinatePool:
    """Distinct values, one entry behind the other."""

    kind: Codes
    """Of each entry, in `kinds`."""
    kinds: tuple[ValueKind, ...]
    shape: Lengths
    """(n, highest rank), `NOWHERE` beyond the rank of an entry."""
    digest: npt.NDArray[np.uint8]
    """(n, 16), as in `Coordinate`."""
    origin: Lengths
    """Of the times, in microseconds."""
    reference: pa.LargeStringArray
    """Of the times, as it is written."""
    start: Lengths
    """(n + 1) first word of each entry, and the end."""
    words: Words
    """All values."""

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, code: int) -> Coordinate:
        if not 0 <= code < len(self):
            raise IndexError(code)
        kind = self.kinds[self.kind[code]]
        shape = tuple(n for n in self.shape[code].tolist() if n != NOWHERE)
        dtype = np.dtype(kind.dtype)
        count = int(np.prod(shape, dtype=np.int64))
        whole = self.words[self.start[code] : self.start[code + 1]].view(dtype)
        values = whole[:count].reshape(shape)
        return Coordinate(values, self.digest[code].tobytes(), self.time(code))

    def __iter__(self) -> Iterator[Coordinate]:
        return (self[code] for code in range(len(self)))

    def time(self, code: int) -> TimeEncoding | None:
        """Return how an entry counts time, if it does."""
        kind = self.kinds[self.kind[code]]
        if kind.unit is None or kind.calendar is None:
            return None
        reference = self.reference[int(code)].as_py()
        return TimeEncoding(kind.unit, reference, int(self.origin[code]), kind.calendar)

    def kinds_of(self, codes: Codes) -> list[ValueKind]:
        """Return the distinct kinds of some entries."""
        return [self.kinds[kind] for kind in np.unique(self.kind[codes]).tolist()]

    def lengths(self, codes: Codes) -> Lengths:
        """Return the length of each of some entries, `NOWHERE` if it has not one dimension."""
        shape = self.shape[codes]
        if shape.shape[1] == 0:
            return np.full(len(codes), NOWHERE, np.int64)
        is_flat = (shape[:, 1:] == NOWHERE).all(axis=1)
        return np.where(is_flat, shape[:, 0], NOWHERE)

    def joined(self, codes: Codes) -> npt.NDArray[Any]:
        """Return the values of some entries one behind the other, in a type that holds all."""
        kinds = self.kind[codes]
        dtypes = {self.kinds[kind].dtype for kind in np.unique(kinds).tolist()}
        if not dtypes:
            return np.empty(0)
        if len(dtypes) == 1:
            return self._joined_as(np.dtype(dtypes.pop()), codes)
        counts = self.sizes(codes)
        values = np.empty(int(counts.sum()), np.result_type(*map(np.dtype, dtypes)))
        first = np.cumsum(counts) - counts
        lookup = np.array([kind.dtype for kind in self.kinds])[kinds]
        for dtype in dtypes:
            chosen = lookup == dtype
            at = ragged_index(first[chosen], counts[chosen])
            values[at] = self._joined_as(np.dtype(dtype), codes[chosen])
        return values

    def _joined_as(self, dtype: np.dtype[Any], codes: Codes) -> npt.NDArray[Any]:
        start = self.start[codes] * (WORD // dtype.itemsize)
        return self.words.view(dtype)[ragged_index(start, self.sizes(codes))]

    def sizes(self, codes: Codes) -> Lengths:
        """Return how many values each of some entries has."""
        shape = self.shape[codes]
        return np.where(shape == NOWHERE, 1, shape).prod(axis=1, dtype=np.int64)

    def take(self, codes: Codes) -> "CoordinatePool":
        """Return some entries; kinds that none of them has are left out."""
        if len(codes) == len(self) and bool((codes == np.arange(len(codes))).all()):
            return self
        numbers, first = number_rows([self.kind[codes]])
        counts = np.diff(self.start)[codes]
        shape = self.shape[codes]
        return CoordinatePool(
            numbers,
            tuple(self.kinds[kind] for kind in self.kind[codes][first].tolist()),
            shape[:, : _rank(shape)],
            self.digest[codes],
            self.origin[codes],
            self.reference.take(pa.array(codes)),
            np.concatenate([[0], np.cumsum(counts)]),
            self.words[ragged_index(self.start[codes], counts)],
        )

    def key_columns(self) -> list[npt.NDArray[Any]]:
        """Return columns that are equal for entries of equal values, type, shape and calendar."""
        same = {kind: ValueKind(kind.dtype, calendar=kind.calendar) for kind in self.kinds}
        distinct = list(dict.fromkeys(same.values()))
        numbers = np.array([distinct.index(same[kind]) for kind in self.kinds], np.int32)
        return [self.digest, numbers[self.kind], self.shape]


def pool_of(coordinates: Sequence[Coordinate]) -> CoordinatePool:
    """Return values as columns."""
    kinds: dict[ValueKind, int] = {}
    codes = [kinds.setdefault(_kind(one), len(kinds)) for one in coordinates]
    contents = [_whole_words(np.ascontiguousarray(one.values).tobytes()) for one in coordinates]
    ends = np.cumsum([len(content) // WORD for content in contents], dtype=np.int64)
    digests = b"".join(one.digest for one in coordinates)
    return CoordinatePool(
        np.array(codes, np.int32),
        tuple(kinds),
        padded_shapes([one.values.shape for one in coordinates]),
        np.frombuffer(digests, np.uint8).reshape(-1, DIGEST_SIZE),
        np.array([one.time.origin if one.time else 0 for one in coordinates], np.int64),
        pa.array([one.time.reference if one.time else "" for one in coordinates], _TEXT),
        np.concatenate([[0], ends]).astype(np.int64),
        np.frombuffer(b"".join(contents), np.uint64),
    )


def concat_pools(pools: Sequence[CoordinatePool]) -> CoordinatePool:
    """Return all entries of pools; those that are equal are not put together."""
    if len(pools) == 1:
        return pools[0]
    kinds: dict[ValueKind, int] = {}
    lookups = [
        np.array([kinds.setdefault(kind, len(kinds)) for kind in pool.kinds], np.int32)
        for pool in pools
    ]
    first = np.cumsum([0, *(len(pool.words) for pool in pools)])
    starts = [pool.start[:-1] + at for pool, at in zip(pools, first, strict=False)]
    return CoordinatePool(
        np.concatenate([look[pool.kind] for look, pool in zip(lookups, pools, strict=True)]),
        tuple(kinds),
        stacked_shapes([pool.shape for pool in pools]),
        np.concatenate([pool.digest for pool in pools]),
        np.concatenate([pool.origin for pool in pools]),
        pa.concat_arrays([pool.reference for pool in pools]),
        np.concatenate([*starts, first[-1:]]),
        np.concatenate([pool.words for pool in pools]),
    )


def small_digests(start: Lengths, words: Words) -> npt.NDArray[np.uint8]:
    """Return the digests of entries that are no larger than a digest: they are the values."""
    found = np.zeros((len(start) - 1, DIGEST_SIZE // WORD), np.uint64)
    counts = np.diff(start)
    for i in range(found.shape[1]):
        has = np.flatnonzero((counts > i) & (counts <= found.shape[1]))
        found[has, i] = words[start[has] + i]
    return found.view(np.uint8).reshape(-1, DIGEST_SIZE)


def padded_shapes(shapes: Sequence[tuple[int, ...]]) -> Lengths:
    """Return shapes as rows of one length."""
    rank = max(map(len, shapes), default=0)
    padding = (NOWHERE,) * rank
    rows = [(*shape, *padding[len(shape) :]) for shape in shapes]
    return np.array(rows, np.int64).reshape(len(shapes), rank)


def stacked_shapes(shapes: Sequence[Lengths]) -> Lengths:
    """Return rows of shapes below each other, with the highest rank of all."""
    rank = max((shape.shape[1] for shape in shapes), default=0)
    widened = [
        np.pad(shape, ((0, 0), (0, rank - shape.shape[1])), constant_values=NOWHERE)
        for shape in shapes
    ]
    return np.concatenate(widened) if widened else np.empty((0, 0), np.int64)


def trimmed_shapes(shape: Lengths) -> Lengths:
    """Return rows of shapes without columns that none needs."""
    return shape[:, : _rank(shape)]


def _rank(shape: Lengths) -> int:
    return int((shape != NOWHERE).any(axis=0).sum())


def _kind(coordinate: Coordinate) -> ValueKind:
    time, dtype = coordinate.time, coordinate.values.dtype.str
    return ValueKind(dtype) if time is None else ValueKind(dtype, time.unit, time.calendar)


def _whole_words(content: bytes) -> bytes:
    return content + bytes(-len(content) % WORD)
