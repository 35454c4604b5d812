"""Units of time in which files count, by the names that the CF conventions allow."""

MICROS_PER_UNIT = {
    "microseconds": 1,
    "milliseconds": 1_000,
    "seconds": 1_000_000,
    "minutes": 60_000_000,
    "hours": 3_600_000_000,
    "days": 86_400_000_000,
    "weeks": 604_800_000_000,
}
"""From fine to coarse."""

_ABBREVIATIONS = {
    "microsec": "microseconds",
    "us": "microseconds",
    "millisec": "milliseconds",
    "msec": "milliseconds",
    "ms": "milliseconds",
    "second": "seconds",
    "sec": "seconds",
    "s": "seconds",
    "minute": "minutes",
    "min": "minutes",
    "hour": "hours",
    "hr": "hours",
    "h": "hours",
    "day": "days",
    "d": "days",
    "week": "weeks",
}


def unit_name(text: str) -> str:
    """Return the usual name of a unit, or the text itself where it is none that we know."""
    lowered = text.lower()
    if lowered in MICROS_PER_UNIT:
        return lowered
    for word in (lowered, lowered.removesuffix("s")):
        if word in _ABBREVIATIONS:
            return _ABBREVIATIONS[word]
        if f"{word}s" in MICROS_PER_UNIT:
            return f"{word}s"
    return text
