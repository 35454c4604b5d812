"""Merge strategies against cases that every engine must agree with."""

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from icestream.errors import InvalidInputError
from icestream.ledger.blocks import sources
from icestream.ledger.data.merging.differences import distinct_rows
from icestream.ledger.data.merging.strategies import merged, takes_operations
from icestream.ledger.data.system_columns import SystemColumns

_CASES = json.loads((Path(__file__).parents[4] / "vectors/odf/merge_strategies.json").read_text())[
    "cases"
]
_TYPES = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "list<string>": pa.list_(pa.string()),
}


def _strategy(document: dict[str, Any]) -> sources.MergeStrategy:
    values = {
        re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name): tuple(value)
        for name, value in document.items()
        if name != "kind"
    }
    kind = getattr(sources, f"MergeStrategy{document['kind']}")
    strategy: sources.MergeStrategy = kind(**values)
    return strategy


def _table(document: dict[str, Any], types: dict[str, str]) -> pa.Table:
    columns = {
        name: pa.array(
            [_value(row[index], types[name]) for row in document["rows"]], _TYPES[types[name]]
        )
        for index, name in enumerate(document["columns"])
    }
    return pa.table(columns)


def _value(value: Any, kind: str) -> Any:
    is_time = kind == "timestamp" and value is not None
    return dt.datetime.fromisoformat(value) if is_time else value


@pytest.mark.parametrize("case", _CASES, ids=[case["name"] for case in _CASES])
def test_case(case):
    strategy = _strategy(case["strategy"])
    table, previous = (_table(case[name], case["types"]) for name in ("input", "previous"))

    if "error" in case:
        with pytest.raises(InvalidInputError) as error:
            merged(strategy, table, previous)
        assert all(word in str(error.value) for word in case["error"]["mentions"])
    else:
        found = merged(strategy, table, previous)
        assert found.column_names == case["output"]["columns"]
        assert found.to_pylist() == _table(case["output"], case["types"]).to_pylist()


_SNAPSHOT = sources.MergeStrategySnapshot(primary_key=("city",))
_SEEN = pa.table(
    {
        "offset": [1, 0],
        "op": [3, 0],
        "event_time": pa.array([0, 0], _TYPES["timestamp"]),
        "city": ["kyiv", "kyiv"],
        "population": [2, 1],
    }
)


def test_records_may_come_in_any_order_of_their_offsets():
    assert len(merged(_SNAPSHOT, pa.table({"city": ["kyiv"], "population": [2]}), _SEEN)) == 0


def test_records_may_be_a_dataset():
    found = merged(_SNAPSHOT, pa.table({"city": ["kyiv"], "population": [5]}), ds.dataset(_SEEN))

    assert found.column("population").to_pylist() == [2, 5]


def test_system_columns_may_have_other_names():
    columns = SystemColumns(offset="n", op="what", event_time="at")
    seen = _SEEN.rename_columns(["n", "what", "at", "city", "population"])

    found = merged(
        _SNAPSHOT, pa.table({"city": ["kyiv"], "population": [5]}), seen, columns=columns
    )

    assert found.column_names == ["what", "at", "city", "population"]
    assert found.column("what").to_pylist() == [2, 3]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            pa.table({"city": ["kyiv"], "population": ["5"]}),
            "'population' has type string in the input, and int64 in the dataset",
        ),
        (pa.table({"city": ["kyiv"], "mayor": ["x"]}), "the dataset has no column 'mayor'"),
        (pa.table({"city": [["kyiv"]]}), "'city' has type list"),
    ],
)
def test_columns_that_do_not_fit_the_dataset_are_refused(table, problem):
    with pytest.raises(InvalidInputError, match=problem):
        merged(_SNAPSHOT, table, _SEEN)


def test_a_list_is_no_key():
    with pytest.raises(InvalidInputError, match=r"'city' of type list.* cannot be part of a"):
        merged(_SNAPSHOT, pa.table({"city": [["kyiv"]]}))


def test_only_the_first_of_many_doubled_keys_are_named():
    table = pa.table({"city": [f"city {number // 2}" for number in range(20)]})

    with pytest.raises(InvalidInputError, match="city='city 4' and 5 more"):
        merged(_SNAPSHOT, table)


def test_two_strategies_take_operations():
    assert takes_operations(sources.MergeStrategyUpsertStream(primary_key=("a",)))
    assert takes_operations(sources.MergeStrategyChangelogStream(primary_key=("a",)))
    assert not takes_operations(_SNAPSHOT)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ([0, None, 1], [None, None, 1], pa.int8()),
        ([0.5, float("nan"), 1.0], [0.25, float("nan"), 1.0], pa.float64()),
        ([True, None, False], [None, None, False], pa.bool_()),
        ([{"x": 1}, None, {"x": None}], [{"x": 2}, None, {"x": None}], None),
        ([{"x": None}, None, {"x": 1}], [None, None, {"x": 1}], None),
        ([["a"], None, []], [["a", None], None, []], None),
    ],
)
def test_rows_differ_where_sql_says_that_they_are_distinct(old, new, kind):
    columns = (pa.chunked_array([pa.array(values, kind)]) for values in (old, new))

    assert distinct_rows(*columns).tolist() == [True, False, False]
