"""Single columns of chunk tables, cut, joined and patched; None where a column does not apply."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

type Column = npt.NDArray[Any] | None
type InlineColumn = pa.LargeBinaryArray | None


def take_inline(inline: InlineColumn, rows: Any) -> InlineColumn:
    """Return some rows of inline bytes: positions, a mask or a slice."""
    if inline is None:
        return None
    if isinstance(rows, slice):
        return inline[rows]
    return inline.filter(pa.array(rows)) if rows.dtype == bool else inline.take(pa.array(rows))


def concat_columns(columns: Sequence[Column], lengths: Sequence[int]) -> Any:
    """Return columns of these lengths below each other; absent ones are filled with zeros."""
    present = next((column for column in columns if column is not None), None)
    if present is None:
        return None
    return np.concatenate(
        [
            _zeros(n, present) if column is None else column
            for column, n in zip(columns, lengths, strict=True)
        ]
    )


def concat_inline(columns: Sequence[InlineColumn], lengths: Sequence[int]) -> InlineColumn:
    """Return inline bytes below each other; absent columns are filled with nulls."""
    if all(column is None for column in columns):
        return None
    return pa.concat_arrays(
        [
            pa.nulls(n, pa.large_binary()) if column is None else column
            for column, n in zip(columns, lengths, strict=True)
        ]
    )


def patch_column(column: Column, rows: npt.NDArray[np.intp], values: Column, length: int) -> Any:
    """Return a column of this length with the values of some rows exchanged."""
    if column is None and values is None:
        return None
    new = 0 if values is None else values
    base = _zeros(length, values) if column is None else column
    if not base.strides[0] and bool(np.all(base[:1] == new)):
        return base  # one value for all rows, old and new
    patched = base.copy()
    patched[rows] = new
    return patched


def patch_inline(
    column: InlineColumn, rows: npt.NDArray[np.intp], values: InlineColumn, length: int
) -> InlineColumn:
    """Return inline bytes with those of some rows exchanged."""
    joined = concat_inline([column, values], [length, len(rows)])
    if joined is None:
        return None
    order = np.arange(length)
    order[rows] = np.arange(length, length + len(rows))
    return joined.take(pa.array(order))


def _zeros(length: int, like: Any) -> npt.NDArray[Any]:
    return np.broadcast_to(like.dtype.type(0), (length, *like.shape[1:]))
