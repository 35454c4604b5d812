"""How an archive stands: its runs, how fresh it is, and the files that are not in it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from icestream.ingest.archive_states import ArchiveState, AsideStatus, decode_state
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.file_merging import without_files
from icestream.ingest.opened_archives import Places, find_archive, no_run_yet
from icestream.ingest.publishing.checkpoints import RunCheckpoint, last_checkpoint
from icestream.ingest.publishing.leases import find_lease
from icestream.ingest.publishing.ledger_side import ArchiveLedger
from icestream.ingest.publishing.rows import FileStatus
from icestream.ingest.publishing.run_history import RunRecord, last_statuses, run_history
from icestream.ingest.publishing.run_snapshots import RunSnapshot
from icestream.ingest.reports import listed_lines, told_fault
from icestream.ingest.runs import target_of
from icestream.ledger.dataset import Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStatus:
    """How an archive stands."""

    archive: str
    moment: datetime
    """When this was found out."""
    num_files: int
    """That have a place in the repository."""
    num_references: int = 0
    """Of these files."""
    repository: str = ""
    """Its address."""
    runs: tuple[RunRecord, ...] = ()
    """Newest first."""
    set_aside: tuple[tuple[str, str], ...] = ()
    """URLs with reasons; they are tried again by every run."""
    undone: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    """Files that are gone, and whose references are kept."""
    changed: tuple[str, ...] = ()
    """Files that are not what was ingested, and whose references are kept (`on-changed: keep`)."""
    running: str | None = None
    """Who is at it now."""
    unfinished: str | None = None
    """How repository and ledger disagree, if they do."""

    @property
    def has_faults(self) -> bool:
        """Whether files are missing that nobody took out on purpose."""
        return bool(self.set_aside)

    @property
    def age(self) -> timedelta | None:
        """How long ago the newest run was that changed something."""
        return self.moment - self.runs[0].system_time if self.runs else None

    def tree(self) -> dict[str, Any]:
        """Return the status as plain values for JSON."""
        age = self.age
        return {
            "archive": self.archive,
            "repository": self.repository,
            "num_files": self.num_files,
            "num_references": self.num_references,
            "age_seconds": None if age is None else age.total_seconds(),
            "running": self.running,
            "unfinished": self.unfinished,
            "runs": [_run_tree(run) for run in self.runs],
            "set_aside": [list(fault) for fault in self.set_aside],
            "undone": list(self.undone),
            "vanished": list(self.vanished),
            "changed": list(self.changed),
            "has_faults": self.has_faults,
        }

    def text(self) -> str:
        """Return the status for people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        changed = f", {len(self.changed)} files changed and kept" if self.changed else ""
        yield (
            f"{self.archive}: {self.num_files} files with {self.num_references} references, "
            f"{len(self.runs)} runs{changed}"
        )
        age = self.age
        if age is not None:
            yield f"the last run that changed something was {_told_age(age)} ago"
        if self.running is not None:
            yield f"a run is going on: {self.running}"
        if self.unfinished is not None:
            yield self.unfinished
        yield from listed_lines("runs", [_run_line(run) for run in self.runs])
        yield from listed_lines("set aside", [told_fault(*fault) for fault in self.set_aside])
        yield from listed_lines("undone", self.undone)
        yield from listed_lines("vanished, references kept", self.vanished)
        yield from listed_lines("changed, old references kept", self.changed)


def archive_status(archive: Archive, places: Places | None = None) -> ArchiveStatus:
    """Return how an archive stands; only the ledger and the history are read.

    Args:
        archive: The declaration.
        places: Where things are, if the declaration does not say it.

    Raises:
        NotFoundError: There was no run yet.
    """
    opened = find_archive(archive, places)
    target = target_of(opened)
    newest, checkpoint = target.newest_run(), last_checkpoint(opened.ledger.ingest)
    if checkpoint is None and newest is None:
        raise no_run_yet(archive)
    state = ArchiveState() if checkpoint is None else decode_state(checkpoint.state)
    left_out = state.outcome.left_out
    placed = without_files(state.files, left_out)
    runs = run_history(target)
    return ArchiveStatus(
        archive=archive.name,
        repository=archive.target.repository,
        moment=datetime.now(UTC),
        num_files=len(placed),
        num_references=int(placed.num_references.sum()),
        runs=tuple(runs),
        set_aside=tuple(sorted({**_aside(state, AsideStatus.SET_ASIDE), **left_out}.items())),
        undone=tuple(sorted(_aside(state, AsideStatus.UNDONE))),
        vanished=tuple(sorted(state.vanished)),
        changed=tuple(sorted(_changed(opened.ledger.ingest, runs) & {*placed.urls})),
        running=_running(opened.ledger),
        unfinished=_unfinished(newest, checkpoint),
    )


def _unfinished(newest: RunSnapshot | None, checkpoint: RunCheckpoint | None) -> str | None:
    known = 0 if checkpoint is None else checkpoint.last_commit or 0
    if newest is None or newest.run == known:
        return None
    if newest.run > known:
        return (
            f"run {newest.run} is in the repository, and not in the ledger yet: it was cut off, "
            "and the next run finishes it"
        )
    return (
        f"the branch ends with run {newest.run}, and the ledger knows run {known}: the branch was "
        "moved back; `icestream archive recover --follow-branch` lets the ledger follow"
    )


def _aside(state: ArchiveState, status: AsideStatus) -> dict[str, str]:
    return {file.url: file.reason for file in state.aside if file.status is status}


def _changed(ingest: Dataset, runs: Iterable[RunRecord]) -> set[str]:
    """Return files of which the last thing to tell was that they changed and were kept."""
    if not any(FileStatus.CHANGED in run.counts for run in runs):
        return set()
    last = last_statuses(ingest)
    return {url for url, status in last.items() if status == FileStatus.CHANGED}


def _running(ledger: ArchiveLedger) -> str | None:
    lease = find_lease(ledger.ingest.storage)
    if lease is None or lease.is_free(datetime.now(UTC)):
        return None
    holder = lease.holder
    return f"process {holder.pid} on {holder.host}, since {lease.taken_at:%Y-%m-%d %H:%M:%S}"


# -- for people ------------------------------------------------------------------------------------


def _run_tree(run: RunRecord) -> dict[str, Any]:
    return {
        "number": run.number,
        "time": run.system_time.isoformat(),
        "block": str(run.block),
        "snapshot": run.snapshot_id,
        "files": dict(run.counts),
        "references": run.references,
    }


def _run_line(run: RunRecord) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in run.counts.items())
    where = f"snapshot {run.snapshot_id}" if run.snapshot_id else "no commit"
    return f"{run.number}  {run.system_time:%Y-%m-%d %H:%M:%S}  {counts or 'no files'}  {where}"


def _told_age(age: timedelta) -> str:
    seconds = int(age.total_seconds())
    for unit, size in {"days": 86400, "hours": 3600, "minutes": 60}.items():
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} seconds"
