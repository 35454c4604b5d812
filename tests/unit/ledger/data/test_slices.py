"""Slices: files of records, and what is wrong with others."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icestream.errors import IntegrityError, InvalidInputError
from icestream.ledger.blocks.events import DataSlice, OffsetInterval
from icestream.ledger.blocks.hashes import LOGICAL_CODE, Multihash, sha3_256
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.arrow_schemas import from_arrow_schema
from icestream.ledger.data.logical_hash import logical_hash
from icestream.ledger.data.slices import EncodedSlice, decode_slice, encode_slice, read_slice
from icestream.ledger.data.system_columns import SystemColumns, plain_columns, with_system_columns

_FOREIGN = json.loads((Path(__file__).parents[3] / "vectors/odf/slices.json").read_text())
_TIME = Timestamp.parse("2024-05-06T07:08:09.123456Z")


def _records(data: pa.Table | None = None, first_offset: int = 0) -> pa.Table:
    data = pa.table({"city": ["a", "b", None]}) if data is None else data
    table = data.append_column("op", pa.array([0] * len(data), pa.int32()))
    table = table.append_column("event_time", pa.array([0] * len(data), pa.timestamp("ms", "UTC")))
    return with_system_columns(table, SystemColumns(), first_offset=first_offset, system_time=_TIME)


def _with(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    field = table.schema.field(name).with_nullable(True)
    index = table.schema.get_field_index(name)
    return table.set_column(index, field, pa.array(values, field.type))


def _slice_of(table: pa.Table, start: int, end: int) -> EncodedSlice:
    """Return a slice that no checks were made for."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data = sink.getvalue().to_pybytes()
    facts = DataSlice(
        logical_hash=logical_hash(table),
        physical_hash=sha3_256(data),
        offset_interval=OffsetInterval(start=start, end=end),
        size=len(data),
    )
    return EncodedSlice(data=data, facts=facts)


def test_a_slice_is_read_as_it_was_written():
    records = _records(first_offset=5)

    encoded = encode_slice(records)
    found = read_slice(encoded.data, encoded.facts, schema=from_arrow_schema(records.schema))

    assert found == records
    assert encoded.facts.offset_interval == OffsetInterval(start=5, end=7)
    assert encoded.facts.size == len(encoded.data)
    assert encoded.facts.logical_hash == logical_hash(records)
    assert encoded.object_name == str(sha3_256(encoded.data))


def test_the_file_has_the_form_that_other_writers_have():
    file = pq.ParquetFile(pa.BufferReader(encode_slice(_records()).data))
    columns = {
        column.path_in_schema: column
        for column in (file.metadata.row_group(0).column(index) for index in range(5))
    }

    assert file.metadata.format_version == "1.0"
    assert {column.compression for column in columns.values()} == {"SNAPPY"}
    assert [name for name, column in columns.items() if column.has_dictionary_page] == [
        "op",
        "system_time",
    ]
    assert "required int64 field_id=-1 offset;" in str(file.schema)
    assert "required int32 field_id=-1 op;" in str(file.schema)
    assert "isAdjustedToUTC=true, timeUnit=milliseconds" in str(file.schema)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None], pa.uint8()),
        pa.array([1, None], pa.uint32()),
        pa.array([1, None], pa.float16()),
        pa.array([1, None], pa.time32("s")),
        pa.array([1, None], pa.time64("ns")),
        pa.array([0, 86_400_000], pa.date64()),
        pa.array([1, 2], pa.decimal32(5, 2)),
        pa.array([1, 2], pa.decimal256(50, 2)),
        pa.array([b"ab", None], pa.binary(2)),
        pa.array(["a", None], pa.string_view()),
        pa.array(["a", None]).dictionary_encode(),
        pa.array([[1, 2], None], pa.list_(pa.uint32(), 2)),
        pa.array([[1], [None]], pa.list_(pa.timestamp("ns", "Asia/Tokyo"))),
        pa.array([{"a": 1}, {"a": None}], pa.struct([("a", pa.uint32())])),
    ],
    ids=lambda values: str(values.type),
)
def test_plain_columns_keep_their_hash_through_a_file(values):
    records = _records(plain_columns(pa.table({"a": values})))

    encoded = encode_slice(records)

    assert read_slice(encoded.data, encoded.facts).schema == records.schema


def test_columns_that_a_file_would_change_are_refused():
    table = _records(pa.table({"a": pa.array([1], pa.timestamp("us", "UTC"))}))

    with pytest.raises(InvalidInputError, match="column 'a' has type timestamp"):
        encode_slice(table)


@pytest.mark.parametrize("vector", _FOREIGN)
def test_slices_of_other_writers_are_read(vector):
    data = base64.b64decode(vector["bytes_base64"])
    table = decode_slice(data, name="foreign")
    offsets = table.column("offset").to_pylist()
    facts = DataSlice(
        logical_hash=Multihash.parse(vector["logical_hash"]),
        physical_hash=Multihash.parse(vector["physical_hash"]),
        offset_interval=OffsetInterval(start=offsets[0], end=offsets[-1]),
        size=vector["size"],
    )

    assert read_slice(data, facts) == table


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (_records().drop_columns(["op"]), "must have all system columns: missing op"),
        (_with(_records(), "offset", [0, 1, 3]), "without gaps: 3 comes after 1 in row 2"),
        (_with(_records(), "offset", [0, 1, 1]), "without gaps: 1 comes after 1"),
        (_with(_records(), "offset", [0, None, 2]), "must not be null: 'offset'"),
        (_with(_records(), "offset", [-1, 0, 1]), "must not be negative"),
        (_with(_records(), "op", [0, 4, 0]), "operations must be 0 to 3"),
        (_with(_records(), "system_time", [0, 1, 0]), "must not go down"),
        (_records().slice(0, 0), "must have records"),
        (
            _records().set_column(1, "op", pa.array([0, 0, 0])),
            "must have their types: 'op' is int64, not int32",
        ),
    ],
)
def test_records_that_break_a_rule_are_neither_written_nor_read(broken, rule):
    stored = _slice_of(broken, 0, 2)

    with pytest.raises(InvalidInputError, match=rule):
        encode_slice(broken)
    with pytest.raises(IntegrityError, match=rule) as error:
        read_slice(stored.data, stored.facts)

    assert f"data/{stored.object_name}: " in str(error.value)


def test_types_that_have_no_hash_are_refused():
    with pytest.raises(InvalidInputError, match="column 'a' has type null"):
        encode_slice(_records(pa.table({"a": pa.nulls(1)})))


def test_a_file_with_another_size_or_hash_is_refused():
    encoded = encode_slice(_records())
    changed = encoded.data[:-1] + b"?"

    with pytest.raises(IntegrityError, match=r"data/f1620\w+: a file must have the size"):
        read_slice(encoded.data + b"?", encoded.facts)
    with pytest.raises(IntegrityError, match="a file must have the physical hash"):
        read_slice(changed, encoded.facts)


def test_a_file_that_is_no_parquet_file_is_refused():
    with pytest.raises(IntegrityError, match="data/x is no Parquet file"):
        decode_slice(b"PAR1 but not really", name="data/x")


def test_records_at_other_offsets_than_the_block_tells_are_refused():
    encoded = encode_slice(_records())
    facts = replace(encoded.facts, offset_interval=OffsetInterval(start=0, end=3))

    with pytest.raises(IntegrityError, match="they are 0 to 2, not 0 to 3"):
        read_slice(encoded.data, facts)


def test_records_with_another_logical_hash_are_refused():
    encoded = encode_slice(_records())
    facts = replace(encoded.facts, logical_hash=Multihash(LOGICAL_CODE, bytes(32)))

    with pytest.raises(IntegrityError, match="must have the logical hash"):
        read_slice(encoded.data, facts)


def test_records_of_another_schema_are_refused():
    encoded = encode_slice(_records())
    schema = from_arrow_schema(_records(pa.table({"town": ["a"]})).schema)

    with pytest.raises(IntegrityError, match="missing column 'town'"):
        read_slice(encoded.data, encoded.facts, schema=schema)


def test_a_slice_may_have_records_of_several_transactions():
    records = _with(_records(), "system_time", [0, 0, 1])

    encoded = encode_slice(records)

    assert read_slice(encoded.data, encoded.facts) == records


def test_system_columns_may_have_other_names():
    columns = SystemColumns(offset="n", event_time="date")
    table = pa.table(
        {"op": pa.array([0], pa.int32()), "date": pa.array([1], pa.date32()), "a": [1]}
    )
    records = with_system_columns(table, columns, first_offset=0, system_time=_TIME)

    encoded = encode_slice(records, columns)

    assert read_slice(encoded.data, encoded.facts, columns=columns) == records
