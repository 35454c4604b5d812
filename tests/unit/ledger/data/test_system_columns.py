"""The columns that writers add to data."""

import datetime as dt

import pyarrow as pa
import pytest

from icestream.errors import InvalidInputError, SourceError
from icestream.ledger.blocks.events import SetVocab
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.system_columns import (
    SystemColumns,
    fitted,
    last_event_time,
    plain_columns,
    require_no_reserved_columns,
    with_event_time,
    with_filled_event_time,
    with_system_columns,
)

_COLUMNS = SystemColumns()
_TIME = Timestamp.parse("2024-05-06T07:08:09.123456Z")
_MILLIS = dt.datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=dt.UTC)


def test_a_vocabulary_renames_what_it_names():
    columns = SystemColumns.of(SetVocab(event_time_column="date", offset_column="n"))

    assert columns.names == ("n", "op", "system_time", "date")
    assert SystemColumns.of(None) == SystemColumns()


def test_two_system_columns_of_one_name_are_refused():
    with pytest.raises(InvalidInputError, match="two system columns have one name"):
        SystemColumns(offset="op")


@pytest.mark.parametrize("name", ["offset", "system_time", "op"])
def test_reserved_columns_are_refused_by_name(name):
    with pytest.raises(InvalidInputError, match=f"system columns {name}"):
        require_no_reserved_columns(pa.table({name: [1]}), _COLUMNS, allows_op=False)


def test_operations_are_allowed_where_the_strategy_takes_them():
    require_no_reserved_columns(pa.table({"op": [1]}), _COLUMNS, allows_op=True)


def test_two_columns_of_one_name_are_refused():
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])

    with pytest.raises(InvalidInputError, match="two columns have one name: a"):
        require_no_reserved_columns(table, _COLUMNS, allows_op=False)


def test_timestamps_become_milliseconds_of_utc_at_every_depth():
    table = pa.table(
        {
            "naive": pa.array([1_500], pa.timestamp("us")),
            "zoned": pa.array([1], pa.timestamp("s", "Europe/Berlin")),
            "nested": pa.array(
                [{"at": [1_999_999]}], pa.struct([("at", pa.list_(pa.timestamp("ns")))])
            ),
            "text": pa.array(["a"]).dictionary_encode(),
        }
    )

    plain = plain_columns(table)

    assert plain.column("naive").cast(pa.int64()).to_pylist() == [1]
    assert plain.column("zoned").cast(pa.int64()).to_pylist() == [1_000]
    assert plain.schema.field("nested").type.field("at").type.value_type == pa.timestamp(
        "ms", "UTC"
    )
    assert plain.schema.field("text").type == pa.string()


def test_an_event_time_is_added_as_nulls():
    table = with_event_time(pa.table({"a": [1, 2]}), _COLUMNS)

    assert table.column("event_time").to_pylist() == [None, None]
    assert table.schema.field("event_time").type == pa.timestamp("ms", "UTC")


def test_an_event_time_that_is_no_time_is_refused():
    with pytest.raises(InvalidInputError, match="'event_time' has type int64"):
        with_event_time(pa.table({"event_time": [2020]}), _COLUMNS)


def test_null_event_times_are_filled():
    table = pa.table({"event_time": pa.array([None, 5], pa.timestamp("ms", "UTC"))})

    filled = with_filled_event_time(table, _COLUMNS, _TIME)

    assert filled.column("event_time").cast(pa.int64()).to_pylist() == [_TIME.epoch_ms, 5]
    assert not filled.schema.field("event_time").nullable


def test_null_event_dates_are_filled_with_the_day():
    table = pa.table({"event_time": pa.array([None], pa.date32())})

    filled = with_filled_event_time(table, _COLUMNS, _TIME)

    assert filled.column("event_time").to_pylist() == [dt.date(2024, 5, 6)]


def test_records_have_the_types_and_order_that_writers_agree_on():
    table = pa.table(
        {
            "city": ["a", "b"],
            "op": pa.array([0, 3], pa.uint8()),
            "event_time": pa.array([1, 2], pa.timestamp("ms", "UTC")),
        }
    )

    records = with_system_columns(table, _COLUMNS, first_offset=7, system_time=_TIME)

    assert [str(field) for field in records.schema][:3] == [
        "pyarrow.Field<offset: int64 not null>",
        "pyarrow.Field<op: int32 not null>",
        "pyarrow.Field<system_time: timestamp[ms, tz=UTC] not null>",
    ]
    assert records.column_names == ["offset", "op", "system_time", "event_time", "city"]
    assert records.column("offset").to_pylist() == [7, 8]
    assert records.column("op").to_pylist() == [0, 3]
    assert records.column("system_time").to_pylist() == [_MILLIS, _MILLIS]


def test_data_of_authors_who_did_not_know_are_made_to_fit():
    table = pa.table({"offset": [1], "event_time": [1_700_000_000], "city": ["a"]})

    made = fitted(table, _COLUMNS)

    assert made.column_names == ["_offset", "event_time", "city"]
    assert made.column("event_time").cast(pa.int64()).to_pylist() == [1_700_000_000_000]


def test_texts_become_event_times():
    made = fitted(pa.table({"event_time": ["2024-05-06T07:08:09.123456Z", None]}), _COLUMNS)

    assert made.column("event_time").to_pylist() == [_MILLIS, None]


def test_texts_that_are_no_times_are_refused():
    with pytest.raises(SourceError, match="'event_time' does not hold times"):
        fitted(pa.table({"event_time": ["yesterday"]}), _COLUMNS)


def test_the_last_event_time_ignores_nulls():
    times = pa.array([3, None, 9, 4], pa.timestamp("ms", "UTC"))

    assert last_event_time(pa.table({"event_time": times}), _COLUMNS) == Timestamp.from_epoch_ms(9)
    assert last_event_time(pa.table({"event_time": times[1:2]}), _COLUMNS) is None
