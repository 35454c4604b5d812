"""What a new placement changes: files that came, files that went, and those that had to move."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from icestream.ingest.file_columns import NOWHERE, Rows
from icestream.ingest.placement.placing import Placement
from icestream.ingest.placement.virtual_arrays import VirtualArray


@dataclass(frozen=True, slots=True, eq=False)
class ArrayChange:
    """What becomes of one virtual array. Rows are those of the placement that they are of."""

    added: Rows
    """Files that have a place only now."""
    moved: Rows
    """Files that have another place now: a file came or went in front of them."""
    removed: Rows
    """Files of the placement before that have no place any more."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not (len(self.added) or len(self.moved) or len(self.removed))


def changes_between(before: Placement, after: Placement) -> dict[str, ArrayChange]:
    """Return what changes, by path in the repository; arrays that stay as they are are left out."""
    old, new = _arrays(before), _arrays(after)
    row_after = {url: row for row, url in enumerate(after.urls)}
    translated = np.array([row_after.get(url, NOWHERE) for url in before.urls], np.intp)
    found = {
        path: _change(old.get(path), new.get(path), translated) for path in sorted({*old, *new})
    }
    return {path: change for path, change in found.items() if not change.is_empty}


def _arrays(placement: Placement) -> Mapping[str, VirtualArray]:
    return {
        section.target(path): array
        for section in placement.sections
        for path, array in section.virtual.items()
    }


def _change(old: VirtualArray | None, new: VirtualArray | None, translated: Rows) -> ArrayChange:
    nothing = np.empty(0, np.intp)
    if new is None:
        return ArrayChange(nothing, nothing, nothing if old is None else old.files)
    if old is None or old.chunk_offset.shape[1] != new.chunk_offset.shape[1]:
        return ArrayChange(new.files, nothing, nothing if old is None else old.files)
    ancestors = translated[old.files]
    both, at_old, at_new = np.intersect1d(ancestors, new.files, return_indices=True)
    has_moved = (old.chunk_offset[at_old] != new.chunk_offset[at_new]).any(axis=1)
    return ArrayChange(
        added=np.setdiff1d(new.files, both),
        moved=both[has_moved],
        removed=old.files[~np.isin(ancestors, both)],
    )
