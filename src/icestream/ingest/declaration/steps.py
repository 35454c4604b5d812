"""Distances of neighbours along a dimension, as people write them: `1 day`, `1 month`, `0.25`."""

import re
from dataclasses import dataclass

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.times.units import MICROS_PER_UNIT, unit_name

_STEP = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?:\s+(?P<unit>[A-Za-z]+))?")
_MONTHS_PER_UNIT = {"month": 1, "months": 1, "year": 12, "years": 12}


@dataclass(frozen=True, slots=True)
class Step:
    """A distance: in microseconds or months if it is one of time, else as the coordinate counts."""

    size: float
    is_time: bool
    in_months: bool = False


def parse_step(text: str) -> Step:
    """Return the distance that a text says.

    Raises:
        InvalidInputError: It says none.
    """
    fault = step_fault(text)
    found = _STEP.fullmatch(text.strip())
    if fault or found is None:
        raise InvalidInputError(f"step: {fault}", kind=ErrorKind.INVALID_ARGUMENT)
    number, unit = float(found["number"]), found["unit"]
    if unit is None:
        return Step(number, is_time=False)
    if unit.lower() in _MONTHS_PER_UNIT:
        return Step(number * _MONTHS_PER_UNIT[unit.lower()], is_time=True, in_months=True)
    return Step(round(number * MICROS_PER_UNIT[unit_name(unit)]), is_time=True)


def step_fault(text: str) -> str | None:
    """Return what is wrong with the text of a step, or None."""
    found = _STEP.fullmatch(text.strip())
    if found is None or not float(found["number"]):
        return f"{text!r} is not a distance such as `1 day`, `6 hours` or `0.25`"
    unit = found["unit"]
    if unit and unit.lower() in _MONTHS_PER_UNIT:
        is_whole = float(found["number"]).is_integer()
        return None if is_whole else f"{text!r} is not a whole number of months or years"
    if unit and unit_name(unit) not in MICROS_PER_UNIT:
        return f"{unit!r} is not one of {', '.join(MICROS_PER_UNIT)}, months, years"
    return None
