"""The array that another one is derived from, as it is in one version."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from zarr.abc.store import Store

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.array_derivation.declarations import ArrayDerivation
from icestream.ingest.array_derivation.states import GroupedAxis
from icestream.spark.cells.decoding import Decoding, Values
from icestream.spark.cells.grids import CellQuery, Column, Grid, find_grid
from icestream.spark.cells.plans import read_cells
from icestream.spark.derived_arrays.axes import group_axis
from icestream.spark.derived_arrays.companions import Companion, find_companions


@dataclass(frozen=True, slots=True, eq=False)
class InputArray:
    """An array, and its dimension in groups; values, without any connection."""

    path: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    """Of the decoded values, with NaN for missing ones if there may be any."""
    attributes: Mapping[str, Any]
    """Without names of arrays that do not go along."""
    decoding: Decoding
    axis: int
    """The dimension that is grouped."""
    grouped: GroupedAxis
    along: Column
    """The coordinate of that dimension."""
    companions: tuple[Companion, ...]
    """What is copied: coordinates of other dimensions, and arrays that describe this one."""

    def read(self, store: Store, box: tuple[slice, ...]) -> Values:
        """Return the decoded values of a box."""
        array = zarr.open_array(store, path=self.path, mode="r", zarr_format=3)
        stored = np.asarray(array[box])
        decoded = self.decoding.decode(stored).to_numpy(zero_copy_only=False)
        return np.asarray(decoded).astype(self.dtype, copy=False).reshape(stored.shape)


def read_input(store: Store, derivation: ArrayDerivation) -> InputArray:
    """Return what is known of the input of a derivation; of its chunks only coordinates are read.

    Raises:
        NodeNotFoundError: There is no such array.
        InvalidInputError: It has no such dimension, no numbers, or cannot be grouped so.
    """
    grid = find_grid(store, CellQuery(array=derivation.input.array))
    if derivation.along not in grid.dimensions:
        raise _refused(
            f"{derivation.input.array} has no dimension {derivation.along!r}; it has "
            f"{', '.join(grid.dimensions) or 'none'}"
        )
    column = grid.columns[-1]
    array = zarr.open_array(store, path=str(column.path), mode="r", zarr_format=3)
    axis = grid.dimensions.index(derivation.along)
    along = grid.columns[axis]
    times = None if along.path is None else coordinate_values(store, grid, along)
    companions, attributes = find_companions(
        store,
        derivation.input.group,
        dict(array.attrs),
        coordinates=[
            each.name for each in grid.columns[: len(grid.dimensions)] if each.path is not None
        ],
        along=derivation.along,
    )
    return InputArray(
        array.path,
        grid.dimensions,
        grid.shape,
        tuple(array.shards or array.chunks),
        _value_type(derivation, array.dtype, column.decoding),
        attributes,
        _in_numbers(column.decoding),
        axis,
        group_axis(derivation, grid.shape[axis], times),
        along,
        companions,
    )


def coordinate_values(store: Store, grid: Grid, column: Column) -> pa.Array:
    """Return the decoded coordinate of a dimension."""
    everything = tuple(range(length) for length in grid.shape)
    return column.decoding.decode(read_cells(store, column, everything, whole=True))


def _value_type(
    derivation: ArrayDerivation, stored: np.dtype[Any], decoding: Decoding
) -> np.dtype[Any]:
    if stored.kind not in "iufb" or decoding.time is not None:
        raise _refused(
            f"{derivation.input.array} has values of the type {stored}, which are no numbers"
        )
    is_packed = decoding.scale is not None or decoding.offset is not None
    if stored.kind == "f":
        return np.dtype(
            np.float64 if stored.itemsize > np.dtype(np.float32).itemsize else np.float32
        )
    if is_packed or decoding.missing:
        return np.dtype(np.float64)
    return np.dtype(np.uint64 if _is_beyond_int64(decoding) else np.int64)


def _in_numbers(decoding: Decoding) -> Decoding:
    """Return a decoding into numbers of NumPy, also where Spark has decimals only."""
    return replace(decoding, type=pa.uint64()) if _is_beyond_int64(decoding) else decoding


def _is_beyond_int64(decoding: Decoding) -> bool:
    return bool(pa.types.is_decimal(decoding.type))


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_ARGUMENT)
