"""Replays of derivative datasets, and what they find."""

import pyarrow as pa
import pytest
from tests.transforms import (
    added,
    derive,
    readings,
    rows_of,
    set_transform,
)

from icestream.ledger import Dataset, ExecuteTransform, Workspace
from icestream.ledger.chain.layout import checkpoint_key, data_key
from icestream.ledger.chain.planning import TransformPlan
from icestream.ledger.chain.rewriting import reset
from icestream.ledger.data.slices import encode_slice
from icestream.ledger.transactions import TransformOutput
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.replaying import consumed_ids, replay
from icestream.spark.transforms.transactions import load_state, transform

COPY = "select event_time, sensor, value from readings"
HOURLY = (
    "select window.start as event_time, count(*) as n, sum(value) as total"
    " from readings group by window(event_time, '1 hour')"
)


@pytest.fixture
def source(workspace: Workspace) -> Dataset:
    return workspace.create("readings")


def pull(engine: SqlEngine, derived: Dataset, source: Dataset, *minutes: float) -> int:
    source.add_data(readings(minutes))
    added(transform(derived, [source], engine))
    return derived.state.head.sequence_number


def forge(derived: Dataset, source: Dataset, output: TransformOutput) -> int:
    """Record a transaction that complies with all rules, but has other records."""
    plan = derived.plan_transform([source])
    assert isinstance(plan, TransformPlan)
    derived.write_transform(plan, output)
    return derived.state.head.sequence_number


def test_transactions_are_replayed_with_the_transform_of_their_time(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "derived", set_transform(COPY))
    pull(engine, derived, source, 1, 2)
    derived.append(
        set_transform(
            COPY.replace("value from", "value * 10 as value from"),
            inputs=[(str(source.dataset_id), "readings")],
        )
    )
    pull(engine, derived, source, 3)
    source.add_data(readings([4]))

    report = replay(derived, [source], engine)

    assert [value for (value,) in rows_of(derived, "value")] == [1, 2, 30]
    assert (report.replayed, report.skipped, report.problems) == (2, 0, ())
    assert consumed_ids(derived) == [source.dataset_id]


def test_windows_are_replayed_from_their_own_state(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    for minutes in ([0, 10], [20], [61], [130]):
        pull(engine, derived, source, *minutes)
    for block in derived.blocks():
        if isinstance(block.event, ExecuteTransform) and block.event.new_checkpoint:
            # not even missed
            key = checkpoint_key(block.event.new_checkpoint.physical_hash)
            derived.storage.delete_many([key])

    report = replay(derived, [source], engine)

    assert (report.replayed, report.problems) == (4, ())


def test_records_that_no_query_made_are_found_at_their_block(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "derived", set_transform(COPY))
    pull(engine, derived, source, 1)
    source.add_data(readings([2]))
    number = forge(derived, source, TransformOutput(rows=readings([3])))
    pull(engine, derived, source, 4)

    report = replay(derived, [source], engine)

    assert derived.verify(inputs=[source]).is_valid
    (problem,) = report.problems
    assert problem.sequence_number == number
    assert problem.rule == "transaction-is-reproducible"
    assert "its records have the hash" in problem.message


def test_state_that_no_query_made_is_found_where_it_shows(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    pull(engine, derived, source, 0)
    stale = load_state(derived.storage, derived.state.checkpoint)
    source.add_data(readings([5]))
    rows = derived.to_arrow().select(["event_time", "n", "total"])
    forge(derived, source, TransformOutput(rows=rows, state=stale))
    number = pull(engine, derived, source, 70)

    report = replay(derived, [source], engine)

    assert rows_of(derived, "n") == [(1,)]
    assert [problem.sequence_number for problem in report.problems] == [number]


def test_a_query_that_is_not_repeatable_is_found(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "derived", set_transform(COPY + " where value < 3"))
    first = pull(engine, derived, source, 1)
    derived.append(
        set_transform(
            "select event_time, sensor, cast(rand() * 1e12 as bigint) as value from readings",
            inputs=[(str(source.dataset_id), "readings")],
        )
    )
    second = pull(engine, derived, source, 2)

    report = replay(derived, [source], engine)

    assert first < second
    assert [problem.sequence_number for problem in report.problems] == [second]


def test_damaged_slices_of_inputs_are_found_where_they_were_consumed(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "derived", set_transform(COPY))
    pull(engine, derived, source, 1)
    number = pull(engine, derived, source, 2)
    pull(engine, derived, source, 3)
    tampered = source.current.slices()[1]
    key = data_key(tampered.physical_hash)
    records = source.to_arrow().slice(1, 1)
    index = records.schema.get_field_index("value")
    changed = records.set_column(index, records.schema.field(index), pa.array([99]))
    source.storage.put(key, encode_slice(changed).data)

    report = replay(derived, [source], engine)

    (problem,) = report.problems
    assert problem.sequence_number == number
    assert key in problem.message


def test_inputs_that_diverged_or_are_missing_are_told(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "derived", set_transform(COPY))
    pull(engine, derived, source, 1)
    pull(engine, derived, source, 2)

    (absent, _) = replay(derived, [], engine).problems
    reset(source.chain, next(iter(source.blocks())).block.prev_block_hash or source.head)
    (diverged,) = replay(derived, [source], engine).problems

    assert "is not at hand" in absent.message
    assert "diverged" in diverged.message


def test_only_newer_transactions_are_replayed_on_demand(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    pull(engine, derived, source, 0)
    pull(engine, derived, source, 10)
    verified = derived.head
    pull(engine, derived, source, 70)

    report = replay(derived, [source], engine, since=verified)

    assert (report.replayed, report.problems) == (1, ())


def test_other_engines_are_skipped(
    engine: SqlEngine, workspace: Workspace, source: Dataset
) -> None:
    ingested = derive(workspace, "archive", set_transform("{}", engine="icestream-ingest"))
    source.add_data(readings([1]))
    forge(ingested, source, TransformOutput(rows=readings([1])))

    report = replay(ingested, [source], engine)

    assert (report.replayed, report.skipped, report.problems) == (0, 1, ())
