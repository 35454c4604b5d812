"""From files to derived data by commands alone: ingest, derive, verify, see where it is from."""

import json
from collections.abc import Iterator
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
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.declaration.documents import encode_archive
from icestream.ingest.declaration.source_places import SourcePlace
from icestream.ledger import Workspace
from icestream.repository.repository import Repository
from icestream.storage import Storage, local_filesystem_storage, s3_storage
from icestream.testing.servers import S3Server

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
input: {{repository: "{place}/repo", array: /sst}}
output: {{repository: "{place}/means", array: /monthly/sst}}
along: time
group: month
"""


class Commands:
    """Runs commands on a place, and fails where they do."""

    def __init__(self, folder: Path, place: str, *authorize: str) -> None:
        self.ledger = f"{place}/repo.ledger"
        self.places = authorize
        self.declaration = folder / "sst.yaml"
        self.definitions = folder / "definitions.yaml"
        self.definitions.write_text(DEFINITIONS.format(folder=folder))
        self.monthly = folder / "monthly.yaml"
        self.monthly.write_text(MONTHLY.format(place=place))

    def __call__(self, *words: str, exit_code: int = 0, **options: Any) -> Any:
        done = CliRunner().invoke(app, [*words, "-o", "json"], **options)
        assert done.exit_code == exit_code, done.output
        return json.loads(done.stdout)

    def ingest(self, archive: Archive) -> None:
        self.declaration.write_bytes(encode_archive(archive))
        self("archive", "run", str(self.declaration), "--master", "local[2]")

    def derive(self) -> None:
        self("dataset", "create", self.ledger, str(self.definitions))
        self("dataset", "create-array", self.ledger, str(self.monthly))

    def _authorize(self) -> Iterator[str]:
        for place in self.places:
            yield from ("--authorize", place)

    def replay(self, name: str, **options: Any) -> Any:
        words = ("dataset", "verify", self.ledger, name, "--replay", *self._authorize())
        return self(*words, **options)

    def pull(self) -> dict[str, str]:
        rows = self("dataset", "pull", self.ledger, "--all", *self._authorize())
        return {row["name"]: row["status"] for row in rows}


@pytest.mark.usefixtures("spark")
def test_an_archive_and_all_that_is_derived_from_it_follow_its_files(tmp_path: Path) -> None:
    commands = Commands(tmp_path, str(tmp_path), f"file://{tmp_path}/files/")
    archive = daily_archive(tmp_path / "files", tmp_path / "repo")
    write_days(tmp_path / "files", range(8, 11))
    (tmp_path / "stations-1.csv").write_text("station,lat\nkyiv,50.4\n")
    commands.ingest(archive)
    commands.derive()

    first = commands.pull()
    idle = commands.pull()
    replays = [commands.replay(name) for name in ("daily", "monthly")]
    write_days(tmp_path / "files", [7, 11])  # before all others, and behind them
    change_day(tmp_path / "files", 9)
    (tmp_path / "stations-2.csv").write_text("station,lat\nodesa,46.5\n")
    commands.ingest(archive)
    second = commands.pull()

    derived = ("daily", "stations", "monthly")
    assert [first[name] for name in derived] == ["updated"] * 3
    assert {idle[name] for name in derived} == {"up to date"}
    assert [second[name] for name in derived] == ["updated"] * 3
    truth = opened_files(path_of(tmp_path / "files", number) for number in range(7, 12))
    workspace = Workspace(local_filesystem_storage(commands.ledger))
    assert_daily_rows(workspace, truth)
    assert_monthly_means(local_filesystem_storage(str(tmp_path / "means")), truth)
    stations = workspace.open("stations").to_arrow()
    assert stations.column("station").to_pylist() == ["kyiv", "odesa"]
    assert [(each["replayed"], each["problems"]) for each in replays] == [(1, [])] * 2
    # of the changed file only the newest bytes are there
    (problem,) = commands.replay("daily", exit_code=6)["problems"]
    assert (problem["block"], "sst-20240229.nc" in problem["message"]) == (3, True)
    shown = CliRunner().invoke(app, ["lineage", commands.ledger, "daily"]).output
    assert all(name in shown for name in ("sst.inventory", "sst.ingest", "daily"))


def assert_daily_rows(workspace: Workspace, truth: xr.Dataset) -> None:
    """Each transaction has the cells of its files, wherever these lie by now."""
    rows = workspace.open("daily").to_arrow().to_pandas()
    days = rows["event_time"].dt.day.tolist()
    count = len(days) // 6
    assert days == [day for day in (28, 29, 1, 27, 29, 2) for _ in range(count)]
    kept = truth["sst"].where((truth["lat"] > 60) & (truth["lon"] > 300), drop=True)
    newest = rows.drop_duplicates(["event_time", "lat", "lon"], keep="last")
    ordered = newest.sort_values(["event_time", "lat", "lon"])["sst"]
    np.testing.assert_allclose(ordered, kept.to_series().dropna())


def assert_monthly_means(storage: Storage, truth: xr.Dataset) -> None:
    found = opened(Repository.open(storage).readonly_session("main").store, group="monthly")["sst"]
    np.testing.assert_allclose(found, truth["sst"].groupby("time.month").mean())


@pytest.mark.server
@pytest.mark.usefixtures("spark")
def test_files_repositories_and_the_ledger_may_be_on_s3(
    tmp_path: Path, seaweedfs: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of Spark have been started before, and do not inherit the environment."""
    bucket = seaweedfs.new_bucket()
    arguments = {**seaweedfs.storage_arguments(), "bucket": bucket}
    for name, text in {
        "AWS_ACCESS_KEY_ID": seaweedfs.access_key_id,
        "AWS_SECRET_ACCESS_KEY": seaweedfs.secret_access_key,
        "AWS_ENDPOINT_URL": seaweedfs.endpoint_url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, text)
    paths = write_days(tmp_path / "files", range(8, 12))
    for path in paths:
        s3_storage(**arguments, prefix="files").put(path.name, path.read_bytes())
    access = SourcePlace(
        prefix=f"s3://{bucket}/",
        platform="s3_compatible",
        endpoint_url=seaweedfs.endpoint_url,
        allow_http=True,
        region="us-east-1",
        force_path_style=True,
    )
    commands = Commands(tmp_path, f"s3://{bucket}", f"s3://{bucket}/files/", seaweedfs.endpoint_url)
    archive = daily_archive(
        tmp_path, f"s3://{bucket}/repo", sources=(f"s3://{bucket}/files/*.nc",), access=(access,)
    )
    commands.ingest(archive)
    commands.derive()

    pulled = commands.pull()
    replayed = commands.replay("daily")

    truth = opened_files(paths)
    rows = Workspace(s3_storage(**arguments, prefix="repo.ledger")).open("daily").to_arrow()
    kept = truth["sst"].where((truth["lat"] > 60) & (truth["lon"] > 300), drop=True)
    assert (pulled["daily"], pulled["monthly"]) == ("updated", "updated")
    np.testing.assert_allclose(rows.column("sst"), kept.to_series().dropna())
    assert (replayed["replayed"], replayed["problems"]) == (1, [])
    assert_monthly_means(s3_storage(**arguments, prefix="means"), truth)
