"""Transforms whose driver is killed come out the same."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.ledger_events import moment
from tests.transforms import derive, readings, set_transform, workspace_in
from tests.unit.ledger.test_dataset_faults import DeadlyStorage, Killed

from icestream.ledger import Dataset
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.replaying import replay
from icestream.spark.transforms.transactions import transform

COPY = "select event_time, sensor, value from readings"
HOURLY = (
    "select window.start as event_time, count(*) as n, sum(value) as total"
    " from readings group by window(event_time, '1 hour')"
)
WRITES = 5
"""Of a transaction: slice, checkpoint, block, head, summary; more if files are there already."""


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("query", [COPY, HOURLY])
def test_a_transaction_that_was_killed_is_repeated_with_the_same_result(
    spark: SparkSession, tmp_path: Path, query: str, *, after: bool
) -> None:
    engine = SqlEngine(spark)
    workspace = workspace_in(tmp_path)
    source = workspace.create("readings")
    source.add_data(readings([0, 10]))
    derived = derive(workspace, "derived", set_transform(query))
    undisturbed = derive(workspace, "undisturbed", set_transform(query))
    transform(derived, [source], engine, system_time=moment(10**9))
    transform(undisturbed, [source], engine, system_time=moment(10**9))
    source.add_data(readings([20, 70]))
    deaths = 0

    for number in range(1, WRITES + 1):
        deadly = Dataset.open(DeadlyStorage(derived.storage, number, after=after))
        try:
            transform(deadly, [source], engine, system_time=moment(10**9 + 1))
        except Killed:
            deaths += 1
    reopened = Dataset.open(derived.storage)
    transform(reopened, [source], engine, system_time=moment(10**9 + 1))
    transform(undisturbed, [source], engine, system_time=moment(10**9 + 1))

    assert deaths >= 3
    hashes = [
        [part.logical_hash for part in each.current.slices()] for each in (reopened, undisturbed)
    ]
    assert hashes[0] == hashes[1]
    assert reopened.state.head.sequence_number == undisturbed.state.head.sequence_number
    assert reopened.verify(inputs=[source]).is_valid
    assert replay(reopened, [source], engine).problems == ()
