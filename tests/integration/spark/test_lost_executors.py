"""Jobs that lose an executor in the middle end as if they had not: on a cluster of processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession
from tests.derived_array_builders import Cube
from tests.integration.spark.conftest import QUICK_JAVA
from tests.transforms import added, derive, readings, rows_of, set_transform, workspace_in
from tests.unit.spark.cells.oceans import local_ocean, ocean

from icestream.spark import verify_derived_array
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.replaying import replay
from icestream.spark.transforms.transactions import transform
from icestream.testing.spark_cluster import SparkCluster, spark_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HOURLY = (
    "select window.start as event_time, count(*) as n, sum(value) as total"
    " from readings group by window(event_time, '1 hour')"
)

LOSING = """
import os
import signal
import subprocess
import sys
from pathlib import Path

from icestream.ledger import Dataset, Workspace
from icestream.repository.repository import Repository
from icestream.spark import pull_derived_array, read_array, session
from icestream.spark.derived_arrays.places import ArrayPlaces
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.transactions import transform
from icestream.storage import local_filesystem_storage
from icestream.testing.doubles import WrappedStorage

master, folder = sys.argv[1:]
driver = os.getpid()
marker = Path(folder) / "an executor is lost"

def lose_executor():
    if os.getpid() == driver or marker.exists():
        return
    marker.touch()
    # this process is a child of a daemon, which is a child of the executor
    found = subprocess.run(["ps", "-o", "ppid=", "-p", str(os.getppid())],
                           capture_output=True, check=True)
    os.kill(int(found.stdout), signal.SIGKILL)

class LethalStorage(WrappedStorage):
    def around(self, verb, path, call):
        if path.startswith(self.lethal):
            lose_executor()
        return call()

def lethal(inner, prefix):
    found = LethalStorage(inner)
    found.lethal = prefix
    return found

spark = session("loss", master, {"spark.executor.memory": "512m"})
"""

TRANSFORM = """
workspace = Workspace(local_filesystem_storage(folder + "/workspace"))
source = Dataset.open(lethal(workspace.open("readings").storage, "data/"))
done = transform(workspace.open("hourly"), [source], SqlEngine(spark, state_folder=folder))
print(done.record_count, marker.exists())
"""

DERIVED_ARRAY = """
workspace = Workspace(local_filesystem_storage(folder + "/ledger"))
cube = Repository.open(lethal(local_filesystem_storage(folder + "/daily"), "manifests/"))
dataset = workspace.open("monthly")
done = pull_derived_array(workspace, dataset, spark, places=ArrayPlaces(input=cube))
print(done.num_chunks, marker.exists())
"""

CELLS = """
def losing(batches):
    for number, batch in enumerate(batches):
        yield batch
        lose_executor()

cells = read_array(spark, Repository.open(local_filesystem_storage(folder + "/ocean")), "/depth")
deeper = cells.selectExpr("time", "lat", "lon", "depth + 1 as depth")
lossy = deeper.mapInArrow(losing, deeper.schema)
writer = lossy.write.format("icestream").mode("append").options(array="/depth", message="deeper")
writer.save(folder + "/ocean")
print(lossy.count(), marker.exists())
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def run_losing(cluster: SparkCluster, folder: Path, job: str) -> list[str]:
    """Run a job that loses an executor on the way; return the words that it prints."""
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", f"{LOSING}{job}spark.stop()", cluster.master, str(folder)],
        env=os.environ | {"JDK_JAVA_OPTIONS": QUICK_JAVA},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_transform_comes_out_the_same(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    workspace = workspace_in(tmp_path)
    source = workspace.create("readings")
    source.add_data(readings([0, 10, 70]))
    derived = derive(workspace, "hourly", set_transform(HOURLY))
    here = derive(workspace, "here", set_transform(HOURLY))
    added(transform(here, [source], SqlEngine(spark)))

    assert run_losing(cluster, tmp_path, TRANSFORM) == ["1", "True"]

    assert rows_of(derived, "n", "total") == rows_of(here, "n", "total") == [(2, 10)]
    assert replay(workspace.open("hourly"), [source], SqlEngine(spark)).problems == ()


def test_a_derived_array_comes_out_the_same(cluster: SparkCluster, tmp_path: Path) -> None:
    cube = Cube(tmp_path)
    cube.create(100)
    dataset = cube.derive()

    num_chunks, is_lost = run_losing(cluster, tmp_path, DERIVED_ARRAY)

    assert (int(num_chunks) > 1, is_lost) == (True, "True")
    expected = cube.daily().resample(time="MS").mean()
    np.testing.assert_allclose(cube.monthly()["t"], expected)
    assert verify_derived_array(dataset, None).is_valid


def test_written_cells_are_there_once_in_one_commit(cluster: SparkCluster, tmp_path: Path) -> None:
    repo = local_ocean(tmp_path / "ocean")

    num_cells, is_lost = run_losing(cluster, tmp_path, CELLS)

    expected = ocean()
    expected["depth"] += 1
    store = repo.readonly_session("main").store
    found = xr.open_zarr(store, consolidated=False, zarr_format=3).load()
    assert (int(num_cells), is_lost) == (expected["depth"].size, "True")
    xr.testing.assert_allclose(found, expected)
    assert [info.message for info in repo.ancestry(branch="main")][:2] == ["deeper", "an ocean"]
