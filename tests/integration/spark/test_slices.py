"""Slices written and read by executors, beside those that PyArrow writes."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from benchmarks import spark_operations
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody writes it

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.events import DataSlice, OffsetInterval
from icestream.ledger.blocks.sources import MergeStrategySnapshot
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.arrow_schemas import from_arrow_schema
from icestream.ledger.data.merging.strategies import merged
from icestream.ledger.data.slices import encode_slice, read_slice
from icestream.ledger.data.system_columns import SystemColumns, with_system_columns
from icestream.spark.arrow_types import spark_schema
from icestream.spark.merging import merge
from icestream.spark.slices import read_slices, schema_of_records, write_slice
from icestream.storage import Storage, local_filesystem_storage

NOW = Timestamp.from_datetime(datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=UTC))
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
COLUMNS = SystemColumns()

DATA = pa.table(
    {
        "op": pa.array([0, 2, 3], pa.int32()),
        "event_time": pa.array([NOON, None, NOON], pa.timestamp("ms", "UTC")),
        "city": ["kyiv", None, "Zürich"],
        "flag": [True, None, False],
        "tiny": pa.array([1, None, -3], pa.int8()),
        "count": pa.array([1, 2, None], pa.int64()),
        "share": pa.array([0.5, None, float("nan")]),
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(10, 2)),
        "day": pa.array([date(2024, 1, 1), None, date(1969, 12, 31)]),
        "seen": pa.array([NOON, None, NOON], pa.timestamp("ms", "UTC")),
        "blob": pa.array([b"\x00\xff", None, b""]),
        "tags": pa.array([["a", None], None, []], pa.list_(pa.field("item", pa.string()))),
        "place": pa.array([{"x": 1, "y": "a"}, {"x": 2, "y": None}, {"x": 3, "y": ""}]),
        "a.b `c`": pa.array([1, 2, 3], pa.int32()),
    }
)
UNSIGNED = pa.table(
    {
        "op": pa.array([0, 0], pa.int32()),
        "event_time": pa.array([NOON, NOON], pa.timestamp("ms", "UTC")),
        "u8": pa.array([255, None], pa.uint8()),
        "u16": pa.array([65535, None], pa.uint16()),
        "u32": pa.array([2**32 - 1, None], pa.uint32()),
        "u64": pa.array([2**64 - 1, None], pa.uint64()),
        "f16": pa.array([1.5, None], pa.float16()),
        "key": pa.array([b"abcd", None], pa.binary(4)),
    }
)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return local_filesystem_storage(str(tmp_path / "dataset"))


def _complete(table: pa.Table, first_offset: int = 0) -> pa.Table:
    return with_system_columns(table, COLUMNS, first_offset=first_offset, system_time=NOW)


def _stored(storage: Storage, table: pa.Table, first_offset: int = 0) -> DataSlice:
    encoded = encode_slice(_complete(table, first_offset))
    storage.put(f"data/{encoded.object_name}", encoded.data)
    return encoded.facts


def _schema(table: pa.Table) -> DataSchema:
    return from_arrow_schema(_complete(table).schema)


def _numbered(spark: SparkSession, table: pa.Table, partitions: int = 3) -> DataFrame:
    """Return rows with offsets, in partitions and an order that say nothing."""
    offsets = pa.array(range(len(table)), pa.int64())
    rows = spark.createDataFrame(table.add_column(0, "offset", offsets))
    return rows.orderBy(F.desc("offset")).repartition(partitions)


@pytest.mark.parametrize("table", [DATA, UNSIGNED], ids=["all types", "types that Spark has not"])
def test_what_arrow_wrote_is_read_and_written_again_with_the_same_logical_hash(
    spark: SparkSession, storage: Storage, table: pa.Table
) -> None:
    facts = _stored(storage, table)
    records = read_slices(spark, storage, [facts], _schema(table))

    again = write_slice(records.drop("system_time"), storage, _schema(table), system_time=NOW)

    assert again is not None
    assert again.facts.logical_hash == facts.logical_hash
    assert again.facts.offset_interval == facts.offset_interval
    data = storage.get(f"data/{again.facts.physical_hash}")
    read_again = read_slice(data, again.facts, schema=_schema(table))
    assert read_again.schema == _complete(table).schema


def test_rows_of_spark_become_the_slice_that_arrow_writes(
    spark: SparkSession, storage: Storage
) -> None:
    expected = encode_slice(_complete(DATA)).facts

    written = write_slice(_numbered(spark, DATA), storage, _schema(DATA), system_time=NOW)

    assert written is not None
    assert written.facts.logical_hash == expected.logical_hash
    assert written.facts.offset_interval == OffsetInterval(start=0, end=2)
    assert written.last_event_time == Timestamp.from_datetime(NOON)


def test_a_merge_on_spark_and_one_on_arrow_make_the_same_slice(
    spark: SparkSession, storage: Storage
) -> None:
    by_number = MergeStrategySnapshot(primary_key=("number",))
    old = pa.table({"number": range(200), "value": [n % 7 for n in range(200)]})
    new = pa.table({"number": range(100, 300), "value": [n % 11 for n in range(100, 300)]})
    first = _complete(merged(by_number, old))
    expected = encode_slice(_complete(merged(by_number, new, first), len(first))).facts
    schema = from_arrow_schema(first.schema)

    start = merge(spark.createDataFrame(old), None, by_number)
    one = write_slice(start, storage, schema, system_time=NOW)
    assert one is not None
    known = read_slices(spark, storage, [one.facts], schema)
    more = merge(
        spark.createDataFrame(new).repartition(5), known, by_number, first_offset=len(first)
    )
    two = write_slice(more, storage, schema, system_time=NOW)

    assert two is not None
    assert one.facts.logical_hash == encode_slice(first).facts.logical_hash
    assert two.facts.logical_hash == expected.logical_hash
    assert two.facts.offset_interval == expected.offset_interval


def test_null_event_times_are_filled(spark: SparkSession, storage: Storage) -> None:
    rows = _numbered(spark, DATA)

    written = write_slice(rows, storage, _schema(DATA), system_time=NOW, event_time=NOW)

    assert written is not None
    table = read_slice(storage.get(f"data/{written.facts.physical_hash}"), written.facts)
    assert table["event_time"].to_pylist() == [NOON, NOW.truncated_ms().to_datetime(), NOON]


def test_no_records_are_no_slice(spark: SparkSession, storage: Storage) -> None:
    rows = _numbered(spark, DATA).limit(0)

    assert write_slice(rows, storage, _schema(DATA), system_time=NOW) is None
    assert list(storage.list()) == []


def test_offsets_with_a_gap_are_refused(spark: SparkSession, storage: Storage) -> None:
    rows = _numbered(spark, DATA).where("offset != 1")

    with pytest.raises(InvalidInputError, match="without gaps from 0 on"):
        write_slice(rows, storage, _schema(DATA), system_time=NOW)


def test_records_that_do_not_follow_the_schema_are_refused(
    spark: SparkSession, storage: Storage
) -> None:
    rows = _numbered(spark, DATA).withColumn("count", F.col("count").cast("string"))

    with pytest.raises(InvalidInputError, match="'count' has type"):
        write_slice(rows, storage, _schema(DATA), system_time=NOW)


def test_records_without_offsets_are_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match="need the columns offset, op"):
        schema_of_records(spark.range(3))


def test_the_schema_of_first_records_is_that_of_their_slice(spark: SparkSession) -> None:
    assert schema_of_records(_numbered(spark, DATA)) == _schema(DATA)


def test_many_slices_are_read_as_one_table(spark: SparkSession, storage: Storage) -> None:
    slices = [_stored(storage, DATA, 3 * number) for number in range(20)]

    records = read_slices(spark, storage, slices, _schema(DATA))

    table = records.toArrow().sort_by("offset")
    assert table["offset"].to_pylist() == list(range(60))
    assert table["city"].to_pylist() == DATA["city"].to_pylist() * 20
    assert records.rdd.getNumPartitions() > 1


def test_only_selected_columns_are_read(spark: SparkSession, storage: Storage) -> None:
    facts = _stored(storage, DATA)

    records = read_slices(spark, storage, [facts], _schema(DATA), select=["a.b `c`", "offset"])

    assert records.columns == ["a.b `c`", "offset"]
    assert sorted(tuple(row) for row in records.collect()) == [(1, 0), (2, 1), (3, 2)]
    with pytest.raises(InvalidInputError, match="no column town"):
        read_slices(spark, storage, [facts], _schema(DATA), select=["town"])


def test_columns_that_came_later_are_null(spark: SparkSession, storage: Storage) -> None:
    earlier = _stored(storage, DATA.drop_columns(["city"]))

    records = read_slices(spark, storage, [earlier], _schema(DATA))

    assert [row.city for row in records.collect()] == [None] * 3


def test_no_slices_are_an_empty_table(spark: SparkSession, storage: Storage) -> None:
    records = read_slices(spark, storage, [], _schema(DATA))

    assert records.count() == 0
    assert records.columns == _complete(DATA).column_names


def test_a_missing_slice_is_named(spark: SparkSession, storage: Storage) -> None:
    facts = _stored(storage, DATA)
    storage.delete_many([f"data/{facts.physical_hash}"])

    with pytest.raises(Exception, match=str(facts.physical_hash)):
        read_slices(spark, storage, [facts], _schema(DATA)).count()


def test_a_type_that_spark_has_not_is_named() -> None:
    with pytest.raises(InvalidInputError, match=r"'wide'.*38 digits"):
        spark_schema(pa.schema({"wide": pa.decimal256(50, 0)}))


def test_both_sides_of_the_benchmark_make_the_same_slice(
    spark: SparkSession, tmp_path: Path
) -> None:
    example = spark_operations.build_example(1000, tmp_path)

    on_spark = spark_operations.merge_on_spark(example, spark)

    assert on_spark.logical_hash == spark_operations.merge_on_arrow(example).logical_hash
    assert on_spark.offset_interval.count == 50 + 50 + 2 * 95
