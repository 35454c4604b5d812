import json

import numpy as np
import pytest
from tests.builders import GROUP, array_json

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.ids import ManifestId, NodeId
from icestream.model.nodes import (
    ArrayNode,
    DimensionShape,
    ManifestRef,
    bounding_box,
    parse_node_metadata,
)


def test_groups_have_no_grid():
    assert parse_node_metadata(GROUP, "/") is None


def test_a_regular_grid_is_counted_in_chunks():
    metadata = parse_node_metadata(
        array_json((10, 0, 7), (3, 5, 7), dimension_names=["t", None, ""]), "/a"
    )
    assert metadata is not None
    assert metadata.shape == (
        DimensionShape(10, 4, 3),
        DimensionShape(0, 0, 5),
        DimensionShape(7, 1, 7),
    )
    assert metadata.dimension_names == ("t", None, None)


def test_scalars_have_one_chunk_without_index():
    metadata = parse_node_metadata(array_json((), ()), "/a")
    assert metadata is not None
    array = ArrayNode(NodeId(b"12345678"), "/a", b"", metadata.shape)
    assert array.has_chunk(())
    assert not array.has_chunk((0,))


def test_a_rectilinear_grid_is_counted_in_edges():
    grid = {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [[1, 2, [3, 2]], 4]},
    }
    metadata = parse_node_metadata(array_json((9, 10), chunk_grid=grid), "/a")
    assert metadata is not None
    assert [d.num_chunks for d in metadata.shape] == [4, 3]
    assert [d.chunk_length for d in metadata.shape] == [None, None]


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        b'{"zarr_format":2}',
        b'{"zarr_format":3,"node_type":"other"}',
        array_json(shape=(-1,)),
        array_json((4, 4), (1,)),
        array_json((4,), (0,)),
        array_json(chunk_grid={"name": "other", "configuration": {}}),
        array_json(chunk_grid="regular"),
        array_json(chunk_key_encoding={"name": "v2"}),
        array_json(chunk_key_encoding={"name": "default", "configuration": {"separator": "."}}),
        array_json(dimension_names=["a", "b"]),
        array_json(shape=json.loads("[true]")),
        array_json(chunk_grid={"name": "rectilinear", "configuration": {"chunk_shapes": [["x"]]}}),
    ],
)
def test_metadata_that_cannot_be_stored_is_refused(document):
    with pytest.raises(InvalidInputError, match="/a") as raised:
        parse_node_metadata(document, "/a")
    assert raised.value.kind is ErrorKind.BAD_METADATA


def test_a_manifest_covers_its_extents_and_everything_without_extents():
    ref = ManifestRef(ManifestId(b"x" * 12), ((0, 2), (5, 6)))
    assert ref.covers((1, 5))
    assert not ref.covers((2, 5))
    assert ManifestRef(ManifestId(b"x" * 12), ()).covers((9, 9))


def test_the_bounding_box_is_tight():
    index = np.array([[1, 9], [4, 2]], np.uint32)
    assert bounding_box(index) == ((1, 5), (2, 10))


def test_manifests_of_an_array_are_found_by_their_boxes() -> None:
    def ref(number: int, *extents: tuple[int, int]) -> ManifestRef:
        return ManifestRef(ManifestId(bytes([number] * 12)), extents)

    boxes = [ref(i, (10 * i, 10 * i + 10), (0, 5)) for i in range(20)]
    shape = (DimensionShape(200, 200, 1), DimensionShape(5, 5, 1))
    for refs in (boxes[:3], boxes, [*boxes, ref(99)]):
        array = ArrayNode(NodeId(bytes(8)), "/a", b"", shape, manifests=tuple(refs))
        for index in [(0, 0), (25, 4), (29, 0), (199, 4)]:
            expected = [ref for ref in refs if ref.covers(index)]
            assert list(array.manifests_with(index)) == expected
