"""Full sets take new pieces into manifests that have room."""

from hypothesis import given
from hypothesis import strategies as st

from icestream.model.ids import ManifestId, NodeId
from icestream.model.manifest_sets import ChunkManifests, ManifestSet
from icestream.packing.absorption import LinkedManifest, manifests_to_absorb, occupied_places
from icestream.packing.assignment import Piece, assign
from icestream.packing.bins import first_fit_decreasing


def manifest_id(number):
    return ManifestId(number.to_bytes(12))


def linked_of(*references):
    return [LinkedManifest(manifest_id(i), size) for i, size in enumerate(references)]


def absorbed(new_sizes, linked, manifest_set):
    return [int.from_bytes(i) for i in manifests_to_absorb(new_sizes, linked, manifest_set)]


def test_a_set_with_places_left_opens_nothing():
    assert absorbed([5, 5], linked_of(1), ManifestSet("coord", 10, cardinality=2)) == []


def test_a_full_set_opens_its_emptiest_manifest():
    coord = ManifestSet("coord", 10, cardinality=3)

    assert absorbed([2], linked_of(4, 1, 3), coord) == [1]


def test_no_more_manifests_are_opened_than_the_new_pieces_need():
    coord = ManifestSet("coord", 10, cardinality=3)

    assert absorbed([4, 4], linked_of(5, 3, 5), coord) == [1, 0]
    assert absorbed([3, 4], linked_of(5, 3, 5), coord) == [1]


def test_a_manifest_without_room_stays_closed():
    coord = ManifestSet("coord", 10, cardinality=2)

    assert absorbed([4], linked_of(7, 10), coord) == []


def test_places_that_are_left_are_used_before_manifests_are_opened():
    """Two of the new pieces fill the one place; the third is taken in."""
    coord = ManifestSet("coord", 10, cardinality=2)

    assert absorbed([5, 5, 5], linked_of(1), coord) == [0]
    assert absorbed([5, 5], linked_of(1), coord) == []


def test_pieces_too_large_for_the_set_open_nothing():
    assert absorbed([11], linked_of(1), ManifestSet("coord", 10, cardinality=1)) == []


def test_a_set_without_cardinality_is_never_full():
    assert absorbed([1], linked_of(1), ManifestSet("coord", 10, cardinality=None)) == []


def test_sets_of_arrays_per_manifest_count_pieces():
    linked = [LinkedManifest(manifest_id(0), 1, pieces=3), LinkedManifest(manifest_id(1), 99)]
    coord = ManifestSet("coord", arrays_per_manifest=3, cardinality=2)

    assert absorbed([1000, 1000], linked, coord) == [1]
    assert absorbed([1000, 1000], linked[:1], coord) == []


def test_a_set_that_gets_an_array_with_each_commit_keeps_its_cardinality():
    """Nothing overflows as long as there is room."""
    coord = ManifestSet("coord", 100, cardinality=2)
    manifests: dict[int, list[Piece]] = {}

    for commit in range(60):
        new = [Piece(NodeId(commit.to_bytes(8)), (), 3, "coord")]
        linked = [
            LinkedManifest(manifest_id(i), sum(piece.size for piece in pieces))
            for i, pieces in manifests.items()
        ]
        for i in absorbed([3], linked, coord):
            new += manifests.pop(i)
        for packed in assign(new, ChunkManifests((coord,)), {"coord": len(manifests)}):
            assert packed.set_name == "coord"
            manifests[max(manifests, default=0) + 1] = list(packed.pieces)

    assert len(manifests) == 2
    assert sum(len(pieces) for pieces in manifests.values()) == 60


some_sizes = st.lists(st.integers(1, 20), max_size=12)
some_references = st.lists(st.integers(1, 20), max_size=6)


@given(some_sizes, some_references, st.integers(1, 6))
def test_opened_manifests_have_room_and_are_not_opened_in_vain(sizes, references, cardinality):
    coord = ManifestSet("coord", 20, cardinality=cardinality)

    opened = absorbed(sizes, linked_of(*references), coord)

    assert len(set(opened)) == len(opened) <= len(sizes)
    assert all(references[i] + min(sizes) <= 20 for i in opened)
    if len(references) + len(first_fit_decreasing(sizes, 20)) <= cardinality:
        assert not opened


@given(some_sizes, some_references, st.integers(1, 6))
def test_a_set_never_grows_beyond_what_it_may_or_already_has(sizes, references, cardinality):
    coord = ManifestSet("coord", 20, cardinality=cardinality)

    opened = absorbed(sizes, linked_of(*references), coord)

    items = sizes + [references[i] for i in opened]
    pieces = [Piece(NodeId(i.to_bytes(8)), (), size, "coord") for i, size in enumerate(items)]
    occupied = occupied_places(len(references), len(opened), coord)
    packed = assign(pieces, ChunkManifests((coord,)), {"coord": occupied})
    in_set = len(references) - len(opened) + sum(one.set_name == "coord" for one in packed)
    assert in_set <= max(cardinality, len(references))


def test_a_set_with_too_many_manifests_takes_new_pieces_into_them():
    """As after a commit by icechunk, which writes one manifest per array."""
    coord = ManifestSet("coord", 100, cardinality=1)

    assert absorbed([7], linked_of(5, 3, 4), coord) == [1]

    assert occupied_places(3, 1, coord) == 0
    pieces = [Piece(NodeId(bytes([i] * 8)), (), size, "coord") for i, size in enumerate([7, 3])]
    packed = assign(pieces, ChunkManifests((coord,)), {"coord": 0})
    assert [one.set_name for one in packed] == ["coord"]


def test_places_are_counted_in_any_set():
    assert occupied_places(3, 1, ManifestSet("coord", 100, cardinality=None)) == 2
    assert occupied_places(3, 2, ManifestSet("coord", 100, cardinality=2)) == 0
    assert occupied_places(3, 0, ManifestSet("coord", 100, cardinality=5)) == 3
