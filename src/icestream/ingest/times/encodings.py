"""Times of the CF conventions: decoded to one scale, and encoded in one unit for the archive.

Inside, a moment is a number of microseconds since 1970-01-01 of its calendar. Files count in units
of their own (each daily file in `hours since` its own day), so raw numbers are never compared.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.times.calendars import (
    CALENDARS,
    PROLEPTIC,
    STANDARD,
    calendar_name,
    days_since_epoch,
)
from icestream.ingest.times.units import MICROS_PER_UNIT, unit_name

MISSING = np.iinfo(np.int64).min
"""A moment that is not known."""

Micros = npt.NDArray[np.int64]

_UNITS = re.compile(
    r"\s*(?P<unit>[A-Za-z]+)\s+since\s+(?P<reference>"
    r"(?P<year>[+-]?\d{1,6})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?:(?:T|\s+)(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2}(?:\.\d*)?))?)?)?"
    r"\s*(?P<zone>UTC|GMT|Z|[+-]\d{1,2}(?::?\d{2})?)?)\s*",
    re.IGNORECASE,
)
_SINCE = re.compile(r"\s*[A-Za-z_]+\s+since\s", re.IGNORECASE)
_UNEVEN = frozenset({"month", "months", "year", "years", "common_year", "common_years"})
_LARGEST = np.iinfo(np.int64).max
_FIRST_GREGORIAN_MICROS = days_since_epoch(1582, 10, 15, PROLEPTIC) * MICROS_PER_UNIT["days"]


@dataclass(frozen=True, slots=True)
class TimeEncoding:
    """How a variable counts time."""

    unit: str
    """One of `MICROS_PER_UNIT`."""
    reference: str
    """The moment of zero, as it is written."""
    origin: int
    """The same in microseconds."""
    calendar: str = STANDARD

    @property
    def units(self) -> str:
        """The attribute `units`."""
        return f"{self.unit} since {self.reference}"

    @property
    def micros_per_unit(self) -> int:
        """How long one unit is."""
        return MICROS_PER_UNIT[self.unit]


def are_time_units(units: object) -> bool:
    """Tell whether the attribute `units` of a variable says that it counts time since a moment."""
    return isinstance(units, str) and _SINCE.match(units) is not None


def parse_time_units(units: str, calendar: str | None = None) -> TimeEncoding:
    """Return how a variable counts time, by its attributes.

    Raises:
        InvalidInputError: The units or the calendar are none that have a fixed meaning.
    """
    found = _UNITS.fullmatch(units)
    name = calendar_name(calendar)
    if name not in CALENDARS:
        raise _refused(f"the calendar {calendar!r} is none of {', '.join(CALENDARS)}")
    if found is None:
        raise _refused(f"{units!r} is not a unit and a moment, such as 'hours since 1970-01-01'")
    unit = unit_name(found["unit"])
    if unit not in MICROS_PER_UNIT:
        why = "are not all of one length" if unit.lower() in _UNEVEN else "are not known"
        raise _refused(f"the {found['unit']} of {units!r} {why}; use {', '.join(MICROS_PER_UNIT)}")
    month, day = int(found["month"]), int(found["day"])
    if not 1 <= month <= 12 or not 1 <= day <= 31:  # noqa: PLR2004  of a year and a month
        raise _refused(f"there is no date {found['reference']!r}")
    days = days_since_epoch(int(found["year"]), month, day, name)
    origin = days * MICROS_PER_UNIT["days"] + _clock_micros(found)
    return TimeEncoding(unit, found["reference"].strip(), origin, name)


def _clock_micros(found: re.Match[str]) -> int:
    seconds = int(found["hour"] or 0) * 3600 + int(found["minute"] or 0) * 60
    return round((seconds - _zone_seconds(found["zone"]) + float(found["second"] or 0)) * 1_000_000)


def _zone_seconds(zone: str | None) -> int:
    if zone is None or zone[0] not in "+-":
        return 0
    hours, minutes = (zone[1:].split(":") if ":" in zone else (zone[1:3], zone[3:]))[:2]
    seconds = int(hours) * 3600 + int(minutes or 0) * 60
    return -seconds if zone[0] == "-" else seconds


def decode_times(values: npt.NDArray[Any], encoding: TimeEncoding) -> Micros:
    """Return moments; those that are not finite are missing.

    Raises:
        InvalidInputError: The values are no numbers, or too far from 1970.
    """
    size = encoding.micros_per_unit
    if values.dtype.kind not in "iuf":
        raise _refused(f"values of the type {values.dtype} are no times in {encoding.units!r}")
    finite = np.isfinite(values)
    known = np.where(finite, values, values.dtype.type(0))
    farthest = float(np.abs(known.astype(np.float64)).max(initial=0))
    if farthest * size + abs(encoding.origin) >= _LARGEST:
        raise _refused(f"{farthest} {encoding.unit} from {encoding.reference} is out of range")
    if known.dtype.kind == "f":
        # whole units and the rest apart: their product would not fit the digits of a float
        whole = np.floor(known.astype(np.float64))
        rest = np.rint((known - whole) * size).astype(np.int64)
        micros = whole.astype(np.int64) * size + rest
    else:
        micros = known.astype(np.int64) * size
    return np.where(finite, micros + encoding.origin, MISSING)


def encode_times(micros: Micros, encoding: TimeEncoding) -> Micros:
    """Return moments as whole numbers of units; missing ones stay so.

    Raises:
        InvalidInputError: One is not a whole number of units after the reference.
    """
    is_missing = micros == MISSING
    since = np.where(is_missing, encoding.origin, micros) - encoding.origin
    numbers, rest = np.divmod(since, encoding.micros_per_unit)
    if rest.any():
        raise _refused(f"not all times are whole {encoding.units!r}; choose a finer unit")
    return np.where(is_missing, MISSING, numbers)


def common_calendar(calendars: Iterable[str | None], earliest: int) -> str | None:
    """Return the calendar in which all times can be compared and stored, None if there is none.

    None among the calendars stands for values that are no times.
    """
    distinct = set(calendars)
    if len(distinct) == 1:
        return distinct.pop()
    if distinct == {STANDARD, PROLEPTIC} and earliest >= _FIRST_GREGORIAN_MICROS:
        return STANDARD
    return None


def common_encoding(preferred: TimeEncoding, moments: Sequence[Micros]) -> TimeEncoding:
    """Return an encoding in which all moments are whole numbers, as near to the preferred as is."""
    divisor = 0
    for micros in moments:
        known = micros[micros != MISSING]
        divisor = math.gcd(divisor, int(np.gcd.reduce(known - preferred.origin, initial=0)))
    coarse_to_fine = reversed(MICROS_PER_UNIT.items())
    size = preferred.micros_per_unit
    unit = next(name for name, n in coarse_to_fine if n <= size and not divisor % n)
    return TimeEncoding(unit, preferred.reference, preferred.origin, preferred.calendar)


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_ARGUMENT)
