"""A sensor that is read every minute, and aggregated by month: few transactions have output."""

from pathlib import Path

import pyarrow as pa
import pytest
from benchmarks.transform_operations import MONTHLY, readings_in
from pyspark.sql import SparkSession
from tests.transforms import added, derive, rows_of, set_transform, workspace_in

from icestream.ledger import Dataset, ExecuteTransform
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.transactions import transform
from icestream.testing.doubles import CountingStorage

TRANSACTIONS = 60
MINUTES_EACH = 2232  # of 93 days


@pytest.mark.timeout(600)
def test_of_sixty_transactions_three_have_output(spark: SparkSession, tmp_path: Path) -> None:
    workspace, engine = workspace_in(tmp_path), SqlEngine(spark)
    source = workspace.create("readings")
    derived = derive(workspace, "monthly", set_transform(MONTHLY))
    counts, reads = [], []

    for number in range(TRANSACTIONS):
        first = number * MINUTES_EACH
        source.add_data(readings_in(range(first, first + MINUTES_EACH)))
        counting = CountingStorage(derived.storage)
        reopened = Dataset.open(counting)  # all that is known stands in the last block
        reopened.plan_transform([source])
        reads.append(counting.reads)
        counts.append(added(transform(reopened, [source], engine)).record_count)

    derived.refresh()
    events = [block.event for block in derived.blocks()]
    transactions = [event for event in events if isinstance(event, ExecuteTransform)]
    assert len(transactions) == TRANSACTIONS
    assert [count for count in counts if count] == [1, 1, 1]
    assert sum(event.new_data is not None for event in transactions) == 3
    assert len(set(reads[2:])) == 1
    assert [n for (n,) in rows_of(derived, "readings")] == [31 * 1440, 29 * 1440, 31 * 1440]
    assert transactions[0].prev_offset == derived.last_offset == 2
    assert derived.verify(inputs=[source]).is_valid


def test_the_readings_of_the_benchmark_are_those_of_a_year() -> None:
    table = readings_in(range(2))

    assert table.column("event_time").type == pa.timestamp("ms", "UTC")
    assert table.column("value").to_pylist() == [0, 1]
