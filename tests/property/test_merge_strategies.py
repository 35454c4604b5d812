"""Merging of columns against a reading of the rules that goes row by row."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from icestream.ledger.blocks.sources import (
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from icestream.ledger.data.merging.strategies import merged

type Row = dict[str, Any]

_TIME = pa.timestamp("ms", "UTC")
_KEY = ("country", "city")
_INPUT = pa.schema(
    {"event_time": _TIME, "country": pa.string(), "city": pa.int8(), "population": pa.float64()}
)
_RECORDS = pa.schema([pa.field("offset", pa.int64()), pa.field("op", pa.int32()), *_INPUT])
_STREAM = pa.schema([pa.field("op", pa.int32()), *_INPUT])

_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.integers(0, 3),
            "event_time": st.none() | st.integers(0, 3),
            "country": st.sampled_from([None, "ca", "us"]),
            "city": st.sampled_from([None, 1, 2]),
            "population": st.sampled_from([None, 0.0, 1.5]),
        }
    ),
    max_size=8,
)


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)


def _state(records: list[Row]) -> dict[tuple[Any, ...], Row]:
    last = {_key(row): row for row in records}
    return {key: row for key, row in last.items() if row["op"] != 1}


def _differs(old: Row, new: Row) -> bool:
    is_later = new["event_time"] is not None and new["event_time"] != old["event_time"]
    return bool(is_later or new["population"] != old["population"])


def _nulls_first(*values: Any) -> list[Any]:
    return [(value is not None, 0 if value is None else value) for value in values]


def _by_key(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: _nulls_first(*_key(row), row["op"]))


def _by_time(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: _nulls_first(row["event_time"]))


def _append(rows: list[Row], _: list[Row]) -> list[Row]:
    return _by_time([row | {"op": 0} for row in rows])


def _ledger(rows: list[Row], records: list[Row]) -> list[Row]:
    seen = {_key(row) for row in records if None not in _key(row)}
    return _by_time([row | {"op": 0} for row in rows if _key(row) not in seen])


def _change(old: Row | None, new: Row | None) -> list[Row]:
    if old is None:
        return [] if new is None else [new | {"op": 0}]
    if new is None:
        return [old | {"op": 1}]
    return [old | {"op": 2}, new | {"op": 3}] if _differs(old, new) else []


def _snapshot(rows: list[Row], records: list[Row]) -> list[Row]:
    old, new = _state(records), {_key(row): row for row in rows}
    keys = [*old, *(key for key in new if key not in old)]
    return _by_key([row for key in keys for row in _change(old.get(key), new.get(key))])


def _upsert(rows: list[Row], records: list[Row]) -> list[Row]:
    old, last = _state(records), {_key(row): row for row in rows}
    changes = [_change(old.get(key), None if row["op"] == 1 else row) for key, row in last.items()]
    return _by_key([row for change in changes for row in change])


def _check(
    strategy: Any, rows: list[Row], records: list[Row], oracle: Callable[..., list[Row]]
) -> None:
    numbered = [row | {"offset": offset} for offset, row in enumerate(records)]
    previous = pa.Table.from_pylist(numbered, _RECORDS)
    takes_op = isinstance(strategy, MergeStrategyUpsertStream)
    table = pa.Table.from_pylist(rows, _STREAM if takes_op else _INPUT)

    found = merged(strategy, table, previous)

    assert found == pa.Table.from_pylist(oracle(rows, records), found.schema)


@given(_ROWS, _ROWS)
def test_append_agrees_with_the_row_by_row_reading(rows, records):
    _check(MergeStrategyAppend(), rows, records, _append)


@given(_ROWS, _ROWS)
def test_ledger_agrees_with_the_row_by_row_reading(rows, records):
    _check(MergeStrategyLedger(primary_key=_KEY), rows, records, _ledger)


@given(_ROWS, _ROWS)
def test_snapshot_agrees_with_the_row_by_row_reading(rows, records):
    unique = list({_key(row): row for row in rows}.values())

    _check(MergeStrategySnapshot(primary_key=_KEY), unique, records, _snapshot)


@given(_ROWS, _ROWS)
def test_upsert_agrees_with_the_row_by_row_reading(rows, records):
    _check(MergeStrategyUpsertStream(primary_key=_KEY), rows, records, _upsert)


@given(_ROWS)
def test_a_snapshot_merged_twice_changes_nothing_the_second_time(rows):
    strategy = MergeStrategySnapshot(primary_key=_KEY)
    unique = list({_key(row): row for row in rows}.values())
    table = pa.Table.from_pylist(unique, _INPUT)
    first = merged(strategy, table, pa.Table.from_pylist([], _RECORDS))
    written = [row | {"offset": offset} for offset, row in enumerate(first.to_pylist())]

    again = merged(strategy, table, pa.Table.from_pylist(written, _RECORDS))

    assert len(again) == 0
