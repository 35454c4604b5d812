"""Days in the calendars of the CF conventions, counted from 1970-01-01 of each."""

import numpy as np

STANDARD = "standard"
PROLEPTIC = "proleptic_gregorian"

_SYNONYMS = {
    "gregorian": STANDARD,
    "365_day": "noleap",
    "366_day": "all_leap",
}
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
MONTH_LENGTHS = {
    "noleap": _MONTHS,
    "all_leap": (31, 29, *_MONTHS[2:]),
    "360_day": (30,) * 12,
}
"""Of calendars in which all years are the same."""
CALENDARS = (STANDARD, PROLEPTIC, "julian", *MONTH_LENGTHS)

EPOCH_YEAR = 1970
_EPOCH_JULIAN_DAY = 2_440_588
_FIRST_GREGORIAN_DATE = (1582, 10, 15)
_MICROS_PER_DAY = 86_400_000_000


def calendar_name(text: str | None) -> str:
    """Return the usual name of a calendar, or the text itself if it is none that we know."""
    lowered = (text or STANDARD).lower()
    return _SYNONYMS.get(lowered, lowered)


def days_since_epoch(year: int, month: int, day: int, calendar: str) -> int:
    """Return how many days a date of a known calendar is after 1970-01-01 of that calendar.

    Those of `standard`, `proleptic_gregorian` and `julian` are on one scale.
    """
    lengths = MONTH_LENGTHS.get(calendar)
    if lengths is not None:
        return (year - EPOCH_YEAR) * sum(lengths) + sum(lengths[: month - 1]) + day - 1
    is_julian = calendar == "julian" or (
        calendar == STANDARD and (year, month, day) < _FIRST_GREGORIAN_DATE
    )
    return _julian_day(year, month, day, is_julian=is_julian) - _EPOCH_JULIAN_DAY


def _julian_day(year: int, month: int, day: int, *, is_julian: bool) -> int:
    before_march = month <= 2  # noqa: PLR2004  years are counted from March, so leap days come last
    years = year + 4800 - before_march
    days = (153 * (month + 12 * before_march - 3) + 2) // 5 + day + 365 * years + years // 4
    return days - 32083 if is_julian else days - years // 100 + years // 400 - 32045


def describe_moment(micros: int, calendar: str) -> str:
    """Return a moment for people; with the time of day unless that is midnight."""
    days, rest = divmod(micros, _MICROS_PER_DAY)
    lengths = MONTH_LENGTHS.get(calendar)
    if lengths is None:
        date = str(np.datetime64(days, "D"))
    else:
        year, day = divmod(days, sum(lengths))
        month = 0
        while day >= lengths[month]:
            day -= lengths[month]
            month += 1
        date = f"{year + EPOCH_YEAR:04}-{month + 1:02}-{day + 1:02}"
    return date if not rest else f"{date} {_clock(rest)}"


def _clock(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}" if fraction else text
