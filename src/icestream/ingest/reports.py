"""What a scan of an archive tells before anything is written: for people, and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from icestream.ingest.declaration.archives import Archive
from icestream.ingest.file_columns import NOWHERE, FileColumns
from icestream.ingest.placement.agreement import disagreements_of, eras_of
from icestream.ingest.placement.axes import AxisPlacement, Gap
from icestream.ingest.placement.placing import Placement, Section
from icestream.ingest.placement.problems import Problem
from icestream.ingest.placement.unmarked_gaps import unmarked_gaps
from icestream.ingest.times.calendars import describe_moment

_SHOWN = 10
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class ScanSample:
    """What the scan of some files took."""

    num_files: int
    seconds: float
    """Of all scans together, as if they had been done one after the other."""
    num_requests: int
    num_bytes: int
    """That were read."""


@dataclass(frozen=True, slots=True)
class ExpectedCost:
    """What a run over all files will take."""

    num_requests: int
    num_bytes: int
    minutes: float


@dataclass(frozen=True, slots=True)
class ArrayReport:
    """One array that files make together."""

    path: str
    dimensions: tuple[str | None, ...]
    shape: tuple[int, ...]
    data_type: str
    chunk_shape: tuple[int, ...]
    num_files: int
    is_copied: bool


@dataclass(frozen=True, slots=True)
class DifferenceReport:
    """Something that files differ in: each value, how many files have it, and the first of them."""

    path: str
    attribute: str
    variants: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, slots=True)
class EraReport:
    """A period in which files agree."""

    first: str
    last: str
    num_files: int


@dataclass(frozen=True, slots=True)
class ScanReport:
    """All that is known of an archive after a scan."""

    archive: str
    num_files: int
    num_file_bytes: int
    num_references: int
    num_referenced_bytes: int
    arrays: tuple[ArrayReport, ...] = ()
    differences: tuple[DifferenceReport, ...] = ()
    eras: tuple[EraReport, ...] = ()
    """More than one where files change along the first dimension."""
    gaps: tuple[Gap, ...] = ()
    set_aside: tuple[tuple[str, str], ...] = ()
    """URLs with reasons."""
    problems: tuple[Problem, ...] = ()
    expected: ExpectedCost | None = None
    num_listed: int | None = None
    """Files that sources have; None if all of them were scanned."""
    notes: tuple[str, ...] = ()

    @property
    def is_sample(self) -> bool:
        """Whether only some files were scanned; what lies between them is not known."""
        return self.num_listed is not None

    @property
    def is_clean(self) -> bool:
        """Whether a run would succeed with all files."""
        return not self.problems and not self.set_aside

    def tree(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return {**asdict(self), "is_clean": self.is_clean}

    def text(self) -> str:
        """Return the report for people."""
        return "\n".join(_lines(self))


def expected_cost(sample: ScanSample, num_files: int, *, num_cores: int = 1) -> ExpectedCost:
    """Return what all files will take, if they are like those of the sample."""
    factor = num_files / max(sample.num_files, 1)
    return ExpectedCost(
        round(sample.num_requests * factor),
        round(sample.num_bytes * factor),
        sample.seconds * factor / max(num_cores, 1) / 60,
    )


def report_scan(
    files: FileColumns,
    placement: Placement,
    archive: Archive,
    *,
    expected: ExpectedCost | None = None,
    unreadable: Mapping[str, str] | None = None,
    num_listed: int | None = None,
) -> ScanReport:
    """Return what a scan found.

    Args:
        files: The files that were scanned.
        placement: Where they go.
        archive: The declaration.
        expected: What a run will take.
        unreadable: Reasons by URL of files that could not be scanned.
        num_listed: How many files there are, if only some of them were scanned. Where others lie
            is not known then: gaps are not told.
    """
    left_out = {files.urls[row]: reason for row, reason in placement.set_aside.items()}
    return ScanReport(
        archive=archive.name,
        num_files=len(files),
        num_file_bytes=int(files.sizes.sum()),
        num_references=int(files.num_references.sum()),
        num_referenced_bytes=int(files.num_referenced_bytes.sum()),
        arrays=tuple(_array_reports(placement)),
        differences=tuple(_difference_reports(files)),
        eras=tuple(_era_reports(files, placement.sections)),
        gaps=placement.gaps if num_listed is None else (),
        notes=unmarked_gaps(placement) if num_listed is None and not placement.problems else (),
        set_aside=tuple(sorted({**left_out, **(unreadable or {})}.items())),
        problems=placement.problems,
        expected=expected,
        num_listed=num_listed,
    )


def told_fault(url: str, reason: str) -> str:
    """Return why a file is set aside; many reasons name it themselves."""
    return reason if url in reason else f"{url}: {reason}"


def _array_reports(placement: Placement) -> Iterator[ArrayReport]:
    for section in placement.sections:
        for path, virtual in section.virtual.items():
            target = section.target(path)
            yield _array_report(target, virtual.metadata, len(virtual.files), is_copied=False)
        for path, copied in section.copied.items():
            target = section.target(path)
            yield _array_report(target, copied.metadata, len(section.files), is_copied=True)


def _array_report(
    path: str, metadata: Mapping[str, Any], num_files: int, *, is_copied: bool
) -> ArrayReport:
    return ArrayReport(
        path,
        tuple(metadata.get("dimension_names") or ()),
        tuple(metadata["shape"]),
        str(metadata["data_type"]),
        tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"]),
        num_files,
        is_copied,
    )


def _difference_reports(files: FileColumns) -> Iterator[DifferenceReport]:
    for found in disagreements_of(files):
        variants = (
            (variant.text, len(variant.files), files.urls[variant.files[0]])
            for variant in found.variants
        )
        yield DifferenceReport(found.path, found.attribute, tuple(variants))


def _era_reports(files: FileColumns, sections: Sequence[Section]) -> Iterator[EraReport]:
    """Yield the periods in which files agree, where one section shows the order of all."""
    whole = [section for section in sections if len(section.files) == len(files) and section.axes]
    if not whole:
        return
    axis = whole[0].axes[0]
    along = np.flatnonzero(axis.start != NOWHERE)
    if not len(along):
        return
    era = eras_of(files, axis.start)
    for number in range(int(era.max()) + 1):
        rows = along[era[along] == number]
        if len(rows):
            stop = int((axis.start[rows] + axis.length[rows]).max())
            first = int(axis.start[rows].min())
            yield EraReport(_told(axis, first), _told(axis, stop - 1), len(rows))


def _told(axis: AxisPlacement, position: int) -> str:
    if axis.values is None:
        return f"position {position}"
    value = axis.values[position]
    return describe_moment(int(value), axis.calendar) if axis.calendar else str(value)


# -- for people ------------------------------------------------------------------------------------


def _lines(report: ScanReport) -> Iterator[str]:
    yield (
        f"{report.archive}: {report.num_files} files of {_size(report.num_file_bytes)}, "
        f"{report.num_references} references to {_size(report.num_referenced_bytes)}"
    )
    if report.is_sample:
        yield f"these are a sample of {report.num_listed} files; gaps between them are not known"
    if report.expected is not None:
        yield _cost_line(report.expected)
    yield from listed_lines(
        "arrays", [_array_line(array) for array in report.arrays], len(report.arrays)
    )
    yield from listed_lines("files differ", [_difference_line(one) for one in report.differences])
    if len(report.eras) > 1:
        eras = [f"{era.first} to {era.last}: {era.num_files} files" for era in report.eras]
        yield from listed_lines("eras", eras)
    yield from listed_lines("gaps", list(map(str, report.gaps)))
    yield from listed_lines("set aside", [told_fault(*fault) for fault in report.set_aside])
    yield from listed_lines("problems", list(map(str, report.problems)), len(report.problems))
    yield from report.notes
    if report.is_clean:
        yield "no problems"


def _cost_line(cost: ExpectedCost) -> str:
    """Tell the cost; requests are counted only where files are in an object store."""
    time = (
        f"{cost.minutes:.1f} minutes" if cost.minutes >= 1 else f"{cost.minutes * 60:.1f} seconds"
    )
    if not cost.num_requests:
        return f"a run will take about {time}"
    return (
        f"a run will make about {cost.num_requests} requests, read {_size(cost.num_bytes)} and "
        f"take {time}"
    )


def listed_lines(title: str, lines: Sequence[str], limit: int = _SHOWN) -> Iterator[str]:
    """Yield a title and the first lines below it; nothing if there are none."""
    if not lines:
        return
    yield f"{title}:"
    yield from (f"  {line}" for line in lines[:limit])
    if len(lines) > limit:
        yield f"  and {len(lines) - limit} more; --output json has all"


def _array_line(array: ArrayReport) -> str:
    sizes = zip(array.dimensions, array.shape, strict=False)
    shape = ", ".join(f"{name} {length}" for name, length in sizes)
    how = "copied" if array.is_copied else f"chunks {array.chunk_shape} in {array.num_files} files"
    return f"{array.path} ({shape}) {array.data_type}, {how}"


def _difference_line(difference: DifferenceReport) -> str:
    told = "; ".join(f"{text} in {n} files, first {url}" for text, n, url in difference.variants)
    return f"{difference.path} in {difference.attribute}: {told}"


def _size(num_bytes: int) -> str:
    size = float(num_bytes)
    for unit in _UNITS[:-1]:
        if size < _THOUSAND:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _THOUSAND
    return f"{size:.1f} {_UNITS[-1]}"
