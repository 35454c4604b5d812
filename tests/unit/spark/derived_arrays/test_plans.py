"""Which output chunks depend on what, against counting by hand."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream.errors import InvalidInputError
from icestream.ingest.array_derivation.declarations import ArrayDerivation, ArrayPlace, Period
from icestream.ingest.array_derivation.states import GroupedAxis
from icestream.model.chunk_tables import dense_index
from icestream.spark.derived_arrays.axes import group_axis
from icestream.spark.derived_arrays.plans import chunks_of_groups, chunks_of_inputs

PLACE = ArrayPlace(repository="r", array="a")


def derivation(**how: object) -> ArrayDerivation:
    return ArrayDerivation(name="x", input=PLACE, output=PLACE, along="time", **how)  # type: ignore[arg-type]  # of tests


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    input_length=st.integers(1, 9),
    chunk_length=st.integers(1, 4),
    data=st.data(),
)
def test_changed_inputs_make_the_chunks_anew_whose_groups_they_are_in(
    sizes: list[int], input_length: int, chunk_length: int, data: st.DataObject
) -> None:
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    grouped = GroupedAxis(starts[:-1], starts)
    num_inputs = -(-int(starts[-1]) // input_length)
    everything = dense_index([2, num_inputs + 1])  # with some behind the end
    chosen = data.draw(st.lists(st.sampled_from(range(len(everything))), unique=True))
    changed = everything[sorted(chosen)]

    found = chunks_of_inputs(
        changed, grouped, axis=1, input_length=input_length, chunk_length=chunk_length
    )

    expected = {
        (int(row), int(grouped.groups_of(np.array([position]))[0]) // chunk_length)
        for row, column in changed.tolist()
        for position in range(column * input_length, (column + 1) * input_length)
        if position < starts[-1]
    }
    assert {tuple(index) for index in found.tolist()} == expected
    assert len(found) == len(expected)


def test_groups_that_differ_make_all_their_chunks_anew() -> None:
    groups = np.array([False, False, False, True, True])

    found = chunks_of_groups(groups, (2, 3), axis=1, chunk_length=2)

    assert found.tolist() == [[0, 1], [0, 2], [1, 1], [1, 2]]


@pytest.mark.parametrize(
    ("period", "labels"),
    [
        (Period.YEAR, ["2023", "2024"]),
        (Period.MONTH, ["2023-12", "2024-01"]),
        (Period.DAY, ["2023-12-31", "2024-01-01"]),
        (Period.HOUR, ["2023-12-31T20", "2023-12-31T21", "2024-01-01T00"]),
    ],
)
def test_times_fall_into_periods(period: Period, labels: list[str]) -> None:
    moments = np.array(["2023-12-31T20:15", "2023-12-31T21", "2024-01-01T00:59"], "M8[us]")
    coordinate = pa.array(moments).cast(pa.timestamp("us", "UTC"))

    axis = group_axis(derivation(group=period), 3, coordinate)

    assert axis.labels.view("M8[us]").tolist() == np.array(labels, "M8[us]").tolist()
    assert axis.starts[-1] == 3


def test_steps_need_no_coordinate() -> None:
    axis = group_axis(derivation(steps=4), 10, None)

    assert axis.starts.tolist() == [0, 4, 8, 10]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([2, 1], "not in ascending order"),
        ([1, None], "missing times"),
    ],
)
def test_times_in_disorder_are_refused(values: list[int | None], told: str) -> None:
    year = 366 * 86_400_000_000
    moments = [None if value is None else value * year for value in values]
    coordinate = pa.array(moments, pa.timestamp("us", "UTC"))

    with pytest.raises(InvalidInputError, match=told):
        group_axis(derivation(group=Period.YEAR), 2, coordinate)
