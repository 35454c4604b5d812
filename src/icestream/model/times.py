"""Timestamps: microseconds since the epoch inside, aware datetimes at the edges."""

import time
from datetime import UTC, datetime

from icestream.errors import InvalidInputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now_micros() -> int:
    """Return the time in microseconds since the epoch."""
    return time.time_ns() // 1000


def datetime_of(micros: int) -> datetime:
    """Return microseconds since the epoch as an aware datetime."""
    return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)


def micros_of(moment: datetime) -> int:
    """Return an aware datetime as microseconds since the epoch.

    Raises:
        InvalidInputError: It has no time zone.
    """
    if moment.tzinfo is None:
        raise InvalidInputError(f"{moment} has no time zone: use an aware datetime, such as UTC")
    delta = moment - _EPOCH
    return (delta.days * 86400 + delta.seconds) * 1_000_000 + delta.microseconds


def seconds_of(moment: datetime) -> int:
    """Return an aware datetime as whole seconds since the epoch."""
    return micros_of(moment) // 1_000_000
