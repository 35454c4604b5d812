"""Equal rows of columns get equal numbers, all at once."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes = npt.NDArray[np.int32]
Rows = npt.NDArray[np.intp]


def number_rows(columns: Sequence[npt.NDArray[Any]]) -> tuple[Codes, Rows]:
    """Return a number for each row, equal for rows that are equal in all columns.

    Numbers count from 0 in the order of appearance.

    Args:
        columns: At least one, of one or two dimensions; rows are compared by their bytes.

    Returns:
        The numbers, and the first row that has each number.
    """
    count = len(columns[0])
    joined = np.concatenate([_as_bytes(column) for column in columns], axis=1)
    width = joined.shape[1]
    rows = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), count, [None, pa.py_buffer(np.ascontiguousarray(joined))]
    )
    codes: Codes = rows.dictionary_encode().indices.to_numpy().astype(np.int32)
    return codes, first_rows(codes)


def renumber(codes: Codes) -> tuple[Codes, Codes]:
    """Return codes counted anew in the order of appearance, and the old code of each new one.

    Codes below 0 stay as they are.
    """
    used = codes >= 0
    numbers, first = number_rows([codes[used]])
    renumbered = codes.copy()
    renumbered[used] = numbers
    return renumbered, codes[used][first]


def first_rows(codes: Codes) -> Rows:
    """Return the first row of each number, where numbers count in the order of appearance."""
    highest = np.maximum.accumulate(codes) if len(codes) else codes
    return np.flatnonzero(np.diff(highest, prepend=-1) > 0)


def ragged_index(start: npt.NDArray[np.int64], count: npt.NDArray[np.int64]) -> Rows:
    """Return the positions of many ranges, one range behind the other."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    shift: Rows = np.repeat(start - (ends - count), count)
    return np.arange(total) + shift


def _as_bytes(column: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    plain = np.ascontiguousarray(column)
    width = math.prod(plain.shape[1:]) * plain.itemsize
    return plain.view(np.uint8).reshape(len(column), width)
