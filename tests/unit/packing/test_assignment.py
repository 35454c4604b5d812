"""Pieces in manifests."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream.model.ids import NodeId
from icestream.model.manifest_sets import ChunkManifests, ManifestSet
from icestream.packing.assignment import Piece, assign, overflow_order


def node_id(number):
    return NodeId(number.to_bytes(8))


def pieces_of(*sizes, target="coord", cell=()):
    return [Piece(node_id(i), cell, size, target) for i, size in enumerate(sizes)]


def outcome(packed):
    """Return the set and the sizes of each manifest."""
    return [(one.set_name, sorted(piece.size for piece in one.pieces)) for one in packed]


def test_pieces_of_a_set_share_manifests_up_to_its_size():
    sets = ChunkManifests((ManifestSet("coord", 10, cardinality=None),))

    assert outcome(assign(pieces_of(6, 5, 5, 4), sets)) == [("coord", [4, 6]), ("coord", [5, 5])]


def test_what_is_too_large_for_a_set_goes_where_it_overflows_to():
    sets = ChunkManifests((ManifestSet("coord", 10, overflow_to="wide"), ManifestSet("wide", 20)))

    packed = assign(pieces_of(3, 15), sets)

    assert outcome(packed) == [("coord", [3]), ("wide", [15])]


def test_over_cardinality_the_fullest_manifests_stay():
    sets = ChunkManifests((ManifestSet("coord", 10, cardinality=2),))

    packed = assign(pieces_of(7, 9, 8), sets)

    assert outcome(packed) == [("coord", [9]), ("coord", [8]), ("default", [7])]


def test_manifests_that_stay_linked_count_for_the_cardinality():
    sets = ChunkManifests((ManifestSet("coord", 10, cardinality=2),))

    assert outcome(assign(pieces_of(9, 8), sets, {"coord": 1})) == [
        ("coord", [9]),
        ("default", [8]),
    ]
    assert outcome(assign(pieces_of(9), sets, {"coord": 5})) == [("default", [9])]


def test_what_is_too_large_for_every_set_is_alone_in_a_manifest_of_default():
    sets = ChunkManifests((ManifestSet("coord", 10), ManifestSet("default", 20)))

    packed = assign(pieces_of(21, 2, 30) + pieces_of(3, target="default"), sets)

    assert sorted(outcome(packed)) == [
        ("coord", [2]),
        ("default", [3]),
        ("default", [21]),
        ("default", [30]),
    ]


def test_what_overflows_is_packed_with_what_the_rules_send_there():
    sets = ChunkManifests((ManifestSet("coord", 10), ManifestSet("default", 20)))

    packed = assign(pieces_of(12) + pieces_of(8, target="default"), sets)

    assert outcome(packed) == [("default", [8, 12])]


def test_a_set_that_is_reached_by_overflow_only_is_filled():
    sets = ChunkManifests(
        (ManifestSet("coord", 5, overflow_to="middle"), ManifestSet("middle", 10)),
    )

    assert outcome(assign(pieces_of(7), sets)) == [("middle", [7])]


def test_sets_of_arrays_per_manifest_are_packed_by_number():
    sets = ChunkManifests((ManifestSet("coord", arrays_per_manifest=2, cardinality=None),))

    packed = assign(pieces_of(1, 50, 3, 40, 2), sets)

    assert outcome(packed) == [("coord", [1, 40]), ("coord", [2, 3]), ("coord", [50])]


def test_the_last_group_of_a_full_set_of_arrays_per_manifest_overflows():
    sets = ChunkManifests((ManifestSet("coord", arrays_per_manifest=2, cardinality=1),))

    assert outcome(assign(pieces_of(1, 50, 3), sets)) == [("coord", [1, 3]), ("default", [50])]


def test_cells_of_an_array_never_share_a_manifest():
    """An append to the last would write the first again."""
    cells = [Piece(node_id(1), (i,), 5, "default") for i in range(3)]

    packed = assign(cells, ChunkManifests())

    assert [one.pieces for one in packed] == [(cell,) for cell in cells]


def test_the_same_period_of_several_arrays_shares_a_manifest_whatever_their_rank():
    places: list[tuple[int, ...]] = [(0,), (1,), (0, 0, 0), (1, 0, 0)]
    pieces = [Piece(node_id(i), cell, 5, "default") for i, cell in enumerate(places)]
    unsplit = Piece(node_id(9), (), 5, "default")

    packed = assign([*pieces, unsplit], ChunkManifests())

    assert [[piece.cell for piece in one.pieces] for one in packed] == [
        [(0,), (0, 0, 0)],
        [(1,), (1, 0, 0)],
        [()],
    ]


def test_a_target_that_is_not_configured_is_default():
    assert outcome(assign(pieces_of(1, target="gone"), ChunkManifests())) == [("default", [1])]


def test_nothing_to_pack_needs_no_manifests():
    assert assign([], ChunkManifests()) == []


def test_sets_come_before_those_they_overflow_to_and_else_as_configured():
    sets = (
        ManifestSet("default"),
        ManifestSet("c", 1, overflow_to="a"),
        ManifestSet("b", 1),
        ManifestSet("a", 1, overflow_to="b"),
        ManifestSet("d", 1),
    )

    assert [one.name for one in overflow_order(sets)] == ["c", "a", "b", "d", "default"]


def test_thousands_of_small_arrays_are_assigned_in_a_moment():
    pieces = pieces_of(*([3] * 10_000), target="coordinates")

    started = time.process_time()
    packed = assign(pieces, ChunkManifests())

    assert len(packed) == 1
    assert time.process_time() - started < 1


NAMES = ("a", "b", "c")


@st.composite
def configurations(draw):
    """Return sets that overflow in some order without loops."""
    order = draw(st.permutations(NAMES))
    sets = []
    for i, name in enumerate(order):
        by_number = draw(st.booleans())
        sets.append(
            ManifestSet(
                name,
                max_manifest_size=None if by_number else draw(st.integers(1, 30)),
                arrays_per_manifest=draw(st.integers(1, 4)) if by_number else None,
                cardinality=draw(st.none() | st.integers(1, 3)),
                overflow_to=draw(st.sampled_from([None, "default", *order[i + 1 :]])),
            )
        )
    default = ManifestSet("default", draw(st.integers(1, 40)))
    return ChunkManifests(tuple(draw(st.permutations([*sets, default]))))


@st.composite
def some_pieces(draw):
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from([(0, 0), (1, 0), (0, 1), (2, 1)]),
                st.integers(1, 50),
                st.sampled_from([*NAMES, "default"]),
            ),
            max_size=25,
        )
    )
    cells = {(i % 5, cell): (cell, *rest) for i, (cell, *rest) in enumerate(drawn)}
    return [Piece(node_id(array), *values) for (array, _), values in cells.items()]


@given(some_pieces(), configurations(), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)))
def test_every_piece_has_one_place_and_every_set_keeps_its_limits(pieces, sets, occupied):
    packed = assign(pieces, sets, occupied)

    assert Counter(p for one in packed for p in one.pieces) == Counter(pieces)
    limits = {one.name: one for one in sets.completed().sets}
    for one in packed:
        limit = limits[one.set_name]
        alone_in_default = limit.is_default and len(one.pieces) == 1
        assert alone_in_default or one.size <= (limit.max_manifest_size or one.size)
        assert len(one.pieces) <= (limit.arrays_per_manifest or len(one.pieces))
        assert len({piece.array for piece in one.pieces}) == len(one.pieces)
    for name, count in Counter(one.set_name for one in packed).items():
        cardinality = limits[name].cardinality
        assert cardinality is None or count <= max(0, cardinality - occupied.get(name, 0))


@given(some_pieces(), configurations())
def test_pieces_end_in_their_target_or_in_a_set_that_it_overflows_to(pieces, sets):
    overflow = {one.name: one.overflow_to for one in sets.completed().sets}

    for one in assign(pieces, sets):
        for piece in one.pieces:
            way: list[str | None] = [piece.target]
            while way[-1] is not None:
                way.append(overflow[way[-1]])
            assert one.set_name in way


@pytest.mark.parametrize("cell", [(0,), (2, 1)])
@given(st.lists(st.integers(1, 10), max_size=20))
def test_pieces_of_one_cell_are_packed_as_densely_as_unsplit_arrays(cell, sizes):
    sets = ChunkManifests((ManifestSet("coord", 10, cardinality=None),))

    assert len(assign(pieces_of(*sizes, cell=cell), sets)) == len(assign(pieces_of(*sizes), sets))
