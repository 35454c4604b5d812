"""How an archive stands, as its ledger tells."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.archive_builders import Form, daily_archive, path_of, write_days

from icestream.errors import NotFoundError
from icestream.ingest.declaration.archives import Archive, OnMismatch
from icestream.ingest.opened_archives import open_archive
from icestream.ingest.publishing.leases import Lease
from icestream.ingest.runs import run_archive
from icestream.ingest.statuses import ArchiveStatus, archive_status


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    write_days(tmp_path / "files", range(3))
    policies = {"on_mismatch": OnMismatch.SET_ASIDE}
    return daily_archive(tmp_path / "files", tmp_path / "repo", policies=policies)


def test_files_that_do_not_agree_are_set_aside_too(archive: Archive, tmp_path: Path):
    write_days(tmp_path / "files", [3], Form(scale=0.02))
    run_archive(archive)
    found = archive_status(archive)
    ((url, reason),) = found.set_aside
    assert url == path_of(tmp_path / "files", 3).as_uri()
    assert "scale_factor" in reason
    assert found.num_files == 3
    assert found.has_faults


def test_a_run_that_is_going_on_is_told(archive: Archive):
    run_archive(archive)
    assert archive_status(archive).running is None
    with Lease.take(open_archive(archive).ledger.ingest.storage, archive.name):
        running = archive_status(archive).running
    assert running is not None
    assert running.startswith(f"process {os.getpid()} on ")


def test_before_a_run_is_published_there_is_no_status(archive: Archive):
    open_archive(archive)
    with pytest.raises(NotFoundError, match="was never ingested"):
        archive_status(archive)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(5, "5 seconds"), (119, "119 seconds"), (7199, "119 minutes"), (7200, "2 hours")],
)
def test_ages_are_told_in_units_that_fit(seconds: int, told: str, archive: Archive):
    run_archive(archive)
    found = archive_status(archive)
    newest = found.runs[0].system_time
    later = ArchiveStatus(
        archive="sst",
        moment=newest + timedelta(seconds=seconds),
        num_files=3,
        runs=found.runs,
        vanished=tuple(map(str, range(12))),
    )
    assert f"was {told} ago" in later.text()
    assert "and 2 more; --output json has all" in later.text()


def test_the_status_is_of_now(archive: Archive):
    run_archive(archive)
    assert datetime.now(UTC) - archive_status(archive).moment < timedelta(minutes=1)
