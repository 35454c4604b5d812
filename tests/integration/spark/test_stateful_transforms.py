"""Queries that remember: windows, deduplication and joins, continued from checkpoints."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.transforms import (
    TIME,
    added,
    derive,
    last_event,
    minute,
    readings,
    rows_of,
    set_transform,
)

from icestream.errors import FormatError, IntegrityError, InvalidInputError, SessionStateError
from icestream.ledger import Dataset, UpToDate, Workspace
from icestream.ledger.chain.layout import checkpoint_key
from icestream.spark.transforms.checkpoints import has_state, read_facts
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.replaying import replay
from icestream.spark.transforms.transactions import load_state, transform

HOURLY = """
select window.start as event_time, sensor, count(*) as n, sum(value) as total
from readings group by window(event_time, '1 hour'), sensor
"""


@pytest.fixture
def source(workspace: Workspace) -> Dataset:
    return workspace.create("readings")


def run(
    engine: SqlEngine, derived: Dataset, source: Dataset, *batches: Sequence[float]
) -> list[int]:
    """Add batches and transform after each; return how many records each gave."""
    counts = []
    for minutes in batches:
        source.add_data(readings(minutes))
        counts.append(added(transform(derived, [source], engine)).record_count)
    return counts


def test_a_tumbling_window_comes_out_when_the_watermark_has_passed_it(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "hourly", set_transform(HOURLY))

    counts = run(engine, derived, source, [0, 10], [20, 59], [60], [61], [130, 125])

    assert counts == [0, 0, 1, 0, 1]
    assert rows_of(derived, "event_time", "sensor", "n", "total") == [
        (minute(0), "a", 4, 89),
        (minute(60), "a", 2, 121),
    ]
    assert derived.watermark == source.watermark
    assert has_state(load_state(derived.storage, derived.state.checkpoint))
    assert derived.verify(inputs=[source]).is_valid


def test_the_watermark_of_the_input_closes_windows_and_no_event_time_does(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    early, late = minute(30), minute(60)

    source.add_data(readings([0, 200]), watermark=early)
    held = added(transform(derived, [source], engine)).record_count
    source.add_data(readings([31]), watermark=early)
    still = added(transform(derived, [source], engine)).record_count
    source.add_data(None, watermark=late)
    closed = added(transform(derived, [source], engine))
    event = last_event(derived)

    assert (held, still, closed.record_count) == (0, 0, 1)
    assert event.query_inputs[0].new_offset is None
    assert event.query_inputs[0].new_block_hash == source.head
    assert rows_of(derived, "event_time", "n") == [(minute(0), 2)]


def test_conditions_of_a_query_do_not_hold_its_watermark_up(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    chosen = HOURLY.replace("from readings", "from readings where sensor = 'a' and value < 50")
    derived = derive(workspace, "hourly", set_transform(chosen))

    assert run(engine, derived, source, [0, 10, 55], [70]) == [0, 1]
    assert rows_of(derived, "n") == [(2,)]


def test_records_behind_the_watermark_are_left_out_and_counted(
    engine: SqlEngine, workspace: Workspace, source: Dataset, *, caplog: pytest.LogCaptureFixture
) -> None:
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    run(engine, derived, source, [0, 70])

    with caplog.at_level(logging.WARNING):
        assert run(engine, derived, source, [5, 140]) == [1]

    assert "1 rows came after the watermark" in caplog.text
    assert rows_of(derived, "event_time", "n") == [(minute(0), 1), (minute(60), 1)]


def test_a_query_does_not_declare_watermarks_of_its_own(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    patient = HOURLY.replace(
        "from readings", "from readings watermark event_time delay of interval 30 minutes"
    )
    derived = derive(workspace, "hourly", set_transform(patient))
    source.add_data(readings([0]))

    with pytest.raises(InvalidInputError, match="leave the WATERMARK clause out"):
        transform(derived, [source], engine)


def test_sliding_and_session_windows(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    sliding = derive(
        workspace,
        "sliding",
        set_transform(
            "select window.end as event_time, count(*) as n from readings"
            " group by window(event_time, '60 minutes', '30 minutes')"
        ),
    )
    sessions = derive(
        workspace,
        "sessions",
        set_transform(
            "select session_window.start as event_time, sensor, count(*) as n from readings"
            " group by session_window(event_time, '10 minutes'), sensor"
        ),
    )

    for minutes in ([0, 5], [12, 40], [45, 100]):
        source.add_data(readings(minutes))
        transform(sliding, [source], engine)
        transform(sessions, [source], engine)

    assert rows_of(sliding, "event_time", "n") == [
        (minute(30), 3),
        (minute(60), 5),
        (minute(90), 2),
    ]
    assert rows_of(sessions, "event_time", "n") == [(minute(0), 3), (minute(40), 2)]


def test_what_came_before_is_not_let_through_again(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    deduplicated = derive(
        workspace,
        "once",
        set_transform(
            ("unique", "deduplicate readings by sensor, `value`"),
            "select event_time, sensor, value from unique",
        ),
    )
    distinct = derive(
        workspace, "distinct", set_transform("select distinct event_time, sensor from readings")
    )
    watermark = minute(0)

    for minutes in ([1, 2, 2], [2, 3], [1, 4]):
        source.add_data(readings(minutes), watermark=watermark)
        transform(deduplicated, [source], engine)
        transform(distinct, [source], engine)
    source.add_data(None, watermark=minute(50))
    transform(distinct, [source], engine)

    assert [value for (value,) in rows_of(deduplicated, "value")] == [1, 2, 3, 4]
    assert [time for (time,) in rows_of(distinct, "event_time")] == [
        minute(number) for number in (1, 2, 3, 4)
    ]


def test_repetitions_with_the_time_of_their_original_are_dropped_however_records_are_cut(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    query = set_transform(
        ("unique", "deduplicate readings by event_time, sensor"),
        "select event_time, sensor, value from unique",
    )
    often = derive(workspace, "often", query)
    run(engine, often, source, [1, 2, 2], [3, 2], [5, 4, 4])
    once = derive(workspace, "once", query)

    transform(once, [source], engine)

    assert [value for (value,) in rows_of(often, "value")] == [1, 2, 3, 4, 5]
    assert rows_of(once, "event_time", "value") == rows_of(often, "event_time", "value")


def test_keys_without_a_time_are_forgotten_between_transactions_and_the_same_in_a_replay(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    query = set_transform(
        ("unique", "deduplicate readings by sensor"),
        "select event_time, sensor, value from unique",
    )
    often = derive(workspace, "often", query)
    run(engine, often, source, [1, 2], [3], [4, 5])
    once = derive(workspace, "once", query)

    transform(once, [source], engine)

    assert [value for (value,) in rows_of(often, "value")] == [1, 3, 4]
    assert [value for (value,) in rows_of(once, "value")] == [1]
    for derived in (often, once):
        assert replay(derived, [source], engine).problems == ()


def test_streams_are_joined_across_transactions(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    alarms = workspace.create("alarms")
    query = """
    select a.event_time, r.value, a.text
    from alarms a {kind} join readings r on a.sensor = r.sensor
    and r.event_time between a.event_time - interval 5 minutes and a.event_time
    """
    inputs = [("readings", "readings"), ("alarms", "alarms")]
    inner = derive(workspace, "inner", set_transform(query.format(kind="inner"), inputs=inputs))
    outer = derive(workspace, "outer", set_transform(query.format(kind="left"), inputs=inputs))

    def both() -> None:
        for derived in (inner, outer):
            transform(derived, [source, alarms], engine)

    def alarm(number: float, text: str) -> pa.Table:
        times = pa.array([minute(number)], TIME)
        return pa.table({"event_time": times, "sensor": ["a"], "text": [text]})

    source.add_data(readings([1, 8]), watermark=minute(0))
    both()
    alarms.add_data(alarm(10, "late"), watermark=minute(0))
    both()
    alarms.add_data(alarm(30, "alone"))
    source.add_data(readings([9]))
    both()
    source.add_data(readings([100]))
    alarms.add_data(alarm(120, "after"))
    both()

    assert rows_of(inner, "value", "text") == [(8, "late"), (9, "late")]
    assert rows_of(outer, "value", "text") == [(8, "late"), (9, "late"), (None, "alone")]


def test_the_state_is_restored_from_the_last_block_alone(
    spark: SparkSession, engine: SqlEngine, workspace: Workspace, *, source: Dataset, tmp_path: Path
) -> None:
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    run(engine, derived, source, [0, 10], [20])
    elsewhere = tmp_path / "another machine"
    elsewhere.mkdir()
    source.add_data(readings([61]))

    reopened = Dataset.open(derived.storage)
    transform(reopened, [source], SqlEngine(spark, state_folder=elsewhere))

    assert rows_of(derived, "n", "total") == [(3, 30)]
    assert not list(elsewhere.iterdir())
    facts = read_facts(load_state(reopened.storage, reopened.state.checkpoint) or b"")
    assert (facts.engine, facts.version) == ("spark", spark.version)


def test_how_records_are_cut_into_transactions_makes_no_difference(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    often = derive(workspace, "often", set_transform(HOURLY))
    run(engine, often, source, [0, 10, 20], [50, 61], [62, 125], [126])
    once = derive(workspace, "once", set_transform(HOURLY))

    transform(once, [source], engine)

    columns = ("event_time", "sensor", "n", "total")
    assert rows_of(once, *columns) == rows_of(often, *columns)


def test_other_queries_do_not_take_over_the_state(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    run(engine, derived, source, [0, 10])
    head = derived.append(
        set_transform(
            HOURLY.replace("1 hour", "2 hours"), inputs=[(str(source.dataset_id), "readings")]
        )
    )
    source.add_data(readings([20]))

    with pytest.raises(SessionStateError, match="keep-metadata-only"):
        transform(derived, [source], engine)

    assert Dataset.open(derived.storage).head == head
    derived.keep_metadata_only()
    source.add_data(readings([125]))
    assert added(transform(derived, [source], engine)).record_count == 1


def test_damaged_checkpoints_are_told(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    run(engine, derived, source, [0, 10])
    checkpoint = derived.state.checkpoint
    assert checkpoint is not None
    derived.storage.put(checkpoint_key(checkpoint), b"something else")
    source.add_data(readings([20]))

    with pytest.raises(IntegrityError, match="hash-matches-name"):
        transform(derived, [source], engine)
    with pytest.raises(FormatError, match="start over"):
        read_facts(b"something else")


def test_event_times_before_1970_are_refused_where_spark_would_drop_them(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    old = readings([0]).set_column(
        0, "event_time", pa.array([datetime(1961, 4, 12, tzinfo=UTC)], TIME)
    )
    source.add_data(old)

    with pytest.raises(InvalidInputError, match="before 1970"):
        transform(derived, [source], engine)


def test_nothing_new_means_no_run(engine: SqlEngine, workspace: Workspace, source: Dataset) -> None:
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    run(engine, derived, source, [0])

    assert isinstance(transform(derived, [source], engine), UpToDate)
