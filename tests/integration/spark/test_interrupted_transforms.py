"""Transforms whose driver is killed, or which lose executors, come out the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.spark.conftest import QUICK_JAVA
from tests.ledger_events import moment
from tests.transforms import added, derive, readings, rows_of, set_transform, workspace_in
from tests.unit.ledger.test_dataset_faults import DeadlyStorage, Killed

from icestream.ledger import Dataset
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.replaying import replay
from icestream.spark.transforms.transactions import transform
from icestream.testing.spark_cluster import spark_cluster

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


JOB = """
import os
import signal
import subprocess
import sys
from pathlib import Path

from icestream.ledger import Dataset, Workspace
from icestream.spark import session
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.transactions import transform
from icestream.storage import local_filesystem_storage
from icestream.testing.doubles import WrappedStorage

master, folder = sys.argv[1:]
marker = Path(folder) / "an executor is lost"

class LethalStorage(WrappedStorage):
    def around(self, verb, path, call):
        if path.startswith("data/") and not marker.exists():
            marker.touch()
            # this process is a child of a daemon, which is a child of the executor
            found = subprocess.run(["ps", "-o", "ppid=", "-p", str(os.getppid())],
                                   capture_output=True, check=True)
            os.kill(int(found.stdout), signal.SIGKILL)
        return call()

spark = session("loss", master, {"spark.executor.memory": "512m"})
workspace = Workspace(local_filesystem_storage(folder + "/workspace"))
source = Dataset.open(LethalStorage(workspace.open("readings").storage))
done = transform(workspace.open("hourly"), [source], SqlEngine(spark, state_folder=folder))
print(done.record_count, marker.exists())
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_lost_executor_makes_no_difference(spark: SparkSession, tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    source = workspace.create("readings")
    source.add_data(readings([0, 10, 70]))
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    here = derive(workspace, "here", set_transform(HOURLY))
    added(transform(here, [source], SqlEngine(spark)))

    with spark_cluster(tmp_path / "cluster") as cluster:
        done = subprocess.run(  # noqa: S603  our own interpreter
            [sys.executable, "-c", JOB, cluster.master, str(tmp_path)],
            env=os.environ | {"JDK_JAVA_OPTIONS": QUICK_JAVA},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "True"]
    assert rows_of(derived, "n", "total") == rows_of(here, "n", "total") == [(2, 10)]
    assert replay(workspace.open("hourly"), [source], SqlEngine(spark)).problems == ()
