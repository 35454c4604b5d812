"""Months of many moments at once, in the calendars of the CF conventions."""

from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.ingest.times.calendars import MONTH_LENGTHS, PROLEPTIC, STANDARD
from icestream.ingest.times.units import MICROS_PER_UNIT

Micros = npt.NDArray[np.int64]

_DAY = MICROS_PER_UNIT["days"]
_MONTHS_PER_YEAR = 12
CALENDARS_WITH_MONTHS = (STANDARD, PROLEPTIC, *MONTH_LENGTHS)


def month_numbers(micros: Micros, calendar: str) -> npt.NDArray[np.int64]:
    """Return in which month moments are, counted from January 1970."""
    days: npt.NDArray[Any] = micros // _DAY
    lengths = MONTH_LENGTHS.get(calendar)
    if lengths is None:
        return days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    years, day = np.divmod(days, sum(lengths))
    months = np.searchsorted(np.cumsum(lengths), day, side="right")
    return np.asarray(years * _MONTHS_PER_YEAR + months, np.int64)


def month_starts(numbers: npt.NDArray[np.int64], calendar: str) -> Micros:
    """Return the first moments of months, counted from January 1970."""
    lengths = MONTH_LENGTHS.get(calendar)
    if lengths is None:
        return numbers.astype("M8[M]").astype("M8[us]").astype(np.int64)
    years, month = np.divmod(numbers, _MONTHS_PER_YEAR)
    before = np.cumsum((0, *lengths))[month]
    return np.asarray((years * sum(lengths) + before) * _DAY, np.int64)
