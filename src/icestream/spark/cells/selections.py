"""Selections on coordinates: what people write, and the positions that it means.

A selection has one condition per coordinate: a value, a list of values, or a range with both of
its ends. A text such as `2024-05` on a coordinate of times means all of that month.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
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
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
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
        plain = _plain(value, kind)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{value!r} cannot be compared with the coordinate {name!r}, which has the type "
            f"{kind}; use {_FORMS}",
            kind=ErrorKind.INVALID_ARGUMENT,
        ) from error
    return _Span(plain, plain)


def _plain(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        if isinstance(value, str):
            return value
    elif isinstance(value, int | float | np.number):
        # in the coordinate's own precision: 45.1 is found among 32-bit numbers
        return np.float32(value) if pa.types.is_float32(kind) else value
    raise TypeError(f"{value!r} is compared with a {kind}")


def _moments(value: Any) -> _Span:
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        value = np.datetime64(aware.astimezone(UTC).replace(tzinfo=None), "us")
    elif isinstance(value, str):
        value = _parsed_moment(value)
    elif not isinstance(value, np.datetime64):
        raise TypeError(f"{value!r} is no moment")
    low = value.astype("M8[us]").astype(np.int64)
    if np.datetime_data(value.dtype)[0] in {"us", "ns"}:
        return _Span(low, low)
    end = np.array(value.astype(np.int64) + 1).astype(value.dtype)
    return _Span(low, end.astype("M8[us]").astype(np.int64) - 1)


def _parsed_moment(text: str) -> np.datetime64:
    """Return a moment as exact as it is written."""
    local = text.strip().replace(" ", "T").removesuffix("Z")
    if _MOMENT.fullmatch(local):
        return np.datetime64(local)
    exact = datetime.fromisoformat(text).astimezone(UTC)
    return np.datetime64(exact.replace(tzinfo=None), "us")
