"""The vectorised logical hash against one that goes value by value."""

import hashlib
import struct
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from icestream.ledger.data.logical_hash import logical_hash

_INTEGER = struct.pack("<HBQ", 1, 1, 32)
_TEXT = struct.pack("<H", 4)
_LIST = struct.pack("<H", 11)

_TYPES: dict[str, tuple[pa.DataType, bytes, st.SearchStrategy[Any]]] = {
    "integer": (pa.int32(), _INTEGER, st.integers(-(2**31), 2**31 - 1)),
    "float": (pa.float64(), struct.pack("<HQ", 2, 64), st.floats(allow_nan=False)),
    "flag": (pa.bool_(), struct.pack("<H", 5), st.booleans()),
    "text": (pa.string(), _TEXT, st.text(max_size=5)),
    "numbers": (
        pa.list_(pa.int32()),
        _LIST + _INTEGER,
        st.lists(st.none() | st.integers(0, 9), max_size=3),
    ),
    "nested": (
        pa.list_(pa.list_(pa.string())),
        _LIST + _LIST + _TEXT,
        st.lists(st.none() | st.lists(st.none() | st.text(max_size=2), max_size=2), max_size=2),
    ),
}


def _bytes_of(value: Any) -> bytes:
    match value:
        case None:
            return b"\x00"
        case bool():
            return b"\x02" if value else b"\x01"
        case int():
            return struct.pack("<i", value)
        case float():
            return struct.pack("<d", value)
        case str():
            return struct.pack("<Q", len(value.encode())) + value.encode()
        case _:
            return struct.pack("<Q", len(value)) + b"".join(map(_bytes_of, value))


def _hash_value_by_value(rows: dict[str, list[Any]]) -> bytes:
    record = hashlib.sha3_256()
    for name in rows:
        record.update(struct.pack("<Q", len(name)) + name.encode() + struct.pack("<Q", 0))
    for name, values in rows.items():
        column = hashlib.sha3_256(_TYPES[name][1])
        for value in values:
            column.update(_bytes_of(value))
        record.update(column.digest())
    return record.digest()


@given(st.data())
def test_agrees_with_a_hash_that_goes_value_by_value(data):
    count = data.draw(st.integers(0, 12))
    cut = data.draw(st.integers(0, count))
    rows = {
        name: data.draw(st.lists(st.none() | values, min_size=count, max_size=count))
        for name, (_, _, values) in _TYPES.items()
    }

    table = pa.table({name: pa.array(rows[name], kind) for name, (kind, _, _) in _TYPES.items()})
    in_two = pa.concat_tables([table.slice(0, cut), table.slice(cut)])

    assert logical_hash(table).digest == _hash_value_by_value(rows)
    assert logical_hash(in_two).digest == _hash_value_by_value(rows)
    tail = {name: values[cut:] for name, values in rows.items()}
    assert logical_hash(table.slice(cut)).digest == _hash_value_by_value(tail)
