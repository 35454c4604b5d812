"""One message as a cell: the variable it belongs to, and its place along each dimension."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from icestream.parsers.grib.fields import grid_shape
from icestream.parsers.grib.messages import MessageRange, key_of

_PLAIN_STEP = "instant"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cell:
    """What the keys of one message say."""

    message: MessageRange
    field: int | None
    """Which field of the message; None is the only one."""
    name: str
    level_type: str
    place: Mapping[str, float]
    """Value of each coordinate; some are the same in all messages."""
    grid: str
    """Hash of the grid section."""
    shape: tuple[int, ...]
    packing: str
    attributes: Mapping[str, Any]


def cell_of(handle: int, message: MessageRange, field: int | None) -> Cell:
    """Return what the keys of a message, or of one of its fields, say."""
    return Cell(
        message=message,
        field=field,
        name=_name(handle),
        level_type=key_of(handle, "typeOfLevel", "unknown"),
        place=_place(handle),
        grid=key_of(handle, "md5GridSection", ""),
        shape=grid_shape(handle),
        packing=key_of(handle, "packingType", "unknown"),
        attributes=_attributes(handle),
    )


def _name(handle: int) -> str:
    name = key_of(handle, "shortName", "unknown")
    if name == "unknown":
        name = f"unknown_{key_of(handle, 'paramId', 0)}"
    step_type = key_of(handle, "stepType", _PLAIN_STEP)
    return str(name if step_type == _PLAIN_STEP else f"{name}_{step_type}")


def _place(handle: int) -> dict[str, float]:
    start = _moment(handle, "data")
    # the step itself is a number of one of many units, or a text with its unit
    step = _moment(handle, "validity") - start
    place = {
        "time": (start - _EPOCH).total_seconds(),
        "step": step / timedelta(hours=1),
        "level": float(key_of(handle, "level", 0)),
    }
    number = key_of(handle, "perturbationNumber")
    return place if number is None else {**place, "number": float(number)}


def _moment(handle: int, which: str) -> datetime:
    date, time = key_of(handle, f"{which}Date", 19700101), key_of(handle, f"{which}Time", 0)
    day = datetime.strptime(f"{date:08d}", "%Y%m%d").replace(tzinfo=UTC)
    return day + timedelta(hours=time // 100, minutes=time % 100)


def _attributes(handle: int) -> dict[str, Any]:
    names = {"units": "units", "name": "long_name", "cfName": "standard_name"}
    named = {to: key_of(handle, key) for key, to in names.items()}
    known = {to: value for to, value in named.items() if value not in {None, "unknown", "~"}}
    keys = ("paramId", "shortName", "typeOfLevel", "stepType", "gridType")
    return {**known, **{f"GRIB_{key}": key_of(handle, key) for key in keys}}
