"""Reading many flatbuffers tables at once: positions, fields and vectors as NumPy columns.

Layout rules are those of the FlatBuffers internals document: a table starts with the signed
distance back to its vtable, a vtable lists where in the table each field lies, and offsets point
forward from where they are stored. Everything is checked against the bounds of the buffer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import FormatError

Int64 = npt.NDArray[np.int64]
RowSelection = slice | npt.NDArray[np.intp]

BLOCK_ROWS = 2**15
"""Rows handled at a time: their columns and the bytes they come from stay in the CPU's cache."""

MAX_BUFFER_BYTES = 2**31 - 1
"""Offsets of the FlatBuffers format are signed 32-bit numbers in places."""

ALL_ROWS = slice(None)

_VTABLE_HEAD = 4
_MAX_GROWTH = 64
_SMALL_OUTPUT = 2**20


@dataclass(frozen=True, slots=True)
class Positions:
    """Byte positions, one per row: listed, or evenly spaced where `listed` is None."""

    count: int
    start: int = 0
    step: int = 0
    listed: Int64 | None = None

    @classmethod
    def of(cls, listed: Int64) -> "Positions":
        """Return positions that are known to be evenly spaced when they are."""
        count = len(listed)
        start = int(listed[0]) if count else 0
        step = int(listed[1]) - start if count > 1 else 0
        if count > 1 and not bool((listed[1:] - listed[:-1] == step).all()):
            return cls(count, listed=listed)
        return cls(count, start, step)

    def as_array(self) -> Int64:
        """Return the positions as a column."""
        if self.listed is not None:
            return self.listed
        return self.start + self.step * np.arange(self.count, dtype=np.int64)

    def shift(self, by: "int | npt.NDArray[Any]") -> "Positions":
        """Return positions moved by a constant, or by one number per row."""
        if not isinstance(by, int):
            if not bool((by == by[0]).all()):
                return Positions(self.count, listed=self.as_array() + by)
            by = int(by[0])
        if self.listed is not None:
            return Positions(self.count, listed=self.listed + by)
        return Positions(self.count, self.start + by, self.step)

    def select(self, rows: RowSelection) -> "Positions":
        """Return the positions of some rows."""
        if isinstance(rows, slice) and rows == ALL_ROWS:
            return self
        if isinstance(rows, slice) and self.listed is None:
            start, stop, step = rows.indices(self.count)
            first = self.start + self.step * start
            return Positions(len(range(start, stop, step)), first, self.step * step)
        listed = self.as_array()[rows]
        return Positions(len(listed), listed=listed)

    def bounds(self) -> tuple[int, int]:
        """Return the lowest and the highest position."""
        if self.listed is not None:
            return int(self.listed.min()), int(self.listed.max())
        end = self.start + self.step * (self.count - 1)
        return min(self.start, end), max(self.start, end)

    def is_aligned(self, width: int) -> bool:
        """Tell whether all positions are multiples of `width`, a power of two."""
        if self.listed is not None:
            return not int(np.bitwise_or.reduce(self.listed)) & (width - 1)
        return not (self.start | self.step) & (width - 1)


class Field(NamedTuple):
    """Where the rows that have a field keep it."""

    rows: RowSelection
    positions: Positions


class FlatColumns:
    """A flatbuffer whose values are read as columns, and a budget for what comes out of it."""

    def __init__(self, data: bytes, name: str) -> None:
        self.size = len(data)
        self.name = name
        if not 0 < len(data) <= MAX_BUFFER_BYTES:
            raise self.wrong(f"holds {len(data)} bytes, a flatbuffer has 1 to {MAX_BUFFER_BYTES}")
        self._bytes = np.frombuffer(data, np.uint8)
        self._words: dict[int, npt.NDArray[Any]] = {
            width: np.frombuffer(data, f"<u{width}", len(data) // width) for width in (1, 2, 4, 8)
        }
        self._budget = _MAX_GROWTH * len(data) + _SMALL_OUTPUT

    def wrong(self, what: str) -> FormatError:
        """Return the error that says what is wrong with this file."""
        return FormatError(f"{self.name}: {what}")

    def charge(self, output_bytes: int) -> None:
        """Account for output: shared vectors must not turn a small file into huge columns."""
        self._budget -= output_bytes
        if self._budget < 0:
            raise self.wrong(f"its {self.size} bytes are shared so often that they would not fit")

    def check_range(self, positions: Positions, width: int | npt.NDArray[Any]) -> None:
        """Refuse rows that do not lie in the buffer as a whole."""
        if isinstance(width, int):
            low, high = positions.bounds()
            end = high + width
        else:
            low, _ = positions.bounds()
            end = int((positions.as_array() + width).max())
        if low < 0 or end > self.size:
            raise self.wrong(
                f"points at bytes {min(low, end)} to {max(low, end)}, it has {self.size}"
            )

    def gather(self, positions: Positions, dtype: str) -> npt.NDArray[Any]:
        """Return the number at each position; the result may be a view of the buffer."""
        kind = np.dtype(dtype)
        width = kind.itemsize
        self.check_range(positions, width)
        if not positions.is_aligned(width):
            raise self.wrong(f"keeps a number of {width} bytes at a position that is not aligned")
        if positions.listed is None:
            strides = (positions.step,)
            return np.ndarray((positions.count,), kind, self._bytes, positions.start, strides)
        places = positions.listed >> (width.bit_length() - 1)
        return self._words[width].take(places).view(kind)

    def gather_bytes(self, positions: Positions, width: int) -> npt.NDArray[np.uint8]:
        """Return `width` bytes at each position, which need not be aligned."""
        self.check_range(positions, width)
        if positions.listed is None:
            shape, strides = (positions.count, width), (positions.step, 1)
            return np.ndarray(shape, np.uint8, self._bytes, positions.start, strides)
        if width % 4 == 0 and positions.is_aligned(4):
            words = (positions.listed >> 2)[:, None] + np.arange(width // 4)
            return self._words[4].take(words).view(np.uint8)
        return self._bytes.take(positions.listed[:, None] + np.arange(width))

    def follow(self, positions: Positions) -> Positions:
        """Return where the offsets at these positions point."""
        return positions.shift(self.gather(positions, "<u4"))

    def vector(self, positions: Positions, item_size: int) -> tuple[int, int]:
        """Return the position of the first item and the number of items of one row's vector."""
        at = self.follow(positions)
        count = int(self.gather(at, "<u4")[0])
        first = at.shift(4)
        self.check_range(first, count * item_size)
        return first.bounds()[0], count

    def vectors(self, positions: Positions, item_size: int) -> tuple[Int64, Int64]:
        """Return the position of the first item and the number of items of each row's vector."""
        at = self.follow(positions)
        counts = self.gather(at, "<u4").astype(np.int64)
        first = at.shift(4)
        self.check_range(first, counts * item_size)
        return first.as_array(), counts

    def table_vector(self, positions: Positions, slots: int) -> "Iterator[tuple[slice, Tables]]":
        """Yield the tables that one row's vector lists, in blocks of rows."""
        first, count = self.vector(positions, 4)
        yield from self.linked_tables(Positions(count, first, 4), slots)

    def linked_tables(self, offsets: Positions, slots: int) -> "Iterator[tuple[slice, Tables]]":
        """Yield the tables that the offsets at these positions point at, in blocks of rows."""
        for start in range(0, offsets.count, BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, offsets.count))
            at = self.follow(offsets.select(rows)).as_array()
            yield rows, Tables(self, Positions.of(at), slots)

    def view_vectors(self, positions: Positions) -> pa.Array:
        """Return the byte vectors (or strings) at these positions, without copying them."""
        lengths = self.gather(positions, "<u4").astype(np.int64)
        data = positions.shift(4)
        self.check_range(data, lengths)
        self.charge(int(lengths.sum()))
        return self._binary_views(data.as_array(), lengths)

    def _binary_views(self, starts: Int64, lengths: Int64) -> pa.Array:
        """Return an Arrow array of views: length, then up to 12 bytes, or 4 bytes and a place."""
        views = np.zeros((len(starts), 4), "<u4")
        views[:, 0] = lengths
        is_long = lengths > 12  # noqa: PLR2004  the Arrow format keeps up to 12 bytes inline
        rows = ALL_ROWS if is_long.all() else np.flatnonzero(is_long)
        views[rows, 1] = self._unaligned_words(starts[rows])
        views[rows, 3] = starts[rows]
        if not isinstance(rows, slice):
            self._fill_short(views, starts, lengths, ~is_long)
        buffers = [None, pa.py_buffer(views), pa.py_buffer(self._bytes)]
        return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers)

    def _unaligned_words(self, starts: Int64) -> npt.NDArray[np.uint32]:
        if not len(starts):
            return np.empty(0, np.uint32)
        if not int(np.bitwise_or.reduce(starts)) & 3:
            return self._words[4].take(starts >> 2)
        return self._bytes.take(starts[:, None] + np.arange(4)).view("<u4").ravel()

    def _fill_short(
        self,
        views: npt.NDArray[np.uint32],
        starts: Int64,
        lengths: Int64,
        is_short: npt.NDArray[np.bool_],
    ) -> None:
        """Put the bytes of short vectors in the views themselves, zeros behind them."""
        rows = np.flatnonzero(is_short)
        columns = np.arange(12)
        wanted = np.minimum(starts[rows, None] + columns, self.size - 1)
        text = np.where(columns < lengths[rows, None], self._bytes[wanted], np.uint8(0))
        views[rows, 1:] = text.astype(np.uint8).view("<u4")


class Tables:
    """Tables of one type, one per row, whose fields are found as columns."""

    def __init__(self, flat: FlatColumns, positions: Positions, slots: int) -> None:
        """Find the tables' fields; `slots` is how many of them are of interest."""
        self._flat = flat
        self.positions = positions
        vtables = positions.shift(-flat.gather(positions, "<i4").astype(np.int64))
        self._offsets, self._codes = _distinct_vtables(flat, vtables, slots)

    def find(self, slot: int) -> Field | None:
        """Return where the field of this slot is, None when no row has it."""
        offsets = self._offsets[:, slot]
        if self._codes is None or bool((offsets == offsets[0]).all()):
            offset = int(offsets[0])
            return Field(ALL_ROWS, self.positions.shift(offset)) if offset else None
        by_row = offsets[self._codes]
        if bool(offsets.all()):
            return Field(ALL_ROWS, self.positions.shift(by_row.astype(np.int64)))
        rows = np.flatnonzero(by_row)
        listed = self.positions.as_array()[rows] + by_row[rows]
        return Field(rows, Positions(len(rows), listed=listed))

    def require(self, slot: int, what: str) -> Positions:
        """Return where the field is that every row must have."""
        field = self.find(slot)
        if field is None or field.rows is not ALL_ROWS:
            raise self._flat.wrong(f"has a table without the required field {what!r}")
        return field.positions


def root_table(flat: FlatColumns, slots: int) -> Tables:
    """Return the root of a flatbuffer, as tables of one row."""
    return Tables(flat, flat.follow(Positions(1)), slots)


def distinct(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Return the distinct numbers in order of appearance, and which one each row has."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy()


def _distinct_vtables(
    flat: FlatColumns, at: Positions, slots: int
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int32] | None]:
    """Return the field offsets of each distinct vtable, and which one each row has."""
    codes = None
    if at.listed is not None:
        places, codes = distinct(at.listed)
        at = Positions.of(places)
    elif not at.step:
        at = Positions(1, at.start)
    offsets = _read_vtables(flat, at, slots)
    if at.count == 1 or bool((offsets == offsets[0]).all()):
        return offsets[:1], None
    # equal vtables may lie at many places
    raw = pa.py_buffer(np.ascontiguousarray(offsets))
    rows = pa.Array.from_buffers(pa.binary(2 * slots), at.count, [None, raw])
    encoded = rows.dictionary_encode()
    merged = np.frombuffer(encoded.dictionary.buffers()[1], np.uint16)
    codes_of_places = encoded.indices.to_numpy()
    offsets = merged[: len(encoded.dictionary) * slots].reshape(-1, slots)
    return offsets, codes_of_places if codes is None else codes_of_places[codes]


def _read_vtables(flat: FlatColumns, at: Positions, slots: int) -> npt.NDArray[np.uint16]:
    """Return the (n, slots) field offsets of vtables, 0 where a field is absent."""
    lengths = flat.gather(at, "<u2").astype(np.int64)
    if int(lengths.min()) < _VTABLE_HEAD:
        raise flat.wrong("has a vtable that is too short")
    flat.check_range(at, lengths)
    offsets = np.zeros((at.count, slots), np.uint16)
    for slot in range(slots):
        has_slot = lengths >= _VTABLE_HEAD + 2 * slot + 2
        rows = ALL_ROWS if has_slot.all() else np.flatnonzero(has_slot)
        if not isinstance(rows, slice) and not len(rows):
            break
        offsets[rows, slot] = flat.gather(at.select(rows).shift(_VTABLE_HEAD + 2 * slot), "<u2")
    return offsets
