"""Cutting cells into blocks of chunks, and blocks into boxes."""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream.spark.cells.blocks import (
    Positions,
    axis_of,
    box_shape,
    boxes,
    cell_numbers,
    cut_blocks,
    projected,
    simplest,
)

shapes = st.lists(st.integers(1, 7), max_size=4)


@given(shape=shapes, limit=st.integers(1, 60))
def test_boxes_cover_all_cells_in_order(shape: list[int], limit: int) -> None:
    numbers = np.arange(math.prod(shape)).reshape(shape)

    found = list(boxes(shape, limit))

    assert np.concatenate([numbers[box].reshape(-1) for box in found]).tolist() == [
        *range(numbers.size)
    ]
    assert all(math.prod(box_shape(box)) <= limit for box in found)


@st.composite
def axes_with_chunks(draw: st.DrawFn) -> tuple[Positions, int]:
    length, chunk = draw(st.integers(0, 20)), draw(st.integers(1, 8))
    chosen = draw(st.sets(st.integers(0, max(length - 1, 0)), max_size=length))
    return simplest(np.array(sorted(chosen), np.int64)), chunk


@given(axes=st.lists(axes_with_chunks(), min_size=1, max_size=3), limit=st.integers(1, 200))
def test_blocks_hold_every_wanted_cell_once_and_no_chunk_is_in_two(
    axes: list[tuple[Positions, int]], limit: int
) -> None:
    blocks = cut_blocks([axis_of(*axis) for axis in axes], limit)

    cells = [cell for block in blocks for cell in np.stack(_mesh(block), -1).tolist()]
    wanted = np.stack(_mesh(tuple(positions for positions, _ in axes)), -1).tolist()
    assert sorted(cells) == sorted(wanted)
    lengths = np.array([chunk for _, chunk in axes])
    owners = [
        {tuple(chunk) for chunk in (np.stack(_mesh(block), -1) // lengths).tolist()}
        for block in blocks
    ]
    assert sum(map(len, owners)) == len(set().union(*owners))
    for block, chunks in zip(blocks, owners, strict=True):
        assert len(chunks) == 1 or math.prod(map(len, block)) <= limit + math.prod(lengths) * 3


def _mesh(block: tuple[Positions, ...]) -> list[npt.NDArray[np.int64]]:
    return [part.reshape(-1) for part in np.meshgrid(*map(np.asarray, block), indexing="ij")]


def test_neighbouring_chunks_share_a_block_up_to_its_size() -> None:
    axes = [axis_of(range(10), 1), axis_of(range(4), 2)]

    assert cut_blocks(axes, 8) == [(range(i, i + 2), range(4)) for i in range(0, 10, 2)]
    assert cut_blocks(axes, 1)[:2] == [(range(1), range(2)), (range(1), range(2, 4))]


@pytest.mark.parametrize("dimensions", [(0,), (2,), (0, 1), (1, 2), ()])
def test_cells_know_where_their_coordinates_are(dimensions: tuple[int, ...]) -> None:
    shape = (2, 3, 4)
    kept = tuple(shape[number] for number in dimensions)
    values = np.arange(math.prod(kept)).reshape(kept)
    whole = np.broadcast_to(
        values.reshape([n if i in dimensions else 1 for i, n in enumerate(shape)]), shape
    )
    box = (slice(1, 2), slice(0, 2), slice(1, 4))

    numbers = cell_numbers(shape, box, dimensions)

    assert values.reshape(-1)[numbers].tolist() == whole[box].reshape(-1).tolist()


def test_boxes_have_every_cell_once_along_fewer_dimensions() -> None:
    north, south = np.array([0, 1]), np.array([2, 3])
    boxes: list[Mapping[str, Positions]] = [
        {"time": np.array([0, 1]), "lat": north, "lon": np.array([5])},
        {"time": np.array([1, 4]), "lat": north, "lon": np.array([6])},
        {"time": np.array([1]), "lat": south, "lon": np.array([5])},
    ]

    def shown(*dimensions: str) -> list[dict[str, list[int]]]:
        found = projected(boxes, dimensions)
        return [{name: list(part) for name, part in box.items()} for box in found]

    assert shown("time", "lat", "lon", "z") == [
        {name: list(part) for name, part in box.items()} for box in boxes
    ]
    assert shown("time", "lat") == [
        {"time": [0, 1, 4], "lat": [0, 1]},
        {"time": [1], "lat": [2, 3]},
    ]
    assert shown("lat") == [{"lat": [0, 1, 2, 3]}]
    assert shown("z") == [{}]
    assert projected([], ["time"]) == []
