import pyarrow as pa
import pytest

from icestream.model.distinct_texts import are_surely_distinct, distinct, text_numbers

LONG = [f"s3://bucket/folder/of/objects/{number:06d}" for number in range(100)]


def column(*chunks: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(chunk, pa.large_string()) for chunk in chunks])


@pytest.mark.parametrize(
    "texts",
    [column(LONG), column(LONG[:3], [], LONG[3:]), column(LONG).chunk(0), column(LONG).slice(7, 9)],
    ids=["one chunk", "chunks", "array", "slice"],
)
def test_texts_that_differ_at_their_ends_are_surely_distinct(texts: pa.Array) -> None:
    assert are_surely_distinct(texts)
    assert distinct(texts) is texts


@pytest.mark.parametrize(
    "texts",
    [column([*LONG, LONG[0]]), column(LONG, LONG[50:51]), column(["a", "b", "a"])],
    ids=["in a chunk", "in two chunks", "short"],
)
def test_equal_texts_are_given_once(texts: pa.ChunkedArray) -> None:
    assert not are_surely_distinct(texts)
    assert distinct(texts).to_pylist() == list(dict.fromkeys(texts.to_pylist()))


def test_texts_of_different_lengths_with_the_same_ends_are_told_apart_or_looked_at() -> None:
    end = "/the/same/end/of/all/these/texts"
    texts = column([f"s3://{'x' * length}{end}" for length in range(20)])
    assert are_surely_distinct(texts)
    assert distinct(column(["s3://a" + end, "s3://b" + end])).to_pylist() == [
        "s3://a" + end,
        "s3://b" + end,
    ]


@pytest.mark.parametrize("texts", [[], ["a"], ["", ""]])
def test_few_texts_are_no_special_case(texts: list[str]) -> None:
    assert distinct(column(texts)).to_pylist() == list(dict.fromkeys(texts))


def test_texts_are_numbered_by_first_appearance() -> None:
    numbers, texts = text_numbers(pa.array(["b", "a", "b"], pa.large_string()))
    assert (numbers.tolist(), texts.to_pylist()) == ([0, 1, 0], ["b", "a"])
