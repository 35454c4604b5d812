"""Queries without state: new records in, one block out."""

import json

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.transforms import (
    added,
    derive,
    last_event,
    minute,
    readings,
    rows_of,
    set_transform,
)

from icestream.errors import (
    DivergedInputError,
    IntegrityError,
    InvalidInputError,
)
from icestream.ledger import Dataset, SetVocab, UpToDate, Workspace
from icestream.ledger.chain.layout import checkpoint_key, data_key
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.transactions import transform

DOUBLED = "select event_time, sensor, value * 2 as twice from readings where value % 2 = 0"


@pytest.fixture
def source(workspace: Workspace) -> Dataset:
    source = workspace.create("readings")
    source.add_data(readings([0, 1, 2]))
    return source


def test_each_transaction_reads_what_is_new_and_nothing_twice(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "even", set_transform(DOUBLED))

    first = added(transform(derived, [source], engine))
    source.add_data(readings([3]))
    source.add_data(readings([4, 5, 6]))
    second = added(transform(derived, [source], engine))
    (entry,) = last_event(derived).query_inputs

    assert (first.record_count, second.record_count) == (2, 2)
    assert (entry.prev_offset, entry.new_offset) == (2, 6)
    assert rows_of(derived, "offset", "op", "sensor", "twice") == [
        (0, 0, "a", 0),
        (1, 0, "a", 4),
        (2, 0, "a", 8),
        (3, 0, "a", 12),
    ]
    assert derived.watermark == source.watermark
    assert isinstance(transform(derived, [source], engine), UpToDate)
    assert derived.verify(inputs=[source]).is_valid


def test_a_transaction_without_output_is_recorded(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(
        workspace,
        "none",
        set_transform("select * except (offset, system_time, op) from readings where value > 100"),
    )

    done = added(transform(derived, [source], engine))

    event = last_event(derived)
    assert (done.record_count, done.is_up_to_date, event.new_data) == (0, False, None)
    assert event.query_inputs[0].new_offset == 2
    assert derived.schema is not None


def test_steps_are_views_for_the_steps_behind_them(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    other = workspace.create("names")
    other.add_data(pa.table({"event_time": pa.array([minute(9)]), "name": ["north"]}))
    derived = derive(
        workspace,
        "steps",
        set_transform(
            ("large", "select event_time, cast(value as string) as text from readings"),
            ("my names", "select event_time, name as text from `the/names`;"),
            "select * from large union all select * from `my names`",
            inputs=[("readings", "readings"), ("names", "the/names")],
        ),
    )

    transform(derived, [source, other], engine)

    assert [text for (text,) in rows_of(derived, "text")] == ["0", "1", "2", "north"]
    assert [entry.new_offset for entry in last_event(derived).query_inputs] == [2, 0]


def test_an_input_that_did_not_move_keeps_its_place(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    other = workspace.create("names")
    other.add_data(readings([7], "b"))
    query = "select event_time, sensor from readings union all select event_time, sensor from names"
    derived = derive(
        workspace,
        "both",
        set_transform(query, inputs=[("readings", "readings"), ("names", "names")]),
    )
    transform(derived, [source, other], engine)
    source.add_data(readings([8]))

    transform(derived, [source, other], engine)

    moved, still = last_event(derived).query_inputs
    assert (moved.prev_offset, moved.new_offset) == (2, 3)
    assert (still.prev_offset, still.new_offset, still.new_block_hash) == (0, None, None)
    assert derived.last_offset == 4


def test_records_keep_the_order_of_their_input(engine: SqlEngine, workspace: Workspace) -> None:
    source = workspace.create("readings")
    for numbers in ([5, 4], [3, 9], [1], [8, 2]):
        source.add_data(readings(numbers))
    kept = [value for (value,) in rows_of(source, "value")]
    derived = derive(workspace, "kept", set_transform("select event_time, value from readings"))

    transform(derived, [source], engine)

    assert [value for (value,) in rows_of(derived, "value")] == kept


def test_what_was_used_stands_in_the_checkpoint(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "even", set_transform(DOUBLED))

    transform(derived, [source], engine)

    checkpoint = last_event(derived).new_checkpoint
    assert checkpoint is not None
    facts = json.loads(derived.storage.get(checkpoint_key(checkpoint.physical_hash)))
    assert (facts["engine"], facts["version"]) == ("spark", engine.version)
    assert facts["watermarks"] == {str(source.dataset_id): str(source.watermark)}


def test_times_do_not_depend_on_the_zone_of_the_machine(
    spark: SparkSession, workspace: Workspace, source: Dataset
) -> None:
    elsewhere = spark.newSession()
    elsewhere.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    elsewhere.conf.set("spark.sql.ansi.enabled", "false")
    derived = derive(
        workspace,
        "hours",
        set_transform("select event_time, hour(event_time) as hour from readings"),
    )

    transform(derived, [source], SqlEngine(elsewhere))

    assert [hour for (hour,) in rows_of(derived, "hour")] == [0, 0, 0]


def test_system_columns_have_the_names_of_the_dataset(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(
        workspace, "named", set_transform("select event_time as at, value from readings")
    )
    derived.append(SetVocab(event_time_column="at"))

    transform(derived, [source], engine)

    assert rows_of(derived, "at")[0] == (minute(0),)


# -- what is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (
            ["select event_time,\n  nope from readings"],
            r"step 1 \(the output\) fails at line 2, column 3: \[UNRESOLVED_COLUMN.*`nope`",
        ),
        (
            [("a", "select * from readings"), "select event_time fro a b c"],
            r"step 2 \(the output\) fails at line 1, column \d+: \[PARSE_SYNTAX_ERROR\]",
        ),
        (
            [("a", "select * from nowhere"), "select * from a"],
            r"step 1 \('a'\) fails at line 1, column 15: \[TABLE_OR_VIEW_NOT_FOUND\]",
        ),
        (
            [
                ("a", "select event_time,\n  1 / value as part from readings"),
                "select event_time, part from a",
            ],
            r"step 1 \('a'\) fails at line 2, column 3: \[DIVIDE_BY_ZERO\]",
        ),
        (["select event_time, value from readings order by value"], "leave ORDER BY out"),
        (["select sensor, count(*) as n from readings group by sensor"], "group by window"),
        (
            ["select event_time, lag(value) over (order by event_time) as l from readings"],
            "rows of later transactions",
        ),
        (["drop table readings"], r"step 1 \(the output\) is no query.*not DROP"),
        (["set spark.sql.ansi.enabled = false"], r"step 1 \(the output\) is no query"),
        (["select * from json.`/etc/passwd`"], "fails"),
        (["select value from readings"], "no column 'event_time'"),
        (["select * from readings"], "system columns offset, system_time"),
        (["select 'x' as event_time, value from readings"], "event_time"),
    ],
)
def test_queries_that_fail_name_the_place_and_write_nothing(
    engine: SqlEngine,
    workspace: Workspace,
    *,
    source: Dataset,
    queries: list[str | tuple[str, str]],
    message: str,
) -> None:
    derived = derive(workspace, "wrong", set_transform(*queries))
    before = sorted(info.path for info in derived.storage.list())

    with pytest.raises(InvalidInputError, match=f"(?s){message}"):
        transform(derived, [source], engine)

    assert sorted(info.path for info in derived.storage.list()) == before


def test_queries_of_other_engines_and_versions_are_refused(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    flink = derive(workspace, "flink", set_transform(DOUBLED, engine="flink"))
    old = derive(workspace, "old", set_transform(DOUBLED, version="3.5"))
    right = derive(workspace, "right", set_transform(DOUBLED, version="4.3"))

    with pytest.raises(InvalidInputError, match="engine 'flink'"):
        transform(flink, [source], engine)
    with pytest.raises(InvalidInputError, match=r"for spark 3\.5, and this is 4\.3"):
        transform(old, [source], engine)
    assert added(transform(right, [source], engine)).record_count == 2


def test_a_query_that_changes_the_columns_is_told_the_way_out(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "even", set_transform(DOUBLED))
    transform(derived, [source], engine)
    source.add_data(readings([8]))
    reference = [(str(source.dataset_id), "readings")]
    derived.append(set_transform("select event_time, value from readings", inputs=reference))

    with pytest.raises(InvalidInputError, match=r"unknown column 'value'|missing column.*reset"):
        transform(derived, [source], engine)
    as_text = DOUBLED.replace("value * 2", "cast(value * 2 as string)")
    derived.append(set_transform(as_text, inputs=reference))
    with pytest.raises(
        InvalidInputError, match=r"type STRING, not BIGINT.*cast\(\.\.\. as \.\.\.\)"
    ):
        transform(derived, [source], engine)

    derived.append(set_transform(DOUBLED.replace("value % 2 = 0", "true"), inputs=reference))
    assert added(transform(derived, [source], engine)).record_count == 1


def test_an_input_that_diverged_is_told_with_the_way_out(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "even", set_transform(DOUBLED))
    source.add_data(readings([8]))
    transform(derived, [source], engine)
    source.compact()
    source.add_data(readings([10]))

    with pytest.raises(DivergedInputError, match=r"input readings diverged.*keep-metadata-only"):
        transform(derived, [source], engine)

    derived.keep_metadata_only()
    assert added(transform(derived, [source], engine)).record_count == 4


def test_a_damaged_slice_of_an_input_is_told(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "even", set_transform(DOUBLED))
    (data_slice,) = source.current.slices()
    source.storage.put(data_key(data_slice.physical_hash), b"no parquet")

    with pytest.raises(IntegrityError):
        transform(derived, [source], engine)


def test_of_two_who_pull_one_goes_on_behind_the_other(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "even", set_transform(DOUBLED))
    rival = Dataset.open(derived.storage)
    transform(rival, [source], engine)

    outcome = transform(derived, [source], engine)

    assert isinstance(outcome, UpToDate)
    assert derived.head == rival.head
