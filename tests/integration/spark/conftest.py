"""One Spark for all tests of a worker: it takes ten seconds to start."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from icestream.spark import session

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
