"""Rows with coordinates, and the cells of a grid that they stand for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import zarr
from zarr.abc.store import Store

from icestream.errors import ErrorKind, InvalidInputError
from icestream.spark.cells.decoding import Decoding
from icestream.spark.cells.grids import CellQuery, Column, Grid, find_grid, variables_among
from icestream.spark.cells.plans import read_cells

Cells = npt.NDArray[np.int64]
"""(n, rank) positions in the grid."""


@dataclass(frozen=True, slots=True)
class Variable:
    """An array that a column is written to."""

    name: str
    path: str
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    decoding: Decoding


@dataclass(frozen=True, slots=True, eq=False)
class RowPlan:
    """How rows become cells; values, without any connection."""

    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    coordinates: tuple[pa.Array | None, ...]
    """What the columns of dimensions hold; None: positions, counted from 0."""
    variables: tuple[Variable, ...]

    def cells(self, rows: pa.Table) -> Cells:
        """Return the cell of each row.

        Raises:
            InvalidInputError: A row has none; the message names the first value at fault.
        """
        found = np.empty((len(rows), len(self.shape)), np.int64)
        for number, name in enumerate(self.dimensions):
            values = self.coordinates[number]
            column = rows[name].combine_chunks()
            if values is None:
                found[:, number] = _positions(name, column, self.shape[number])
            else:
                found[:, number] = _looked_up(name, column, values)
        return found


def plan_rows(
    store: Store, query: CellQuery, columns: Sequence[str], *, indexes: bool = False
) -> RowPlan:
    """Return how rows with such columns are written.

    Args:
        store: Of the version that is written on.
        query: The arrays; without an array or variables, all columns but coordinates.
        columns: The names that rows have; coordinates other than those of dimensions are left.
        indexes: The columns of dimensions hold positions, also where there are coordinates.

    Raises:
        NodeNotFoundError: There is no such array.
        InvalidInputError: Columns are missing, or are too many.
    """
    names = query.names or variables_among(store, query.folder, columns)
    if not names:
        raise _refused(
            f"no column is an array of the group {query.folder}: there are {', '.join(columns)}; "
            "name the group or the array with an option"
        )
    grid = find_grid(store, replace(query, array=None, group=query.folder, variables=names))
    _check_columns(grid, names, columns)
    along = grid.columns[: len(grid.dimensions)]
    coordinates = tuple(None if indexes else _coordinate(store, grid, column) for column in along)
    variables = tuple(_variable(store, column) for column in grid.columns[-len(names) :])
    return RowPlan(grid.dimensions, grid.shape, coordinates, variables)


def _check_columns(grid: Grid, names: Sequence[str], columns: Sequence[str]) -> None:
    wanted = (*grid.dimensions, *names)
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise _refused(
            f"there is no column {missing[0]!r}; cells of this grid have {', '.join(wanted)}"
        )
    known = {column.name for column in grid.columns}
    surplus = [name for name in columns if name not in known]
    if surplus:
        raise _refused(
            f"the column {surplus[0]!r} is neither a coordinate nor an array that is written "
            f"({', '.join(names)}); drop it, or correct its name"
        )


def _coordinate(store: Store, grid: Grid, column: Column) -> pa.Array | None:
    if column.path is None:
        return None
    everything = tuple(range(length) for length in grid.shape)
    values = column.decoding.decode(read_cells(store, column, everything, whole=True))
    if pc.count_distinct(values, mode="all").as_py() < len(values):
        raise _refused(
            f"the coordinate {column.name!r} has values that repeat, so rows cannot be found by "
            "them; write by positions, with the option indexes"
        )
    return values


def _variable(store: Store, column: Column) -> Variable:
    array = zarr.open_array(store, path=str(column.path), mode="r", zarr_format=3)
    chunks = tuple(array.shards or array.chunks)
    return Variable(column.name, array.path, chunks, array.dtype, column.decoding)


def _positions(name: str, column: pa.Array, length: int) -> npt.NDArray[Any]:
    if not pa.types.is_integer(column.type):
        raise _refused(
            f"the column {name!r} has the type {column.type}, and positions are whole numbers"
        )
    positions = pc.fill_null(column.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    outside = (positions < 0) | (positions >= length)
    _refuse(name, column, outside, f"is no position between 0 and {length - 1}")
    return np.asarray(positions)


def _looked_up(name: str, column: pa.Array, values: pa.Array) -> npt.NDArray[Any]:
    try:
        # floats in the precision of the coordinate, all else as it is
        comparable = column.cast(values.type, safe=not pa.types.is_floating(values.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _refused(
            f"the column {name!r} has the type {column.type}, which cannot be compared with its "
            f"coordinate, a {values.type}: {error}"
        ) from error
    found = pc.index_in(comparable, value_set=values)
    missing = found.is_null().to_numpy(zero_copy_only=False)
    _refuse(name, column, missing, "is no value of this coordinate; grow the array first")
    return np.asarray(found.to_numpy(zero_copy_only=False))


def _refuse(name: str, column: pa.Array, faulty: npt.NDArray[np.bool_], why: str) -> None:
    if faulty.any():
        first = column[int(np.argmax(faulty))].as_py()
        raise _refused(f"column {name!r}: {first} {why} ({int(faulty.sum())} such rows)")


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_ARGUMENT)
