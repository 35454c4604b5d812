"""Cells written chunk by chunk: whole ones as they are, others over what is there."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zarr

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.paths import absolute
from icestream.repository.session import ForkSession
from icestream.spark.cells.decoding import Values
from icestream.spark.writes.cell_rows import Cells, RowPlan, Variable
from icestream.spark.writes.encoding import encode_values
from icestream.spark.writes.targets import WriteTarget
from icestream.spark.writes.written_tables import ArrayTables

_TOGETHER = (
    "all rows of a chunk must be in one partition: icestream.spark.write_array(df, repo, ...) "
    "brings them together, before df.write it is for you to do"
)


@dataclass(frozen=True, slots=True)
class CellWriting:
    """Writes values into cells of arrays; what tasks need for it."""

    target: WriteTarget
    plan: RowPlan

    @property
    def remedy(self) -> str:
        """What to do when two tasks have the same chunk."""
        return _TOGETHER

    def write(self, batches: Iterable[pa.RecordBatch]) -> ArrayTables:
        """Store the rows of a task as chunks, and return the references to them.

        Raises:
            InvalidInputError: A row has no cell, shares it with another, or its value cannot be
                stored.
        """
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return {}
        rows = pa.Table.from_batches(filled)
        return self.write_cells(self.plan.cells(rows), rows)

    def write_cells(self, cells: Cells, rows: pa.Table) -> ArrayTables:
        """Store rows whose cells are known."""
        fork = self.target.fork()
        for variable in self.plan.variables:
            values = encode_values(
                variable.name,
                rows[variable.name].combine_chunks(),
                variable.decoding,
                variable.dtype,
            )
            _write_variable(fork, variable, cells, values)
        return _changed(fork, self.plan.variables)

    def block_numbers(self, cells: Cells) -> npt.NDArray[np.int64]:
        """Return for each cell the number of the smallest block of whole chunks that holds it."""
        lengths = common_blocks(self.plan)
        counts = [-(-size // length) for size, length in zip(self.plan.shape, lengths, strict=True)]
        return _linear(cells // np.array(lengths, np.int64), counts)


def common_blocks(plan: RowPlan) -> tuple[int, ...]:
    """Return a length per dimension at which chunks of all variables end."""
    per_dimension = zip(*(variable.chunks for variable in plan.variables), strict=True)
    return tuple(
        min(math.lcm(*lengths), max(size, 1))
        for size, lengths in zip(plan.shape, per_dimension, strict=True)
    )


def _write_variable(fork: ForkSession, variable: Variable, cells: Cells, values: Values) -> None:
    array = zarr.open_array(fork.store, path=variable.path, mode="r+", zarr_format=3)
    for chunk, members in _by_chunk(cells, variable.chunks, array.shape):
        box = tuple(
            slice(index * length, min((index + 1) * length, size))
            for index, length, size in zip(chunk, variable.chunks, array.shape, strict=True)
        )
        inside = cells[members] - np.array([part.start for part in box], np.int64)
        _write_chunk(array, box, inside, values[members])


def _by_chunk(
    cells: Cells, chunks: Sequence[int], shape: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], npt.NDArray[np.intp]]]:
    """Yield the chunks that cells are in, each with the rows of its cells."""
    counts = [max(1, -(-size // length)) for size, length in zip(shape, chunks, strict=True)]
    numbers = _linear(cells // np.array(chunks, np.int64), counts)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for number, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
        chunk = tuple(int(index) for index in np.unravel_index(number, counts)) if counts else ()
        yield chunk, order[start:end]


def _write_chunk(array: Any, box: tuple[slice, ...], inside: Cells, values: Values) -> None:
    lengths = [part.stop - part.start for part in box]
    places = _linear(inside, lengths)
    is_set = np.zeros(math.prod(lengths), np.bool_)
    is_set[places] = True
    if int(is_set.sum()) < len(places):
        _, first = np.unique(places, return_index=True)
        again = np.setdiff1d(np.arange(len(places)), first)[0]
        cell = [part.start + int(offset) for part, offset in zip(box, inside[again], strict=True)]
        raise InvalidInputError(
            f"two rows are the cell {cell} of {array.path}; leave one of them",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    if is_set.all():
        block = np.empty(len(is_set), array.dtype)
    else:
        block = np.array(array[box], array.dtype).reshape(-1)
    block[places] = values
    array[box] = block.reshape(lengths)


def _linear(index: Cells, counts: Sequence[int]) -> npt.NDArray[np.int64]:
    numbers = np.zeros(len(index), np.int64)
    for axis, count in enumerate(counts):
        numbers *= count
        numbers += index[:, axis]
    return numbers


def _changed(fork: ForkSession, variables: Sequence[Variable]) -> ArrayTables:
    """Return the references that a fork would add, by the path of their array."""
    copy = fork._copy  # noqa: SLF001  its changes go to the driver as tables, smaller than forks
    paths = [absolute(variable.path) for variable in variables]
    return {path: copy.changes.edits_of(copy.get_array(path)).table() for path in paths}
