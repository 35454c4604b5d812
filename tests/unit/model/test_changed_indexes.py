"""Chunk indexes in little memory, and several lists of them in order."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream.model import changed_indexes
from icestream.model.changed_indexes import ChangedIndexes, merged
from icestream.model.chunk_tables import UInt32, dense_index

indexes = st.integers(0, 3).flatmap(
    lambda rank: st.lists(
        st.tuples(*[st.one_of(st.integers(0, 9), st.integers(0, 2**32 - 1))] * rank), unique=True
    ).map(lambda rows: np.array(sorted(rows), np.uint32).reshape(len(rows), rank))
)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_indexes, "BLOCK_ROWS", 3)


@given(indexes)
def test_what_is_packed_comes_back(index: UInt32) -> None:
    packed = pickle.loads(pickle.dumps(ChangedIndexes.of(index)))
    assert len(packed) == len(index)
    assert packed.rank == index.shape[1]
    decoded = packed.decode()
    assert decoded.dtype == np.uint32
    assert decoded.tolist() == index.tolist()


def test_a_full_box_is_only_its_bounds() -> None:
    packed = ChangedIndexes.of(dense_index((4, 5), (2, 3)))
    assert packed == ChangedIndexes(((2, 6), (3, 8)), 20)
    assert packed.decode().tolist() == dense_index((4, 5), (2, 3)).tolist()


@given(indexes, st.data())
def test_parts_are_merged_in_order(index: UInt32, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, 3), min_size=len(index), max_size=len(index)))
    parts = [ChangedIndexes.of(index[np.array(places, int) == place]) for place in range(4)]
    blocks = list(merged(parts))
    joined = np.concatenate([np.empty((0, index.shape[1]), np.uint32), *blocks])
    assert joined.tolist() == index.tolist()
    assert all(len(block) for block in blocks)


def test_parts_that_follow_each_other_are_decoded_one_by_one() -> None:
    parts = [_Counting(((4 * i, 4 * i + 4),), 4) for i in range(5)]
    _Counting.open_parts = _Counting.most_open = 0
    assert np.concatenate(list(merged(parts)))[:, 0].tolist() == list(range(20))
    assert _Counting.most_open == 1


class _Counting(ChangedIndexes):
    """A part that knows how many of its kind are being decoded."""

    open_parts = 0
    most_open = 0

    def __iter__(self):
        _Counting.open_parts += 1
        _Counting.most_open = max(_Counting.most_open, _Counting.open_parts)
        yield from super().__iter__()
        _Counting.open_parts -= 1
