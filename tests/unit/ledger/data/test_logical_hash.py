"""The logical hash: known values, and what it does and does not depend on."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.hashes import LOGICAL_CODE
from icestream.ledger.data.logical_hash import logical_hash, require_hashable

_VECTORS = json.loads((Path(__file__).parents[3] / "vectors/odf/logical_hashes.json").read_text())

_TYPES = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "int8": pa.int8(),
    "uint64": pa.uint64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "date32": pa.date32(),
    "decimal": pa.decimal128(10, 2),
    "list<string>": pa.list_(pa.string()),
}
_PARSERS: dict[str, Any] = {
    "timestamp": dt.datetime.fromisoformat,
    "date32": dt.date.fromisoformat,
    "decimal": Decimal,
}


def _table(columns: list[dict[str, Any]]) -> pa.Table:
    return pa.table({column["name"]: _array(column) for column in columns})


def _array(column: dict[str, Any]) -> pa.Array:
    parse = _PARSERS.get(column["arrow"], lambda value: value)
    values = [None if value is None else parse(value) for value in column["values"]]
    return pa.array(values, _TYPES[column["arrow"]])


def _hash(values: object, kind: pa.DataType | None = None, name: str = "a") -> str:
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, kind)
    return str(logical_hash(pa.table({name: array})))


@pytest.mark.parametrize("name", _VECTORS)
def test_gives_the_known_hashes(name):
    vector = _VECTORS[name]

    assert str(logical_hash(_table(vector["columns"]))) == vector["logical_hash"]


def test_has_the_code_of_arrow0():
    assert logical_hash(pa.table({"a": [1]})).code == LOGICAL_CODE


def test_is_the_same_with_several_threads():
    table = _table(_VECTORS["twelve_types"]["columns"])

    assert logical_hash(table, threads=3) == logical_hash(table)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.string(), pa.large_string()),
        (pa.string(), pa.string_view()),
        (pa.binary(), pa.large_binary()),
        (pa.binary(), pa.binary_view()),
        (pa.binary(), pa.binary(3)),
    ],
)
def test_does_not_depend_on_the_encoding_of_texts(one, other):
    values = [b"foo", None, b"bar"] if pa.types.is_binary(one) else ["foo", None, "bar"]

    assert _hash(values, one) == _hash(values, other)


def test_does_not_depend_on_the_encoding_of_lists():
    values = [[1, None], None, [3, 4]]

    hashes = {
        _hash(values, kind)
        for kind in (pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_(pa.int8(), 2))
    }

    assert len(hashes) == 1


def test_does_not_depend_on_an_all_valid_bitmap():
    bitmap = pa.py_buffer(b"\x07")
    values = pa.py_buffer(np.array([1, 2, 3], np.int32))

    with_bitmap = pa.Array.from_buffers(pa.int32(), 3, [bitmap, values])

    assert _hash(with_bitmap) == _hash([1, 2, 3], pa.int32())


def test_does_not_depend_on_what_lies_under_nulls():
    hidden = pa.array([[1], [2, 3], [4]], mask=np.array([False, True, False]))

    assert _hash(hidden) == _hash([[1], None, [4]])


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_does_not_depend_on_batches(rows):
    table = pa.concat_tables([_table(_VECTORS["twelve_types"]["columns"])] * 9)

    split = pa.Table.from_batches(table.to_batches(max_chunksize=rows))

    assert logical_hash(split) == logical_hash(table)


def test_does_not_depend_on_where_a_slice_was_cut():
    table = pa.concat_tables([_table(_VECTORS["twelve_types"]["columns"])] * 9).combine_chunks()

    cut = table.slice(5, 6)
    copied = pa.Table.from_pylist(cut.to_pylist(), schema=table.schema)

    assert logical_hash(cut) == logical_hash(copied)


def test_does_not_depend_on_nullability():
    required = pa.schema([pa.field("a", pa.int64(), nullable=False)])

    assert logical_hash(pa.table({"a": [1]}, required)) == logical_hash(pa.table({"a": [1]}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, 2], pa.int32()), pa.array([1, 2], pa.uint32())),
        (pa.array([1, 2], pa.int32()), pa.array([1, 2], pa.int64())),
        (pa.array(["foo", "bar"]), pa.array(["foo", "bar", ""])),
        (pa.array(["foo", ""]), pa.array(["foo", None])),
        (pa.array(["ab", "c"]), pa.array(["a", "bc"])),
        (pa.array([False, None]), pa.array([None, False])),
        (pa.array([[0, 1], [2]]), pa.array([[0], [1, 2]])),
        (pa.array([[]], pa.list_(pa.int8())), pa.array([None], pa.list_(pa.int8()))),
        (pa.array([0], pa.timestamp("ms", "UTC")), pa.array([0], pa.timestamp("us", "UTC"))),
        (pa.array([0], pa.timestamp("ms", "UTC")), pa.array([0], pa.timestamp("ms", "+00:00"))),
        (pa.array([0], pa.timestamp("ms", "UTC")), pa.array([0], pa.timestamp("ms"))),
        (pa.array([0], pa.date32()), pa.array([0], pa.date64())),
        (pa.array([0], pa.time32("s")), pa.array([0], pa.time32("ms"))),
        (pa.array([1], pa.decimal128(5, 1)), pa.array([1], pa.decimal128(5, 2))),
        (pa.array([1.0], pa.float32()), pa.array([1.0], pa.float64())),
        (pa.array([1, 2]), pa.array([2, 1])),
    ],
)
def test_depends_on_types_values_and_order(one, other):
    assert _hash(one) != _hash(other)


def test_depends_on_names_and_nesting():
    flat = pa.table({"a": pa.array([1]), "b": pa.array([2])})
    renamed = flat.rename_columns(["a", "bee"])
    nested = pa.table({"a": pa.array([1]), "s": pa.array([{"b": 2}])})

    assert len({logical_hash(flat), logical_hash(renamed), logical_hash(nested)}) == 3


def test_hashes_the_fields_of_structs_without_nulls():
    one = pa.array([{"x": 1, "y": None}, {"x": 2, "y": "b"}])
    other = pa.array([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}])

    assert _hash(one) != _hash(other)
    assert _hash(pa.chunked_array([one[:1], one[1:]])) == _hash(one)


def test_an_empty_table_still_has_a_type():
    kinds = (pa.int64(), pa.string(), pa.list_(pa.string()))

    assert len({_hash([], kind) for kind in kinds}) == 3


@pytest.mark.parametrize(
    "array",
    [
        pa.nulls(2),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([1], pa.duration("ms")),
        pa.array([[{"x": 1}]]),
        pa.array([[1]], pa.list_view(pa.int64())),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.array([None], pa.list_(pa.null())),
    ],
    ids=lambda array: str(array.type),
)
def test_refuses_types_by_name(array):
    with pytest.raises(InvalidInputError, match="column 'a' has type") as error:
        _hash(array)

    assert str(array.type) in str(error.value) or str(array.type.value_type) in str(error.value)


def test_refuses_structs_with_nulls_and_names_the_nested_column():
    array = pa.array([{"inner": {"x": 1}}, {"inner": None}])

    with pytest.raises(InvalidInputError, match=r"column 'a\.inner' is a struct with 1 nulls"):
        _hash(array)


def test_tells_from_the_schema_alone_what_cannot_be_hashed():
    require_hashable(pa.schema({"a": pa.list_(pa.string())}))

    with pytest.raises(InvalidInputError, match="column 'b' has type null"):
        require_hashable(pa.schema({"a": pa.int8(), "b": pa.null()}))
