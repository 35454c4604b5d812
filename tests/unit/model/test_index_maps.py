"""Where chunks go, for tables, for boxes and over process borders."""

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import refs_of

from icestream.errors import InvalidInputError
from icestream.model.chunk_refs import InlineRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.index_maps import IndexMap, as_boxes


def axis(*targets: int) -> np.ndarray:
    return np.array(targets, np.int64)


def table(*indexes: tuple[int, ...]) -> ChunkTable:
    refs = {index: InlineRef(str(index).encode()) for index in indexes}
    return ChunkTable.from_refs(refs, len(indexes[0]))


def moves(index_map: IndexMap, before: ChunkTable) -> dict[tuple[int, ...], bytes]:
    refs = refs_of(index_map.apply(before))
    return {index: ref.data for index, ref in refs.items() if isinstance(ref, InlineRef)}


def test_a_late_file_moves_what_is_behind_it() -> None:
    late = IndexMap((axis(0, 1, 3, 4), None))
    before = table((0, 5), (1, 5), (2, 5), (3, 5))
    assert moves(late, before) == {
        (0, 5): b"(0, 5)",
        (1, 5): b"(1, 5)",
        (3, 5): b"(2, 5)",
        (4, 5): b"(3, 5)",
    }


def test_what_goes_is_left_out() -> None:
    vanished = IndexMap((axis(0, -1, 1), None), dropped=(((2, 3), (0, 1)),))
    before = table((0, 0), (1, 0), (2, 0), (2, 1))
    assert moves(vanished, before) == {(0, 0): b"(0, 0)", (1, 1): b"(2, 1)"}


def test_what_lies_beyond_an_axis_goes() -> None:
    assert moves(IndexMap((axis(0),)), table((0,), (1,))) == {(0,): b"(0,)"}


def test_a_map_without_axes_and_boxes_changes_nothing() -> None:
    identity = IndexMap((None, None))
    before = table((0, 0))
    assert identity.is_identity
    assert identity.apply(before) is before
    assert not IndexMap((None,), dropped=(((0, 1),),)).is_identity
    assert not IndexMap((axis(0, 1),)).is_identity


def test_arrays_without_dimensions_have_a_map() -> None:
    assert moves(IndexMap(()), table(())) == {(): b"()"}


@pytest.mark.parametrize("targets", [(1, 0), (0, 0), (0, -1, 0), (-2, 0)])
def test_chunks_cannot_pass_each_other(targets: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="dimension 1 do not ascend"):
        IndexMap((None, axis(*targets)))


def test_boxes_have_the_rank_of_the_map() -> None:
    with pytest.raises(InvalidInputError, match="2 dimensions"):
        IndexMap((None, None), dropped=(((0, 1),),))


axes = st.lists(st.integers(0, 3), max_size=6).map(
    lambda steps: [
        total - 1 if step else -1
        for step, total in zip(steps, np.cumsum(steps, dtype=int).tolist(), strict=True)
    ]
)
boxes = st.lists(
    st.tuples(*[st.tuples(st.integers(0, 6), st.integers(0, 7))] * 2), min_size=1, max_size=3
)


@given(st.tuples(*[st.one_of(st.none(), axes)] * 2), boxes, boxes)
def test_boxes_tell_what_happens_in_them(
    columns: tuple[list[int] | None, ...],
    dropped: list[tuple[tuple[int, int], ...]],
    asked: list[tuple[tuple[int, int], ...]],
) -> None:
    index_map = IndexMap(
        tuple(None if column is None else axis(*column) for column in columns), tuple(dropped)
    )
    index_map = pickle.loads(pickle.dumps(index_map))
    found = index_map.changes_in(as_boxes(asked, 2)).tolist()
    targets = index_map.box_targets(as_boxes(asked, 2)).tolist()
    for box, changes, target in zip(asked, found, targets, strict=True):
        inside = np.array(list(product(*(range(*r) for r in box))), np.uint32).reshape(-1, 2)
        new, kept = index_map.targets(inside)
        if not changes:
            assert kept.all()
            assert new.tolist() == inside.tolist()
        for index in new[kept].tolist():
            assert all(lo <= i < hi for i, (lo, hi) in zip(index, target, strict=True))


def test_a_long_axis_travels_as_few_bytes() -> None:
    shifted = np.arange(1_000_000) + (np.arange(1_000_000) > 500_000)
    sent = pickle.dumps(IndexMap((shifted, None), (((0, 1), (2, 3)),)))
    assert len(sent) < 10_000
    received = pickle.loads(sent)
    assert np.array_equal(received.axes[0], shifted)
    assert received.axes[1] is None
    assert received.dropped == (((0, 1), (2, 3)),)
