"""Texts of several columns, each to be written once."""

import numpy as np
import pytest

from icestream.codec.shared_texts import share_texts
from icestream.model.text_pools import encode_texts

TEXTS = [f"s3://bucket/{n}" for n in range(1_000)]


@pytest.mark.parametrize(
    "rows",
    [range(1_000), [0, 1, 2, 998], range(5, 995), range(0, 1_000, 2), [3], [999, 0, 500, 500]],
    ids=["all", "few", "a run", "many gaps", "one", "out of order"],
)
def test_texts_in_use_are_kept_and_found_again(rows: range | list[int]) -> None:
    _, pool = encode_texts(TEXTS)
    code = np.array(rows, np.int32)
    shared = share_texts([(code, pool)])
    places = shared.by_entry(0, np.arange(len(shared.texts)))
    assert set(shared.texts.to_pylist()) == {TEXTS[row] for row in rows}
    assert [shared.texts[int(places[row])].as_py() for row in rows] == [TEXTS[row] for row in rows]
    assert shared.num_rows == len(rows)
    assert shared.row_bytes == sum(len(TEXTS[row]) for row in rows)
