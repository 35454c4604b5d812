"""Sets of very many short byte rows, such as ids, kept as sorted columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.model.chunk_tables import UInt8
from icestream.model.ids import OBJECT_ID_SIZE, id_text

Rows = npt.NDArray[np.void]

_ID_CHARACTERS = 20
_BITS_PER_CHARACTER = 5
_NO_DIGIT = 255
_SMALL = 2**16


class RowSet:
    """Distinct rows of `width` bytes; it takes `width` bytes of memory per row, twice at times."""

    def __init__(self, width: int) -> None:
        self._dtype = np.dtype((np.void, width))
        self._sorted: Rows = np.empty(0, self._dtype)
        self._added: list[Rows] = []
        self._num_added = 0

    def add(self, rows: UInt8) -> None:
        """Add the rows of an (n, width) array."""
        if not len(rows):
            return
        self._added.append(_distinct(self._as_column(rows)))
        self._num_added += len(self._added[-1])
        # sorting now and then, not each time, keeps the work in proportion to what is added
        if self._num_added > max(len(self._sorted), _SMALL):
            self._merge()

    def holds(self, rows: UInt8) -> npt.NDArray[np.bool_]:
        """Tell which rows of an (n, width) array are in the set."""
        self._merge()
        if not len(self._sorted):
            return np.zeros(len(rows), bool)
        wanted = self._as_column(rows)
        places = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        found: npt.NDArray[np.bool_] = self._sorted[places] == wanted
        return found

    def rows(self) -> UInt8:
        """Return all rows in order, as an (n, width) array."""
        self._merge()
        return self._sorted.view(np.uint8).reshape(-1, self._dtype.itemsize)

    def _as_column(self, rows: UInt8) -> Rows:
        return np.ascontiguousarray(rows).view(self._dtype).ravel()

    def _merge(self) -> None:
        if self._added:
            self._sorted = _distinct(np.concatenate([self._sorted, *self._added]))
            self._added, self._num_added = [], 0


def _distinct(column: Rows) -> Rows:
    ordered = np.sort(column)
    is_new = np.ones(len(ordered), bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered if is_new.all() else ordered[is_new]


def pack_rows(*columns: npt.NDArray[Any]) -> UInt8:
    """Return columns of numbers, or of bytes as (n, k), side by side as one (n, width) array."""
    parts = [
        column if column.dtype == np.uint8 else np.ascontiguousarray(column)[:, None].view(np.uint8)
        for column in columns
    ]
    return np.concatenate(parts, axis=1)


def id_rows(ids: Sequence[bytes]) -> UInt8:
    """Return object ids as an (n, 12) array."""
    return np.frombuffer(b"".join(ids), np.uint8).reshape(-1, OBJECT_ID_SIZE)


def parse_id_names(names: Sequence[str]) -> tuple[UInt8, npt.NDArray[np.intp]]:
    """Return the (n, 12) ids that names spell canonically, and which of the names do."""
    candidates = np.array(
        [i for i, name in enumerate(names) if len(name) == _ID_CHARACTERS and name.isascii()],
        np.intp,
    )
    text = "".join(names[i] for i in candidates).encode()
    digits = _DIGITS[np.frombuffer(text, np.uint8)].reshape(-1, _ID_CHARACTERS)
    bits = np.unpackbits(digits[:, :, None], axis=2)[:, :, -_BITS_PER_CHARACTER:]
    bits = bits.reshape(len(digits), _ID_CHARACTERS * _BITS_PER_CHARACTER)
    surplus = bits[:, OBJECT_ID_SIZE * 8 :].any(axis=1)
    is_id = (digits != _NO_DIGIT).all(axis=1) & ~surplus
    return np.packbits(bits[is_id, : OBJECT_ID_SIZE * 8], axis=1), candidates[is_id]


def _digit_table() -> UInt8:
    """Return the value of each character of canonical ids; look-alikes and lower case have none."""
    table = np.full(256, _NO_DIGIT, np.uint8)
    for value in range(2**_BITS_PER_CHARACTER):
        # the first character of an id is its first five bits
        character = id_text(bytes([value << 3]))[0]
        table[ord(character)] = value
    return table


_DIGITS = _digit_table()
