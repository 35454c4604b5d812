"""Chunk tables behave as the mapping from index to reference that they stand for."""

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import Refs, refs, refs_of, tables

from icestream.model.chunk_tables import (
    ChunkTable,
    concat,
    drop_duplicates,
    is_strictly_ascending,
    lexicographic_order,
    overlay,
)

ranks = st.integers(0, 3)
pairs = ranks.flatmap(lambda rank: st.tuples(tables(rank=rank), tables(rank=rank, deletions=True)))


@given(ranks.flatmap(lambda rank: st.tuples(st.just(rank), refs(rank=rank, deletions=True))))
def test_a_table_holds_the_references_it_was_made_of(case: tuple[int, Refs]) -> None:
    rank, mapping = case

    assert refs_of(ChunkTable.from_refs(mapping, rank)) == mapping


@given(pairs)
def test_overlay_puts_edits_over_the_base(pair: tuple[ChunkTable, ChunkTable]) -> None:
    base, edits = pair

    assert refs_of(overlay(base, edits)) == refs_of(base) | refs_of(edits)


@given(pairs)
def test_several_overlays_add_up(pair: tuple[ChunkTable, ChunkTable]) -> None:
    base, edits = pair

    once = overlay(base, edits)
    again = overlay(overlay(once, base), edits)

    assert refs_of(again) == refs_of(once)


@given(tables(deletions=True), st.data())
def test_concat_joins_what_take_parted(table: ChunkTable, data: st.DataObject) -> None:
    groups = st.lists(st.integers(0, 2), min_size=len(table), max_size=len(table))
    group = np.array(data.draw(groups), np.int64)

    parts = [table.take(group == i) for i in range(3)]

    assert refs_of(concat(parts)) == refs_of(table)


@given(tables(deletions=True), st.data())
def test_take_by_mask_position_and_slice_agree(table: ChunkTable, data: st.DataObject) -> None:
    n = len(table)
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    mask = np.zeros(n, bool)
    mask[start:stop] = True

    expected = dict(list(refs_of(table).items())[start:stop])

    assert refs_of(table.take(slice(start, stop))) == expected
    assert refs_of(table.take(mask)) == expected
    assert refs_of(table.take(np.arange(start, stop))) == expected


@given(pairs)
def test_find_and_find_many_agree_with_the_mapping(pair: tuple[ChunkTable, ChunkTable]) -> None:
    table, other = pair
    rows = {index: row for row, index in enumerate(refs_of(table))}
    wanted = [*refs_of(other), *rows]
    index = np.array(wanted, np.uint32).reshape(len(wanted), table.rank)

    assert [table.find(i) for i in wanted] == [rows.get(i, -1) for i in wanted]
    assert table.find_many(index).tolist() == [rows.get(i, -1) for i in wanted]


@given(tables(deletions=True))
def test_pickling_keeps_every_row(table: ChunkTable) -> None:
    copy = pickle.loads(pickle.dumps(table))

    assert refs_of(copy) == refs_of(table)
    assert copy.index.shape == table.index.shape
    assert copy.byte_offset.dtype == copy.length.dtype == np.uint64


@given(tables(deletions=True), st.data())
def test_pickling_a_part_keeps_its_rows(table: ChunkTable, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(table)))
    part = table.take(slice(start, None))

    assert refs_of(pickle.loads(pickle.dumps(part))) == refs_of(part)


@given(tables(deletions=True))
def test_without_deletions_drops_deletions_only(table: ChunkTable) -> None:
    kept = {index: ref for index, ref in refs_of(table).items() if ref is not None}

    assert refs_of(table.without_deletions()) == kept


@given(st.integers(1, 3).flatmap(lambda rank: tables(rank=rank)), st.data())
def test_within_keeps_what_lies_in_the_grid(table: ChunkTable, data: st.DataObject) -> None:
    limit = st.one_of(st.integers(0, 4), st.integers(0, 2**32))
    grid = data.draw(st.tuples(*[limit] * table.rank))

    expected = {
        index: ref
        for index, ref in refs_of(table).items()
        if all(i < count for i, count in zip(index, grid, strict=True))
    }

    assert refs_of(table.within(grid)) == expected


_coordinates = st.one_of(st.integers(0, 2), st.integers(0, 2**32 - 1))


@given(
    st.integers(1, 4).flatmap(lambda rank: st.lists(st.tuples(*[_coordinates] * rank), min_size=1))
)
def test_order_is_that_of_tuples(rows: list[tuple[int, ...]]) -> None:
    index = np.array(rows, np.uint32)

    order = lexicographic_order(index)

    assert (index if order is None else index[order]).tolist() == sorted(map(list, rows))
    assert is_strictly_ascending(index) is (rows == sorted(set(rows)))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_the_last_of_several_rows_with_one_index_stays(indexes: list[int]) -> None:
    n = len(indexes)
    rows = ChunkTable(
        index=np.array(indexes, np.uint32)[:, None],
        kind=np.ones(n, np.uint8),
        byte_offset=np.arange(n, dtype=np.uint64),
        length=np.ones(n, np.uint64),
        chunk_id=np.zeros((n, 12), np.uint8),
    )
    order = lexicographic_order(rows.index)

    kept = drop_duplicates(rows if order is None else rows.take(order))

    last = {index: offset for offset, index in enumerate(indexes)}
    assert dict(zip(kept.index[:, 0].tolist(), kept.byte_offset.tolist(), strict=True)) == last
