"""Byte vectors and strings as the flatbuffers of the Icechunk format hold them."""

import struct
from io import BytesIO

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from icestream.codec import column_writing
from icestream.codec.column_writing import FrameWriter, plan_vectors, write_vectors

HEX = [f"{number:032x}" for number in range(7)]

COLUMNS = {
    "equal": HEX,
    "equal, no padding": ["abc", "def", "ghi"],
    "equal, one byte": ["a", "b"],
    "one": ["alone"],
    "empty texts": ["", "", ""],
    "first empty": ["", "ab", "cd"],
    "different": ["a", "bcd", "", "efghijk", "l" * 300],
    "multi-byte, equal bytes": ["äb", "cdé", "\u20ac"],
    "multi-byte, equal characters": ["ä", "b", "\u20ac", "\U0001f600"],
}


def expected(texts: list[str], *, terminated: bool) -> bytes:
    """Return what the format wants, made text by text."""
    parts = []
    for text in texts:
        data = text.encode()
        part = struct.pack("<I", len(data)) + data + b"\0" * terminated
        parts.append(part + bytes(-len(part) % 4))
    return b"".join(parts)


def written(values: pa.ChunkedArray, *, terminated: bool) -> tuple[bytes, list[int]]:
    """Return the bytes that are written for a column, and where each value is said to lie."""
    plan, positions = plan_vectors(values, terminated=terminated)
    writer = FrameWriter(b"", plan.size, level=1)
    write_vectors(writer, plan)
    frame = zstandard.ZstdDecompressor().stream_reader(BytesIO(writer.finish()))
    return frame.read(), positions.tolist()


@pytest.mark.parametrize("terminated", [False, True], ids=["vectors", "strings"])
@pytest.mark.parametrize("kind", [pa.large_string(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("texts", COLUMNS.values(), ids=COLUMNS)
def test_values_are_joined_with_lengths_and_padding(
    texts: list[str], kind: pa.DataType, *, terminated: bool
) -> None:
    column = pa.chunked_array([pa.array(texts, pa.large_string()).cast(kind)])

    content, positions = written(column, terminated=terminated)

    assert content == expected(texts, terminated=terminated)
    for text, position in zip(texts, positions, strict=True):
        (length,) = struct.unpack_from("<I", content, position)
        assert content[position + 4 : position + 4 + length] == text.encode()


@pytest.mark.parametrize("terminated", [False, True], ids=["vectors", "strings"])
@pytest.mark.parametrize("texts", COLUMNS.values(), ids=COLUMNS)
def test_slices_and_chunks_are_joined_like_whole_columns(
    texts: list[str], *, terminated: bool
) -> None:
    long = pa.array(["before", "x", *texts, "behind"], pa.large_string())
    sliced = long.slice(2, len(texts))
    empty = pa.array([], pa.large_string())
    column = pa.chunked_array([empty, sliced.slice(0, 1), empty, sliced.slice(1)])

    content, _ = written(column, terminated=terminated)

    assert content == expected(texts, terminated=terminated)


@pytest.mark.parametrize("chunks", [[], [[]], [[], []]], ids=["no chunk", "empty", "two empty"])
def test_a_column_without_values_takes_no_byte(chunks: list[list[str]]) -> None:
    arrays = [pa.array(chunk, pa.large_string()) for chunk in chunks]
    content, positions = written(pa.chunked_array(arrays, pa.large_string()), terminated=True)
    assert (content, positions) == (b"", [])


@given(
    texts=st.lists(st.text("aä\u20ac\0", max_size=9), min_size=1, max_size=20),
    terminated=st.booleans(),
    block=st.sampled_from([1, 40, 2**21]),
)
def test_any_column_is_joined_in_blocks_of_any_size(
    texts: list[str], *, terminated: bool, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_writing, "_BLOCK_BYTES", block)
        column = pa.chunked_array([pa.array(texts, pa.large_string())])
        content, _ = written(column, terminated=terminated)
    assert content == expected(texts, terminated=terminated)


@pytest.mark.parametrize("texts", COLUMNS.values(), ids=COLUMNS)
def test_blocks_are_flat_buffers_of_their_exact_size(texts: list[str]) -> None:
    block = column_writing._join_vectors(pa.array(texts, pa.large_string()), terminated=True)
    assert (block.ndim, block.itemsize, block.contiguous) == (1, 1, True)
    assert block.nbytes == len(expected(texts, terminated=True))
