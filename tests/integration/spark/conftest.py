"""One Spark for all tests of a worker: it takes ten seconds to start."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.transforms import workspace_in

from icestream.ledger import Workspace
from icestream.spark import session
from icestream.spark.transforms.engine import SqlEngine

# compile less, with one thread: the tests are short, and starting is half of the work
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session in local mode, started when the first test asks for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", QUICK_JAVA)
        started = session("tests", "local[2]", {"spark.sql.shuffle.partitions": "2"})
    yield started
    started.stop()


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> SqlEngine:
    """What runs the queries of transforms."""
    return SqlEngine(spark)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty one."""
    return workspace_in(tmp_path)
