"""Blocks of cells: along chunk boundaries for tasks, in small boxes for batches."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Positions = range | npt.NDArray[np.int64]
"""Ascending positions along one dimension; a range has the step 1."""
Block = tuple[Positions, ...]
"""The cells at all combinations of positions, one set of them per dimension."""
Box = tuple[slice, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The wanted positions along a dimension, and where chunks end among them."""

    positions: Positions
    cuts: npt.NDArray[np.int64]
    """Of `positions`, from 0 to its length."""

    @property
    def num_chunks(self) -> int:
        """How many chunks hold wanted positions."""
        return len(self.cuts) - 1

    def pieces(self, chunks_per_piece: int) -> list[Positions]:
        """Return the positions, so many chunks at a time."""
        starts = self.cuts[:-1:chunks_per_piece].tolist()
        ends = [*starts[1:], len(self.positions)]
        return [
            simplest(self.positions[start:end])
            for start, end in zip(starts, ends, strict=True)
            if end > start
        ]


def axis_of(positions: Positions, chunk_length: int) -> Axis:
    """Return positions with the ends of the chunks that they are in."""
    if not len(positions):
        return Axis(positions, np.zeros(1, np.int64))
    if isinstance(positions, range):
        first_end = (positions.start // chunk_length + 1) * chunk_length
        inner = np.arange(first_end, positions.stop, chunk_length) - positions.start
    else:
        inner = np.flatnonzero(np.diff(positions // chunk_length)) + 1
    return Axis(positions, np.concatenate([[0], inner, [len(positions)]]).astype(np.int64))


def simplest(positions: Positions) -> Positions:
    """Return a range where positions have no gaps."""
    if isinstance(positions, range) or not len(positions):
        return positions
    first, last = int(positions[0]), int(positions[-1])
    return range(first, last + 1) if last - first + 1 == len(positions) else positions


def projected(
    boxes: Iterable[Mapping[str, Positions]], dimensions: Sequence[str]
) -> list[Mapping[str, Positions]]:
    """Return what boxes cover along some dimensions, every cell once.

    Boxes name the same dimensions, and have equal or no common positions along all but the first.
    """
    alike: defaultdict[tuple[bytes, ...], list[Mapping[str, Positions]]] = defaultdict(list)
    for box in boxes:
        kept = {name: box[name] for name in box if name in dimensions}
        alike[tuple(np.asarray(part).tobytes() for part in [*kept.values()][1:])].append(kept)
    return [_joined(group) for group in alike.values()]


def _joined(boxes: Sequence[Mapping[str, Positions]]) -> Mapping[str, Positions]:
    """Return a box for all, which differ along the first dimension only."""
    first = next(iter(boxes[0]), None)
    if first is None:
        return {}
    return {**boxes[0], first: np.unique(np.concatenate([box[first] for box in boxes]))}


def cut_blocks(axes: Sequence[Axis], rows_per_block: int) -> list[Block]:
    """Return all wanted cells in blocks of whole chunks.

    A block has neighbouring chunks up to so many rows, and at least one chunk.
    """
    if any(not len(axis.positions) for axis in axes):
        return []
    counts = _chunks_per_block(axes, rows_per_block)
    pieces = [axis.pieces(count) for axis, count in zip(axes, counts, strict=True)]
    return list(itertools.product(*pieces))


def _chunks_per_block(axes: Sequence[Axis], rows_per_block: int) -> list[int]:
    """Return how many chunks a block has per dimension: the last dimension grows first."""
    rows = math.prod(math.ceil(len(axis.positions) / axis.num_chunks) for axis in axes)
    counts = [1] * len(axes)
    for number in reversed(range(len(axes))):
        whole = axes[number].num_chunks
        counts[number] = max(1, min(whole, rows_per_block // max(rows, 1)))
        rows *= counts[number]
        if counts[number] < whole:
            break
    return counts


def boxes(shape: Sequence[int], rows_per_box: int) -> Iterator[Box]:
    """Yield the boxes, in C order and of at most so many cells, that a block falls into."""
    inner = len(shape)
    rows = 1
    while inner and rows * shape[inner - 1] <= rows_per_box:
        inner -= 1
        rows *= shape[inner]
    whole = [slice(0, length) for length in shape]
    if not inner:
        yield tuple(whole)
        return
    cut = inner - 1
    step = max(1, rows_per_box // rows)
    for outer in np.ndindex(*shape[:cut]):
        fixed = [slice(index, index + 1) for index in outer]
        for start in range(0, shape[cut], step):
            part = slice(start, min(start + step, shape[cut]))
            yield (*fixed, part, *whole[inner:])


def box_shape(box: Box) -> tuple[int, ...]:
    """Return how many cells a box has per dimension."""
    return tuple(part.stop - part.start for part in box)


def cell_numbers(
    shape: Sequence[int], box: Box, dimensions: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Return for each cell of a box where its value is in an array over fewer dimensions.

    Args:
        shape: Of the block that the box is in.
        box: The cells.
        dimensions: Those that the array has, ascending.
    """
    own = [shape[number] for number in dimensions]
    numbers = np.arange(math.prod(own), dtype=np.int64).reshape(own)
    numbers = numbers[tuple(box[number] for number in dimensions)]
    cells = box_shape(box)
    spread: list[Any] = [cells[n] if n in dimensions else 1 for n in range(len(shape))]
    return np.broadcast_to(numbers.reshape(spread), cells).reshape(-1)
