"""Keys as file names, and the merging of ranges."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream.errors import InvalidInputError
from icestream.storage.keys import check_key, decode_key, encode_key, encode_prefix
from icestream.storage.ranges import merged_ranges

SEGMENTS = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1
).filter(lambda segment: segment not in {".", ".."})
KEYS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)


@given(KEYS)
def test_encoding_a_key_can_be_undone(key: str) -> None:
    encoded = encode_key(key)

    assert decode_key(encoded) == key
    assert encoded.isascii()
    assert encoded.count("/") == key.count("/")


@given(KEYS, st.data())
def test_the_beginning_of_a_key_is_the_beginning_of_its_encoding(
    key: str, data: st.DataObject
) -> None:
    slashes = [place + 1 for place, letter in enumerate(key) if letter == "/"]
    prefix = key[: data.draw(st.sampled_from([0, *slashes]))]

    assert encode_key(key).startswith(encode_prefix(prefix))


def test_ids_and_usual_names_are_left_alone() -> None:
    for key in ("repo", "chunks/1CECHNKREP0F1RSTCMT0", "refs/branch.my-main_2/ref.json"):
        assert encode_key(key) == key


def test_encodes_what_icechunk_encodes_on_disk() -> None:
    # observed in a spec version 1 repository of icechunk 2.3.0
    assert encode_key("ma\u00f1ana a b:c.") == "ma%C3%B1ana a b:c."
    assert encode_key('{}[]<>|^`"') == "%7B%7D%5B%5D%3C%3E%7C%5E%60%22"
    assert encode_key("x#1 p%41 q?* til~de b\\s e\tf") == (
        "x%231 p%2541 q%3F%2A til%7Ede b%5Cs e%09f"
    )


@pytest.mark.parametrize("key", ["", "/", "a/", "/a", "a//b", ".", "..", "a/..", "../a", "a\0"])
def test_a_key_that_could_leave_the_root_is_refused(key: str) -> None:
    with pytest.raises(InvalidInputError):
        encode_key(key)
    with pytest.raises(InvalidInputError):
        check_key(key)


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted).map(tuple))


@given(RANGES, st.integers(0, 5))
def test_merged_ranges_cover_all_and_lie_apart(
    byte_ranges: list[tuple[int, int]], max_gap: int
) -> None:
    merged = merged_ranges(byte_ranges, max_gap)

    for start, end in byte_ranges:
        if start < end:
            assert any(first <= start and end <= last for first, last in merged)
    for (_, before), (after, _) in pairwise(merged):
        assert after - before > max_gap
