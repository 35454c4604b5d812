"""The command that ingests, with the SQL of its source on Spark."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from icestream.cli.main import app

DEFINITION = """
kind: DatasetSnapshot
version: 1
content:
  name: cities
  kind: Root
  metadata:
  - kind: AddPushSource
    sourceName: feed
    read: {kind: NdJson}
    preprocess: {kind: Sql, engine: spark, query: "select upper(city) as city from input"}
    merge: {kind: Append}
"""


@pytest.mark.usefixtures("spark")
def test_the_sql_of_a_source_runs_on_demand(tmp_path: Path) -> None:
    address = str(tmp_path / "workspace")
    run = CliRunner().invoke
    run(app, ["dataset", "create", address, "-"], input=DEFINITION)
    words = ["dataset", "ingest", address, "cities", "-"]

    refused = run(app, words, input='{"city": "kyiv"}')
    ran = run(app, [*words, "--spark"], input='{"city": "kyiv"}')

    shown = run(app, ["dataset", "tail", address, "cities", "-o", "json"])
    assert (refused.exit_code, ran.exit_code) == (2, 0)
    assert "--spark" in refused.stderr
    assert json.loads(shown.stdout)[0]["city"] == "KYIV"
    assert SparkSession.getActiveSession() is not None
