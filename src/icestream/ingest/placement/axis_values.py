"""From the coordinate values of many files to positions along a dimension, all at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.ingest.declaration.steps import Step
from icestream.ingest.placement.problems import ProblemKind
from icestream.ingest.placement.scales import scale_of

Lengths = npt.NDArray[np.int64]
Fault = tuple[ProblemKind, str, npt.NDArray[np.intp]]
"""What is wrong, in words, and the numbers of the files."""
Gap = tuple[str, str, int | None]
"""Between which values, and for how many positions there is room."""

_FEW_VALUES = 3
_TOLERANCE = 1e-6
"""Of a step: so far may values that are no whole numbers be off."""
_MAX_POSITIONS = 50_000_000
"""Along a dimension with a step."""
_GAP_FACTOR = 1.5
"""Months are not all of one length, and no gaps."""


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Rows of files in one long column."""

    length: Lengths
    first: Lengths
    """The first row of each file."""
    owner: npt.NDArray[np.intp]
    """The number of the file of each row."""
    within: Lengths
    """The number of each row in its file."""

    @staticmethod
    def of(length: Lengths) -> "Spans":
        """Return the rows of files of these lengths, one behind the other."""
        first = np.cumsum(length) - length
        owner = np.repeat(np.arange(len(length)), length)
        return Spans(length, first, owner, np.arange(len(owner)) - first[owner])


@dataclass(frozen=True, slots=True, eq=False)
class LabelledValues:
    """The values of all files in one column, and how they are told to people."""

    values: npt.NDArray[Any]
    spans: Spans
    describe: Callable[[Any], str]


@dataclass(frozen=True, slots=True, eq=False)
class AxisSpans:
    """Where files start along a dimension with these values."""

    start: Lengths
    values: npt.NDArray[Any]
    gaps: tuple[Gap, ...] = ()
    faults: tuple[Fault, ...] = ()


def spans_by_value(labelled: LabelledValues) -> AxisSpans:
    """Place each file at its values among the distinct values of all files."""
    spans = labelled.spans
    distinct, place = np.unique(labelled.values, return_inverse=True)
    if _is_descending(place, spans):
        distinct, place = distinct[::-1], len(distinct) - 1 - place
    start = place[spans.first] if len(place) else np.zeros(len(spans.length), np.int64)
    faults = _order_faults(place, start, labelled)
    return AxisSpans(start, distinct, _gaps_between(distinct, labelled), tuple(faults))


def spans_by_step(labelled: LabelledValues, step: Step, calendar: str | None) -> AxisSpans:
    """Place each file on a regular scale that starts at the lowest value."""
    values, spans = labelled.values, labelled.spans
    if not len(values):
        return AxisSpans(np.zeros(len(spans.length), np.int64), values)
    if values.dtype.kind not in "iuf":
        return _nowhere(labelled, "texts have no distances; leave out `step`")
    scale = scale_of(values, step, calendar)
    positions = scale.positions(values)
    if positions.max() > _MAX_POSITIONS:
        reason = f"the step is so small that there would be {positions.max():.0f} positions"
        return _nowhere(labelled, reason)
    place = np.rint(positions).astype(np.int64)
    off = np.abs(positions - place) > _TOLERANCE
    numbers = np.arange(int(place.max()) + 1)
    if _is_descending(place, spans):
        place, numbers = numbers[-1] - place, numbers[::-1]
    start = place[spans.first]
    faults = [*_step_faults(off, place, start, labelled), *_order_faults(place, start, labelled)]
    regular = scale.values(numbers)
    regular = regular.astype(np.result_type(values.dtype, regular.dtype))
    regular[place] = values  # as they are in files, whatever rounding did
    return AxisSpans(start, regular, _gaps_on(regular, place, labelled), tuple(faults[:1]))


def _nowhere(labelled: LabelledValues, reason: str) -> AxisSpans:
    """Return no places, and why."""
    every = np.arange(len(labelled.spans.length))
    fault = ProblemKind.OFF_STEP, reason, every
    return AxisSpans(np.zeros(len(every), np.int64), labelled.values[:1], faults=(fault,))


def _is_descending(place: npt.NDArray[Any], spans: Spans) -> bool:
    """Tell whether values fall within most files."""
    inside = np.flatnonzero(spans.within > 0)
    steps = place[inside] - place[inside - 1]
    return bool(np.count_nonzero(steps < 0) > np.count_nonzero(steps > 0))


def _order_faults(place: Lengths, start: Lengths, labelled: LabelledValues) -> list[Fault]:
    spans = labelled.spans
    inside = np.flatnonzero(spans.within > 0)
    unsorted = np.unique(spans.owner[inside[place[inside] <= place[inside - 1]]])
    if len(unsorted):
        reason = "values are not sorted within files, or occur twice, or fall where others rise"
        return [(ProblemKind.UNSORTED, reason, unsorted)]
    apart = place != start[spans.owner] + spans.within
    if not apart.any():
        return []
    row = int(np.flatnonzero(apart)[0])
    between = np.flatnonzero(place == place[row - 1] + 1)
    told = [labelled.describe(labelled.values[i]) for i in (row - 1, row, *between[:1])]
    reason = (
        f"files overlap: one has {told[0]} and {told[1]}, and another {' '.join(told[2:])} between "
        "them; exclude one of them"
    )
    files = np.concatenate([np.unique(spans.owner[apart]), spans.owner[between]])
    return [(ProblemKind.OVERLAP, reason, np.array(list(dict.fromkeys(files.tolist())), np.intp))]


def _step_faults(
    off: npt.NDArray[np.bool_], place: Lengths, start: Lengths, labelled: LabelledValues
) -> list[Fault]:
    spans = labelled.spans
    wrong = off | (place > start[spans.owner] + spans.within)
    if not wrong.any():
        return []
    row = int(np.flatnonzero(wrong)[0])
    reason = f"{labelled.describe(labelled.values[row])} does not follow at the declared step"
    return [(ProblemKind.OFF_STEP, reason, np.unique(spans.owner[wrong]))]


def _gaps_between(distinct: npt.NDArray[Any], labelled: LabelledValues) -> tuple[Gap, ...]:
    """Return where neighbours are much farther apart than most, although nobody asked for room."""
    if len(distinct) < _FEW_VALUES or distinct.dtype.kind not in "iuf":
        return ()
    steps = np.abs(np.diff(distinct))
    sizes, counts = np.unique(steps, return_counts=True)
    wide = np.flatnonzero(steps > sizes[counts.argmax()] * _GAP_FACTOR)
    return tuple(
        (labelled.describe(distinct[i]), labelled.describe(distinct[i + 1]), None) for i in wide
    )


def _gaps_on(scale: npt.NDArray[Any], place: Lengths, labelled: LabelledValues) -> tuple[Gap, ...]:
    """Return the positions without a file."""
    is_missing = np.ones(len(scale) + 2, np.bool_)
    is_missing[0] = is_missing[-1] = False
    is_missing[place + 1] = False
    edges = np.flatnonzero(np.diff(is_missing.astype(np.int8)))
    return tuple(
        (labelled.describe(scale[lo]), labelled.describe(scale[hi - 1]), int(hi - lo))
        for lo, hi in zip(edges[::2], edges[1::2], strict=True)
    )
