"""What a run did, for people and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from icestream.ingest.reports import listed_lines, told_fault


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What one run of an archive did."""

    archive: str
    run: int | None = None
    """Its number; None if there was nothing to write."""
    block: str | None = None
    """The hash of its block in the ledger."""
    snapshot: str | None = None
    """The version that it made; None if no array changed."""
    num_listed: int = 0
    num_new: int = 0
    num_changed: int = 0
    num_vanished: int = 0
    num_scanned: int = 0
    num_set_aside: int = 0
    num_references: int = 0
    """Those that were written anew."""
    num_manifests: int = 0
    """Those that the version has and the one before had not: of large arrays, of small ones and
    of coordinates."""
    num_requests: int = 0
    """Of the listing."""
    gaps: tuple[str, ...] = ()
    set_aside: tuple[tuple[str, str], ...] = ()
    """URLs with reasons, also of earlier runs."""
    notes: tuple[str, ...] = ()
    undoes: int | None = None
    """The number of the run that it takes back."""
    num_undone: int = 0
    """Files that lost their place, or became again what they were."""
    is_preview: bool = False
    """Whether it only tells what would be done."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By stage."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written."""
        return self.run is None and self.undoes is None

    def tree(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return {**asdict(self), "is_empty": self.is_empty}

    def text(self) -> str:
        """Return the report for people."""
        return "\n".join(_lines(self))


def _lines(report: RunReport) -> Iterator[str]:
    requests = f" with {report.num_requests} requests" if report.num_requests else ""
    files = f"{report.num_listed} files listed{requests}"
    if report.is_empty:
        yield f"{report.archive}: nothing new ({files}), nothing written"
    elif report.undoes is not None:
        yield _undo_line(report)
    else:
        yield (
            f"{report.archive}, run {report.run}: {files}, {report.num_new} new, "
            f"{report.num_changed} changed, {report.num_vanished} vanished, "
            f"{report.num_scanned} scanned, {report.num_set_aside} set aside"
        )
    if report.snapshot is not None:
        manifests = f" in {report.num_manifests} manifests" if report.num_manifests else ""
        yield f"{report.num_references} references{manifests}, snapshot {report.snapshot}"
    elif not report.is_empty and not report.is_preview:
        yield "no array changed, so there is no new snapshot"
    yield from listed_lines("gaps", report.gaps)
    yield from listed_lines("set aside", [told_fault(*fault) for fault in report.set_aside])
    yield from report.notes
    if report.seconds:
        stages = ", ".join(f"{name} {spent:.1f} s" for name, spent in report.seconds.items())
        yield f"{sum(report.seconds.values()):.1f} s ({stages})"


def _undo_line(report: RunReport) -> str:
    if report.is_preview:
        told = f"to undo run {report.undoes} would take {report.num_undone} files back"
        return f"{report.archive}: {told}; nothing was changed"
    told = f"run {report.undoes} is undone by run {report.run}"
    return f"{report.archive}: {told}, {report.num_undone} files taken back"
