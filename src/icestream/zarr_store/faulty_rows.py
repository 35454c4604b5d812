"""Naming the rows that are at fault in columns that a user gave."""

import numpy as np
import numpy.typing as npt

_ROWS_SHOWN = 5


def rows_named(faulty: npt.NDArray[np.bool_]) -> str:
    """Return which rows are at fault: the first few, and how many more."""
    rows = np.flatnonzero(faulty)
    named = ", ".join(map(str, rows[:_ROWS_SHOWN].tolist()))
    more = f" and {len(rows) - _ROWS_SHOWN} more" if len(rows) > _ROWS_SHOWN else ""
    return f"rows {named}{more}"
