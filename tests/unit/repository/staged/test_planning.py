"""Which cells a change reaches, told from boxes alone."""

import numpy as np
import pytest
from tests.builders import array_json

from icestream.errors import InvalidInputError
from icestream.model.ids import ManifestId, NodeId
from icestream.model.index_maps import IndexMap, as_boxes
from icestream.model.manifest_conditions import ManifestSplitCondition, ManifestSplitDimCondition
from icestream.model.manifest_config import ManifestSplittingConfig
from icestream.model.manifest_sets import ChunkManifests, ManifestSet
from icestream.model.nodes import ArrayNode, Extents, ManifestRef, parse_node_metadata
from icestream.repository.manifest_pieces import PackingConfig
from icestream.repository.staged.cells import CellPlan
from icestream.repository.staged.planning import plan_cells


def array(shape: tuple[int, ...], *extents: Extents, node_id: bytes = b"array-id") -> ArrayNode:
    document = array_json(shape, (1,) * len(shape))
    metadata = parse_node_metadata(document, "/a")
    assert metadata is not None
    refs = tuple(ManifestRef(name(i), one) for i, one in enumerate(extents))
    return ArrayNode(NodeId(node_id), "/a", document, metadata.shape, None, refs)


def name(number: int) -> ManifestId:
    return ManifestId(f"manifest-{number:03}".encode())


def split(**sizes: int) -> PackingConfig:
    dims = tuple((ManifestSplitDimCondition.Axis(int(axis[1:])), n) for axis, n in sizes.items())
    rules = ((ManifestSplitCondition.AnyArray(), dims),)
    return PackingConfig(splitting=ManifestSplittingConfig(rules))


def limited(limit: int) -> PackingConfig:
    return PackingConfig(ChunkManifests((ManifestSet("default", max_manifest_size=limit),)))


def plan(
    before: ArrayNode | None,
    after: ArrayNode,
    packing: PackingConfig,
    *added: Extents,
    index_map: IndexMap | None = None,
) -> CellPlan:
    boxes = as_boxes(added, len(after.shape))
    return plan_cells(before, after, packing, index_map=index_map, added=boxes)


def reads(found: CellPlan) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the manifests that each cell is written from."""
    return {task.cell: tuple(int(i[-3:]) for i in task.old) for task in found.tasks}


def numbers(refs: tuple[ManifestRef, ...]) -> list[int]:
    return [int(ref.manifest_id[-3:]) for ref in refs]


def test_a_new_array_is_one_cell_if_it_is_not_split() -> None:
    found = plan(None, array((6, 4)), PackingConfig(), ((0, 6), (0, 4)))
    assert [(task.cell, task.box, task.old) for task in found.tasks] == [((), ((0, 6), (0, 4)), ())]
    assert found.kept == found.stale == ()


def test_a_new_array_is_split_by_the_rules() -> None:
    found = plan(None, array((5, 4)), split(_0=2), ((1, 2), (0, 4)), ((4, 5), (0, 1)))
    assert [(task.cell, task.box) for task in found.tasks] == [
        ((0, 0), ((0, 2), (0, 4))),
        ((2, 0), ((4, 5), (0, 4))),
    ]


def test_a_new_array_that_is_too_large_for_one_manifest_is_split() -> None:
    found = plan(None, array((10, 4)), limited(8), ((0, 10), (0, 4)))
    assert [task.box for task in found.tasks] == [((2 * i, 2 * i + 2), (0, 4)) for i in range(5)]


def test_a_large_array_with_few_references_is_left_whole() -> None:
    grid = array((1000, 4))
    assert reads(plan(None, grid, limited(8), ((0, 1), (0, 4)))) == {(): ()}
    scattered = [((100 * i, 100 * i + 1), (0, 1)) for i in range(9)]
    assert reads(plan(None, grid, limited(8), *scattered)) == {(): ()}


def test_an_array_that_outgrows_one_manifest_is_split() -> None:
    before = array((2, 4), ((0, 2), (0, 4)))
    found = plan(before, array((4, 4)), limited(8), ((2, 4), (0, 4)))
    assert reads(found) == {(1, 0): ()}
    assert numbers(found.kept) == [0]


def test_an_append_leaves_earlier_cells_alone() -> None:
    before = array((3,), ((0, 2),), ((2, 3),))
    found = plan(before, array((5,)), split(_0=2), ((3, 5),))
    assert reads(found) == {(1,): (1,), (2,): ()}
    assert numbers(found.kept) == [0]
    assert numbers(found.stale) == [1]


def test_an_array_that_is_not_split_is_written_whole() -> None:
    before = array((3,), ((0, 2),), ((2, 3),))
    found = plan(before, array((4,)), PackingConfig(), ((3, 4),))
    assert reads(found) == {(): (0, 1)}
    assert found.kept == ()


def test_nothing_new_is_nothing_to_do() -> None:
    before = array((3,), ((0, 3),))
    found = plan(before, array((3,)), PackingConfig(), index_map=IndexMap((None,)))
    assert found.is_empty
    assert numbers(found.kept) == [0]


def test_an_empty_box_touches_nothing() -> None:
    assert plan(None, array((9,)), split(_0=2), ((5, 5),)).is_empty


def test_a_late_file_moves_the_cells_behind_it() -> None:
    before = array((6,), ((0, 2),), ((2, 4),), ((4, 6),))
    late = IndexMap((np.array([0, 1, 2, 4, 5, 6]),))
    found = plan(before, array((7,)), split(_0=2), ((3, 4),), index_map=late)
    assert reads(found) == {(1,): (1,), (2,): (1, 2), (3,): (2,)}
    assert numbers(found.kept) == [0]
    assert all(task.index_map is late for task in found.tasks)


def test_cells_that_nothing_moved_in_need_no_map() -> None:
    before = array((4,), ((0, 2),), ((2, 4),))
    moved = IndexMap((np.array([0, 1, 3, 4]),))
    found = plan(before, array((5,)), split(_0=2), ((0, 1),), index_map=moved)
    assert [task.index_map for task in found.tasks] == [None, moved, moved]


def test_a_dropped_box_reaches_the_manifests_it_meets() -> None:
    before = array((6,), ((0, 2),), ((2, 4),), ((4, 6),))
    dropped = IndexMap((None,), dropped=(((3, 4),),))
    found = plan(before, array((6,)), split(_0=2), index_map=dropped)
    assert reads(found) == {(1,): (1,)}
    assert numbers(found.kept) == [0, 2]


def test_an_array_that_shrinks_loses_cells() -> None:
    before = array((6,), ((0, 2),), ((2, 4),), ((4, 6),))
    found = plan(before, array((3,)), split(_0=2))
    assert reads(found) == {(1,): (1,), (2,): (2,)}
    assert [task.box for task in found.tasks] == [((2, 3),), ((3, 3),)]
    assert [task.reach for task in found.tasks] == [((2, 4),), ((4, 6),)]


def test_manifests_of_other_splits_are_followed_to_all_their_cells() -> None:
    before = array((8,), ((0, 3),), ((3, 5),), ((5, 8),))
    found = plan(before, array((8,)), split(_0=2), ((0, 1),))
    assert reads(found) == {(0,): (0,), (1,): (0, 1), (2,): (1, 2), (3,): (2,)}
    assert found.kept == ()


def test_a_manifest_without_extents_covers_the_array() -> None:
    before = array((4,), ())
    assert reads(plan(before, array((4,)), split(_0=2), ((0, 1),))) == {(0,): (0,), (1,): (0,)}


def test_an_array_that_was_created_anew_has_no_past() -> None:
    before = array((4,), ((0, 4),), node_id=b"other-id")
    found = plan(before, array((4,)), PackingConfig(), ((0, 1),))
    assert reads(found) == {(): ()}
    assert found.stale == ()


def test_an_array_without_dimensions_is_one_cell() -> None:
    found = plan(None, array(()), split(_0=2), ())
    assert [(task.cell, task.box) for task in found.tasks] == [((), ())]


def test_too_many_cells_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="larger parts"):
        plan(None, array((3000, 3000)), split(_0=1, _1=1), ((0, 3000), (0, 3000)))
