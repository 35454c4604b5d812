"""Plans of merged fetches, for whatever ranges are asked for."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from icestream.virtual.coalesce import FetchPlan, plan_ranges

Ranges = list[tuple[int, int]]

any_ranges = st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 200)), max_size=40)
limits = st.tuples(st.integers(0, 300), st.integers(1, 1000))


@st.composite
def disjoint_ranges(draw: st.DrawFn) -> Ranges:
    """Return ranges that do not overlap, in any order."""
    steps = draw(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200)), max_size=40))
    ranges, position = [], 0
    for gap, length in steps:
        ranges.append((position + gap, length))
        position += gap + length
    return draw(st.permutations(ranges))


def planned(ranges: Ranges, max_gap: int, max_size: int) -> FetchPlan:
    offsets = np.array([offset for offset, _ in ranges], np.uint64)
    lengths = np.array([length for _, length in ranges], np.uint64)
    return plan_ranges(offsets, lengths, max_gap=max_gap, max_size=max_size)


@given(any_ranges, limits)
def test_every_range_lies_wholly_in_its_fetch(ranges: Ranges, limit: tuple[int, int]) -> None:
    plan = planned(ranges, *limit)

    assert len(plan.fetch_of) == len(ranges)
    for (offset, length), fetch in zip(ranges, plan.fetch_of, strict=True):
        assert plan.starts[fetch] <= offset
        assert offset + length <= plan.ends[fetch]


@given(disjoint_ranges(), limits)
def test_every_byte_asked_for_is_in_exactly_one_fetch(
    ranges: Ranges, limit: tuple[int, int]
) -> None:
    plan = planned(ranges, *limit)

    for offset, length in ranges:
        holders = (plan.starts < offset + length) & (plan.ends > offset)
        assert np.count_nonzero(holders) == 1


@given(any_ranges, limits)
def test_no_fetch_is_too_big_unless_a_single_range_is(
    ranges: Ranges, limit: tuple[int, int]
) -> None:
    plan = planned(ranges, *limit)

    for fetch, size in enumerate(plan.ends - plan.starts):
        members = np.count_nonzero(plan.fetch_of == fetch)
        assert size <= limit[1] or members == 1


@given(any_ranges, limits)
@example([(0, 4), (1, 1), (3, 1)], (0, 3))
def test_no_stretch_inside_a_fetch_that_nobody_asked_for_is_too_wide(
    ranges: Ranges, limit: tuple[int, int]
) -> None:
    plan = planned(ranges, *limit)
    asked_for = np.zeros(2201, bool)
    for offset, length in ranges:
        asked_for[offset : offset + length] = True

    for start, end in zip(plan.starts, plan.ends, strict=True):
        unwanted = 0
        for wanted in asked_for[start:end].tolist():
            unwanted = 0 if wanted else unwanted + 1
            assert unwanted <= limit[0]


@given(any_ranges, limits)
def test_a_fetch_ends_with_its_last_range(ranges: Ranges, limit: tuple[int, int]) -> None:
    plan = planned(ranges, *limit)

    for fetch, end in enumerate(plan.ends):
        members = np.array(ranges)[plan.fetch_of == fetch]
        assert end == members.sum(axis=1).max()


@given(any_ranges, limits)
def test_fetches_ascend_and_none_is_empty(ranges: Ranges, limit: tuple[int, int]) -> None:
    plan = planned(ranges, *limit)

    assert np.all(np.diff(plan.starts) >= 0)
    assert set(plan.fetch_of.tolist()) == set(range(len(plan)))


@given(disjoint_ranges(), limits)
def test_neighbours_are_split_only_where_a_limit_demands_it(
    ranges: Ranges, limit: tuple[int, int]
) -> None:
    max_gap, max_size = limit
    plan = planned(ranges, max_gap, max_size)
    first_lengths = dict(ranges)

    for fetch in range(len(plan) - 1):
        next_start = int(plan.starts[fetch + 1])
        joined = next_start + first_lengths[next_start] - int(plan.starts[fetch])
        assert next_start - plan.ends[fetch] > max_gap or joined > max_size


def test_a_million_neighbours_become_a_few_fetches() -> None:
    lengths = np.full(1_000_000, 4096, np.uint64)
    offsets = np.arange(1_000_000, dtype=np.uint64) * np.uint64(4096)

    plan = plan_ranges(offsets, lengths, max_gap=0, max_size=64 << 20)

    assert len(plan) == 62
    assert plan.ends[-1] == 4096 * 1_000_000
