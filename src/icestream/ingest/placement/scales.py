"""Regular scales along a dimension: which position a value has, and which value a position."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from icestream.ingest.declaration.steps import Step
from icestream.ingest.times.calendars import STANDARD
from icestream.ingest.times.months import month_numbers, month_starts

Values = npt.NDArray[Any]


class Scale(Protocol):
    """Positions 0, 1, 2 ... from the lowest value on."""

    def positions(self, values: Values) -> npt.NDArray[np.float64]:
        """Return the position of each value, which is whole if it is on the scale."""

    def values(self, positions: npt.NDArray[np.int64]) -> Values:
        """Return the value at each position."""


@dataclass(frozen=True, slots=True)
class EvenScale:
    """Values at one distance."""

    lowest: Any
    step: Any

    def positions(self, values: Values) -> npt.NDArray[np.float64]:
        """Return the position of each value."""
        return np.asarray((values - self.lowest) / self.step, np.float64)

    def values(self, positions: npt.NDArray[np.int64]) -> Values:
        """Return the value at each position."""
        return np.asarray(self.lowest + positions * self.step)


@dataclass(frozen=True, slots=True)
class MonthScale:
    """One moment in every month, or in every so many; where in the month does not matter."""

    first: int
    months: int
    offset: int
    """From the start of a month to the moment that stands for it where no file has one."""
    calendar: str

    def positions(self, values: Values) -> npt.NDArray[np.float64]:
        """Return the position of each value."""
        return np.asarray((month_numbers(values, self.calendar) - self.first) / self.months)

    def values(self, positions: npt.NDArray[np.int64]) -> Values:
        """Return the value at each position."""
        return month_starts(self.first + positions * self.months, self.calendar) + self.offset


def scale_of(values: Values, step: Step, calendar: str | None) -> Scale:
    """Return the scale that starts at the lowest of some values."""
    if step.in_months:
        calendar = calendar or STANDARD
        numbers = month_numbers(values, calendar)
        offset = int((values - month_starts(numbers, calendar)).min())
        return MonthScale(int(numbers.min()), int(step.size), offset, calendar)
    is_whole = step.size == int(step.size)
    return EvenScale(values.min(), values.dtype.type(step.size) if is_whole else step.size)
