"""Selections on coordinates: what people write, and the positions that it means.

A selection has one condition per coordinate: a value, a list of values, or a range with both of
its ends. A text such as `2024-05` on a coordinate of times means all of that month.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import ErrorKind, InvalidInputError
from icestream.spark.cells.blocks import Positions, simplest

Selection = Mapping[str, Any]
_FORMS = (
    'a value, a list of values or a range {"from": a, "to": b} that has both of its ends, '
    "one of which may be left out"
)
_MOMENT = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d(:\d\d(:\d\d(\.\d{1,6})?)?)?)?)?)?")
_BASIC = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(?:(\d\d)(\d\d(?:\.\d{1,6})?)?)?)?")
"""The same without hyphens and colons."""
_ENDS = frozenset({"from", "to"})


@dataclass(frozen=True, slots=True)
class _Span:
    """All values from one to another, both included; None is open."""

    low: Any = None
    high: Any = None


def parse_selection(text: str) -> Selection:
    """Return the selection that is written as a JSON object.

    Raises:
        InvalidInputError: The text is none.
    """
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f'select is not JSON ({error}); write it as {{"lat": {{"from": 40, "to": 60}}}}'
        ) from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"select is {text!r}, not a JSON object with coordinates as keys")
    return found


def positions_of(name: str, condition: Any, values: pa.Array) -> Positions:
    """Return the positions at which a coordinate fulfils a condition, ascending.

    Args:
        name: Of the coordinate, for messages.
        condition: On its values.
        values: All of them, decoded.

    Raises:
        InvalidInputError: The condition has no known form, or does not fit the values.
    """
    if pa.types.is_decimal(values.type):  # what Spark has for unsigned 64-bit numbers
        values = values.cast(pa.uint64())
    known = values.is_valid().to_numpy(zero_copy_only=False)
    chosen = np.zeros(len(values), np.bool_)
    plain = _comparable(values)
    for span in _spans(name, condition, values.type):
        inside = known.copy()
        if span.low is not None:
            inside &= plain >= span.low
        if span.high is not None:
            inside &= plain <= span.high
        chosen |= inside
    return simplest(np.flatnonzero(chosen))


def _comparable(values: pa.Array) -> npt.NDArray[Any]:
    """Return values as NumPy has them; what stands for null is compared in vain."""
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.view(pa.int64())
    if pa.types.is_string(values.type):
        return np.array(values.fill_null("").to_pylist(), np.dtypes.StringDType())
    if values.null_count:
        values = values.fill_null(0)
    found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return found


def _spans(name: str, condition: Any, kind: pa.DataType) -> Sequence[_Span]:
    match condition:
        case dict() if condition and condition.keys() <= _ENDS:
            low, high = condition.get("from"), condition.get("to")
        case slice(start=low, stop=high, step=None):
            pass
        case dict() | slice() | None:
            raise InvalidInputError(
                f"the selection {condition!r} on {name!r} is not understood; use {_FORMS}",
                kind=ErrorKind.INVALID_ARGUMENT,
            )
        case list() | tuple() | np.ndarray():
            return [_span(name, value, kind) for value in condition]
        case _:
            return [_span(name, condition, kind)]
    first = None if low is None else _span(name, low, kind).low
    last = None if high is None else _span(name, high, kind).high
    return [_Span(first, last)]


def _span(name: str, value: Any, kind: pa.DataType) -> _Span:
    """Return what a value covers: itself, or all of a day, a month or a year."""
    try:
        if pa.types.is_timestamp(kind):
            return _moments(value)
        if isinstance(value, bool | np.bool_) or pa.types.is_boolean(kind):
            return _truths(value, kind)
        if isinstance(value, int | float | np.number | Decimal):
            return _numbers(value, kind)
        return _texts(value, kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{value!r} cannot be compared with the coordinate {name!r}, which has the type "
            f"{kind}; use {_FORMS}",
            kind=ErrorKind.INVALID_ARGUMENT,
        ) from error


def _truths(value: Any, kind: pa.DataType) -> _Span:
    if not pa.types.is_boolean(kind) or not isinstance(value, bool | np.bool_):
        raise TypeError(f"{value!r} is compared with a {kind}")
    return _Span(value, value)


def _texts(value: Any, kind: pa.DataType) -> _Span:
    if pa.types.is_string(kind) and isinstance(value, str):
        return _Span(value, value)
    if pa.types.is_binary(kind) and isinstance(value, str | bytes):
        own = value.encode() if isinstance(value, str) else value
        return _Span(own, own)
    raise TypeError(f"{value!r} is compared with a {kind}")


def _numbers(value: Any, kind: pa.DataType) -> _Span:
    """Return what a number covers, in the precision of the coordinate."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        raise TypeError(f"{value!r} is compared with a {kind}")
    if pa.types.is_floating(kind):
        with np.errstate(over="ignore"):  # what is too large is infinite
            own = np.float32(value) if pa.types.is_float32(kind) else float(value)
        return _Span(own, own)
    if not math.isfinite(value):
        return _Span(float(value), float(value))
    # exactly: floats cannot tell neighbours beyond 2**53 apart, so they are never compared with
    return _Span(math.ceil(value), math.floor(value))


def _moments(value: Any) -> _Span:
    moment: np.datetime64
    match value:
        case datetime():
            moment = np.datetime64(_in_utc(value), "us")
        case date():
            moment = np.datetime64(value, "D")
        case str():
            moment = _parsed_moment(value)
        case np.datetime64() if not np.isnat(value):
            moment = value
        case _:
            raise TypeError(f"{value!r} is no moment")
    low = moment.astype("M8[us]").astype(np.int64)
    if np.datetime_data(moment.dtype)[0] in {"us", "ns"}:
        return _Span(low, low)
    end = np.array(moment.astype(np.int64) + 1).astype(moment.dtype)
    return _Span(low, end.astype("M8[us]").astype(np.int64) - 1)


def _parsed_moment(text: str) -> np.datetime64:
    """Return a moment as exact as it is written."""
    local = text.strip().replace(" ", "T").removesuffix("Z")
    if basic := _BASIC.fullmatch(local):
        parts = [part for part in basic.groups() if part]
        local = "T".join(filter(None, ("-".join(parts[:3]), ":".join(parts[3:]))))
    if _MOMENT.fullmatch(local):
        return np.datetime64(local)
    return np.datetime64(_in_utc(datetime.fromisoformat(text)), "us")


def _in_utc(moment: datetime) -> datetime:
    """Return a moment without its time zone; where it has none, it is in UTC already."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
