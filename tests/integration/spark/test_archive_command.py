"""The command that ingests an archive, on Spark."""

import json
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.archive_builders import cut_short, daily_archive, path_of, write_days
from typer.testing import CliRunner

from icestream.cli.main import app
from icestream.ingest.declaration.documents import encode_archive
from icestream.ingest.statuses import archive_status
from icestream.spark.ingest_engine import SparkEngine


@pytest.mark.usefixtures("spark")
def test_an_archive_is_ingested_on_the_spark_that_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    write_days(folder, range(5))
    cut_short(path_of(folder, 2))
    archive = daily_archive(folder, tmp_path / "repo", step="1 day")
    declaration = tmp_path / "sst.yaml"
    declaration.write_bytes(encode_archive(archive))
    words = ["archive", "run", str(declaration), "--master", "local[2]", "-o", "json"]

    ran = CliRunner().invoke(app, words)

    told = json.loads(ran.stdout)
    assert ran.exit_code == 7
    assert (told["run"], told["num_scanned"], told["num_set_aside"]) == (1, 5, 1)
    assert archive_status(archive).num_files == 4
    assert json.loads(CliRunner().invoke(app, words).stdout)["is_empty"]


def test_secrets_of_the_driver_reach_tasks_and_no_setting(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers were started before, so that they cannot have inherited it."""
    spark.sparkContext.parallelize([1], 1).collect()
    monkeypatch.setenv("GOOGLE_SECRET_OF_A_TEST", "hidden")

    found = SparkEngine(spark).map(os.getenv, ["GOOGLE_SECRET_OF_A_TEST"])

    assert found == ["hidden"]
    settings = dict(spark.sparkContext.getConf().getAll())
    assert "hidden" not in json.dumps(settings)
