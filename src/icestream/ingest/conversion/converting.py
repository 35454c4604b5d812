"""Values of one form in the form of another; what would not mean the same is refused."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.errors import InvalidInputError
from icestream.ingest.conversion.meanings import Meaning, meaning_of
from icestream.ingest.times.encodings import are_time_units

Values = npt.NDArray[Any]

_READ_ONLY_CODECS = frozenset({"icestream.grib"})
"""Chunks of these are files of others, which nobody here writes."""


def obstacle_between(source: Mapping[str, Any], target: Mapping[str, Any]) -> str | None:
    """Return why values of one array cannot become values of another, or None if they can.

    What the values themselves stand in the way of is seen only when they are read.

    Args:
        source: The document zarr.json of the array that has them.
        target: That of the array that is to have them.
    """
    try:
        here, there = meaning_of(source), meaning_of(target)
    except (InvalidInputError, ValueError) as error:
        return str(error)
    if not (here.is_number and there.is_number) and (
        here != there or _gaps(source) != _gaps(target)
    ):
        return f"values of type {here.stored} cannot be converted to {there.stored}"
    written = {codec["name"] for codec in target["codecs"] if isinstance(codec, Mapping)}
    if written & _READ_ONLY_CODECS:
        return "chunks of the others are GRIB messages, which cannot be written"
    return _other_units(source.get("attributes", {}), target.get("attributes", {}))


def convert(values: Values, source: Meaning, target: Meaning) -> Values:
    """Return stored values of one meaning as stored values of another.

    Numbers of the same packing are moved as they are. Others are unpacked, and packed anew: what
    is lost is what the packing of the target always loses, at most half of its scale factor.

    Raises:
        InvalidInputError: A value has no place in the target, or would be read as another.
    """
    if source == target:
        return values
    numbers = np.asarray(values, source.stored).view(source.dtype)
    absent = _is_missing(numbers, source)
    is_exact = source.packing == target.packing and not source.is_packed
    if source.packing != target.packing:
        numbers = _repacked(numbers, source, target)
    stored = _of_type(
        np.where(absent, numbers.dtype.type(0), numbers), target.dtype, exact=is_exact
    )
    return _with_gaps(stored, absent, target).view(target.stored)


def _other_units(here: Mapping[str, Any], there: Mapping[str, Any]) -> str | None:
    names = ("units", "calendar") if are_time_units(there.get("units")) else ("units",)
    for name in names:
        if here.get(name) != there.get(name):
            said = f"{here.get(name)!r} and not {there.get(name)!r}"
            return f"{name} are {said}, and values are not converted between them"
    return None


def _gaps(document: Mapping[str, Any]) -> tuple[Any, ...]:
    attributes = document.get("attributes", {})
    return attributes.get("_FillValue"), attributes.get("missing_value")


def _is_missing(numbers: Values, meaning: Meaning) -> npt.NDArray[np.bool_]:
    is_float = numbers.dtype.kind == "f"
    absent = np.isnan(numbers) if is_float else np.zeros(numbers.shape, np.bool_)
    for value in meaning.missing:
        absent |= numbers == value
    return absent


def _repacked(numbers: Values, source: Meaning, target: Meaning) -> Values:
    (scale, offset), (new_scale, new_offset) = source.packing, target.packing
    physical = numbers.astype(np.float64) * scale + offset
    return np.asarray((physical - new_offset) / new_scale)


def _of_type(numbers: Values, dtype: np.dtype[Any], *, exact: bool) -> Values:
    """Return numbers as a type, if it can hold them.

    Args:
        numbers: None of them missing.
        dtype: The type.
        exact: Whole numbers must stay what they are, and others must not be made whole.
    """
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            cast = numbers.astype(dtype)
        wrong = np.isinf(cast) & np.isfinite(numbers)
        if exact and numbers.dtype.kind in "iu":
            with np.errstate(invalid="ignore"):
                wrong |= cast.astype(numbers.dtype) != numbers
        _refuse(wrong, numbers, f"cannot be held as {dtype}")
        return cast
    whole = np.rint(numbers) if numbers.dtype.kind == "f" else numbers
    if exact:
        _refuse(whole != numbers, numbers, f"is no whole number, as {dtype} has only")
    limits = np.iinfo(dtype)
    if whole.dtype.kind == "f":  # which has no room for the highest of 64 bits, but for one more
        inside = (whole >= float(limits.min)) & (whole < float(limits.max) + 1)
    else:
        inside = (whole >= limits.min) & (whole <= limits.max)
    _refuse(~inside, numbers, f"is beyond what {dtype} holds ({limits.min} to {limits.max})")
    return whole.astype(dtype)


def _with_gaps(stored: Values, absent: npt.NDArray[np.bool_], target: Meaning) -> Values:
    taken = np.zeros(stored.shape, np.bool_)
    for value in target.missing:
        taken |= stored == value
    _refuse(taken & ~absent, stored, "would be read as a missing value")
    if not absent.any():
        return stored
    if target.gap is None:
        raise InvalidInputError(
            f"{int(absent.sum())} values are missing, and the others have no _FillValue for those"
        )
    return np.where(absent, target.dtype.type(target.gap), stored)


def _refuse(wrong: npt.NDArray[np.bool_], numbers: Values, reason: str) -> None:
    if wrong.any():
        example = numbers[wrong].flat[0]
        others = int(wrong.sum()) - 1
        more = f", and {others} more like it" if others else ""
        raise InvalidInputError(f"the stored value {example!s} {reason}{more}")
