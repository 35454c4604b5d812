"""Attributes of files as plain values that JSON can hold."""

from typing import Any

import numpy as np
import numpy.typing as npt

type PlainValue = str | int | float | bool | list[Any] | None


def plain_value(values: npt.NDArray[Any]) -> PlainValue:
    """Return an attribute as a plain value; one element is a scalar, as NetCDF means it.

    Raises:
        TypeError: It is neither of numbers nor of texts.
    """
    if values.dtype.kind not in "biufSUOTc":
        raise TypeError(f"values of type {values.dtype}")
    items = [_plain_item(item) for item in values.reshape(-1).tolist()]
    if len(items) == 1:
        return items[0]
    return np.array(items, object).reshape(values.shape).tolist() if values.ndim > 1 else items


def decoded_text(raw: bytes) -> str:
    """Return a text of UTF-8 or, where it is none, of Latin-1; what pads it is left out."""
    raw = raw.rstrip(b"\x00")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _plain_item(item: Any) -> PlainValue:
    match item:
        case bytes():
            return decoded_text(item)
        case str():
            return decoded_text(item.encode("utf-8", "surrogateescape"))
        case complex():
            return [item.real, item.imag]
        case bool() | int() | float():
            return item
        case _:
            raise TypeError(f"a value of type {type(item).__name__}")
