"""Places without a file that read as if there were values, because files name no missing value."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from icestream.ingest.placement.placing import Placement
from icestream.ingest.placement.virtual_arrays import VirtualArray

_MARKS = frozenset({"_FillValue", "missing_value"})
_NOT_A_NUMBER = "NaN"


def unmarked_gaps(placement: Placement) -> tuple[str, ...]:
    """Return a warning for each array whose gaps cannot be told from values."""
    return tuple(
        f"{section.target(array.path)} has places without a file, which read as "
        f"{array.metadata.get('fill_value')}: its files name no missing value (_FillValue)"
        for section in placement.sections
        for array in section.virtual.values()
        if not _is_marked(array.metadata) and _has_gaps(array)
    )


def _is_marked(metadata: Mapping[str, Any]) -> bool:
    is_marked = not _MARKS.isdisjoint(metadata.get("attributes", {}))
    return is_marked or metadata.get("fill_value") == _NOT_A_NUMBER


def _has_gaps(array: VirtualArray) -> bool:
    return sum(_supplied(array)) < math.prod(_chunks(array.metadata))


def _supplied(array: VirtualArray) -> Iterator[int]:
    for extent in (array.chunk_extent, array.differing_extent):
        if extent is not None:
            yield int(extent.prod(axis=1).sum())


def _chunks(metadata: Mapping[str, Any]) -> Iterator[int]:
    sizes = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    both = zip(metadata["shape"], sizes, strict=True)
    return (-(-length // max(size, 1)) for length, size in both)
