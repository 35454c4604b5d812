"""Edits of one array, in whatever order and form they come."""

import numpy as np
import pytest

from icestream.model.change_sets import ArrayEdits
from icestream.model.chunk_refs import InlineRef
from icestream.model.chunk_tables import ChunkTable


def table(*cells: int, value: bytes) -> ChunkTable:
    return ChunkTable.from_refs({(cell,): InlineRef(value) for cell in cells}, 1)


def shown(edits: ArrayEdits) -> dict[int, bytes | None]:
    merged = edits.table()
    refs = [merged.ref(row) for row in range(len(merged))]
    assert all(isinstance(ref, InlineRef | None) for ref in refs)
    return {
        cell: ref.data if isinstance(ref, InlineRef) else None
        for (cell,), ref in zip(merged.index.tolist(), refs, strict=True)
    }


def test_forks_that_follow_each_other_are_joined_in_order():
    edits = ArrayEdits(1)
    for first in (4, 0, 2):
        edits.add_fork(table(first, first + 1, value=b"%d" % first))
    assert shown(edits) == {0: b"0", 1: b"0", 2: b"2", 3: b"2", 4: b"4", 5: b"4"}


def test_the_last_of_overlapping_forks_wins():
    edits = ArrayEdits(1)
    edits.add_fork(table(0, 1, 2, value=b"old"))
    edits.add_fork(table(1, value=b"new"))
    edits.set((2,), None)
    assert edits.find((1,)) == (True, InlineRef(b"new"))
    assert shown(edits) == {0: b"old", 1: b"new", 2: None}


@pytest.mark.parametrize("seed", range(5))
def test_mixed_edits_agree_with_a_dict(seed):
    dice = np.random.default_rng(seed)
    edits = ArrayEdits(1)
    model: dict[int, bytes] = {}
    for step in range(40):
        cells = sorted(set(dice.integers(0, 20, dice.integers(1, 6)).tolist()))
        value = b"%d" % step
        match dice.integers(0, 3):
            case 0:
                edits.set_table(table(*cells, value=value))
            case 1:
                edits.add_fork(table(*cells, value=value))
            case _:
                for cell in cells:
                    edits.set((cell,), InlineRef(value))
        model |= dict.fromkeys(cells, value)
        if dice.integers(0, 5) == 0:
            assert shown(edits) == dict(sorted(model.items()))
    assert shown(edits) == dict(sorted(model.items()))
    assert edits.find((99,)) == (False, None)


def test_no_edits_are_an_empty_table():
    assert len(ArrayEdits(2).table()) == 0
    assert ArrayEdits(2).table().rank == 2
