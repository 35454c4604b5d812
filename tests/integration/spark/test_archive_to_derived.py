"""From files to derived data by commands alone: ingest, derive, verify, see where it is from."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tests.archive_builders import (
    change_day,
    daily_archive,
    opened_files,
    path_of,
    write_days,
)
from tests.ingested_archives import opened
from typer.testing import CliRunner

from icestream.cli.main import app
from icestream.ingest.declaration.documents import encode_archive
from icestream.ledger import Workspace
from icestream.repository.repository import Repository
from icestream.storage import local_filesystem_storage

DEFINITIONS = """
kind: DatasetSnapshot
version: 1
content:
  name: daily
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs:
    - {{datasetRef: sst.ingest, alias: files}}
    transform:
      kind: Sql
      engine: spark
      query: >
        select time as event_time, lat, lon, sst from files_new_cells
        where sst is not null and lat > 60 and lon > 300
---
kind: DatasetSnapshot
version: 1
content:
  name: stations
  kind: Root
  metadata:
  - kind: SetPollingSource
    fetch: {{kind: FilesGlob, path: {folder}/stations-*.csv}}
    read: {{kind: Csv, header: true, ddlSchema: [station STRING, lat DOUBLE]}}
    merge: {{kind: Append}}
"""
MONTHLY = """
name: monthly
input: {{repository: {folder}/repo, array: /sst}}
output: {{repository: {folder}/means, array: /monthly/sst}}
along: time
group: month
"""


class Commands:
    """Runs commands in a folder, and fails where they do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = f"{folder}/repo.ledger"
        self.declaration = folder / "sst.yaml"
        self.files = f"file://{folder}/files/"

    def __call__(self, *words: str, exit_code: int = 0, **options: Any) -> Any:
        done = CliRunner().invoke(app, [*words, "-o", "json"], **options)
        assert done.exit_code == exit_code, done.output
        return json.loads(done.stdout)

    def ingest(self) -> None:
        self("archive", "run", str(self.declaration), "--master", "local[2]")

    def replay(self, name: str, **options: Any) -> Any:
        words = ("dataset", "verify", self.ledger, name, "--replay", "--authorize", self.files)
        return self(*words, **options)

    def pull(self) -> dict[str, str]:
        rows = self("dataset", "pull", self.ledger, "--all", "--authorize", self.files)
        return {row["name"]: row["status"] for row in rows}


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    """Three days at the end of a month, ingested; and what is to be derived of them."""
    found = Commands(tmp_path)
    write_days(tmp_path / "files", range(8, 11))
    archive = daily_archive(tmp_path / "files", tmp_path / "repo")
    found.declaration.write_bytes(encode_archive(archive))
    found.ingest()
    definitions, monthly = (text.format(folder=tmp_path) for text in (DEFINITIONS, MONTHLY))
    found("dataset", "create", found.ledger, "-", input=definitions)
    (tmp_path / "monthly.yaml").write_text(monthly)
    found("dataset", "create-array", found.ledger, str(tmp_path / "monthly.yaml"))
    (tmp_path / "stations-1.csv").write_text("station,lat\nkyiv,50.4\n")
    return found


@pytest.mark.usefixtures("spark")
def test_an_archive_and_all_that_is_derived_from_it_follow_its_files(
    commands: Commands, tmp_path: Path
) -> None:
    first = commands.pull()
    idle = commands.pull()
    replays = [commands.replay(name) for name in ("daily", "monthly")]
    write_days(tmp_path / "files", [7, 11])  # before all others, and behind them
    change_day(tmp_path / "files", 9)
    (tmp_path / "stations-2.csv").write_text("station,lat\nodesa,46.5\n")
    commands.ingest()
    second = commands.pull()

    derived = ("daily", "stations", "monthly")
    assert [first[name] for name in derived] == ["updated"] * 3
    assert {idle[name] for name in derived} == {"up to date"}
    assert [second[name] for name in derived] == ["updated"] * 3
    truth = opened_files(path_of(tmp_path / "files", number) for number in range(7, 12))
    assert_daily_rows(commands.ledger, truth)
    assert_monthly_means(tmp_path / "means", truth)
    assert [(each["replayed"], each["problems"]) for each in replays] == [(1, [])] * 2
    # of the changed file only the newest bytes are there
    (problem,) = commands.replay("daily", exit_code=6)["problems"]
    assert (problem["block"], "sst-20240229.nc" in problem["message"]) == (3, True)
    shown = CliRunner().invoke(app, ["lineage", commands.ledger, "daily"]).output
    assert all(name in shown for name in ("sst.inventory", "sst.ingest", "daily"))


def assert_daily_rows(ledger: str, truth: xr.Dataset) -> None:
    """Each transaction has the cells of its files, wherever these lie by now."""
    workspace = Workspace(local_filesystem_storage(ledger))
    rows = workspace.open("daily").to_arrow().to_pandas()
    days = rows["event_time"].dt.day.tolist()
    count = len(days) // 6
    assert days == [day for day in (28, 29, 1, 27, 29, 2) for _ in range(count)]
    kept = truth["sst"].where((truth["lat"] > 60) & (truth["lon"] > 300), drop=True)
    newest = rows.drop_duplicates(["event_time", "lat", "lon"], keep="last")
    ordered = newest.sort_values(["event_time", "lat", "lon"])["sst"]
    np.testing.assert_allclose(ordered, kept.to_series().dropna())
    assert workspace.open("stations").to_arrow().column("station").to_pylist() == ["kyiv", "odesa"]


def assert_monthly_means(address: Path, truth: xr.Dataset) -> None:
    store = Repository.open(local_filesystem_storage(str(address))).readonly_session("main").store
    found = opened(store, group="monthly")["sst"]
    np.testing.assert_allclose(found, truth["sst"].groupby("time.month").mean())
