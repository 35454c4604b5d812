"""Arrays cut into cells."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from icestream.model.chunk_tables import dense_index
from icestream.model.manifest_conditions import ManifestSplitCondition as Arrays
from icestream.model.manifest_conditions import ManifestSplitDimCondition as Dim
from icestream.model.manifest_config import ManifestSplittingConfig
from icestream.packing.splits import (
    WHOLE,
    automatic_split_sizes,
    cell_ranges,
    cells_in,
    cells_of,
    split_sizes,
)

NAMES = ("time", "latitude", "longitude")
GRID = (100, 8, 8)


def splitting(*rules):
    return ManifestSplittingConfig(tuple((condition, tuple(dims)) for condition, dims in rules))


# -- rules ----------------------------------------------------------------------------------------


def test_dimensions_that_no_rule_names_stay_whole():
    config = splitting((Arrays.AnyArray(), [(Dim.Axis(1), 5)]))

    assert split_sizes("/a", NAMES, GRID, config) == (WHOLE, 5, WHOLE)


def test_a_later_rule_decides_about_dimensions_that_earlier_ones_are_silent_about():
    config = splitting(
        (Arrays.path_matches("/a"), [(Dim.DimensionName("time"), 2)]),
        (Arrays.AnyArray(), [(Dim.Axis(0), 7), (Dim.Any(), 3)]),
    )

    assert split_sizes("/a", NAMES, GRID, config) == (2, 3, 3)
    assert split_sizes("/b", NAMES, GRID, config) == (7, 3, 3)


def test_expressions_are_found_anywhere_in_a_dimension_name():
    config = splitting((Arrays.AnyArray(), [(Dim.DimensionName("itude"), 2)]))

    assert split_sizes("/a", NAMES, GRID, config) == (WHOLE, 2, 2)
    assert split_sizes("/a", (None, "latitude"), (8, 8), config) == (WHOLE, 2)
    assert split_sizes("/a", None, (8, 8), config) is None


@pytest.mark.parametrize(
    "config",
    [
        None,
        ManifestSplittingConfig(),
        splitting(),
        splitting((Arrays.name_matches("b"), [(Dim.Any(), 2)])),
        splitting((Arrays.AnyArray(), [(Dim.Any(), 2**32 - 1)])),
    ],
    ids=["nothing", "unset", "no rules", "another array", "the default of icechunk"],
)
def test_an_array_that_no_rule_cuts_is_whole(config):
    assert split_sizes("/a", NAMES, GRID, config) is None


def test_a_scalar_is_whole():
    config = splitting((Arrays.AnyArray(), [(Dim.Any(), 1)]))

    assert split_sizes("/a", (), (), config) is None


# -- automatic splits -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "limit", "sizes"),
    [
        ((1000, 10, 10), 1000, (10, 10, 10)),
        ((1000, 10, 10), 1050, (10, 10, 10)),
        ((5, 2000, 10), 1000, (1, 100, 10)),
        ((5, 5, 2000), 1000, (1, 1, 1000)),
        ((7,), 1000, (1000,)),
        ((3, 4), 1000, (250, 4)),
        ((0, 0), 10, (10, 1)),
        ((), 10, ()),
    ],
)
def test_cells_are_runs_of_chunks_in_c_order(grid, limit, sizes):
    assert automatic_split_sizes(grid, limit) == sizes


grids = st.lists(st.integers(1, 12), min_size=1, max_size=4)


@given(grids, st.integers(1, 200))
def test_a_cell_holds_no_more_than_the_limit_and_is_contiguous(grid, limit):
    sizes = automatic_split_sizes(grid, limit)

    assert math.prod(sizes) <= limit
    rows = cells_of(dense_index(grid), sizes)
    assert rows.order is None
    assert sum(rows.counts) == math.prod(grid)


@given(grids, st.integers(1, 200), st.integers(1, 100))
def test_cells_stay_when_the_array_grows_along_its_first_dimension(grid, limit, growth):
    grown = [grid[0] + growth, *grid[1:]]

    assert automatic_split_sizes(grown, limit) == automatic_split_sizes(grid, limit)


# -- rows in cells --------------------------------------------------------------------------------


@st.composite
def indexes(draw):
    """Return distinct chunk coordinates in any order, and cell sizes."""
    rank = draw(st.integers(0, 3))
    rows = draw(
        st.lists(st.tuples(*[st.integers(0, 2**32 - 2) | st.integers(0, 9)] * rank), max_size=30)
    )
    sizes = draw(st.tuples(*[st.sampled_from([1, 2, 3, 2**31, WHOLE])] * rank))
    return np.array(rows, np.uint32).reshape(len(rows), rank), sizes


@given(indexes())
def test_rows_are_in_the_cells_that_division_says(drawn):
    index, sizes = drawn
    expected: dict[tuple[int, ...], list[int]] = {}
    for row, chunk in enumerate(index.tolist()):
        cell = tuple(i // size for i, size in zip(chunk, sizes, strict=True))
        expected.setdefault(cell, []).append(row)

    found = {cell: np.arange(len(index))[rows].tolist() for cell, rows in cells_of(index, sizes)}

    assert found == expected
    assert list(found) == sorted(found)


def test_rows_of_a_dense_array_split_along_its_first_dimension_are_slices():
    rows = cells_of(dense_index((4, 3)), (2, WHOLE))

    assert list(rows) == [((0, 0), slice(0, 6)), ((1, 0), slice(6, 12))]
    assert rows.counts.tolist() == [6, 6]


def test_no_rows_are_in_no_cells():
    assert len(cells_of(np.empty((0, 2), np.uint32), (2, 2))) == 0


def test_a_scalar_has_one_cell():
    assert list(cells_of(np.empty((1, 0), np.uint32), ())) == [((), slice(0, 1))]


# -- boxes of chunks ------------------------------------------------------------------------------


def test_a_box_touches_the_cells_of_its_first_to_its_last_chunk():
    assert cell_ranges(((0, 10), (3, 4)), (5, 2)) == ((0, 2), (1, 2))
    assert cell_ranges(((4, 6), (0, 4)), (5, WHOLE)) == ((0, 2), (0, 1))


def test_a_reference_without_extents_touches_every_cell():
    cells = np.array([[0, 0], [7, WHOLE - 1]], np.uint32)

    assert cells_in(cells, cell_ranges((), (1, 1))).all()


def test_an_empty_box_touches_no_cell():
    ranges = cell_ranges(((0, 0), (0, 4)), (2, 2))

    assert not cells_in(np.zeros((1, 2), np.uint32), ranges).any()


def test_a_box_of_a_trillion_chunks_is_never_enumerated():
    ranges = cell_ranges(((0, 10**6), (0, 10**6)), (1, 1))

    assert ranges == ((0, 10**6), (0, 10**6))
    assert cells_in(np.array([[10**6 - 1, 0], [10**6, 0]], np.uint32), ranges).tolist() == [
        True,
        False,
    ]


@given(indexes())
def test_a_box_touches_all_cells_of_the_chunks_in_it(drawn):
    index, sizes = drawn
    assume(len(index))
    box = tuple((int(column.min()), int(column.max()) + 1) for column in index.T)

    cells = cells_of(index, sizes).cells

    ranges = cell_ranges(box, sizes)
    assert cells_in(cells, ranges).all()
