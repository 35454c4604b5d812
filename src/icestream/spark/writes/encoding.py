"""Values of columns as the numbers that arrays store: what `cells.decoding` does, backwards."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.times.encodings import MISSING, TimeEncoding, encode_times
from icestream.spark.cells.decoding import Decoding, Values

_REMEDY = "write other values, or recreate the array with a type or attributes that fit"


def encode_values(name: str, values: pa.Array, decoding: Decoding, dtype: np.dtype[Any]) -> Values:
    """Return the stored form of values, which decodes to them again.

    Numbers are rounded to what a scale factor or the precision of floats allows; all else is
    exact. Null becomes the value that the array has for missing ones, NaN in arrays of floats
    that have none.

    Args:
        name: Of the column, for messages.
        values: One for each cell.
        decoding: Of the array.
        dtype: Of the array.

    Raises:
        InvalidInputError: A value has no stored form; the message says which.
    """
    # texts of any length have no order of bytes
    native = dtype if dtype.kind == "T" else dtype.newbyteorder("=")
    absent = values.is_null().to_numpy(zero_copy_only=False)
    if native.kind in "UTS":
        stored = _texts(name, values, native)
    elif native.kind in "mM":
        stored = _datetimes(name, values, native)
    else:
        stored, absent = _numbers(name, values, decoding, native)
    return _with_missing(name, stored, absent, decoding).astype(dtype, copy=False)


def _with_missing(name: str, stored: Values, absent: Values, decoding: Decoding) -> Values:
    for value in decoding.missing:
        if value == value:  # noqa: PLR0124  NaN is missing whoever writes it
            taken = (stored == value) & ~absent
            _refuse(name, stored, taken, f"would be read as missing, which {value} stands for")
    if not absent.any():
        return stored
    if decoding.missing:
        substitute = decoding.missing[0]
    elif stored.dtype.kind in "fmM":
        substitute = np.nan if stored.dtype.kind == "f" else "NaT"
    else:
        remedy = "fill them" + ", or give the array one" * (stored.dtype.kind in "iuUT")
        raise _refused(
            f"column {name!r} has nulls, and its array no attribute _FillValue to stand for them; "
            f"{remedy}"
        )
    filled = stored.copy()
    filled[absent] = substitute
    return filled


# -- numbers --------------------------------------------------------------------------------------


def _numbers(
    name: str, values: pa.Array, decoding: Decoding, dtype: np.dtype[Any]
) -> tuple[Values, Values]:
    """Return stored numbers, and where they are missing and say nothing."""
    absent = values.is_null().to_numpy(zero_copy_only=False)
    meant = np.dtype(f"u{dtype.itemsize}") if decoding.unsigned else dtype
    plain = _plain_numbers(name, values, decoding, meant)
    if decoding.scale is not None or decoding.offset is not None:
        plain = (plain.astype(np.float64) - (decoding.offset or 0)) / (decoding.scale or 1)
    if plain.dtype.kind == "f" and meant.kind in "iu":
        absent = absent | np.isnan(plain)
        plain = np.rint(np.where(absent, 0, plain))
    _check_range(name, plain, absent, meant)
    return plain.astype(meant).view(dtype), absent


def _plain_numbers(name: str, values: pa.Array, decoding: Decoding, meant: np.dtype[Any]) -> Values:
    """Return the numbers that a column means, before they are packed."""
    is_packed = decoding.scale is not None or decoding.offset is not None
    if decoding.time is not None:
        return _times(name, values, decoding.time, exact=meant.kind != "f" and not is_packed)
    wanted = np.dtype(np.float64) if is_packed or meant.kind == "f" else meant
    plain = _cast(name, values, pa.from_numpy_dtype(wanted), meant)
    filled = pc.fill_null(plain, wanted.type(0).item())
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _times(name: str, values: pa.Array, time: TimeEncoding, *, exact: bool) -> Values:
    if not pa.types.is_timestamp(values.type):
        raise _refused(
            f"column {name!r} has the type {values.type}, and its array has times; cast it to "
            "timestamp"
        )
    micros = _micros(values, pa.timestamp("us", values.type.tz), MISSING)
    if not exact:
        since = np.where(micros == MISSING, 0, micros - time.origin)
        return since / time.micros_per_unit
    try:
        numbers = encode_times(micros, time)
    except InvalidInputError as error:
        raise _refused(f"column {name!r}: {error.message}") from error
    return np.where(numbers == MISSING, 0, numbers)


def _check_range(name: str, plain: Values, absent: Values, meant: np.dtype[Any]) -> None:
    if meant.kind in "iu":
        limits = np.iinfo(meant)
        # floats round the largest of 64 bits up, to what is outside
        above = plain >= float(limits.max) + 1 if plain.dtype.kind == "f" else plain > limits.max
        outside = (plain < limits.min) | above
    elif meant.kind == "f":
        outside = np.isfinite(plain) & (np.abs(plain) > np.finfo(meant).max)
    else:
        return
    _refuse(name, plain, outside & ~absent, f"cannot be stored as {meant}")


# -- texts and times of NumPy ---------------------------------------------------------------------


def _texts(name: str, values: pa.Array, dtype: np.dtype[Any]) -> Values:
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        raise _refused(f"column {name!r} has the type {values.type}, and its array stores {dtype}")
    if dtype.kind == "S":
        plain, longest = pc.fill_null(values.cast(pa.binary()), b""), dtype.itemsize
    else:
        plain = pc.fill_null(_cast(name, values, pa.string(), dtype), "")
        longest = dtype.itemsize // 4
    texts: Values = plain.to_numpy(zero_copy_only=False)
    stored = texts.astype(dtype)
    if dtype.kind != "T":
        is_cut = stored.astype(object) != texts
        why = f"is longer than the {longest} that {dtype} has, or ends with a zero, which is lost"
        _refuse(name, texts, is_cut, why)
    return stored


def _datetimes(name: str, values: pa.Array, dtype: np.dtype[Any]) -> Values:
    wanted = pa.timestamp("us", getattr(values.type, "tz", None))
    kind = wanted if dtype.kind == "M" else pa.duration("us")
    fits = pa.types.is_timestamp if dtype.kind == "M" else pa.types.is_duration
    if not fits(values.type):
        raise _refused(f"column {name!r} has the type {values.type}, and its array stores {dtype}")
    micros = _micros(values, kind, 0).view(f"{dtype.kind}8[us]")
    stored = micros.astype(dtype)
    _refuse(name, micros, stored != micros, f"is not a whole number of units of {dtype}")
    return stored


def _micros(values: pa.Array, kind: pa.DataType, missing: int) -> Values:
    counted = values.cast(kind, safe=False).view(pa.int64())
    return np.asarray(pc.fill_null(counted, missing).to_numpy(zero_copy_only=False))


def _cast(name: str, values: pa.Array, kind: pa.DataType, dtype: np.dtype[Any]) -> pa.Array:
    try:
        # floats are rounded, all else is exact
        return values.cast(kind, safe=not pa.types.is_floating(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _refused(
            f"column {name!r} has the type {values.type}, and its array stores {dtype}: {error}; "
            f"{_REMEDY}"
        ) from error


def _refuse(name: str, values: Values, faulty: Values, why: str) -> None:
    if faulty.any():
        first = values[int(np.argmax(faulty))]
        raise _refused(f"column {name!r}: {first} {why} ({int(faulty.sum())} such rows); {_REMEDY}")


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_ARGUMENT)
