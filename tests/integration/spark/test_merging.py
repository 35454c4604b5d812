"""Merge strategies on Spark, with the cases that every engine must pass."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from icestream.errors import InvalidInputError
from icestream.ledger.blocks import sources
from icestream.ledger.data.system_columns import SystemColumns
from icestream.spark.merging import latest_state, merge

CASES = json.loads((Path(__file__).parents[2] / "vectors/odf/merge_strategies.json").read_text())
TYPES = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "list<string>": pa.list_(pa.string()),
}
FIELDS = {"primaryKey": "primary_key", "compareColumns": "compare_columns"}
BY_CITY = sources.MergeStrategySnapshot(primary_key=("city",))


def _strategy(document: dict[str, Any]) -> sources.MergeStrategy:
    arguments = {FIELDS[key]: tuple(value) for key, value in document.items() if key != "kind"}
    strategy: sources.MergeStrategy = getattr(sources, f"MergeStrategy{document['kind']}")(
        **arguments
    )
    return strategy


def _table(rows: dict[str, Any], types: dict[str, str]) -> pa.Table:
    texts = {"timestamp": pa.string()}
    columns = {}
    for number, name in enumerate(rows["columns"]):
        kind = types[name]
        values = pa.array([row[number] for row in rows["rows"]], texts.get(kind, TYPES[kind]))
        columns[name] = values.cast(TYPES[kind])
    return pa.table(columns)


def _records(merged: DataFrame) -> pa.Table:
    return merged.toArrow().sort_by("offset")


@pytest.mark.parametrize(
    "case", [case for case in CASES["cases"] if "output" in case], ids=lambda case: case["name"]
)
def test_new_rows_become_the_records_of_the_case(spark: SparkSession, case: dict[str, Any]) -> None:
    previous = spark.createDataFrame(_table(case["previous"], case["types"]))
    new = spark.createDataFrame(_table(case["input"], case["types"]))

    merged = _records(merge(new, previous, _strategy(case["strategy"]), first_offset=100))

    expected = _table(case["output"], case["types"])
    assert merged.drop_columns("offset").to_pylist() == expected.to_pylist()
    assert merged.column_names == ["offset", *expected.column_names]
    assert merged["offset"].to_pylist() == list(range(100, 100 + len(expected)))


@pytest.mark.parametrize(
    "case", [case for case in CASES["cases"] if "error" in case], ids=lambda case: case["name"]
)
def test_bad_input_is_refused_with_what_is_bad(spark: SparkSession, case: dict[str, Any]) -> None:
    previous = spark.createDataFrame(_table(case["previous"], case["types"]))
    new = spark.createDataFrame(_table(case["input"], case["types"]))

    with pytest.raises(InvalidInputError) as error:
        merge(new, previous, _strategy(case["strategy"]))

    assert [text for text in case["error"]["mentions"] if text not in str(error.value)] == []


def test_the_first_rows_need_no_records(spark: SparkSession) -> None:
    new = spark.createDataFrame(pa.table({"city": ["kyiv", "austin"]}))

    merged = _records(merge(new, None, BY_CITY))

    assert merged.to_pylist() == [
        {"offset": 0, "op": 0, "event_time": None, "city": "austin"},
        {"offset": 1, "op": 0, "event_time": None, "city": "kyiv"},
    ]


def test_a_column_says_in_which_order_rows_arrived(spark: SparkSession) -> None:
    table = pa.table({"line": range(100), "city": ["kyiv"] * 100, "size": range(100)})
    shuffled = spark.createDataFrame(table).repartition(7, "size")
    upsert = sources.MergeStrategyUpsertStream(primary_key=("city",))

    appended = _records(merge(shuffled, None, sources.MergeStrategyAppend(), arrival="line"))
    last = _records(merge(shuffled, None, upsert, arrival="line"))

    assert appended["size"].to_pylist() == list(range(100))
    assert appended.column_names == ["offset", "op", "event_time", "city", "size"]
    assert last["size"].to_pylist() == [99]


def test_system_columns_have_the_names_of_the_dataset(spark: SparkSession) -> None:
    columns = SystemColumns(offset="o f", op="o.p", event_time="`when`")
    old = spark.createDataFrame(
        pa.table(
            {"o f": [0], "o.p": pa.array([0], pa.int32()), "`when`": [1], "a.b": [5], "v": [1]}
        )
    )
    new = spark.createDataFrame(pa.table({"a.b": [5], "v": [2]}))
    strategy = sources.MergeStrategySnapshot(primary_key=("a.b",))

    merged = merge(new, old, strategy, columns=columns, first_offset=1).toArrow().to_pylist()

    assert merged == [
        {"o f": 1, "o.p": 2, "`when`": 1, "a.b": 5, "v": 1},
        {"o f": 2, "o.p": 3, "`when`": None, "a.b": 5, "v": 2},
    ]


def test_reserved_columns_are_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match="system columns offset, op"):
        merge(spark.sql("SELECT 1 AS offset, 2 AS op"), None, sources.MergeStrategyAppend())


def test_the_state_is_the_last_record_of_each_key_that_is_not_retracted(
    spark: SparkSession,
) -> None:
    records = spark.sql(
        "SELECT * FROM VALUES (0, 0, 'a', 1), (1, 0, 'b', 1), (2, 2, 'a', 1), (3, 3, 'a', 2), "
        "(4, 1, 'b', 1), (5, 0, 'c', 1) AS t(offset, op, key, value)"
    )

    state = latest_state(records, ["key"]).orderBy("key").collect()

    assert [tuple(row) for row in state] == [(3, 3, "a", 2), (5, 0, "c", 1)]
