"""Moments in UTC with nanoseconds, as blocks store them.

>>> str(Timestamp.parse("2024-02-29T14:00:00.120+02:00"))
'2024-02-29T12:00:00.120Z'
"""

import re
import time
from calendar import isleap
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta
from typing import Self

from icestream.errors import InvalidInputError

_DAY_SECONDS = 86_400
_SECOND_NANOS = 1_000_000_000
_MILLI_NANOS = 1_000_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_TEXT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment in UTC; finer than a datetime, so that nothing is lost on reading."""

    year: int
    day_of_year: int
    """Counted from 1."""
    seconds: int
    """Since midnight."""
    nanoseconds: int = 0

    def __post_init__(self) -> None:
        if not (
            MINYEAR <= self.year <= MAXYEAR
            and 1 <= self.day_of_year <= 365 + isleap(self.year)
            and 0 <= self.seconds < _DAY_SECONDS
            and 0 <= self.nanoseconds < _SECOND_NANOS
        ):
            raise InvalidInputError(
                f"day {self.day_of_year} of {self.year}, second {self.seconds}, nanosecond"
                f" {self.nanoseconds} is no moment"
            )

    @classmethod
    def now(cls) -> Self:
        """Return the time of the clock."""
        return cls.from_epoch_ns(time.time_ns())

    @classmethod
    def from_epoch_ns(cls, nanoseconds: int) -> Self:
        """Return the moment so many nanoseconds after 1970 began.

        Raises:
            InvalidInputError: It is not in the years 1 to 9999.
        """
        seconds, nanoseconds = divmod(nanoseconds, _SECOND_NANOS)
        days, seconds = divmod(seconds, _DAY_SECONDS)
        try:
            day = date.fromordinal(_EPOCH_DAY + days)
        except (ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"{days} days from 1970 are beyond the years 1 to 9999"
            ) from error
        return cls(day.year, day.timetuple().tm_yday, seconds, nanoseconds)

    @classmethod
    def from_epoch_ms(cls, milliseconds: int) -> Self:
        """Return the moment so many milliseconds after 1970 began."""
        return cls.from_epoch_ns(milliseconds * _MILLI_NANOS)

    @classmethod
    def from_datetime(cls, moment: datetime) -> Self:
        """Return the moment of an aware datetime.

        Raises:
            InvalidInputError: It has no time zone.
        """
        if moment.tzinfo is None:
            raise InvalidInputError(
                f"{moment} has no time zone: use an aware datetime, such as UTC"
            )
        try:
            moment = moment.astimezone(UTC)
        except OverflowError as error:
            raise InvalidInputError(f"{moment} is beyond the years 1 to 9999 in UTC") from error
        midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        seconds = (moment - midnight).seconds
        return cls(moment.year, moment.timetuple().tm_yday, seconds, moment.microsecond * 1000)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the moment of RFC 3339 text.

        Raises:
            InvalidInputError: The text has another form, or names no moment.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise InvalidInputError(f"{text[:80]!r} is no time such as 2024-01-31T12:00:00.5Z")
        day, clock, fraction, zone = match.groups()
        zone = "+00:00" if zone in "Zz" else zone
        try:
            moment = cls.from_datetime(datetime.fromisoformat(f"{day}T{clock}{zone}"))
        except ValueError as error:
            raise InvalidInputError(f"{text!r} is no time: {error}") from error
        return replace(moment, nanoseconds=int((fraction or "").ljust(9, "0")))

    def to_datetime(self) -> datetime:
        """Return the moment as a datetime in UTC, without what is finer than microseconds."""
        return datetime(self.year, 1, 1, tzinfo=UTC) + timedelta(
            days=self.day_of_year - 1, seconds=self.seconds, microseconds=self.nanoseconds // 1000
        )

    def truncated_ms(self) -> Self:
        """Return the moment without what is finer than milliseconds."""
        return replace(self, nanoseconds=self.nanoseconds // _MILLI_NANOS * _MILLI_NANOS)

    @property
    def epoch_ns(self) -> int:
        """Nanoseconds since 1970 began."""
        days = date(self.year, 1, 1).toordinal() + self.day_of_year - 1 - _EPOCH_DAY
        return (days * _DAY_SECONDS + self.seconds) * _SECOND_NANOS + self.nanoseconds

    @property
    def epoch_ms(self) -> int:
        """Whole milliseconds since 1970 began."""
        return self.epoch_ns // _MILLI_NANOS

    def __str__(self) -> str:
        whole = self.to_datetime().strftime("%m-%dT%H:%M:%S")
        fraction = f"{self.nanoseconds:09}"
        while fraction.endswith("000"):
            fraction = fraction[:-3]
        return f"{self.year:04}-{whole}{'.' if fraction else ''}{fraction}Z"
