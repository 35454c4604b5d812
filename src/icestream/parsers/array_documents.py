"""Metadata of arrays: NumPy dtypes, fill values and attributes as zarr.json has them."""

import base64
import math
import struct
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.core.dtype import parse_data_type, parse_dtype
from zarr.errors import UnstableSpecificationWarning

from icestream.errors import ErrorKind, SourceError

Document = dict[str, Any]

_PLAIN_KINDS = "biufc"


def array_document(  # noqa: PLR0913  the parts of a document
    shape: Sequence[int],
    chunk_shape: Sequence[int],
    dtype: np.dtype[Any],
    *,
    serializer: Mapping[str, Any] | None = None,
    codecs: Sequence[Mapping[str, Any]] = (),
    fill_value: Any = None,
    dimension_names: Sequence[str | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Document:
    """Return the metadata of a Zarr 3 array.

    Args:
        shape: Elements per dimension.
        chunk_shape: Elements per chunk and dimension; at least one.
        dtype: Of the values, in the byte order of the file.
        serializer: The codec that makes bytes of values; None is their memory.
        codecs: What is applied to the bytes of a chunk when it is written, first one first.
        fill_value: Of missing chunks, as a NumPy or Python value; None is zero.
        dimension_names: One per dimension.
        attributes: As JSON holds them.

    Raises:
        SourceError: Zarr has no such data type.
    """
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [int(length) for length in shape],
        "data_type": data_type_of(dtype),
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [int(length) for length in chunk_shape]},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_value_of(fill_value, dtype),
        "codecs": [dict(serializer or serializer_of(dtype)), *map(dict, codecs)],
        "attributes": dict(attributes or {}),
        "storage_transformers": [],
    }
    if dimension_names:
        document["dimension_names"] = list(dimension_names)
    return document


def serializer_of(dtype: np.dtype[Any]) -> Document:
    """Return the codec that makes bytes of values."""
    if dtype.kind == "T":
        return {"name": "vlen-utf8"}
    orders = byte_orders(dtype)
    if len(orders) > 1:
        raise SourceError(f"the fields of {dtype} have different byte orders; Zarr has one")
    if not orders:
        return {"name": "bytes"}
    return {"name": "bytes", "configuration": {"endian": "big" if ">" in orders else "little"}}


def byte_orders(dtype: np.dtype[Any]) -> set[str]:
    """Return the byte orders of the values in a dtype, `<` or `>`."""
    base = dtype.base
    if base.fields is not None:
        return {order for field in base.fields.values() for order in byte_orders(field[0])}
    if base.kind in "SVbT" or (base.kind in "iu" and base.itemsize == 1):
        return set()
    return {">" if base.byteorder == ">" else "<"}


@cache
def data_type_of(dtype: np.dtype[Any]) -> Any:
    """Return a dtype as Zarr 3 names it.

    Raises:
        SourceError: Zarr has no such data type.
    """
    if dtype.kind in _PLAIN_KINDS and dtype.name in _PLAIN_TYPES:
        return dtype.name
    with _unstable_types():
        return _zarr_type(dtype).to_json(zarr_format=3)


def dtype_of(data_type: Any) -> np.dtype[Any]:
    """Return the dtype of values in memory for a type as Zarr 3 names it.

    Raises:
        ValueError: Zarr has no such data type.
    """
    with _unstable_types():
        dtype: np.dtype[Any] = parse_dtype(data_type, zarr_format=3).to_native_dtype()
    return dtype if dtype.kind == "T" else dtype.newbyteorder("=")  # texts have none


_PLAIN_TYPES = frozenset(
    {"bool", "float16", "float32", "float64", "complex64", "complex128"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)


def fill_value_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as JSON holds it."""
    if dtype.kind in "iu":
        return 0 if value is None else int(value)
    if dtype.kind == "f":
        return _plain_float(0.0 if value is None else float(value))
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind == "T":
        return value or ""
    zarr_type = _zarr_type(dtype)
    scalar = zarr_type.default_scalar() if value is None else zarr_type.cast_scalar(value)
    return zarr_type.to_json_scalar(scalar, zarr_format=3)


def _plain_float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


@contextmanager
def _unstable_types() -> Iterator[None]:
    """Say nothing of types that zarr may spell otherwise one day: files have no others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstableSpecificationWarning)
        yield


@cache
def _zarr_type(dtype: np.dtype[Any]) -> Any:
    try:
        with _unstable_types():
            return parse_data_type(dtype, zarr_format=3)
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"Zarr has no data type for {dtype}", kind=ErrorKind.UNIMPLEMENTED
        ) from error


def encoded_cf_fill_value(value: npt.NDArray[Any], dtype: np.dtype[Any]) -> Any:
    """Return the attribute `_FillValue` in the form in which xarray keeps it in Zarr 3."""
    plain = value.reshape(-1)[0]
    match dtype.kind:
        case "f":
            return base64.standard_b64encode(struct.pack("<d", float(plain))).decode()
        case "i" | "u":
            return int(plain)
        case "b":
            return bool(plain)
        case "S":
            return base64.standard_b64encode(bytes(plain)).decode()
        case "c":
            parts = (plain.real, plain.imag)
            return [base64.standard_b64encode(struct.pack("<d", part)).decode() for part in parts]
        case _:
            return plain.decode() if isinstance(plain, bytes) else str(plain)
