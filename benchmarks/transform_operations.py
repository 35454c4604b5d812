"""Transactions of derivative datasets, on Spark in local mode.

    python -m benchmarks.transform_operations [--transactions N]

Transactions without records, with records and with windows are run in a warm session, and a
hundred datasets with nothing to do are planned. Then a sensor is read every minute of a year, in N
batches (2,196: one every four hours), and aggregated by month: of N transactions twelve have
output. Prints Markdown tables of wall time in seconds.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from icestream.ledger import (
    AddedData,
    Dataset,
    DatasetAlias,
    DatasetKind,
    DatasetSnapshot,
    SetTransform,
    Workspace,
)
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformInput, TransformSql
from icestream.spark import session
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.lazy_engine import LazySqlEngine
from icestream.spark.transforms.pulling import Pulling
from icestream.spark.transforms.runs import Engine
from icestream.spark.transforms.transactions import transform
from icestream.storage import local_filesystem_storage

NOTHING = "select event_time, value from readings where value < 0"
HOURLY = """
select window.start as event_time, sensor, count(*) as readings
from readings group by window(event_time, '1 hour'), sensor
"""
MONTHLY = """
select session_window.start as event_time, sensor, count(*) as readings, sum(value) as total
from readings group by sensor, session_window(event_time, make_interval(0, 0, 0, 0, 0, 0,
  (unix_micros(timestamp(add_months(trunc(event_time, 'MM'), 1)))
   - unix_micros(event_time) - 1) / 1e6))
"""
"""A session that lasts until the month ends: windows of Spark have no months."""

EMPTY_LIMIT_S, PLANNING_LIMIT_S = 1.0, 5.0
YEAR_MINUTES = 366 * 24 * 60

_START = datetime(2024, 1, 1, tzinfo=UTC)
_MINUTE_MS = 60_000
_TRANSACTIONS = 2_196
_WARM_UPS = 3
_REPEAT = 7
_DATASETS = 100


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of the table."""

    title: str
    seconds: float
    limit: float | None = None

    def __str__(self) -> str:
        goal = "" if self.limit is None else f"<= {self.limit:g}"
        return f"| {self.title} | {self.seconds:.2f} | {goal} |"


class Example:
    """Readings of a sensor, and a dataset that is derived from them."""

    def __init__(self, folder: Path, query: str) -> None:
        self.workspace = Workspace(local_filesystem_storage(str(folder)))
        self.source = self.workspace.create("readings")
        self.derived = derive(self.workspace, "derived", query)
        self._minutes = 0

    def add(self, count: int) -> None:
        """Read the sensor so many times more."""
        first, self._minutes = self._minutes, self._minutes + count
        self.source.add_data(readings_in(range(first, self._minutes)))

    def announce(self) -> None:
        """Raise the watermark, without a reading."""
        moment = datetime.fromtimestamp(_START.timestamp() + self._minutes * 60 - 1, UTC)
        self.source.add_data(None, watermark=moment)

    def transform(self, engine: Engine) -> int:
        """Run a transaction; return how many records it has."""
        outcome = transform(self.derived, [self.source], engine)
        assert isinstance(outcome, AddedData), outcome
        return outcome.record_count


def readings_in(minutes: range) -> pa.Table:
    """Return the readings of these minutes of the year."""
    numbers = np.arange(minutes.start, minutes.stop)
    times = int(_START.timestamp() * 1000) + numbers * _MINUTE_MS
    return pa.table(
        {
            "event_time": pa.array(times, pa.timestamp("ms", "UTC")),
            "sensor": pa.array(["roof"] * len(numbers)),
            "value": pa.array(numbers),
        }
    )


def derive(workspace: Workspace, name: str, query: str, source: str = "readings") -> Dataset:
    """Create a dataset that is derived from another."""
    queries = TransformSql(engine="spark", queries=(SqlQueryStep(query=query),))
    declared = SetTransform(
        inputs=(TransformInput(dataset_ref=source, alias="readings"),), transform=queries
    )
    return workspace.create(
        DatasetSnapshot(
            name=DatasetAlias.parse(name), kind=DatasetKind.DERIVATIVE, metadata=(declared,)
        )
    )


def measure(folder: Path, engine: Engine) -> list[Measured]:
    """Return how long transactions of each kind take in a warm session."""
    filtered, hourly = Example(folder / "a", NOTHING), Example(folder / "b", HOURLY)
    for example in (filtered, hourly):
        for _ in range(_WARM_UPS):
            example.add(10)
            example.transform(engine)
    return [
        Measured(
            "stateless, no new records",
            _median(filtered.announce, filtered, engine, each=lambda: filtered.add(1)),
            EMPTY_LIMIT_S,
        ),
        Measured(
            "stateless, 10 new records, no output",
            _median(lambda: filtered.add(10), filtered, engine),
            EMPTY_LIMIT_S,
        ),
        Measured("stateful, 10 new records", _median(lambda: hourly.add(10), hourly, engine)),
        Measured(
            "stateful, 10,000 new records", _median(lambda: hourly.add(10_000), hourly, engine)
        ),
    ]


def _median(
    prepare: Callable[[], None],
    example: Example,
    engine: Engine,
    each: Callable[[], None] | None = None,
) -> float:
    seconds = []
    for _ in range(_REPEAT):
        if each is not None:
            each()
            example.transform(engine)
        prepare()
        seconds.append(_timed(lambda: example.transform(engine)))
    return statistics.median(seconds)


def measure_planning(folder: Path, engine: Engine, datasets: int = _DATASETS) -> Measured:
    """Return how long it takes to find that datasets have nothing to do."""
    workspace = Workspace(local_filesystem_storage(str(folder)))
    workspace.create("readings").add_data(readings_in(range(10)))
    names = [f"derived-{number}" for number in range(datasets)]
    for name in names:
        derive(workspace, name, NOTHING)
    list(Pulling(workspace, engine).pull(names))
    idle = Pulling(workspace, LazySqlEngine(_unwanted))
    title = f"planning {datasets} datasets with nothing to do"
    return Measured(title, _timed(lambda: list(idle.pull(names))), PLANNING_LIMIT_S)


def _unwanted() -> SparkSession:
    raise AssertionError("there is nothing to run")


def run_year(folder: Path, engine: Engine, transactions: int) -> list[int]:
    """Aggregate the readings of a year by month; return the records of each transaction.

    The last one announces that the year is over.
    """
    example = Example(folder, MONTHLY)
    edges = np.linspace(0, YEAR_MINUTES, transactions, dtype=int)
    counts = []
    for count in np.diff(edges).tolist():
        example.add(count)
        counts.append(example.transform(engine))
    example.source.add_data(None, watermark=datetime(2025, 1, 1, tzinfo=UTC))
    return [*counts, example.transform(engine)]


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transform_operations")
    parser.add_argument("--transactions", type=int, default=_TRANSACTIONS)
    transactions = parser.parse_args(arguments).transactions
    with tempfile.TemporaryDirectory(prefix="icestream-bench-") as name:
        folder = Path(name)
        spark = session("transforms")
        engine = SqlEngine(spark)
        print("| transaction | seconds | goal |\n|---|--:|--:|")
        for measured in measure(folder, engine):
            print(measured, flush=True)
        print(measure_planning(folder / "many", engine), flush=True)
        start = time.perf_counter()
        counts = run_year(folder / "year", engine, transactions)
        seconds = time.perf_counter() - start
        spark.stop()
    outputs = [count for count in counts if count]
    print(f"\na year: {len(counts)} transactions, {len(outputs)} with output,", end=" ")
    print(f"{seconds:.0f} s, {seconds / len(counts):.2f} s each")


if __name__ == "__main__":
    main()
