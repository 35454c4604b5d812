"""Jobs on a real cluster of several processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.spark.conftest import QUICK_JAVA

from icestream.testing.spark_cluster import spark_cluster

JOB = """
import os
import sys
import pyarrow as pa
from icestream.spark import session

def where(batches):
    import icestream.storage
    for batch in batches:
        rows = batch.num_rows
        yield pa.RecordBatch.from_pydict({"pid": [os.getppid()] * rows, "n": batch.column(0)})

spark = session("smoke", sys.argv[1], {"spark.executor.memory": "512m"})
rows = spark.range(0, 1000, 1, 8).mapInArrow(where, "pid long, n long").collect()
print(sum(row.n for row in rows), len({row.pid for row in rows}))
spark.stop()
"""


@pytest.mark.slow
def test_a_job_runs_on_the_executors_of_a_cluster(tmp_path: Path) -> None:
    with spark_cluster(tmp_path / "cluster") as cluster:
        assert cluster.alive_workers() == 2
        done = subprocess.run(  # noqa: S603  our own interpreter
            [sys.executable, "-c", JOB, cluster.master],
            env=os.environ | {"JDK_JAVA_OPTIONS": QUICK_JAVA},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["499500", "2"]
