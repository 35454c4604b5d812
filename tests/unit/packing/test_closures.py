"""The closure of pieces that changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream.packing.closures import closure

ARRAYS_OF = {1: ("a", "b"), 2: ("a", "b", "c"), 3: ("c",)}
MANIFESTS_OF = {"a": (1, 2), "b": (1, 2), "c": (2, 3)}


@pytest.mark.parametrize("start", ["a", "ab", "abc", "c"])
def test_arrays_that_share_manifests_are_written_together(start):
    found = closure(start, MANIFESTS_OF, ARRAYS_OF)

    assert found.pieces == {"a", "b", "c"}
    assert found.manifests == {1, 2, 3}


def test_nothing_changed_nothing_to_write():
    found = closure([], MANIFESTS_OF, ARRAYS_OF)

    assert not found.pieces
    assert not found.manifests


def test_an_array_created_since_the_last_commit_is_alone():
    found = closure(["new"], MANIFESTS_OF, ARRAYS_OF)

    assert found.pieces == {"new"}
    assert not found.manifests


def test_an_array_created_again_does_not_touch_the_manifests_of_the_deleted_one():
    """Its id is new; neither does the snapshot say any more that the old id is in a manifest."""
    arrays_of = {manifest: set(arrays) - {"a"} for manifest, arrays in ARRAYS_OF.items()}
    manifests_of = {"b": (1, 2), "c": (2, 3)}

    assert closure(["a, again"], manifests_of, arrays_of).pieces == {"a, again"}
    assert closure(["b"], manifests_of, arrays_of).pieces == {"b", "c"}


def test_manifests_of_other_arrays_are_neither_visited_nor_asked():
    asked = []

    def pieces_of(manifest):
        asked.append(manifest)
        return {1: ["a"], 2: ["b"]}[manifest]

    found = closure(["a"], {"a": [1], "b": [2]}, pieces_of)

    assert found.pieces == {"a"}
    assert asked == [1]


def test_only_cells_that_share_a_manifest_are_written_together():
    """The last cells of two arrays share a manifest; the earlier ones stay where they are."""
    manifests_of = {("x", 0): ["old"], ("y", 0): ["old"], ("x", 1): ["new"], ("y", 1): ["new"]}
    pieces_of = {"old": [("x", 0), ("y", 0)], "new": [("x", 1), ("y", 1)]}

    found = closure([("x", 1)], manifests_of, pieces_of)

    assert found.pieces == {("x", 1), ("y", 1)}
    assert found.manifests == {"new"}


def test_pieces_come_in_the_order_of_discovery():
    found = closure("c", MANIFESTS_OF, ARRAYS_OF)

    assert list(found.pieces) == ["c", "a", "b"]
    assert list(found.manifests) == [2, 3, 1]


links = st.sets(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=20)


@given(links, st.sets(st.integers(0, 12), max_size=3))
def test_a_closure_is_the_connected_part_of_the_graph(pairs, start):
    manifests_of = {piece: {m for p, m in pairs if p == piece} for piece, _ in pairs}
    pieces_of = {manifest: {p for p, m in pairs if m == manifest} for _, manifest in pairs}

    found = closure(start, manifests_of, pieces_of)

    expected = set(start)
    for _ in range(13):
        reached = {m for p, m in pairs if p in expected}
        expected |= {p for p, m in pairs if m in reached}
    assert found.pieces == expected
    assert found.manifests == {m for p, m in pairs if p in expected}
