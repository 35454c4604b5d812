"""Plans for reading cells: made once, carried out block by block anywhere."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from zarr.abc.store import Store

from icestream.errors import ErrorKind, InvalidInputError
from icestream.spark.cells.blocks import (
    Block,
    Box,
    Positions,
    axis_of,
    box_shape,
    boxes,
    cell_numbers,
    cut_blocks,
    simplest,
)
from icestream.spark.cells.decoding import Values
from icestream.spark.cells.grids import CellQuery, Column, Grid, find_grid
from icestream.spark.cells.selections import Selection, positions_of

ROWS_PER_BATCH = 100_000
ROWS_PER_BLOCK = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class CellPlan:
    """Which cells of which grid are read; values, without any connection."""

    grid: Grid
    positions: tuple[Positions, ...]
    """The wanted ones, for each dimension."""

    @property
    def schema(self) -> pa.Schema:
        """The columns, in types that Spark takes."""
        return pa.schema(
            [pa.field(column.name, column.decoding.type) for column in self.grid.columns]
        )

    @property
    def num_rows(self) -> int:
        """How many cells are wanted."""
        return math.prod(map(len, self.positions))

    def blocks(self, rows_per_block: int = ROWS_PER_BLOCK) -> list[Block]:
        """Return the wanted cells in blocks along chunk boundaries."""
        axes = [
            axis_of(positions, length)
            for positions, length in zip(self.positions, self.grid.chunks, strict=True)
        ]
        return cut_blocks(axes, rows_per_block)

    def within(self, box: Mapping[str, Positions]) -> "CellPlan":
        """Return a plan for the cells at some positions of dimensions, and all of others."""
        return CellPlan(
            self.grid,
            tuple(
                simplest(box.get(name, wanted))
                for name, wanted in zip(self.grid.dimensions, self.positions, strict=True)
            ),
        )

    def batches(
        self, store: Store, block: Block, rows_per_batch: int = ROWS_PER_BATCH
    ) -> Iterator[pa.RecordBatch]:
        """Yield the cells of a block; chunks that it does not touch are not read."""
        schema, shape = self.schema, tuple(map(len, block))
        stored = [read_cells(store, column, block) for column in self.grid.columns]
        decoded = [
            None if len(column.dimensions) == len(shape) > 1 else _decode(column, values)
            for column, values in zip(self.grid.columns, stored, strict=True)
        ]
        for box in boxes(shape, rows_per_batch):
            columns = [
                _decode(column, values[box])
                if known is None
                else _spread(column, known, shape, box)
                for column, values, known in zip(self.grid.columns, stored, decoded, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def plan_cells(store: Store, query: CellQuery, selection: Selection | None = None) -> CellPlan:
    """Return a plan for the cells of variables, all or those that a selection leaves.

    Of the chunks only those of the coordinates in the selection are read.

    Raises:
        NodeNotFoundError: There is no such group or array.
        InvalidInputError: The variables do not go together, or the selection does not fit.
    """
    grid = find_grid(store, query)
    _check_case(column.name for column in grid.columns)
    positions: list[Positions] = [range(length) for length in grid.shape]
    for name, condition in (selection or {}).items():
        column = grid.coordinate(name)
        (number,) = column.dimensions
        values = _decode(column, read_cells(store, column, tuple(positions), whole=True))
        positions[number] = positions_of(name, condition, values)
    return CellPlan(grid, tuple(positions))


def _check_case(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidInputError(
                f"the columns {other!r} and {name!r} differ only in case, which SQL does not see; "
                "read one of them with the option variables, or rename one",
                kind=ErrorKind.INVALID_ARGUMENT,
            )


def read_cells(store: Store, column: Column, block: Block, *, whole: bool = False) -> Values:
    """Return stored values of a column, for a block or for all of its dimensions.

    Their dimensions are in the order of the grid.
    """
    wanted: Any = tuple(block[number] for number in column.dimensions)
    if column.path is None:
        return np.asarray(wanted[0], np.int64)
    array = zarr.open_array(store, path=column.path, mode="r", zarr_format=3)
    chosen = tuple(slice(p.start, p.stop) if isinstance(p, range) else p for p in wanted)
    if whole:
        values = array[...]
    elif all(isinstance(part, range) for part in wanted):
        values = array[chosen]
    else:
        values = array.oindex[chosen]
    return np.asarray(values).transpose(np.argsort(column.dimensions))


def _decode(column: Column, stored: Values) -> pa.Array:
    try:
        return column.decoding.decode(stored)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"column {column.name!r}: {error}; decode=false reads stored numbers"
        ) from error


def _spread(column: Column, values: pa.Array, shape: tuple[int, ...], box: Box) -> pa.Array:
    """Return the values of a column for each cell of a box."""
    if box_shape(box) == shape and len(column.dimensions) == len(shape):
        return values
    return values.take(pa.array(cell_numbers(shape, box, sorted(column.dimensions))))
