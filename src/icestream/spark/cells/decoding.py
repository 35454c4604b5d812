"""Stored numbers and the values that they stand for, by the CF conventions."""

import base64
import contextlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.times.calendars import PROLEPTIC, STANDARD
from icestream.ingest.times.encodings import (
    MISSING,
    TimeEncoding,
    are_time_units,
    decode_times,
    parse_time_units,
)
from icestream.spark.arrow_types import in_spark_types

Values = npt.NDArray[Any]

MOMENT = pa.timestamp("us", "UTC")
_DURATION = pa.duration("us")
_REAL_CALENDARS = frozenset({STANDARD, PROLEPTIC, "julian"})
"""Whose moments are points of one time line; there is no February 30 in a timestamp."""
_TEXT_KINDS = "UT"
_REMEDY = "leave it out with the option variables, or read stored numbers with decode=false"


@dataclass(frozen=True, slots=True)
class Decoding:
    """How stored values of one array become a column."""

    type: pa.DataType
    """Of the column, in a form that Spark takes."""
    missing: tuple[Any, ...] = ()
    """Stored values that stand for nothing; one may be NaN."""
    scale: float | None = None
    offset: float | None = None
    time: TimeEncoding | None = None
    unsigned: bool = False
    """Stored as signed numbers, meant as unsigned ones."""

    def decode(self, stored: Values) -> pa.Array:
        """Return the values of cells in C order, null where they are missing."""
        flat = np.ascontiguousarray(stored).reshape(-1)
        if not flat.dtype.isnative:
            flat = flat.astype(flat.dtype.newbyteorder("="))
        absent = self._absent(flat)
        if flat.dtype.kind in _TEXT_KINDS or flat.dtype.kind == "S":
            return pa.array(flat.astype(object), self.type, mask=absent)
        if flat.dtype.kind in "mM":
            return _of_datetimes(flat, self.type)
        return self._of_numbers(flat, absent)

    def _of_numbers(self, flat: Values, absent: Values | None) -> pa.Array:
        if self.unsigned:
            flat = flat.view(f"u{flat.dtype.itemsize}")
        flat = self._unpacked(flat)
        if self.time is not None:
            known = flat if absent is None else np.where(absent, flat.dtype.type(0), flat)
            micros = decode_times(known, self.time)
            unknown = micros == MISSING
            absent = unknown if absent is None else absent | unknown
            return pa.array(micros, mask=absent).view(self.type)
        return pa.array(flat, mask=absent).cast(self.type)

    def _unpacked(self, flat: Values) -> Values:
        if self.scale is None and self.offset is None:
            return flat
        wide = np.float64 if flat.dtype.kind in "iu" else np.float32
        values: Values = flat.astype(np.result_type(flat.dtype, wide))
        if self.scale is not None:
            values *= values.dtype.type(self.scale)
        if self.offset is not None:
            values += values.dtype.type(self.offset)
        return values

    def _absent(self, flat: Values) -> Values | None:
        found: Values | None = None
        for value in self.missing:
            is_value = np.isnan(flat) if value != value else flat == value  # noqa: PLR0124  NaN
            found = is_value if found is None else found | is_value
        return found


def _of_datetimes(flat: Values, kind: pa.DataType) -> pa.Array:
    micros = flat.astype(f"{flat.dtype.kind}8[us]").view(np.int64)
    return pa.array(micros, mask=np.isnat(flat)).view(kind)


def index_decoding() -> Decoding:
    """Return the decoding of positions along a dimension that has no coordinate."""
    return Decoding(pa.int64())


def decoding_of(
    name: str, dtype: np.dtype[Any], attributes: Mapping[str, Any], *, decode: bool = True
) -> Decoding:
    """Return how an array is decoded.

    Args:
        name: Of the array, for messages.
        dtype: Of the stored values.
        attributes: Those that the CF conventions give a meaning.
        decode: False gives stored values as they are.

    Raises:
        InvalidInputError: There is no column for such values.
    """
    plain = _plain_type(name, dtype)
    if not decode or dtype.kind not in "iuf" + _TEXT_KINDS:
        return Decoding(plain)
    if dtype.kind in _TEXT_KINDS:
        return Decoding(plain, tuple(_missing_texts(attributes, dtype)))
    unsigned = dtype.kind == "i" and str(attributes.get("_Unsigned", "")).lower() == "true"
    scale = _number(name, attributes, "scale_factor")
    offset = _number(name, attributes, "add_offset")
    time = _time_encoding(name, attributes)
    stored = np.dtype(f"u{dtype.itemsize}") if unsigned else dtype
    kind = _plain_type(name, stored)
    if scale is not None or offset is not None:
        kind = pa.float64() if dtype.kind in "iu" else plain
    return Decoding(
        kind if time is None else MOMENT,
        tuple(_missing_values(attributes, dtype)),
        scale,
        offset,
        time,
        unsigned,
    )


def _plain_type(name: str, dtype: np.dtype[Any]) -> pa.DataType:
    match dtype.kind:
        case "U" | "T":
            return pa.string()
        case "S":
            return pa.binary()
        case "M":
            return MOMENT
        case "m":
            return _DURATION
        case "b" | "i" | "u" | "f" if dtype.itemsize <= 8:  # noqa: PLR2004  bytes that Arrow has
            plain = pa.from_numpy_dtype(dtype.newbyteorder("="))
            return in_spark_types(pa.schema([pa.field(name, plain)])).field(0).type
        case _:
            raise InvalidInputError(
                f"the array {name!r} has values of the type {dtype}, for which Spark has no "
                "column; leave it out with the option variables",
                kind=ErrorKind.INVALID_ARGUMENT,
            )


def _number(name: str, attributes: Mapping[str, Any], key: str) -> float | None:
    value = attributes.get(key)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise InvalidInputError(
        f"the attribute {key} of {name!r} is {value!r}, not a number; {_REMEDY}"
    )


def _time_encoding(name: str, attributes: Mapping[str, Any]) -> TimeEncoding | None:
    units, calendar = attributes.get("units"), attributes.get("calendar")
    if not are_time_units(units):
        return None
    try:
        encoding = parse_time_units(str(units), None if calendar is None else str(calendar))
    except InvalidInputError as error:
        raise InvalidInputError(f"times of {name!r}: {error}; {_REMEDY}") from error
    return encoding if encoding.calendar in _REAL_CALENDARS else None


def _missing_texts(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> Iterator[str]:
    for value in _named_missing(attributes):
        if isinstance(value, str) and np.array([value]).astype(dtype)[0] == value:
            yield value


def _missing_values(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> Iterator[Any]:
    for value in _named_missing(attributes):
        number = _fill_number(value)
        if number is not None and _fits(number, dtype):
            yield dtype.type(number)


def _named_missing(attributes: Mapping[str, Any]) -> Iterator[Any]:
    for key in ("_FillValue", "missing_value"):
        found = attributes.get(key)
        yield from found if isinstance(found, list) else [found]


def _fill_number(value: Any) -> float | None:
    """Return a number; in Zarr 3, xarray keeps floats as the text of their bytes."""
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str):
        return None
    with contextlib.suppress(ValueError):
        return float(value)
    with contextlib.suppress(ValueError, struct.error):
        return float(struct.unpack("<d", base64.standard_b64decode(value))[0])
    return None


def _fits(number: float, dtype: np.dtype[Any]) -> bool:
    """Tell whether a stored value can be this number at all."""
    if dtype.kind == "f":
        return True
    limits = np.iinfo(dtype)
    return number == number and limits.min <= number <= limits.max and number == int(number)  # noqa: PLR0124  NaN
