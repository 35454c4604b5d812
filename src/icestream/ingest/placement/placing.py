"""Where every file of an archive goes: the arrays that files make together.

Nothing is read or written. The result does not depend on the order in which files are given, and
files that come late simply get their place: those behind them move.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.ingest.conversion.converting import obstacle_between
from icestream.ingest.declaration.archives import Archive, Axis, OnMismatch, any_matches
from icestream.ingest.declaration.name_patterns import searcher
from icestream.ingest.file_columns import ArrayColumns, FileColumns, Rows
from icestream.ingest.placement.agreement import (
    disagreements_of,
    eras_of,
    unusual_files,
    usual_forms,
)
from icestream.ingest.placement.axes import AxisPlacement, Gap, place_along
from icestream.ingest.placement.boxes import PlacedAxes, boxes_of, joined_boxes
from icestream.ingest.placement.copied_arrays import (
    CopiedArray,
    copied_metadata,
    copy_values,
    encode_copied,
)
from icestream.ingest.placement.era_names import name_eras
from icestream.ingest.placement.problems import Problem, ProblemKind, problem
from icestream.ingest.placement.virtual_arrays import VirtualArray, place_virtual
from icestream.ingest.times.calendars import STANDARD
from icestream.ingest.times.encodings import parse_time_units
from icestream.model.paths import ROOT, absolute, name_of

MAX_ERAS = 100
"""More are no periods, but files that alternate."""

_EPOCH = "days since 1970-01-01"


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """Files that make the arrays of one group together."""

    group: str
    """Below the group of the archive; `/` if there is only one section."""
    files: Rows
    axes: tuple[AxisPlacement, ...] = ()
    virtual: Mapping[str, VirtualArray] = field(default_factory=dict)
    """By path in the files."""
    copied: Mapping[str, CopiedArray] = field(default_factory=dict)
    """By path in the files."""

    def target(self, path: str, group: str = ROOT) -> str:
        """Return where an array or group of the files goes, below the group of the archive."""
        parts = (part.strip("/") for part in (group, self.group, path))
        return absolute("/".join(part for part in parts if part))


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where every file goes."""

    urls: tuple[str, ...]
    groups: Mapping[str, Mapping[str, Any]]
    """Attributes of groups, by path in the files."""
    sections: tuple[Section, ...]
    set_aside: Mapping[int, str] = field(default_factory=dict)
    """Why files are left out, by row."""
    problems: tuple[Problem, ...] = ()

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Positions without a file."""
        return tuple(gap for part in self.sections for axis in part.axes for gap in axis.gaps)


def plan_placement(
    files: FileColumns, archive: Archive, *, known_groups: Mapping[str, str] | None = None
) -> Placement:
    """Return where files go, with all problems that are in the way.

    Args:
        files: The files.
        archive: Their declaration.
        known_groups: By URL the group that a file was put into before, as `groups_of` tells it.
    """
    if archive.combine.group_per_file is None:
        grouped = _groups_by_agreement(files, archive, known_groups or {})
    else:
        grouped = _groups_by_name(files, archive.combine.group_per_file)
    problems = list(grouped.problems)
    sections = []
    for group, rows in grouped.rows.items():
        if not len(rows):
            continue  # no files make no arrays, not even coordinates made of their names
        section, found_problems = _place_section(group, files, rows, archive)
        sections.append(section)
        problems += found_problems
    return Placement(
        files.urls,
        files.groups,
        _with_common_times(sections, archive.time_units),
        grouped.set_aside,
        tuple(problems),
    )


def groups_of(placement: Placement) -> dict[str, str]:
    """Return by URL the group that a file is put into, for the next placement to keep.

    Also where there is one group only: its name is kept when others come.
    """
    return {
        placement.urls[row]: section.group
        for section in placement.sections
        for row in section.files.tolist()
    }


# -- which files belong together -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Grouped:
    rows: Mapping[str, Rows]
    """Of files, by the group that they become."""
    problems: Sequence[Problem] = ()
    set_aside: Mapping[int, str] = field(default_factory=dict)


def _groups_by_name(files: FileColumns, pattern: str) -> _Grouped:
    """Return one group per file, or of files that give one name."""
    search = searcher(pattern)
    rows: dict[str, list[int]] = {}
    nameless: list[int] = []
    for row, url in enumerate(files.urls):
        found = search(url)
        name = found and found.group("group")
        (rows.setdefault(f"/{name.strip('/')}", []) if name else nameless).append(row)
    problems = []
    if nameless:
        reason = f"{pattern!r} does not match the names of files; correct it, or exclude them"
        kind, subject = ProblemKind.NO_POSITION, "group-per-file"
        problems.append(problem(kind, subject, reason, urls=files.urls, rows=nameless))
    return _Grouped({group: np.array(found, np.intp) for group, found in rows.items()}, problems)


def _groups_by_agreement(
    files: FileColumns, archive: Archive, known: Mapping[str, str]
) -> _Grouped:
    """Return groups of files that agree, as far as the policy makes some."""
    every = np.arange(len(files))
    differences = disagreements_of(files)
    policy = archive.policies.on_mismatch
    if policy is OnMismatch.ERA and (differences or _has_eras(files, known)):
        return _eras(files, archive, known)
    if not differences or policy is OnMismatch.MATERIALISE:
        return _Grouped({"/": every})
    if policy is OnMismatch.FAIL:
        return _Grouped({"/": every}, [found.problem(files.urls) for found in differences])
    reasons: dict[int, str] = {}
    for found in differences:
        usual = found.variants[0].text
        for variant in found.variants[1:]:
            reason = f"{found.path}: {found.attribute} is {variant.text}, and usually {usual}"
            reasons.update(dict.fromkeys(variant.files.tolist(), reason))
    for path, unusual in unusual_files(files).items():
        for row in unusual.tolist():
            reasons.setdefault(row, f"{path} has another form than usual")
    rows = np.setdiff1d(every, np.array(list(reasons), np.intp))
    return _Grouped({"/": rows}, set_aside=reasons)


def _has_eras(files: FileColumns, known: Mapping[str, str]) -> bool:
    """Tell whether files that agree are in a group of their own, since others did not."""
    return len(files) > 0 and not {*map(known.get, files.urls)} <= {None, ROOT}


def _eras(files: FileColumns, archive: Archive, known: Mapping[str, str]) -> _Grouped:
    every = np.arange(len(files))
    axes = archive.combine.along
    placed = place_along(axes[0], files, every) if axes else None
    if placed is None or placed.problems:
        # without an order there are no periods: say what differs, and what is wrong with the order
        found = [difference.problem(files.urls) for difference in disagreements_of(files)]
        return _Grouped({"/": every}, found)
    era = eras_of(files, placed.start)
    count = int(era.max()) + 1
    if count > MAX_ERAS:
        reason = (
            f"files change {count - 1} times along {axes[0].dimension}, and more than {MAX_ERAS} "
            "eras are of no use; declare on-mismatch: materialise or set-aside"
        )
        kind, rows = ProblemKind.TOO_MANY_ERAS, every.tolist()
        return _Grouped({"/": every}, [problem(kind, "/", reason, urls=files.urls, rows=rows)])
    names = name_eras(era, placed, files.urls, known)
    groups = {name: np.flatnonzero(era == i) for i, name in enumerate(names)}
    inside = [
        difference.problem(files.urls)
        for rows_of_era in groups.values()
        for difference in disagreements_of(_restricted(files, rows_of_era))
    ]
    return _Grouped(groups, inside)


# -- one section ----------------------------------------------------------------------------------


def _place_section(
    group: str, files: FileColumns, rows: Rows, archive: Archive
) -> tuple[Section, list[Problem]]:
    files = files if len(rows) == len(files) else _restricted(files, rows)
    axes = [(axis, place_along(axis, files, rows)) for axis in archive.combine.along]
    problems = [found for _, placed in axes for found in placed.problems]
    virtual: dict[str, VirtualArray] = {}
    copied: dict[str, CopiedArray] = {}
    usual = usual_forms(files)
    is_ordered = not problems
    for path, array in files.arrays.items():
        placed = _place_array(path, array, usual[path], (files, axes, archive))
        # positions that are wrong put chunks where they do not fit: one cause is told once
        problems += [found for found in placed.problems if is_ordered or not found.is_of_positions]
        if placed.virtual is not None:
            virtual[path] = placed.virtual
        if placed.copied is not None:
            copied[path] = placed.copied
    for axis, placed_axis in axes:
        if axis.new and placed_axis.values is not None:
            copied[axis.coordinate_path] = _new_coordinate(axis, placed_axis)
    return Section(group, rows, tuple(placed for _, placed in axes), virtual, copied), problems


@dataclass(frozen=True, slots=True, eq=False)
class _PlacedArray:
    virtual: VirtualArray | None = None
    copied: CopiedArray | None = None
    problems: tuple[Problem, ...] = ()


def _place_array(
    path: str,
    array: ArrayColumns,
    code: int,
    surroundings: tuple[FileColumns, PlacedAxes, Archive],
) -> _PlacedArray:
    files, axes, archive = surroundings
    is_constant = any_matches(archive.combine.constant, path)
    if not array.is_copied:
        is_coordinate = array.forms[code].dimensions == (name_of(path),)
        is_single = is_coordinate or is_constant or any_matches(archive.loaded, path)
        boxes = boxes_of(array, code, axes, is_stacked=not is_single)
        others, beyond = _to_copy(path, array, code, surroundings)
        stacked = (boxes_of(array, other, axes, is_stacked=not is_single) for other in others)
        every = joined_boxes(array, (boxes, *stacked))
        virtual, problems = place_virtual(
            path, boxes, files.urls, every=every, is_constant=is_constant
        )
        return _PlacedArray(virtual=virtual, problems=(*problems, *beyond))
    unread = array.files[array.value < 0]
    problems = [
        problem(
            ProblemKind.UNREADABLE_VALUES,
            path,
            files.faults.get((row, path), "its values could not be loaded as numbers"),
            urls=files.urls,
            rows=[row],
        )
        for row in unread.tolist()
    ]
    boxes = boxes_of(array.take(array.value >= 0), code, axes, is_stacked=False)
    along = next((placed for axis, placed in axes if axis.coordinate_path == path), None)
    copied, found = copy_values(path, boxes, files.urls, along=along)
    differing = array.files[array.form != code].tolist()
    if differing and archive.policies.on_mismatch is OnMismatch.MATERIALISE:
        reason = "a coordinate that differs cannot be made the same by copying; use era"
        kind = ProblemKind.MISMATCH
        problems.append(problem(kind, path, reason, urls=files.urls, rows=differing))
    return _PlacedArray(copied=copied, problems=(*problems, *found))


def _to_copy(
    path: str,
    array: ArrayColumns,
    code: int,
    surroundings: tuple[FileColumns, PlacedAxes, Archive],
) -> tuple[list[int], list[Problem]]:
    """Return the forms whose files are copied into the usual array, and those that cannot be."""
    files, _, archive = surroundings
    if archive.policies.on_mismatch is not OnMismatch.MATERIALISE:
        return [], []
    usual = array.forms[code]
    fitting: list[int] = []
    problems: list[Problem] = []
    for other in np.setdiff1d(array.form, [code]).tolist():
        form = array.forms[other]
        reason = obstacle_between(array.metadata[other], array.metadata[code])
        if (form.dimensions, form.lengths) != (usual.dimensions, usual.lengths):
            reason = f"dimensions {form.dimensions} of lengths {form.lengths} do not fit"
        if reason is None:
            fitting.append(other)
        else:
            rows = array.files[array.form == other].tolist()
            told = f"it cannot be copied to the array of the other files: {reason}; use era"
            problems.append(problem(ProblemKind.MISMATCH, path, told, urls=files.urls, rows=rows))
    return fitting, problems


def _restricted(files: FileColumns, rows: Rows) -> FileColumns:
    """Return what is in some files; rows stay as they are."""
    chosen: npt.NDArray[np.bool_] = np.zeros(len(files), np.bool_)
    chosen[rows] = True
    arrays = {path: array.take(chosen[array.files]) for path, array in files.arrays.items()}
    return replace(
        files, arrays={path: array for path, array in arrays.items() if len(array.files)}
    )


def _new_coordinate(axis: Axis, placed: AxisPlacement) -> CopiedArray:
    """Return the coordinate of a dimension that files do not have."""
    values = placed.values if placed.values is not None else np.arange(placed.size)
    time = None if placed.calendar is None else parse_time_units(_EPOCH, STANDARD)
    attributes = {} if time is None else {"units": "", "calendar": ""}
    document = {"dimension_names": [axis.dimension], "attributes": attributes}
    return CopiedArray(
        axis.coordinate_path, copied_metadata(document, values, [placed]), values, time
    )


def _with_common_times(sections: list[Section], time_units: str | None) -> tuple[Section, ...]:
    """Return sections with times in one unit for the archive, not one for each section."""
    together = {
        f"{i} {path}": array
        for i, section in enumerate(sections)
        for path, array in section.copied.items()
    }
    encoded = encode_copied(together, time_units)
    return tuple(
        replace(section, copied={path: encoded[f"{i} {path}"] for path in section.copied})
        for i, section in enumerate(sections)
    )
