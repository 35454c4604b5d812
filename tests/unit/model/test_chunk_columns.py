"""Single columns of chunk tables."""

import numpy as np
import pyarrow as pa

from icestream.model.chunk_columns import (
    concat_columns,
    concat_inline,
    patch_column,
    patch_inline,
    take_inline,
)

ROWS = np.array([1])


def test_a_patched_column_leaves_the_old_one_alone() -> None:
    column = np.array([1, 2, 3], np.uint64)
    patched = patch_column(column, ROWS, np.array([9], np.uint64), 3)
    assert patched.tolist() == [1, 9, 3]
    assert column.tolist() == [1, 2, 3]


def test_one_value_for_all_rows_stays_one_value_when_the_patch_has_it_too() -> None:
    column = np.broadcast_to(np.uint8(2), 5)
    assert patch_column(column, ROWS, np.array([2], np.uint8), 5) is column
    assert patch_column(column, ROWS, np.array([3], np.uint8), 5).tolist() == [2, 3, 2, 2, 2]


def test_a_column_that_one_side_lacks_is_zero_there() -> None:
    ids = np.full((1, 12), 7, np.uint8)
    assert patch_column(None, ROWS, ids, 3).sum(axis=1).tolist() == [0, 84, 0]
    assert patch_column(np.array([5, 6, 7]), ROWS, None, 3).tolist() == [5, 0, 7]
    assert patch_column(None, ROWS, None, 3) is None
    assert concat_columns([None, np.array([4])], [2, 1]).tolist() == [0, 0, 4]
    assert concat_columns([None, None], [2, 1]) is None


def test_inline_bytes_are_patched_taken_and_joined_with_their_nulls() -> None:
    inline = pa.array([b"a", b"b", None], pa.large_binary())
    new = pa.array([b"new"], pa.large_binary())
    assert patch_inline(inline, ROWS, new, 3).to_pylist() == [b"a", b"new", None]
    assert patch_inline(inline, ROWS, None, 3).to_pylist() == [b"a", None, None]
    assert patch_inline(None, ROWS, None, 3) is None
    assert take_inline(inline, np.array([False, True, True])).to_pylist() == [b"b", None]
    assert take_inline(None, ROWS) is None
    assert concat_inline([None, new], [1, 1]).to_pylist() == [None, b"new"]
    assert concat_inline([None], [1]) is None
