"""From one placement of an archive's files to the next: all that has to be done, and no more.

References of files that stay are never read again: they are moved by a map of chunk indexes. Where
two placements are the same, there is nothing to do.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.ingest.file_columns import NOWHERE
from icestream.ingest.placement.copied_arrays import CopiedArray
from icestream.ingest.placement.placing import Placement
from icestream.ingest.placement.virtual_arrays import VirtualArray
from icestream.ingest.updates.array_updates import ArrayUpdate, FileRows, update_array
from icestream.ingest.updates.copied_updates import CopiedUpdate, update_copied
from icestream.ingest.updates.group_updates import group_attributes
from icestream.ingest.updates.metadata_changes import are_same
from icestream.model.paths import ROOT, absolute, ancestors_of

_TEXT = pa.large_string()
_NO_ROWS = np.empty(0, np.intp)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Updates:
    """All that has to be done, by path in the repository; deletions come first."""

    deleted_arrays: tuple[str, ...] = ()
    """Those that are no more, and those that are made anew."""
    deleted_groups: tuple[str, ...] = ()
    """The deepest first."""
    needed_groups: tuple[str, ...] = ()
    """That must exist, parents first; their attributes are nobody's business."""
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Attributes of groups that are new or have other attributes now, parents first."""
    old_groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What earlier runs made of these attributes."""
    arrays: Mapping[str, ArrayUpdate] = field(default_factory=dict)
    copied: Mapping[str, CopiedUpdate] = field(default_factory=dict)
    rescan: tuple[str, ...] = ()
    """URLs of files that bring references, as updates of arrays say, and must be scanned for it."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be done."""
        return not (
            self.deleted_arrays
            or self.deleted_groups
            or self.needed_groups
            or self.groups
            or self.arrays
            or self.copied
        )


def plan_updates(
    before: Placement, after: Placement, rescanned: AbstractSet[str], *, group: str = ROOT
) -> Updates:
    """Return what has to be done to a repository that follows one placement to follow the next.

    Args:
        before: What the repository holds; that of no files if it holds nothing.
        after: What it shall hold.
        rescanned: URLs of files that are new or changed, whose references are at hand.
        group: The group of the archive.
    """
    old, new = _arrays(before, group), _arrays(after, group)
    rows = _file_rows(before, after, rescanned)
    virtual = {
        path: update_array(old.virtual.get(path), array, rows)
        for path, array in new.virtual.items()
    }
    copied = {
        path: update_copied(old.copied.get(path), array) for path, array in new.copied.items()
    }
    made = {
        *(path for path, (update, _) in virtual.items() if update.is_new),
        *(path for path, update in copied.items() if update.is_new),
    }
    lacking = np.concatenate([_NO_ROWS, *(found for _, found in virtual.values())])
    groups = _group_changes(before, after, group)
    return Updates(
        deleted_arrays=tuple(sorted(old.paths & made | old.paths - new.paths)),
        deleted_groups=groups.deleted,
        needed_groups=groups.needed,
        groups=groups.changed,
        old_groups=groups.old,
        arrays={path: update for path, (update, _) in virtual.items() if not update.is_empty},
        copied={path: update for path, update in copied.items() if not update.is_empty},
        rescan=tuple(after.urls[row] for row in np.unique(lacking).tolist()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Arrays:
    """All arrays of a placement by path in the repository."""

    virtual: Mapping[str, VirtualArray]
    copied: Mapping[str, CopiedArray]

    @property
    def paths(self) -> set[str]:
        return {*self.virtual, *self.copied}


def _arrays(placement: Placement, group: str) -> _Arrays:
    virtual: dict[str, VirtualArray] = {}
    copied: dict[str, CopiedArray] = {}
    for section in placement.sections:
        virtual |= {section.target(path, group): one for path, one in section.virtual.items()}
        copied |= {section.target(path, group): one for path, one in section.copied.items()}
    return _Arrays(virtual, copied)


def _file_rows(before: Placement, after: Placement, rescanned: AbstractSet[str]) -> FileRows:
    urls = pa.array(after.urls, _TEXT)
    successor = pc.index_in(pa.array(before.urls, _TEXT), value_set=urls).fill_null(NOWHERE)
    is_fresh = pc.is_in(urls, value_set=pa.array(list(rescanned), _TEXT))
    return FileRows(
        successor.to_numpy(zero_copy_only=False).astype(np.intp),
        is_fresh.to_numpy(zero_copy_only=False),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _GroupChanges:
    deleted: tuple[str, ...]
    needed: tuple[str, ...]
    changed: Mapping[str, Mapping[str, Any]]
    old: Mapping[str, Mapping[str, Any]]


def _group_changes(before: Placement, after: Placement, group: str) -> _GroupChanges:
    old, new = group_attributes(before, group), group_attributes(after, group)
    lasting = {absolute(group), *ancestors_of(absolute(group))}
    changed = {path: found for path, found in new.items() if not are_same(found, old.get(path, {}))}
    return _GroupChanges(
        deleted=tuple(sorted(old.keys() - new.keys() - lasting, reverse=True)),
        needed=tuple(path for path, found in new.items() if not found and path not in old),
        changed=changed,
        old={path: old[path] for path in changed if path in old},
    )
