"""Chunk tables: what properties over small tables do not show."""

import pickle

import numpy as np
import pytest
from tests.tables import Refs, refs_of, virtual_table

from icestream.model.chunk_refs import InlineRef, NativeRef, VirtualRef
from icestream.model.chunk_tables import ChunkTable, concat, dense_index, overlay
from icestream.model.ids import ChunkId

FAR = 2**32 - 1


def test_a_dense_table_travels_without_its_index() -> None:
    table = virtual_table(10_000)

    state = pickle.dumps(table)

    assert table.is_dense
    assert len(state) < 10_000 * 5 + 2_000
    assert np.array_equal(pickle.loads(state).index, table.index)


def test_equal_values_travel_once() -> None:
    n = 10_000
    table = ChunkTable(
        index=dense_index((n,)),
        kind=np.full(n, 1, np.uint8),
        byte_offset=np.zeros(n, np.uint64),
        length=np.full(n, 2**40, np.uint64),
        chunk_id=None,
    )

    state = pickle.dumps(table)

    assert len(state) < 2_000
    assert pickle.loads(state).length.tolist() == [2**40] * n


def test_a_part_travels_without_the_texts_and_bytes_of_the_rest() -> None:
    refs: Refs = {(i,): InlineRef(bytes(1000)) for i in range(100)}
    inline = ChunkTable.from_refs(refs, 1).take(slice(50, 51))
    virtual = virtual_table(1000, texts=1000).take(slice(500, 501))

    assert len(pickle.dumps(inline)) < 5_000
    assert len(pickle.dumps(virtual)) < 5_000
    assert refs_of(pickle.loads(pickle.dumps(inline))) == {(50,): InlineRef(bytes(1000))}


@pytest.mark.parametrize("last", [(0, 1, 2, FAR), (FAR, FAR, FAR, FAR)])
def test_rows_are_found_in_boxes_too_big_to_number(last: tuple[int, ...]) -> None:
    refs: Refs = {(0, 0, 0, 0): InlineRef(b"first"), (0, 1, 2, 3): InlineRef(b""), last: None}
    table = ChunkTable.from_refs(refs, 4)
    index = np.array([last, (0, 0, 0, 1), (0, 0, 0, 0)], np.uint32)

    assert table.find(last) == 2
    assert table.find((0, 0, 0, 1)) == -1
    assert table.find_many(index).tolist() == [2, -1, 0]


def test_an_index_outside_of_the_box_is_not_found() -> None:
    table = virtual_table(3)

    assert table.find((3,)) == -1
    assert table.find((FAR,)) == -1
    assert ChunkTable.empty(1).find((0,)) == -1


def test_overlay_keeps_columns_that_one_side_lacks() -> None:
    native = NativeRef(ChunkId(b"chunk-id-001"), 3, 4)
    virtual = VirtualRef("s3://b/x", 1, 2, etag="e", last_modified=5)
    base = ChunkTable.from_refs({(0,): native, (1,): InlineRef(b"a")}, 1)
    replacing = ChunkTable.from_refs({(1,): virtual}, 1)
    adding = ChunkTable.from_refs({(1,): virtual, (2,): InlineRef(b"b")}, 1)

    assert refs_of(overlay(base, replacing)) == {(0,): native, (1,): virtual}
    assert refs_of(overlay(base, adding)) == {(0,): native, (1,): virtual, (2,): InlineRef(b"b")}


def test_pools_are_linked_when_tables_are_joined() -> None:
    table = virtual_table(8, texts=4)

    halves = concat([table.take(slice(0, 4)), table.take(slice(4, 8))])

    assert halves.locations is table.locations


@pytest.mark.parametrize(
    ("num_chunks", "start"), [((), None), ((0, 3), None), ((2, 3), None), ((2, 1, 2), (5, 6, 7))]
)
def test_dense_index_counts_like_nested_loops(
    num_chunks: tuple[int, ...], start: tuple[int, ...] | None
) -> None:
    first = start or (0,) * len(num_chunks)

    index = dense_index(num_chunks, start)

    expected = [[a + b for a, b in zip(i, first, strict=True)] for i in np.ndindex(*num_chunks)]
    assert index.shape[1] == len(num_chunks)
    assert index.tolist() == expected
