"""Items in bins."""

import random
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream.errors import InvalidInputError
from icestream.packing.bins import balanced_groups, first_fit_decreasing, place_decreasing

CAPACITY = 60


def fewest_bins(sizes, capacity):
    """Return the smallest number of bins, by trying every item in every distinct bin."""
    order = sorted(sizes, reverse=True)

    def fits(position, rooms):
        if position == len(order):
            return True
        return any(
            fits(position + 1, sorted([*rooms[:i], room - order[position], *rooms[i + 1 :]]))
            for i, room in enumerate(rooms)
            if room >= order[position] and room not in rooms[:i]
        )

    count = -(-sum(order) // capacity)
    while not fits(0, [capacity] * count):
        count += 1
    return count


def items_of(bins):
    return sorted(item for items in bins for item in items)


def totals(sizes, groups):
    return [sum(sizes[item] for item in group) for group in groups]


@given(st.lists(st.integers(0, CAPACITY), max_size=80))
def test_every_item_is_in_one_bin_and_no_bin_is_over_capacity(sizes):
    bins = first_fit_decreasing(sizes, CAPACITY)

    assert items_of(bins) == list(range(len(sizes)))
    assert all(bins)
    assert all(total <= CAPACITY for total in totals(sizes, bins))


@given(st.lists(st.integers(1, CAPACITY), max_size=9))
def test_bins_are_within_11_ninths_of_the_fewest_plus_one(sizes):
    bins = first_fit_decreasing(sizes, CAPACITY)

    assert len(bins) <= Fraction(11, 9) * fewest_bins(sizes, CAPACITY) + 1


@pytest.mark.parametrize("largest", [CAPACITY // 10, CAPACITY // 3, CAPACITY])
def test_many_items_are_packed_near_the_volume_that_they_have(largest):
    """The volume, and the items over half a bin, are lower bounds of the fewest bins."""
    source = random.Random(largest)
    sizes = [source.randint(1, largest) for _ in range(2000)]

    bins = first_fit_decreasing(sizes, CAPACITY)

    bound = max(-(-sum(sizes) // CAPACITY), sum(2 * size > CAPACITY for size in sizes))
    assert len(bins) <= Fraction(11, 9) * bound + 1


def test_each_item_goes_into_the_first_bin_with_room():
    assert first_fit_decreasing([4, 6, 5, 5], 10) == [[1, 0], [2, 3]]


def test_items_are_placed_in_the_room_that_bins_have_left():
    assert dict(place_decreasing([3, 9, 5, 4], [4, 8, 6])) == {1: None, 2: 1, 3: 0, 0: 1}
    assert list(place_decreasing([1], [])) == [(0, None)]


def test_no_items_need_no_bins():
    assert first_fit_decreasing([], 10) == []


def test_an_item_larger_than_a_bin_is_refused():
    with pytest.raises(InvalidInputError, match="size 11 does not fit into a bin of 10"):
        first_fit_decreasing([3, 11], 10)


def test_tens_of_thousands_of_items_are_packed_in_a_moment():
    source = random.Random(7)
    sizes = [source.randint(1, 50_000) for _ in range(30_000)]

    started = time.process_time()
    first_fit_decreasing(sizes, 50_000)

    # a scan of all bins for each item takes 15 seconds
    assert time.process_time() - started < 3


@given(st.lists(st.integers(1, 1000), max_size=40), st.integers(1, 7))
def test_groups_hold_every_item_once_and_are_full_but_the_last(sizes, per_group):
    groups = balanced_groups(sizes, per_group)

    assert items_of(groups) == list(range(len(sizes)))
    assert all(len(group) == per_group for group in groups[:-1])
    assert all(0 < len(group) <= per_group for group in groups)


def test_the_largest_items_are_matched_with_the_smallest():
    sizes = [1, 50, 3, 40, 2, 30]

    assert [sorted(sizes[item] for item in group) for group in balanced_groups(sizes, 2)] == [
        [1, 50],
        [2, 40],
        [3, 30],
    ]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(2, 7))
def test_full_groups_differ_by_no_more_than_the_largest_item(sizes, per_group):
    sizes = sizes[: len(sizes) - len(sizes) % per_group] or [1] * per_group
    even = totals(sizes, balanced_groups(sizes, per_group))

    assert max(even) - min(even) <= max(sizes)
