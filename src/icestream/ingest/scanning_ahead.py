"""A look at an archive before anything is written: its files are scanned, placed and reported."""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import batched
from typing import NamedTuple

import numpy as np

from icestream.errors import RepositoryNotFoundError
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.engines.scanning import ScanFailure, ScanJob, scan_one
from icestream.ingest.facts import FileFacts, facts_of
from icestream.ingest.file_columns import gather
from icestream.ingest.listing import FileListing, list_sources
from icestream.ingest.placement.placing import plan_placement
from icestream.ingest.progress import SILENT, Progress
from icestream.ingest.reports import ScanReport, ScanSample, expected_cost, report_scan
from icestream.ingest.source_access import SourceAccess
from icestream.model.container_sets import ContainerSet
from icestream.parsers.scanned_files import ScanCost, ScannedFile
from icestream.parsers.source_files import FindObject
from icestream.repository.repository import Repository
from icestream.storage.urls import StorageUrl

SAMPLE_FILES = 1000
"""So many files are scanned unless more are asked for."""

_FILES_AHEAD = 64
"""Files that may be scanned before somebody asks for the first of them."""


@dataclass(slots=True)
class _Scans:
    """What became of files."""

    facts: list[FileFacts] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    """Seconds of each scan."""
    cost: ScanCost = field(default_factory=ScanCost)
    """Of those that could be read."""

    @property
    def seconds(self) -> float:
        """Of all scans, one after the other, had all processes been started before."""
        later = self.times[_num_workers() :] or self.times
        return sum(later) / len(later) * len(self.times)


def scan_archive(
    archive: Archive,
    *,
    sample: int = SAMPLE_FILES,
    access: SourceAccess | None = None,
    progress: Progress = SILENT,
) -> ScanReport:
    """Return what a run would find in all files, and what it would take. Nothing is written.

    Args:
        archive: The declaration.
        sample: How many files are scanned at most; they are spread over the whole archive.
        access: How files are reached; by default as a run would.
        progress: Who is told.

    Raises:
        NotFoundError: A source has no files.
        AccessError: A source may not be read.
        StorageError: A store fails.
    """
    access = access or access_ahead(archive)
    listing = _listed(archive, access, progress)
    urls = spread(listing.table.column("url").to_pylist(), sample)
    scans = _scan_all(urls, archive, access.find_object, progress)
    progress.stage("place", len(scans.facts))
    files = gather(scans.facts)
    spent = ScanSample(len(urls), scans.seconds, scans.cost.num_requests, scans.cost.num_bytes)
    return report_scan(
        files,
        plan_placement(files, archive),
        archive,
        expected=expected_cost(spent, len(listing), num_cores=_num_workers()),
        unreadable=scans.unreadable,
        num_listed=None if len(urls) == len(listing) else len(listing),
    )


def look_at(
    archive: Archive,
    *,
    num_files: int,
    access: SourceAccess | None = None,
    progress: Progress = SILENT,
) -> list[ScannedFile | ScanFailure]:
    """Return the first files of an archive, for a declaration that is still to be written.

    Raises:
        NotFoundError: A source has no files.
        AccessError: A source may not be read.
        StorageError: A store fails.
    """
    access = access or SourceAccess.of(archive)
    listing = _listed(archive, access, progress)
    urls = listing.table.column("url").slice(0, num_files).to_pylist()
    return [each.file for each in _scanned(urls, _job(archive, access.find_object), progress)]


def access_ahead(archive: Archive) -> SourceAccess:
    """Return the access to files that a run would have, whether the repository is there or not."""
    try:
        repository = Repository.open(StorageUrl(address=archive.target.repository).storage())
    except RepositoryNotFoundError:
        return SourceAccess.of(archive)
    return SourceAccess.of(archive, repository=repository)


def spread(urls: Sequence[str], count: int) -> list[str]:
    """Return some of many, the first and the last among them, at equal distances."""
    if len(urls) <= count:
        return list(urls)
    rows = np.unique(np.linspace(0, len(urls) - 1, max(count, 1)).round().astype(np.intp))
    return [urls[row] for row in rows.tolist()]


def _listed(archive: Archive, access: SourceAccess, progress: Progress) -> FileListing:
    progress.stage("list")
    listing = list_sources(archive, access)
    progress.advance(len(listing))
    return listing


def _scan_all(
    urls: Sequence[str], archive: Archive, find_object: FindObject, progress: Progress
) -> _Scans:
    found = _Scans()
    for scanned, seconds in _scanned(urls, _job(archive, find_object), progress):
        found.times.append(seconds)
        if isinstance(scanned, ScanFailure):
            found.unreadable[scanned.url] = scanned.reason
        else:
            facts = facts_of(scanned, archive)
            found.cost += scanned.cost
            found.facts.append(facts)
            progress.advance(0, references=facts.num_references)
    return found


class _Timed(NamedTuple):
    file: ScannedFile | ScanFailure
    seconds: float


def _scanned(urls: Sequence[str], job: ScanJob, progress: Progress) -> Iterator[_Timed]:
    """Yield files in order, with the seconds that their scans took."""

    def timed(url: str) -> _Timed:
        started = time.monotonic()
        return _Timed(scan_one(url, job), time.monotonic() - started)

    progress.stage("scan", len(urls))
    with ThreadPoolExecutor(_num_workers()) as pool:
        for batch in batched(urls, _FILES_AHEAD, strict=False):
            for found in pool.map(timed, batch):
                progress.advance(set_aside=int(isinstance(found.file, ScanFailure)))
                yield found


def _job(archive: Archive, find_object: FindObject) -> ScanJob:
    """Return how files are scanned; no reference is kept, so no container has to cover them."""
    return ScanJob(archive=archive, containers=ContainerSet.of(()), find_object=find_object)


def _num_workers() -> int:
    return os.cpu_count() or 1
