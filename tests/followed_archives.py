"""Archives that run after run follows, and what the runs say of them."""

from dataclasses import replace
from typing import Any

import xarray as xr
from tests.archive_builders import (
    Form,
    daily_archive,
)
from tests.ingested_archives import ArchiveOnDisk, opened
from tests.quick_runs import NO_RULES
from tests.run_results import FileRow, file_rows, results_of

from icestream.ingest.declaration.archives import (
    Archive,
    Axis,
    Combination,
    Target,
)
from icestream.ingest.opened_archives import open_archive
from icestream.ingest.run_reports import RunReport

SMALL = Form(shape=(4, 6), chunks=(2, 3))
"""Of a day that is written in no time."""
CHUNKS = 4
"""Of such a day."""


def daily(on_disk: ArchiveOnDisk, **settings: Any) -> Archive:
    target = {"chunk_manifests": NO_RULES, "splits": {"time": 3}}
    return daily_archive(on_disk.files, on_disk.repository, target=target, **settings)


def combined(on_disk: ArchiveOnDisk, *along: Axis, **settings: Any) -> Archive:
    given: dict[str, Any] = {
        "name": "some",
        "sources": (f"{on_disk.files}/*.nc",),
        "combine": Combination(along=along),
        "target": Target(repository=str(on_disk.repository), chunk_manifests=NO_RULES),
    }
    return Archive(**{**given, **settings})


def found_in(on_disk: ArchiveOnDisk, **options: Any) -> xr.Dataset:
    return opened(on_disk.ours().readonly_session("main").store, **options)


def last_rows(archive: Archive) -> dict[str, FileRow]:
    """Return what the last run says of files, by their names."""
    rows = file_rows(open_archive(archive))[-1]
    return {url.rpartition("/")[2]: row for row in rows for url in [row[0]]}


def statuses(archive: Archive) -> dict[str, str]:
    """Return what the last run says became of files, by their names."""
    return {name: row[1] for name, row in last_rows(archive).items()}


def versions(archive: Archive) -> tuple[str, str, str]:
    """Return what changes with every write: the version, and the heads of both datasets."""
    found = open_archive(archive)
    tip = found.repository.lookup_branch("main")
    return tip, str(found.ledger.ingest.head), str(found.ledger.inventory.head)


def assert_nothing_follows(on_disk: ArchiveOnDisk, archive: Archive) -> RunReport:
    before = versions(archive)
    reports = [on_disk.run(archive) for _ in range(2)]
    assert all(report.is_empty for report in reports)
    assert versions(archive) == before
    return reports[0]


def assert_as_at_once(on_disk: ArchiveOnDisk, archive: Archive) -> None:
    """Compare the repository with what one run over all files makes."""
    target = replace(archive.target, repository=str(on_disk.repository.with_name("fresh")))
    fresh = replace(archive, target=target)
    on_disk.run(fresh)
    found, expected = results_of(archive), results_of(fresh)
    assert found.documents == expected.documents
    assert found.references == expected.references
