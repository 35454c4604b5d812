"""Queries whose results would depend on how records are cut, or that do more than read."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from tests.transforms import derive, minute, readings, rows_of, set_transform

from icestream.errors import InvalidInputError
from icestream.ledger import Dataset, Workspace
from icestream.ledger.blocks.transforms import SqlQueryStep
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.failure_logs import told_once
from icestream.spark.transforms.queries import run_steps
from icestream.spark.transforms.transactions import transform

NAMES = "(values ('a', 'north'), ('z', 'south')) names(id, name)"
SELECT = "select {} from {}"


@pytest.fixture
def source(workspace: Workspace) -> Dataset:
    source = workspace.create("readings")
    source.add_data(readings([0, 1]))
    source.add_data(readings([2], "b"))
    return source


# -- joins with what is no input ------------------------------------------------------------------


@pytest.mark.parametrize(
    "join",
    [
        f"{NAMES} left join readings on id = sensor",
        f"readings right join {NAMES} on id = sensor",
        f"readings full join {NAMES} on id = sensor",
        f"{NAMES} left semi join readings on id = sensor",
        f"{NAMES} left anti join readings on id = sensor",
    ],
)
def test_a_join_that_keeps_rows_of_no_record_is_refused(
    engine: SqlEngine, workspace: Workspace, *, source: Dataset, join: str
) -> None:
    derived = derive(
        workspace,
        "wrong",
        set_transform(
            ("named", SELECT.format("id", join)),
            "select timestamp'2024-01-01' as event_time, id from named",
        ),
    )

    with pytest.raises(InvalidInputError, match=r"step 1 \('named'\) has a .* join .*LEFT JOIN"):
        transform(derived, [source], engine)


@pytest.mark.parametrize(
    ("join", "minutes"),
    [
        (f"readings join {NAMES} on id = sensor", [0, 1]),
        (f"readings left join {NAMES} on id = sensor", [0, 1, 2]),
        (f"{NAMES} right join readings on id = sensor", [0, 1, 2]),
        (f"readings left semi join {NAMES} on id = sensor", [0, 1]),
        (f"readings left anti join {NAMES} on id = sensor", [2]),
    ],
)
def test_a_join_whose_rows_are_all_of_records_gives_the_same_however_they_are_cut(
    engine: SqlEngine, workspace: Workspace, *, join: str, minutes: list[int]
) -> None:
    source = workspace.create("readings")
    query = set_transform(SELECT.format("event_time", join))
    often = derive(workspace, "often", query)
    for table in (readings([0]), readings([1]), readings([2], "b")):
        source.add_data(table)
        transform(often, [source], engine)
    once = derive(workspace, "once", query)

    transform(once, [source], engine)

    expected = [(minute(number),) for number in minutes]
    assert rows_of(often, "event_time") == rows_of(once, "event_time") == expected


def test_rows_are_added_to_an_input_only_if_they_are_of_the_transaction(
    engine: SqlEngine, workspace: Workspace, source: Dataset, *, spark: SparkSession
) -> None:
    constant = "select event_time, sensor from readings union all select timestamp'2024-01-01', 'x'"
    derived = derive(workspace, "wrong", set_transform(constant))
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    inputs = {"files": stream.select("value"), "files_new_cells_sst": spark.range(3)}

    with pytest.raises(InvalidInputError, match=r"step 1 .*UNION.*each transaction"):
        transform(derived, [source], engine)
    both = "select value from files union all select id from files_new_cells_sst"
    assert run_steps(spark, inputs, [SqlQueryStep(query=both)]).isStreaming


# -- what depends on all rows, and what is no query -----------------------------------------------


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "select event_time, value from readings limit 2",
            "has LIMIT: .* pick them by a condition",
        ),
        ("with two as (select * from readings limit 2) select event_time from two", "has LIMIT"),
        ("select event_time from readings order by value limit 2", "has LIMIT"),
        ("select event_time from readings offset 1", "has OFFSET"),
        ("select event_time from readings tablesample (10 percent)", "has TABLESAMPLE"),
        ("select event_time from readings tablesample (2 rows)", "has LIMIT"),
        (
            "select event_time, reflect('java.lang.System', 'getProperty', 'a') x from readings",
            "calls a method of Java",
        ),
        (
            "select event_time, upper(java_method('java.lang.System', 'gc')) as x from readings",
            "calls a method of Java",
        ),
        (
            "select event_time from readings where try_reflect('java.lang.System', 'gc') is null",
            "calls a method of Java",
        ),
        ("select transform(event_time) using 'cat' as event_time from readings", "a program"),
        ("describe readings", "is no query.*not DESCRIBE"),
        ("show tables", "is no query.*not SHOW"),
        ("explain select event_time from readings", "is no query.*not EXPLAIN"),
        ("use elsewhere", "is no query.*not USE"),
        ("reset", "is no query.*not RESET"),
        ("deduplicate readings by sensor", "puts out the system columns offset.*last step select"),
        ("select event_time, sensor, value as Sensor from readings", "only case"),
        ("select event_time, parse_json('1') as v from readings", "VARIANT"),
    ],
)
def test_what_is_not_allowed_is_told_with_the_step(
    engine: SqlEngine, workspace: Workspace, *, source: Dataset, query: str, message: str
) -> None:
    derived = derive(workspace, "wrong", set_transform(("all", "select * from readings"), query))

    with pytest.raises(InvalidInputError, match=rf"(?s)^step 2 \(the output\) .*{message}"):
        transform(derived, [source], engine)


def test_rows_of_no_input_may_be_picked_from(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    first = SELECT.format("name", f"{NAMES} order by name limit 1")
    query = SELECT.format("event_time, name", f"readings cross join ({first})")
    derived = derive(
        workspace,
        "named",
        set_transform(query),
    )

    transform(derived, [source], engine)

    assert rows_of(derived, "name") == [("north",)] * 3


@pytest.mark.parametrize(
    ("function", "is_repeatable"),
    [
        ("rand()", False),
        ("current_timestamp()", False),
        ("now()", False),
        ("current_date", False),
        ("date_add(localtimestamp(), 1)", False),
        ("unix_timestamp()", False),
        ("hour(event_time)", True),
    ],
)
def test_functions_that_give_other_results_in_a_replay_are_warned_of(
    engine: SqlEngine,
    workspace: Workspace,
    caplog: pytest.LogCaptureFixture,
    *,
    source: Dataset,
    function: str,
    is_repeatable: bool,
) -> None:
    derived = derive(
        workspace, "now", set_transform(SELECT.format(f"event_time, {function} as x", "readings"))
    )

    with caplog.at_level(logging.WARNING):
        transform(derived, [source], engine)

    assert ("other results when it is replayed" not in caplog.text) == is_repeatable


# -- how failures are told ------------------------------------------------------------------------


def test_a_failure_in_a_window_is_told_by_its_cause(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(
        workspace,
        "wrong",
        set_transform(
            "select window.start as event_time, sum(1 / value) as n\nfrom readings"
            " group by window(event_time, '1 hour')"
        ),
    )

    with pytest.raises(InvalidInputError) as raised:
        transform(derived, [source], engine)

    assert str(raised.value).startswith(
        "step 1 (the output) fails at line 1, column 40: [DIVIDE_BY_ZERO] Division by zero. Use"
    )
    assert "ansi" not in str(raised.value)


def test_joins_without_a_column_in_common_are_told_what_to_write(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    other = workspace.create("others")
    other.add_data(readings([1]))
    derived = derive(
        workspace,
        "wrong",
        set_transform(
            "select r.event_time, o.value from readings r cross join others o",
            inputs=[("readings", "readings"), ("others", "others")],
        ),
    )

    with pytest.raises(InvalidInputError, match="ON a column that is the same in both"):
        transform(derived, [source, other], engine)


def levels(spark: SparkSession) -> tuple[str, ...]:
    log4j: Any = cast("Any", spark.sparkContext)._jvm.org.apache.logging.log4j
    names = ("executor.Executor", "scheduler.TaskSetManager")
    found = (log4j.LogManager.getLogger(f"org.apache.spark.{name}").getLevel() for name in names)
    return tuple(str(level.toString()) for level in found)


def test_a_failure_that_is_raised_is_not_logged_too(spark: SparkSession) -> None:
    before = levels(spark)
    logger = logging.getLogger("py4j.clientserver")
    within = []

    def fail() -> None:
        within.extend([*levels(spark), logger.disabled])
        raise RuntimeError

    with pytest.raises(RuntimeError), told_once(spark):
        fail()

    assert within == ["OFF", "OFF", True]
    assert (levels(spark), logger.disabled) == (before, False)


def test_on_a_cluster_all_failures_are_logged() -> None:
    session = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://head-node:7077"))

    with told_once(cast("SparkSession", session)):
        assert not logging.getLogger("py4j.clientserver").disabled
