"""Where files lie along one dimension: by coordinate values, by their names, or by order."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.ingest.declaration.archives import Axis, PlaceBy
from icestream.ingest.declaration.name_patterns import is_date, positions_in_names
from icestream.ingest.declaration.steps import Step, parse_step
from icestream.ingest.file_columns import NOWHERE, FileColumns, Lengths, Rows
from icestream.ingest.placement.axis_values import (
    AxisSpans,
    LabelledValues,
    Spans,
    spans_by_step,
    spans_by_value,
)
from icestream.ingest.placement.problems import Problem, ProblemKind, problem
from icestream.ingest.placement.scales import scale_of
from icestream.ingest.times.calendars import STANDARD, describe_moment
from icestream.ingest.times.encodings import MISSING, TimeEncoding, common_calendar
from icestream.ingest.times.months import CALENDARS_WITH_MONTHS

_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Gap:
    """Positions along a dimension for which there is no file."""

    dimension: str
    first: str
    """The first value that is missing, or the last before those that are."""
    last: str
    """The last value that is missing, or the first after those that are."""
    length: int | None
    """Positions that hold fill values; None where no room was left, because no step is declared."""

    def __str__(self) -> str:
        if self.length is None:
            return f"{self.dimension}: nothing between {self.first} and {self.last}"
        return f"{self.dimension}: {self.length} missing, {self.first} to {self.last}"


@dataclass(frozen=True, slots=True, eq=False)
class AxisPlacement:
    """Where files lie along one dimension."""

    dimension: str
    start: Lengths
    """First position of each file; `NOWHERE` if it does not lie along the dimension."""
    length: Lengths
    """Positions of each file."""
    size: int
    """Of the dimension."""
    values: npt.NDArray[Any] | None = None
    """The coordinate along it, if that is known; times as microseconds."""
    calendar: str | None = None
    """Of the times, if they are times."""
    time: TimeEncoding | None = None
    """How the first file counts them."""
    gaps: tuple[Gap, ...] = ()
    problems: tuple[Problem, ...] = ()


def place_along(axis: Axis, files: FileColumns, rows: Rows) -> AxisPlacement:
    """Return where some of the files lie along a dimension."""
    measured = _measure(axis, files, rows)
    if axis.by is PlaceBy.ORDER:
        return _by_order(measured)
    if axis.by is PlaceBy.NAME:
        return _by_name(measured)
    return _by_coordinate(measured)


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """A dimension, and how long files are along it."""

    axis: Axis
    files: FileColumns
    rows: Rows
    """Of files that lie along the dimension."""
    length: Lengths
    """Of each of these rows."""
    problems: list[Problem]

    def report(self, kind: ProblemKind, reason: str, rows: Sequence[int]) -> None:
        """Take note of a problem of some files."""
        found = problem(kind, self.axis.dimension, reason, urls=self.files.urls, rows=rows)
        if found not in self.problems:
            self.problems.append(found)

    def keep(self, rows: npt.NDArray[np.bool_]) -> "_Measured":
        """Return the same for some of the files."""
        return _Measured(self.axis, self.files, self.rows[rows], self.length[rows], self.problems)

    def placed(self, start: Lengths, size: int, **others: Any) -> AxisPlacement:
        """Return the placement, with columns for all files."""
        starts, lengths = (np.full(len(self.files), NOWHERE, np.int64) for _ in range(2))
        starts[self.rows], lengths[self.rows] = start, self.length
        return AxisPlacement(
            self.axis.dimension, starts, lengths, size, problems=tuple(self.problems), **others
        )


def _measure(axis: Axis, files: FileColumns, rows: Rows) -> _Measured:
    """Find the length of a dimension in each file, on which all arrays of it must agree."""
    lengths = np.full(len(files), NOWHERE, np.int64)
    if axis.new:
        lengths[rows] = 1
        return _Measured(axis, files, rows, lengths[rows], [])
    unequal = np.zeros(len(files), np.bool_)
    for array in files.arrays.values():
        for code, form in enumerate(array.forms):
            if axis.dimension not in form.dimensions:
                continue
            held = array.form == code
            found = array.shape[held, form.dimensions.index(axis.dimension)]
            at = array.files[held]
            unequal[at] |= (lengths[at] != NOWHERE) & (lengths[at] != found)
            lengths[at] = found
    along = rows[lengths[rows] != NOWHERE]
    measured = _Measured(axis, files, along, lengths[along], [])
    if len(rows) and not len(along):
        forms = (form for array in files.arrays.values() for form in array.forms)
        names = sorted({name for form in forms for name in form.dimensions if name})
        reason = f"no file has this dimension; there are {', '.join(names)}"
        measured.report(ProblemKind.NO_POSITION, reason, rows.tolist())
    if unequal[along].any():
        bad = along[unequal[along]]
        reason = "the arrays of a file have different lengths along it"
        measured.report(ProblemKind.NO_POSITION, reason, bad.tolist())
        measured = measured.keep(~unequal[along])
    return measured


# -- by order -------------------------------------------------------------------------------------


def _by_order(measured: _Measured) -> AxisPlacement:
    urls = measured.files.urls
    order = sorted(range(len(measured.rows)), key=lambda i: _natural(urls[measured.rows[i]]))
    ends = np.cumsum(measured.length[order])
    start = np.empty(len(order), np.int64)
    start[order] = ends - measured.length[order]
    return measured.placed(start, int(ends[-1]) if len(ends) else 0)


def _natural(url: str) -> list[tuple[int, str]]:
    """Return a key by which `day-9` comes before `day-10`."""
    parts = _NUMBERS.split(url)
    return [(int(part), "") if i % 2 else (-1, part) for i, part in enumerate(parts)]


# -- by name --------------------------------------------------------------------------------------


def _by_name(measured: _Measured) -> AxisPlacement:
    axis = measured.axis
    urls = [measured.files.urls[row] for row in measured.rows]
    keys, faults = positions_in_names(urls, axis.pattern or "", axis.format, axis.dimension)
    good = np.ones(len(urls), np.bool_)
    if faults:
        reason = f"{next(iter(faults.values()))}; correct the pattern, or exclude the files"
        bad = sorted(faults)
        measured.report(ProblemKind.NO_POSITION, reason, measured.rows[bad].tolist())
        good[bad] = False
    measured, keys = measured.keep(good), keys[good]
    calendar = STANDARD if is_date(axis.format) else None
    if axis.step or bool((measured.length == 1).all()):
        return _by_name_and_step(measured, keys, calendar)
    return _by_rank(measured, keys, calendar)


def _by_name_and_step(
    measured: _Measured, keys: npt.NDArray[Any], calendar: str | None
) -> AxisPlacement:
    """Place files whose names tell the value of their first position."""
    spans = Spans.of(measured.length)
    values = np.repeat(keys, measured.length)
    step = _step_of(measured, calendar)
    if step is not None and len(keys) and keys.dtype.kind in "if" and spans.within.any():
        scale = scale_of(keys, step, calendar)
        first = np.rint(scale.positions(values)).astype(np.int64)
        values = values + scale.values(first + spans.within) - scale.values(first)
    placed = _by_values(measured, values, calendar)
    # the coordinate of a dimension that files have is in the files
    return placed if measured.axis.new else replace(placed, values=None)


def _by_rank(measured: _Measured, keys: npt.NDArray[Any], calendar: str | None) -> AxisPlacement:
    """Place files of several positions in the order of what their names tell."""
    distinct, place = np.unique(keys, return_inverse=True)
    lengths = np.zeros(len(distinct), np.int64)
    np.maximum.at(lengths, place, measured.length)
    unequal = measured.length != lengths[place]
    if unequal.any():
        bad = measured.rows[np.isin(place, place[unequal])]
        reason = (
            "files of one position have different lengths; exclude some, or place files by the "
            "values of a coordinate (by: coordinate)"
        )
        measured.report(ProblemKind.OVERLAP, reason, bad.tolist())
    ends = np.cumsum(lengths)
    size = int(ends[-1]) if len(ends) else 0
    return measured.placed((ends - lengths)[place], size, calendar=calendar)


# -- by coordinate --------------------------------------------------------------------------------


def _by_coordinate(measured: _Measured) -> AxisPlacement:
    path = measured.axis.coordinate_path
    array = measured.files.arrays.get(path)
    code = np.full(len(measured.files), NOWHERE, np.int32)
    if array is not None:
        code[array.files] = array.value
    has = code[measured.rows] != NOWHERE
    if not has.all():
        _report_without_values(measured, path, measured.rows[~has])
        measured = measured.keep(has)
    if array is None or not len(measured.rows):
        return measured.placed(np.empty(0, np.int64), 0)
    lengths = array.values.lengths(code[measured.rows])
    if (lengths != measured.length).any():
        bad = measured.rows[lengths != measured.length]
        reason = f"{path} is not one value per position"
        measured.report(ProblemKind.NO_POSITION, reason, bad.tolist())
        measured = measured.keep(lengths == measured.length)
    codes = code[measured.rows]
    values = array.values.joined(codes)
    calendars = {kind.calendar for kind in array.values.kinds_of(codes)}
    if not len(codes) or calendars == {None}:
        return _by_values(measured, values, None)
    calendar = common_calendar(calendars, int(values.min(initial=0)))
    if calendar is None:
        told = ", ".join(sorted(name or "none" for name in calendars))
        reason = f"files count time in different calendars: {told}"
        measured.report(ProblemKind.NO_POSITION, reason, measured.rows.tolist())
        return measured.placed(np.full(len(measured.rows), NOWHERE, np.int64), 0)
    return _by_values(measured, values, calendar, array.values.time(codes[0]))


def _report_without_values(measured: _Measured, path: str, rows: Rows) -> None:
    faults = [measured.files.faults.get((int(row), path)) for row in rows]
    told = next((fault for fault in faults if fault), None)
    reason = (
        f"{path}: {told}"
        if told
        else f"there is no coordinate {path} in files; name another (coordinate: ...), or place "
        "files by their names (by: name)"
    )
    measured.report(ProblemKind.NO_POSITION, reason, rows.tolist())


def _step_of(measured: _Measured, calendar: str | None) -> Step | None:
    text = measured.axis.step
    if text is None:
        return None
    step = parse_step(text)
    if step.in_months and calendar not in (None, *CALENDARS_WITH_MONTHS):
        reason = f"months of the calendar {calendar} are not known; leave out the step"
        measured.report(ProblemKind.OFF_STEP, reason, [])
        return None
    if step.is_time is (calendar is not None):
        return step
    kind = "times, so give a unit, such as `1 day`" if calendar else "no times; give a number"
    reason = f"the step {text!r} does not fit: the values are {kind}"
    measured.report(ProblemKind.OFF_STEP, reason, [])
    return None


def _by_values(
    measured: _Measured,
    values: npt.NDArray[Any],
    calendar: str | None,
    time: TimeEncoding | None = None,
) -> AxisPlacement:
    labelled = LabelledValues(values, Spans.of(measured.length), _describer(calendar))
    unknown = _unknown(values, calendar)
    if unknown.any():
        bad = np.unique(labelled.spans.owner[unknown])
        reason = "the coordinate has missing values"
        measured.report(ProblemKind.NO_POSITION, reason, measured.rows[bad].tolist())
        return measured.placed(np.full(len(measured.rows), NOWHERE, np.int64), 0)
    step = _step_of(measured, calendar)
    found: AxisSpans = (
        spans_by_value(labelled) if step is None else spans_by_step(labelled, step, calendar)
    )
    for kind, reason, bad in found.faults:
        measured.report(kind, reason, measured.rows[bad].tolist())
    gaps = tuple(Gap(measured.axis.dimension, *gap) for gap in found.gaps)
    return measured.placed(
        found.start, len(found.values), values=found.values, calendar=calendar, time=time, gaps=gaps
    )


def _unknown(values: npt.NDArray[Any], calendar: str | None) -> npt.NDArray[np.bool_]:
    if calendar is not None:
        return np.asarray(values == MISSING)
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)


def _describer(calendar: str | None) -> Any:
    if calendar is None:
        return str
    return lambda micros: describe_moment(int(micros), calendar)
