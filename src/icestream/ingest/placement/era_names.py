"""Names for the periods in which files agree, which stay when files come late.

An era that was published keeps its name, whatever files come before, into or behind it: readers
know it by that name, and its references need not be made again. So names cannot be a matter of the
files alone. They are kept with the state of the archive, as the group that each file was put into,
and an era gets the name that most of its files know. Where all files agreed until now, that name is
`/`, and only the files that differ get a group of their own. A new era is named after its first
position, such as `/era-2020-01-01`, rather than numbered: numbers would not stay in order.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from icestream.ingest.file_columns import Rows
from icestream.ingest.placement.axes import AxisPlacement
from icestream.ingest.times.calendars import describe_moment

_UNSUITABLE = re.compile(r"[^\w.-]+")


def name_eras(
    era: Rows, placed: AxisPlacement, urls: Sequence[str], known: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the group of each era.

    Args:
        era: The number of the era of each file.
        placed: Where files lie along the first dimension.
        urls: Of the files.
        known: By URL, the group that a file was put into before.
    """
    names = _known_names(era, urls, known)
    taken = {*names.values()}
    for number in range(int(era.max()) + 1):
        if number not in names:
            names[number] = _unused(_label(placed, era == number), taken)
            taken.add(names[number])
    return tuple(names[number] for number in range(len(names)))


def _known_names(era: Rows, urls: Sequence[str], known: Mapping[str, str]) -> dict[int, str]:
    """Return names of eras that have one: each name goes where most files know it."""
    found = list(map(known.get, urls))
    distinct = list(dict.fromkeys(name for name in found if name is not None))
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(distinct)}
    code = np.array([numbers.get(name, -1) for name in found], np.intp)
    pairs = np.stack([era, code], axis=1)[code >= 0]
    claims, counts = np.unique(pairs, axis=0, return_counts=True)
    names: dict[int, str] = {}
    for row in np.argsort(-counts, kind="stable").tolist():
        number, name = int(claims[row, 0]), distinct[claims[row, 1]]
        if number not in names and name not in names.values():
            names[number] = name
    return names


def _label(placed: AxisPlacement, rows: npt.NDArray[np.bool_]) -> str:
    first = int(placed.start[rows].min())
    if placed.values is None:
        return str(first)
    value = placed.values[first]
    return describe_moment(int(value), placed.calendar) if placed.calendar else str(value)


def _unused(label: str, taken: set[str]) -> str:
    name = f"/era-{_UNSUITABLE.sub('-', label)}"
    number = 1
    unused = name
    while unused in taken:
        number += 1
        unused = f"{name}-{number}"
    return unused
