"""Snapshots leave the history; what they changed stays with their descendants."""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice

from icestream.model.ids import SnapshotId
from icestream.model.repo_info import RepoInfo, SnapshotEntry


def reachable_entries(
    tips: Iterable[SnapshotId], ancestry: Callable[[SnapshotId], Iterator[SnapshotEntry]]
) -> dict[SnapshotId, SnapshotEntry]:
    """Return the snapshots that tips and their ancestors cover; each is looked at once."""
    reached: dict[SnapshotId, SnapshotEntry] = {}
    for tip in tips:
        if tip in reached:
            continue
        for entry in ancestry(tip):
            if entry.id in reached:
                break
            reached[entry.id] = entry
    return reached


def prune(
    info: RepoInfo, dropped: AbstractSet[SnapshotId], is_boundary: Callable[[SnapshotEntry], bool]
) -> RepoInfo:
    """Return the repo info without some snapshots.

    A child of a dropped snapshot is hung on its nearest ancestor that `is_boundary` accepts, and
    keeps the ids of the transaction logs in between: they are now part of what it changed.
    """
    return info.with_snapshots(
        _rehung(info, entry, is_boundary) if entry.parent_id in dropped else entry
        for entry in info.snapshots.values()
        if entry.id not in dropped
    )


def _rehung(
    info: RepoInfo, entry: SnapshotEntry, is_boundary: Callable[[SnapshotEntry], bool]
) -> SnapshotEntry:
    newest_first = list(reversed(entry.pruned_logs))
    parent_id: SnapshotId | None = None
    for ancestor in islice(info.ancestry(entry.id), 1, None):
        if is_boundary(ancestor):
            parent_id = ancestor.id
            break
        newest_first += [ancestor.id, *reversed(ancestor.pruned_logs)]
    return replace(entry, parent_id=parent_id, pruned_logs=tuple(reversed(newest_first)))
