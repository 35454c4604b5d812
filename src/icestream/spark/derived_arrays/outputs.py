"""The derived array in its repository: its metadata and coordinates, as the input asks for."""

import base64
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store

from icestream.errors import AlreadyExistsError, ErrorKind, InvalidInputError
from icestream.ingest.array_derivation.declarations import ArrayDerivation, Period, Reduction
from icestream.spark.cells.decoding import Values
from icestream.spark.cells.grids import Column
from icestream.spark.cells.plans import read_cells
from icestream.spark.derived_arrays.computing import Computation
from icestream.spark.derived_arrays.inputs import InputArray

_PACKING = (
    *("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"),
    *("valid_min", "valid_max", "valid_range", "coordinates", "cell_methods"),
)
_NAN = base64.standard_b64encode(struct.pack("<d", np.nan)).decode()
"""As xarray writes it in Zarr 3."""
_NAMES = ("standard_name", "long_name", "axis")
_TIME_UNITS = {Period.HOUR: "hours since 1970-01-01"}
_DAYS = "days since 1970-01-01"
_MICROS = {"hours": 3_600_000_000, "days": 86_400_000_000}


def put_output(store: Store, source: Store, computation: Computation, *, is_new: bool) -> None:
    """Create the derived array, or let it follow the length of its input, with its coordinates.

    Args:
        store: Of a writable session on the output.
        source: Of the version of the input.
        computation: What is to be stored.
        is_new: Whether this is the first time, so that nothing must be there.

    Raises:
        AlreadyExistsError: There is an array that is not ours.
        InvalidInputError: The output does not have the form any more that the input asks for.
    """
    derivation = computation.derivation
    group = zarr.open_group(store, path=derivation.output.group.strip("/"), mode="a", zarr_format=3)
    _put_array(group, computation, is_new=is_new)
    for number, column in enumerate(computation.array.coordinates):
        if column.path is not None:
            values, attributes = _coordinate(source, computation, number)
            _put_coordinate(group, column.name, values, attributes, is_new=is_new)


def _put_array(group: zarr.Group, computation: Computation, *, is_new: bool) -> None:
    place = computation.derivation.output
    existing = group.get(place.name)
    if existing is None:
        _create_array(group, computation)
        return
    if is_new or not isinstance(existing, zarr.Array):
        raise _taken(place.array)
    form = (tuple(existing.chunks), existing.dtype)
    if form != (computation.chunks, computation.dtype):
        raise InvalidInputError(
            f"{place.array} has chunks and type {form}, and the declaration and its input now ask "
            f"for {(computation.chunks, computation.dtype)}; derive it into another array",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    if existing.shape != computation.shape:
        existing.resize(computation.shape)


def _create_array(group: zarr.Group, computation: Computation) -> None:
    is_float = computation.dtype.kind == "f"
    group.create_array(
        computation.derivation.output.name,
        shape=computation.shape,
        chunks=computation.chunks,
        dtype=computation.dtype,
        fill_value=np.nan if is_float else 0,
        dimension_names=computation.array.dimensions,
        attributes=_attributes(computation.derivation, computation.array, is_float=is_float),
    )


def _attributes(
    derivation: ArrayDerivation, array: InputArray, *, is_float: bool
) -> dict[str, Any]:
    kept = {name: value for name, value in array.attributes.items() if name not in _PACKING}
    if derivation.function == Reduction.COUNT:
        kept["units"] = "1"
    if is_float:
        kept["_FillValue"] = _NAN
    return {**kept, "cell_methods": f"{derivation.along}: {_method(derivation.function)}"}


def _method(function: str) -> str:
    names = {Reduction.MIN.value: "minimum", Reduction.MAX.value: "maximum"}
    return names.get(function, function)


def _coordinate(
    source: Store, computation: Computation, number: int
) -> tuple[Values, Mapping[str, Any]]:
    """Return the stored values and the attributes of a coordinate of the output."""
    column, grouped = computation.array.coordinates[number], computation.array.grouped
    attributes: Mapping[str, Any] = _stored_attributes(source, column)
    is_grouped = number == computation.array.axis
    if is_grouped and computation.derivation.group is not None:
        units = _TIME_UNITS.get(computation.derivation.group, _DAYS)
        values = grouped.labels // _MICROS[units.partition(" ")[0]]
        named = {key: attributes[key] for key in _NAMES if key in attributes}
        return values, {**named, "units": units, "calendar": "proleptic_gregorian"}
    everything = tuple(range(length) for length in computation.array.shape)
    values = read_cells(source, column, everything, whole=True)
    return (values[grouped.starts[:-1]] if is_grouped else values), attributes


def _stored_attributes(source: Store, column: Column) -> dict[str, Any]:
    array = zarr.open_array(source, path=str(column.path), mode="r", zarr_format=3)
    return dict(array.attrs)


def _put_coordinate(
    group: zarr.Group, name: str, values: Values, attributes: Mapping[str, Any], *, is_new: bool
) -> None:
    existing = group.get(name)
    if isinstance(existing, zarr.Array):
        if existing.shape == values.shape and np.array_equal(np.asarray(existing[...]), values):
            return
        if is_new:
            raise _taken(f"{group.path}/{name}")
    group.create_array(
        name,
        data=values,
        dimension_names=[name],
        attributes=dict(attributes),
        overwrite=True,
    )


def _taken(path: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is an array {path} already, which is not of this derivation; choose another group",
        kind=ErrorKind.NODE_ALREADY_EXISTS,
    )
