"""What stored values mean, by the CF conventions: packed, unsigned, missing."""

import base64
import binascii
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from icestream.errors import InvalidInputError
from icestream.parsers.array_documents import dtype_of

_NUMBERS = "iuf"


@dataclass(frozen=True, slots=True)
class Meaning:
    """How stored values are read."""

    stored: np.dtype[Any]
    """As zarr gives them, in the byte order of this machine."""
    dtype: np.dtype[Any]
    """The same bits, read with or without a sign as the attribute `_Unsigned` has it."""
    scale: float | None = None
    """None is 1, and says that values are not packed unless there is an offset."""
    offset: float | None = None
    missing: tuple[int | float, ...] = ()
    """What stands for no value, the usual one first; NaN does so always, and is not named."""

    @property
    def is_packed(self) -> bool:
        """Whether the numbers stand for others."""
        return self.scale is not None or self.offset is not None

    @property
    def is_number(self) -> bool:
        """Whether the values can be converted at all."""
        return self.dtype.kind in _NUMBERS

    @property
    def packing(self) -> tuple[float, float]:
        """The factor and the sum; numbers that share them mean the same."""
        return (
            1.0 if self.scale is None else self.scale,
            0.0 if self.offset is None else self.offset,
        )

    @property
    def gap(self) -> int | float | None:
        """What to store for a missing value; None if nothing stands for it."""
        if self.missing:
            return self.missing[0]
        return math.nan if self.dtype.kind == "f" else None


def meaning_of(document: Mapping[str, Any]) -> Meaning:
    """Return the meaning of the values of an array, by its zarr.json.

    Raises:
        InvalidInputError: An attribute is of no use.
    """
    stored = dtype_of(document["data_type"])
    attributes = document.get("attributes", {})
    dtype = _signed_as_said(stored, attributes.get("_Unsigned"))
    if dtype.kind not in _NUMBERS:
        return Meaning(stored, dtype)
    return Meaning(
        stored,
        dtype,
        _number(attributes, "scale_factor"),
        _number(attributes, "add_offset"),
        tuple(dict.fromkeys(_missing_values(attributes, dtype))),
    )


def _signed_as_said(stored: np.dtype[Any], unsigned: Any) -> np.dtype[Any]:
    said = str(unsigned).lower()
    if stored.kind == "i" and said in {"true", "1"}:
        return np.dtype(f"u{stored.itemsize}")
    if stored.kind == "u" and said in {"false", "0"}:
        return np.dtype(f"i{stored.itemsize}")
    return stored


def _number(attributes: Mapping[str, Any], name: str) -> float | None:
    value = attributes.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInputError(f"the attribute {name!r} is {value!r}, and must be a number")
    if name == "scale_factor" and not value:
        raise InvalidInputError("the attribute 'scale_factor' is 0, which leaves no values")
    return float(value)


def _missing_values(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> Iterator[int | float]:
    """Yield what stands for no value and can occur."""
    for name in ("_FillValue", "missing_value"):
        said = attributes.get(name)
        for value in said if isinstance(said, list) else [said]:
            number = _plain_number(value)
            fitting = None if number is None else _fitted(number, dtype)
            if fitting is not None:
                yield fitting


def _plain_number(value: Any) -> int | float | None:
    """Return a number that JSON holds as such, as a text, or as xarray does in Zarr 3."""
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str):
        return None
    try:
        return float(value)
    except ValueError:
        return _unpacked(value)


def _unpacked(text: str) -> float | None:
    try:
        (number,) = struct.unpack("<d", base64.b64decode(text, validate=True))
    except (binascii.Error, struct.error):
        return None
    return float(number)


def _fitted(number: float, dtype: np.dtype[Any]) -> int | float | None:
    """Return a number as the type has it; None if no value of the type is equal to it."""
    if math.isnan(number):
        return None
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return float(dtype.type(number))
    if not math.isfinite(number) or number != int(number):
        return None
    limits = np.iinfo(dtype)
    whole = int(number)
    if whole < 0 and dtype.kind == "u":
        whole += int(limits.max) + 1  # said with the sign that the stored values have
    return whole if limits.min <= whole <= limits.max else None
