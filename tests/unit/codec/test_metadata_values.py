import tracemalloc

import msgpack
import pytest

from icestream.codec.flexbuffers import FlexType
from icestream.codec.metadata_values import decode_value, encode_value
from icestream.errors import ErrorKind, FormatError, InvalidInputError

JSON_VALUE: dict[str, object] = {
    "text": "é",
    "none": None,
    "flags": [True, False],
    "numbers": [0, -1, 2**63, 1.5, 0.1],
    "nested": {"empty": [], "also": {}},
}


@pytest.mark.parametrize("spec", [1, 2])
def test_a_json_value_comes_back(spec):
    assert decode_value(encode_value(JSON_VALUE, spec), spec, name="m") == JSON_VALUE


def test_spec_1_is_message_pack():
    assert encode_value({"is_root": True}, 1) == b"\x81\xa7is_root\xc3"


def test_spec_2_is_a_flexbuffer():
    assert encode_value(None, 2) == b"\x00\x00\x01"


@pytest.mark.parametrize("spec", [1, 2])
def test_tuples_become_lists(spec):
    assert decode_value(encode_value((1, ("x",)), spec), spec, name="m") == [1, ["x"]]


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, float("nan")]}, r"metadata value.a\[1\]: nan is not a JSON number"),
        ({"a": 2**64}, "value.a: 18446744073709551616 does not fit"),
        ({"a": b"x"}, "value.a: bytes has no JSON form"),
        ({1: 2}, "key 1 is not a text"),
        ("\ud800", "not valid Unicode"),
        ({"a": {1, 2}}, "value.a: set has no JSON form"),
    ],
)
def test_what_json_lacks_is_refused_by_its_place(spec, value, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        encode_value(value, spec)

    assert caught.value.kind is ErrorKind.BAD_METADATA


@pytest.mark.parametrize("spec", [1, 2])
def test_endless_nesting_is_refused(spec):
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(InvalidInputError, match="nests deeper"):
        encode_value(endless, spec)


@pytest.mark.parametrize(
    ("data", "spec", "reason"),
    [
        (b"", 1, "no valid MessagePack"),
        (b"\x81\xa1a", 1, "incomplete"),
        (b"\xc1", 1, "no valid MessagePack"),
        (b"\x01\x02", 1, "extra data"),
        (b"\x81\x01\x02", 1, "not allowed for map key"),
        (b"\xc4\x01x", 1, "a bytes is not a JSON value"),
        (msgpack.packb(msgpack.Timestamp(0)), 1, "is not a JSON value"),
        (b"\xa1\xff", 1, "no valid MessagePack"),
        (b"\x91" * 100_000, 1, "no valid MessagePack"),
        (b"\x91" * 200 + b"\x01", 1, "nest deeper"),
        (b"\x01raw\x03" + bytes([FlexType.BLOB << 2, 1]), 2, "a bytes is not a JSON value"),
        (b"\x00", 2, "too few"),
    ],
)
def test_wrong_bytes_are_refused_by_name_and_reason(data, spec, reason):
    with pytest.raises(FormatError, match=f"(?i){reason}") as caught:
        decode_value(data, spec, name="snapshot X: metadata 'a'")

    assert caught.value.kind is ErrorKind.DESERIALIZATION
    assert str(caught.value).startswith("snapshot X: metadata 'a': ")


def test_array_headers_that_promise_much_allocate_little():
    data = b"\xdd\x00\x01\x00\x00" * 20_000

    tracemalloc.start()
    with pytest.raises(FormatError):
        decode_value(data, 1, name="m")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 20 * len(data)


def test_numbers_that_json_lacks_are_read_as_null():
    assert decode_value(msgpack.packb([float("inf"), 1.5]), 1, name="m") == [None, 1.5]


def test_reads_from_a_view():
    assert decode_value(memoryview(encode_value([1], 2)), 2, name="m") == [1]
