"""Columns of text as codes into a pool."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from icestream.errors import InvalidInputError
from icestream.model.text_pools import (
    NO_POOL,
    concat_texts,
    decode_texts,
    encode_texts,
    pack_pool,
    patch_texts,
    text_at,
    unpack_pool,
)

MANY = 100_000
FORMS: dict[str, Callable[[Sequence[str | None]], Any]] = {
    "list": list,
    "arrow": pa.array,
    "chunks": lambda texts: pa.chunked_array([pa.array(texts[:70_000]), pa.array(texts[70_000:])]),
    "dictionary": lambda texts: pa.array(texts).dictionary_encode(),
}
COLUMNS: dict[str, Sequence[str | None]] = {
    "all different": [f"s3://bucket/{n}" for n in range(MANY)],
    "few, in runs": [f"s3://bucket/{n // 10_000}" for n in range(MANY)],
    "few, in turns": [f"s3://bucket/{n % 20_000}" for n in range(MANY)],
    "one missing": [None if n == 90_000 else f"s3://bucket/{n}" for n in range(MANY)],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column", COLUMNS)
def test_texts_come_back_as_they_were(form: str, column: str) -> None:
    texts = COLUMNS[column]
    code, pool = encode_texts(FORMS[form](texts))
    assert decode_texts(code, pool, MANY).to_pylist() == texts


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("column", "distinct"), [("few, in runs", 10), ("few, in turns", 20_000)])
def test_texts_that_repeat_are_kept_once(form: str, column: str, distinct: int) -> None:
    _, pool = encode_texts(FORMS[form](COLUMNS[column]))
    assert len(pool) == distinct


def test_a_column_of_nulls_needs_no_pool() -> None:
    assert encode_texts([None, None]) == (None, NO_POOL)
    assert encode_texts([]) == (None, NO_POOL)


@pytest.mark.parametrize("wrong", [[1, 2], [{}, {}], [b"\xff"]])
def test_what_is_not_text_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="must be texts"):
        encode_texts(wrong)


def test_a_patch_changes_the_rows_it_names_and_no_others() -> None:
    column = encode_texts(["a", None, "c"])
    patched = patch_texts(column, np.array([0, 1]), encode_texts([None, "new"]), 3)
    assert decode_texts(*patched, 3).to_pylist() == [None, "new", "c"]
    assert decode_texts(*column, 3).to_pylist() == ["a", None, "c"]


@pytest.mark.parametrize(
    ("before", "edit", "after"),
    [
        ([None, None], ["x"], [None, "x"]),
        (["a", "b"], [None], ["a", None]),
        ([None, None], [None], [None, None]),
    ],
)
def test_a_patch_may_bring_the_first_text_or_take_the_last(
    before: list[str | None], edit: list[str | None], after: list[str | None]
) -> None:
    patched = patch_texts(encode_texts(before), np.array([1]), encode_texts(edit), 2)
    assert decode_texts(*patched, 2).to_pylist() == after


def test_columns_with_one_pool_keep_it_when_joined() -> None:
    code, pool = encode_texts(["a", "b", "a"])
    assert code is not None
    joined, shared = concat_texts([(code[:2], pool), (None, NO_POOL), (code[2:], pool)], [2, 1, 1])
    assert shared is pool
    assert [text_at(joined, shared, row) for row in range(4)] == ["a", "b", None, "a"]


def test_a_packed_pool_is_small_and_comes_back_whole() -> None:
    _, pool = encode_texts(COLUMNS["all different"])
    packed = pack_pool(pool)
    assert len(packed) < pool.nbytes / 5
    assert unpack_pool(packed).to_pylist() == pool.to_pylist()


def test_a_part_of_a_pool_packs_without_the_rest() -> None:
    _, pool = encode_texts(COLUMNS["all different"])
    assert len(pack_pool(pool.slice(50_000, 10))) < 2_000
    assert unpack_pool(pack_pool(NO_POOL)).to_pylist() == []


def test_pools_that_columns_share_are_linked_once() -> None:
    first_code, first = encode_texts(["a", "b", None])
    second_code, second = encode_texts(["c", "a"])

    code, pool = concat_texts(
        [(first_code, first), (second_code, second), (None, NO_POOL), (first_code, first)],
        [3, 2, 1, 3],
    )

    assert len(pool) == len(first) + len(second)
    texts = decode_texts(code, pool, 9).to_pylist()
    assert texts == ["a", "b", None, "c", "a", None, "a", "b", None]
