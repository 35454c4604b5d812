import struct
import tracemalloc

import pytest
from flatbuffers import flexbuffers as google

from icestream.codec.flexbuffers import MAX_DEPTH, FlexType, decode_flex, encode_flex
from icestream.errors import ErrorKind, FormatError, InvalidInputError

# written by icechunk 2.3.0 as values of repository metadata
WRITTEN_BY_ICECHUNK = [
    ([1, 2, 3], "010203035001"),
    ([1, 2], "0102024401"),
    ([1, 2, 3, 4, 5], "050102030405053001"),
    ([True, False], "020100029001"),
    (1.5, "0000c03f0e04"),
    (0.1, "9a9999999999b93f0f08"),
    ([-1, 2], "02ff020408042801"),
    (["x", "y"], "0178000179000206041414042801"),
    (-300, "d4fe0502"),
    (None, "000001"),
    ([None, None], "0200000000042801"),
    ("", "0000011401"),
    ([[], {}], "00000001000205022824042801"),
    (2**64 - 1, "ffffffffffffffff0b08"),
    ([], "00002801"),
    ({}, "00000100002401"),
    ({"is_root": True}, "69735f726f6f74000109010101016802" + "2401"),
]


@pytest.mark.parametrize(("value", "stored"), WRITTEN_BY_ICECHUNK)
def test_reads_what_icechunk_writes(value, stored):
    assert decode_flex(bytes.fromhex(stored), name="value") == value


@pytest.mark.parametrize(("value", "stored"), WRITTEN_BY_ICECHUNK)
def test_writes_the_bytes_that_icechunk_writes(value, stored):
    assert encode_flex(value).hex() == stored


def test_reads_keys_that_are_not_ascii():
    # {"é": [1.5, 2.5, 3.5]} by icechunk 2.3.0; the Python library of Google cannot read it
    stored = "c3a900000000c03f000020400000604001110101011156022401"

    assert decode_flex(bytes.fromhex(stored), name="value") == {"é": [1.5, 2.5, 3.5]}


@pytest.mark.parametrize(
    "value",
    [
        {"b": 1, "a": {"nested": [1, "two", None, 3.5, True]}},
        {"wide": "x" * 300, "wider": "y" * 70_000, "list": list(range(300))},
        [[1, 2, 3], [1.5, 2.5], [-1, -2], [-(2**40), -1]],
        [{"k": i, "text": "same"} for i in range(50)],
    ],
)
def test_agrees_with_the_library_of_google_both_ways(value):
    assert google.Loads(encode_flex(value)) == value
    assert decode_flex(google.Dumps(value), name="value") == value


def test_reads_every_kind_of_vector_and_indirect_number():
    builder = google.Builder()
    with builder.Vector():
        builder.IndirectInt(-5)
        builder.IndirectUInt(2**40)
        builder.IndirectFloat(0.1)
        builder.Blob(b"raw")
        builder.TypedVectorFromElements([1, 2, 3, 4, 5])
        builder.TypedVectorFromElements([0.5, 1.5, 2.5, 3.5, 4.5])
        builder.TypedVectorFromElements([True, False])
        builder.FixedTypedVectorFromElements([-1, -2])
        builder.FixedTypedVectorFromElements([1, 2, 3], element_type=google.Type.UINT)
        builder.FixedTypedVectorFromElements([0.5, 1.5, 2.5, 0.1])
        builder.TypedVectorFromElements(["k1", "k2"], element_type=google.Type.KEY)
        builder.Key("key")

    value = decode_flex(bytes(builder.Finish()), name="value")

    assert value == [
        -5,
        2**40,
        0.1,
        b"raw",
        [1, 2, 3, 4, 5],
        [0.5, 1.5, 2.5, 3.5, 4.5],
        [True, False],
        [-1, -2],
        [1, 2, 3],
        [0.5, 1.5, 2.5, 0.1],
        ["k1", "k2"],
        "key",
    ]


def test_reads_the_deprecated_vector_of_strings():
    # two strings with one-byte lengths, then the vector of offsets to them
    data = b"\x01a\x00\x01b\x00" + b"\x02\x06\x04" + bytes([2, FlexType.VECTOR_STRING << 2, 1])

    assert decode_flex(data, name="value") == ["a", "b"]


def test_maps_are_sorted_by_the_bytes_of_their_keys():
    stored = encode_flex({"é": 1, "z": 2, "a": 3})

    assert stored.index(b"a\0") < stored.index(b"z\0") < stored.index("é".encode() + b"\0")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too few"),
        (b"\x00\x00\x03", "3 bytes wide"),
        (b"\x09\x14\x01", "before the buffer"),
        (b"\xff\x00\x14\x02", "before the buffer"),
        (b"\x06a\x00\x02\x14\x01", "do not fit"),
        (b"\x01\xff\x00\x02\x14\x01", "not UTF-8"),
        (b"\x00\x00\x6c\x01", "type 27 is unknown"),
        (b"\x01\x0c\x01", "width of 1 bytes"),
        (b"ab\x02\x10\x01", "does not end"),
        (b"\x01\x00\x24\x01", "no room"),
    ],
)
def test_wrong_bytes_are_refused_by_name_and_reason(data, reason):
    with pytest.raises(FormatError, match=reason) as caught:
        decode_flex(data, name="repo: metadata 'a'")

    assert caught.value.kind is ErrorKind.DESERIALIZATION
    assert str(caught.value).startswith("repo: metadata 'a': ")


def test_a_map_with_a_key_twice_is_refused():
    keys = b"a\0" + b"\x02\x03\x04"
    values = bytes([2, 1, 2, 1, 2, FlexType.UINT << 2, FlexType.UINT << 2])
    data = keys + values + bytes([4, FlexType.MAP << 2, 1])

    with pytest.raises(FormatError, match="key twice"):
        decode_flex(data, name="value")


def test_a_vector_that_contains_itself_ends_with_an_error():
    data = bytes([1, 0, FlexType.VECTOR << 2, 2, FlexType.VECTOR << 2, 1])

    with pytest.raises(FormatError, match=r"no end|deeper"):
        decode_flex(data, name="value")


def test_vectors_that_unfold_exponentially_cost_no_more_than_their_size():
    data = _vectors_of_vectors(levels=8, references=200)

    tracemalloc.start()
    with pytest.raises(FormatError, match="no end"):
        decode_flex(data, name="value")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 1000 * len(data)


def test_many_keys_in_one_long_text_cost_no_more_than_its_size():
    count, text = 20_000, b"x" * 100_000 + b"\0\0\0\0"
    data = bytearray(text + struct.pack("<I", count))
    start = len(data)
    for i in range(count):
        data += struct.pack("<I", len(data) - i)
    data += struct.pack("<I", len(data) - start) + bytes([FlexType.VECTOR_KEY << 2 | 2, 4])

    with pytest.raises(FormatError, match="no end"):
        decode_flex(bytes(data), name="value")


def test_nesting_is_limited_both_ways():
    deep: list[object] = []
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]

    assert decode_flex(encode_flex(deep), name="value") == deep
    with pytest.raises(InvalidInputError, match="nests deeper"):
        encode_flex([[deep]])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (2**64, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (b"raw", "bytes cannot be stored"),
        ({1: 2}, "keys are texts"),
        ({"a\0b": 2}, "keys are texts"),
        (["\ud800"], "not valid Unicode"),
        (object(), "object cannot be stored"),
    ],
)
def test_what_has_no_flexbuffer_is_refused(value, reason):
    with pytest.raises(InvalidInputError, match=reason):
        encode_flex(value)


@pytest.mark.parametrize("number", [0, 255, 256, 2**32, -1, -128, -129, -(2**31) - 1, -(2**63)])
def test_numbers_keep_their_value_at_the_borders_of_widths(number):
    assert decode_flex(encode_flex([number, "x"]), name="value") == [number, "x"]


def _vectors_of_vectors(levels: int, references: int) -> bytes:
    data = bytearray(4)
    previous, width_bits = 4, 2
    for _ in range(levels):
        data += struct.pack("<I", references)
        start = len(data)
        for _ in range(references):
            data += struct.pack("<I", len(data) - previous)
        data += bytes([FlexType.VECTOR << 2 | width_bits]) * references
        previous = start
        data += bytes(-len(data) % 4)
    return bytes(
        data + struct.pack("<I", len(data) - previous) + bytes([FlexType.VECTOR << 2 | 2, 4])
    )
