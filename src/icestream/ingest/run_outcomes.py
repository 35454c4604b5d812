"""What a run leaves to the ledger: what became of each file, and what the next run must know."""

from collections.abc import Iterator
from dataclasses import dataclass

from icestream.ingest.archive_states import ArchiveState, AsideFile, AsideStatus, scan_digest
from icestream.ingest.declaration.archives import Archive, OnChanged
from icestream.ingest.declaration.documents import encode_archive
from icestream.ingest.engines.scanning import ScanFailure
from icestream.ingest.publishing.rows import FileStatus
from icestream.ingest.run_plans import RunPlan
from icestream.ingest.run_rows import FileRow
from icestream.ingest.work_plans import SourceChanges, Work


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RunInput:
    """What a run knew when it began."""

    archive: Archive
    state: ArchiveState
    changes: SourceChanges
    work: Work


def state_after(given: RunInput, plan: RunPlan) -> ArchiveState:
    """Return what the next run has to know."""
    return ArchiveState(
        files=plan.files,
        vanished=given.work.vanished,
        aside=tuple(sorted(_aside(given, plan), key=lambda file: file.url)),
        outcome=plan.outcome,
        declaration_digest=scan_digest(given.archive),
        declaration=encode_archive(given.archive).decode(),
    )


def set_aside(given: RunInput, plan: RunPlan) -> dict[str, str]:
    """Return reasons by URL for all files that are left out, also since earlier runs."""
    reasons = {
        file.url: file.reason
        for file in _aside(given, plan)
        if file.status is AsideStatus.SET_ASIDE
    }
    return {**reasons, **plan.outcome.left_out}


def file_rows(given: RunInput, plan: RunPlan) -> Iterator[FileRow]:
    """Yield what became of each file that the run looked at; what was told before is not again."""
    yield from _scanned_rows(given, plan)
    known = {file.url: file.reason for file in given.state.aside}
    for url, failure in plan.failures.items():
        if known.get(url) != failure.reason:
            yield FileRow(url, FileStatus.SET_ASIDE, failure.reason)
    for url in given.work.removed:
        yield FileRow(url, FileStatus.REMOVED)
    for url in given.work.vanished - given.state.vanished:
        yield FileRow(url, FileStatus.VANISHED)
    if given.archive.policies.on_changed is OnChanged.KEEP:
        looked_at = {*plan.scanned.urls, *plan.failures}
        # one that went and came back is new to the inventory, and may be another
        news = {*given.changes.changed, *given.changes.added}
        for url in news & {*given.state.files.urls} - looked_at:
            yield FileRow(url, FileStatus.CHANGED)


def _scanned_rows(given: RunInput, plan: RunPlan) -> Iterator[FileRow]:
    placed = {*given.state.files.urls}
    differing = plan.outcome.left_out
    for url in plan.scanned.urls:
        if url in differing:
            yield FileRow(url, FileStatus.SET_ASIDE, differing[url])
        else:
            yield FileRow(url, FileStatus.UPDATED if url in placed else FileStatus.INGESTED)


def _aside(given: RunInput, plan: RunPlan) -> Iterator[AsideFile]:
    """Yield files without a place: those that failed now, and those that still wait."""
    known = {file.url: file for file in given.state.aside}
    for url, failure in plan.failures.items():
        yield _failed(failure, known.get(url))
    present, looked_at = {*given.changes.present}, {*plan.scanned.urls, *plan.failures}
    yield from (file for url, file in known.items() if url in present - looked_at)


def _failed(failure: ScanFailure, known: AsideFile | None) -> AsideFile:
    """Return a file that failed; the same failure again is nothing new to tell."""
    if known is not None and known.reason == failure.reason:
        return known
    attempts = 1 if known is None else known.attempts + 1
    return AsideFile(failure.url, AsideStatus.SET_ASIDE, failure.reason, attempts=attempts)
