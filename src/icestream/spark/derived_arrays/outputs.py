"""The derived array in its repository: its metadata and coordinates, as the input asks for."""

import base64
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.errors import ArrayNotFoundError, NodeTypeValidationError

from icestream.errors import AlreadyExistsError, ErrorKind
from icestream.ingest.array_derivation.declarations import ArrayDerivation, Period, Reduction
from icestream.spark.cells.decoding import Values
from icestream.spark.derived_arrays.computing import Computation
from icestream.spark.derived_arrays.inputs import InputArray

_PACKING = (
    *("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"),
    *("valid_min", "valid_max", "valid_range"),
)
_NAN = base64.standard_b64encode(struct.pack("<d", np.nan)).decode()
"""As xarray writes it in Zarr 3."""
_NAMES = ("standard_name", "long_name", "axis")
_MEANING = ("units", "calendar")
"""Attributes without which the numbers of a coordinate could be others."""
_TIME_UNITS = {Period.HOUR: "hours since 1970-01-01"}
_DAYS = "days since 1970-01-01"
_MICROS = {"hours": 3_600_000_000, "days": 86_400_000_000}
_CF_METHODS = {
    Reduction.MEAN.value: "mean",
    Reduction.MIN.value: "minimum",
    Reduction.MAX.value: "maximum",
    Reduction.SUM.value: "sum",
}
"""The conventions have no name for others."""


class Standing(StrEnum):
    """What an array at the place of the output is."""

    NEW = "new"
    """No pull has made one, so that nothing must be there."""
    KEPT = "kept"
    """The one that the last pull left, but for some chunks."""
    LOST = "lost"
    """It is gone, or not the one that the last pull left: it is made anew."""


@dataclass(frozen=True, slots=True)
class OutputCoordinate:
    """An array beside the output, as it is stored."""

    name: str
    values: Values
    dimensions: tuple[str, ...]
    attributes: Mapping[str, Any]

    def is_stored(self, group: zarr.Group) -> bool:
        """Tell whether a group has the array, with the same values."""
        found = group.get(self.name)
        if not isinstance(found, zarr.Array) or found.shape != self.values.shape:
            return False
        if any(found.attrs.get(key) != self.attributes.get(key) for key in _MEANING):
            return False
        stored = np.asarray(found[...])
        may_be_nan = stored.dtype.kind == self.values.dtype.kind == "f"
        return np.array_equal(stored, self.values, equal_nan=may_be_nan)


def find_output(store: Store, derivation: ArrayDerivation) -> "zarr.Array[Any] | None":
    """Return the array at the place of the output; None if there is none."""
    path = derivation.output.array.strip("/")
    try:
        return zarr.open_array(store, path=path, mode="r", zarr_format=3)
    except (ArrayNotFoundError, NodeTypeValidationError):  # or there is a group
        return None


def put_output(store: Store, source: Store, computation: Computation, standing: Standing) -> None:
    """Create the derived array, or let it follow the length of its input, with its coordinates.

    Args:
        store: Of a writable session on the output.
        source: Of the version of the input.
        computation: What is to be stored.
        standing: What is there.

    Raises:
        AlreadyExistsError: There is an array that is not ours.
    """
    derivation = computation.derivation
    group = zarr.open_group(store, path=derivation.output.group.strip("/"), mode="a", zarr_format=3)
    _put_array(group, computation, standing)
    for coordinate in output_coordinates(source, computation):
        if coordinate.is_stored(group):
            continue
        if standing is Standing.NEW and coordinate.name in group:
            raise _taken(f"{group.path}/{coordinate.name}")
        group.create_array(
            coordinate.name,
            data=coordinate.values,
            dimension_names=coordinate.dimensions,
            attributes=dict(coordinate.attributes),
            overwrite=True,
        )


def output_coordinates(source: Store, computation: Computation) -> Iterator[OutputCoordinate]:
    """Yield the arrays beside the output, made from a version of the input."""
    array = computation.array
    if array.along.path is not None:
        values, attributes = _along(source, computation, array.along.path)
        yield OutputCoordinate(array.along.name, values, (array.along.name,), attributes)
    for each in array.companions:
        values, _ = _stored(source, each.path)
        yield OutputCoordinate(each.name, values, each.dimensions, each.attributes)


def _put_array(group: zarr.Group, computation: Computation, standing: Standing) -> None:
    place = computation.derivation.output
    if standing is not Standing.KEPT:
        if standing is Standing.NEW and place.name in group:
            raise _taken(place.array)
        _create_array(group, computation)
        return
    existing = group[place.name]
    if isinstance(existing, zarr.Array) and existing.shape != computation.shape:
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
        overwrite=True,
    )


def _attributes(
    derivation: ArrayDerivation, array: InputArray, *, is_float: bool
) -> dict[str, Any]:
    kept = {name: value for name, value in array.attributes.items() if name not in _PACKING}
    earlier = kept.pop("cell_methods", "")
    method = _CF_METHODS.get(derivation.function)
    if method is not None:
        kept["cell_methods"] = f"{earlier} {derivation.along}: {method}".lstrip()
    if derivation.function == Reduction.COUNT:
        kept["units"] = "1"
        if "standard_name" in kept:  # CF, appendix C: a modifier says that these are counts
            kept["standard_name"] = f"{kept['standard_name']} number_of_observations"
    if is_float:
        kept["_FillValue"] = _NAN
    return kept


def _along(source: Store, computation: Computation, path: str) -> tuple[Values, Mapping[str, Any]]:
    """Return the values and the attributes of the coordinate of the grouped dimension."""
    grouped, period = computation.array.grouped, computation.derivation.group
    values, attributes = _stored(source, path)
    if period is not None:
        units = _TIME_UNITS.get(period, _DAYS)
        named = {key: attributes[key] for key in _NAMES if key in attributes}
        labels = grouped.labels // _MICROS[units.partition(" ")[0]]
        return labels, {**named, "units": units, "calendar": "proleptic_gregorian"}
    # its bounds are of single steps
    kept = {key: value for key, value in attributes.items() if key not in {"bounds", "climatology"}}
    return values[grouped.starts[:-1]], kept


def _stored(source: Store, path: str) -> tuple[Values, dict[str, Any]]:
    array = zarr.open_array(source, path=path, mode="r", zarr_format=3)
    return np.asarray(array[...]), dict(array.attrs)


def _taken(path: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is an array {path} already, which is not of this derivation; choose another group",
        kind=ErrorKind.NODE_ALREADY_EXISTS,
    )
