"""Who reads in order, and what comes next."""

import numpy as np
from tests.unit.virtual.places import table_of

from icestream.model.chunk_tables import ChunkTable, replace_columns
from icestream.virtual.sequences import RowHint, SequenceDetector, sound_rows


def in_order(detector: SequenceDetector, table: ChunkTable, *rows: int) -> list[list[int]]:
    """Return the positions of the requests of each reader who goes in order."""
    hints = [RowHint(table, row) for row in rows]
    return [positions for _, positions in detector.observe(hints)]


def test_what_follows_is_in_the_same_object() -> None:
    table = table_of(30, 10, locations=("s3://bucket/a", "s3://bucket/b", "s3://bucket/c"))

    assert RowHint(table, 4).following(5).tolist() == [7, 10, 13, 16, 19]
    assert RowHint(table, 25).following(5).tolist() == [28]
    assert RowHint(table, 29).following(5).tolist() == []


def test_what_follows_has_the_same_checksum() -> None:
    etags = np.array([0, 0, 1, 0], np.int32)
    table = replace_columns(table_of(4, 10), etag_code=etags)

    assert RowHint(table, 0).following(5).tolist() == [1, 3]


def test_nothing_follows_where_no_reference_is_virtual() -> None:
    table = replace_columns(table_of(4, 10), location_code=None)

    assert RowHint(table, 0).following(5).tolist() == []


def test_a_single_request_is_no_order_and_the_next_one_is() -> None:
    detector, table = SequenceDetector(), table_of(100, 10)

    assert in_order(detector, table, 5) == []
    assert in_order(detector, table, 6) == [[0]]


def test_neighbours_asked_for_at_once_are_in_order_whatever_their_order() -> None:
    assert in_order(SequenceDetector(), table_of(100, 10), 8, 6, 7) == [[1, 2, 0]]


def test_two_readers_at_once_are_told_apart() -> None:
    found = in_order(SequenceDetector(), table_of(1000, 10), 5, 500, 6, 501)

    assert found == [[0, 2], [1, 3]]


def test_every_second_chunk_is_still_in_order_and_every_tenth_is_not() -> None:
    table = table_of(1000, 10)

    assert in_order(SequenceDetector(), table, *range(0, 20, 2))
    assert not in_order(SequenceDetector(), table, *range(0, 100, 10))


def test_requests_without_hint_are_passed_over() -> None:
    assert SequenceDetector().observe([None, None]) == []


def test_windows_grow_while_reading_goes_on() -> None:
    detector, table = SequenceDetector(), table_of(1000, 10)

    [(cursor, _)] = detector.observe([RowHint(table, 0), RowHint(table, 1)])

    assert [cursor.widen(100) for _ in range(5)] == [16, 32, 64, 100, 100]


def test_readers_beyond_a_limit_are_forgotten() -> None:
    detector = SequenceDetector()
    tables = [table_of(10, 10) for _ in range(100)]

    for table in tables:
        in_order(detector, table, 3)

    assert in_order(detector, tables[-1], 4)
    assert not in_order(detector, tables[0], 4)


def test_a_window_ends_before_too_many_bytes_and_before_what_cannot_be() -> None:
    table = table_of(10, 10)
    rows = np.arange(2, 9)
    offsets = table.byte_offset.copy()
    offsets[6] = 2**63
    broken = replace_columns(table, byte_offset=offsets)

    assert sound_rows(table, rows, 35).tolist() == [2, 3, 4]
    assert sound_rows(broken, rows, 1000).tolist() == [2, 3, 4, 5]
    assert sound_rows(table, rows, 1000).tolist() == rows.tolist()
