"""Where some files of an archive lie in its arrays: as positions along dimensions."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.file_columns import NOWHERE, Lengths
from icestream.ingest.placement.placing import Placement, Section

type Box = Mapping[str, npt.NDArray[np.int64]]
"""Ascending positions by dimension: the cells at all combinations of them, and at all positions
of other dimensions."""


@dataclass(frozen=True, slots=True, eq=False)
class FilePositions:
    """The cells that some files bring."""

    group: str
    """The path of the group that their arrays are in."""
    boxes: tuple[Box, ...]
    """Without any cell in two of them."""


def positions_of(placement: Placement, urls: Collection[str], archive: Archive) -> FilePositions:
    """Return where files lie in the arrays of an archive.

    Args:
        placement: Of all files, as the run that wrote the arrays had it.
        urls: Files; those without a place bring nothing.
        archive: The declaration.

    Raises:
        InvalidInputError: The archive makes several groups of its files.
    """
    if len(placement.sections) > 1:
        groups = ", ".join(section.group for section in placement.sections)
        raise InvalidInputError(
            f"the files of {archive.name} make several groups ({groups}), whose cells are no "
            "one table: read the group that is wanted with the format icestream, or derive an "
            "array from it",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    for section in placement.sections:
        wanted = np.isin(np.array(placement.urls)[section.files], list(urls))
        boxes = tuple(_boxes(section, section.files[wanted]))
        return FilePositions(section.target("", archive.target.group), boxes)
    return FilePositions(archive.target.group, ())


def _boxes(section: Section, rows: npt.NDArray[np.intp]) -> Iterator[Box]:
    """Yield the positions of files: those that differ along the first dimension only, together."""
    axes = section.axes
    if not axes:
        yield from [{}] * bool(len(rows))
        return
    start = np.stack([axis.start[rows] for axis in axes], axis=1)
    length = np.stack([axis.length[rows] for axis in axes], axis=1)
    placed = (start != NOWHERE).all(axis=1)
    start, length = start[placed], length[placed]
    others = np.concatenate([start[:, 1:], length[:, 1:]], axis=1)
    distinct, number = np.unique(others, axis=0, return_inverse=True)
    for code, other in enumerate(distinct):
        own = number.reshape(-1) == code
        box = {axes[0].dimension: _union(start[own, 0], length[own, 0])}
        for axis, first, count in zip(
            axes[1:], other[: len(axes) - 1], other[len(axes) - 1 :], strict=True
        ):
            box[axis.dimension] = np.arange(first, first + count)
        yield box


def _union(start: Lengths, length: Lengths) -> npt.NDArray[np.int64]:
    """Return all positions that spans cover, each once."""
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    return np.unique(np.repeat(start, length) + within)
