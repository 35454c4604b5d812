"""The one mutable object of a repository, as an immutable value with pure updates."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from icestream.errors import (
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    ReadOnlyError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from icestream.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId, id_text
from icestream.model.ops_log import (
    RepoAvailability,
    RepoInitialized,
    RepoStatus,
    Update,
    UpdateType,
)
from icestream.model.snapshots import Snapshot, initial_snapshot
from icestream.model.times import datetime_of

MAIN_BRANCH = "main"

FEATURE_FLAGS: Mapping[str, int] = {"move_node": 3, "create_tag": 4, "delete_tag": 5}
"""Switchable features and their ids in the format; all are on by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEntry:
    """What the repo info records about one snapshot."""

    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at: int
    message: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pruned_logs: tuple[SnapshotId, ...] = ()
    """Ids of dropped ancestors whose logs still belong to this snapshot's change, oldest first."""

    @classmethod
    def of(cls, snapshot: Snapshot, parent_id: SnapshotId | None) -> Self:
        """Return the entry for a snapshot."""
        return cls(
            id=snapshot.id,
            parent_id=parent_id,
            flushed_at=snapshot.flushed_at,
            message=snapshot.message,
            metadata=snapshot.metadata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoInfo:
    """Branches, tags, the list of snapshots, the ops log, status and configuration."""

    branches: Mapping[str, SnapshotId]
    snapshots: Mapping[SnapshotId, SnapshotEntry]
    """Every live snapshot, also those that no branch or tag reaches until they are collected."""
    status: RepoStatus
    tags: Mapping[str, SnapshotId] = field(default_factory=dict)
    deleted_tags: frozenset[str] = frozenset()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    latest_updates: tuple[Update, ...] = ()
    """Newest first, never empty in a stored object."""
    repo_before_updates: str | None = None
    """File below `overwritten/` where the ops log goes on."""
    config: bytes | None = None
    """The encoded configuration, carried untouched by everything but saving another one."""
    enabled_flags: frozenset[int] = frozenset()
    disabled_flags: frozenset[int] = frozenset()
    extra: bytes | None = None
    """What a later version of the format may store here; carried untouched."""

    # -- asking ---------------------------------------------------------------------------------

    def entry(self, snapshot_id: SnapshotId) -> SnapshotEntry:
        """Return what is recorded about a snapshot."""
        found = self.snapshots.get(snapshot_id)
        if found is None:
            raise SnapshotNotFoundError(f"there is no snapshot {id_text(snapshot_id)}")
        return found

    def branch_tip(self, name: str) -> SnapshotId:
        """Return the snapshot that a branch points at."""
        return _get_ref(self.branches, name, "branch", ErrorKind.BRANCH_NOT_FOUND)

    def tag_target(self, name: str) -> SnapshotId:
        """Return the snapshot that a tag points at."""
        return _get_ref(self.tags, name, "tag", ErrorKind.TAG_NOT_FOUND)

    def ancestry(self, snapshot_id: SnapshotId) -> Iterator[SnapshotEntry]:
        """Yield a snapshot and its ancestors, newest first."""
        seen: set[SnapshotId] = set()
        current: SnapshotId | None = snapshot_id
        while current is not None and current not in seen:
            seen.add(current)
            entry = self.entry(current)
            yield entry
            current = entry.parent_id

    def feature_enabled(self, flag_id: int) -> bool:
        """Tell whether a feature is on."""
        return flag_id not in self.disabled_flags

    def check_feature(self, name: str) -> None:
        """Refuse an operation whose feature is switched off."""
        if not self.feature_enabled(FEATURE_FLAGS[name]):
            raise SessionStateError(
                f"the feature {name!r} is disabled in this repository; "
                f"enable it with set_feature_flag({name!r}, True)",
                kind=ErrorKind.FEATURE_FLAG_DISABLED,
            )

    def check_writable(self) -> None:
        """Refuse writes to a repository that was set read-only."""
        if self.status.availability is RepoAvailability.read_only:
            reason = self.status.limited_availability_reason
            raise ReadOnlyError(
                f"the repository is read-only{f': {reason}' if reason else ''}; "
                "set_status(RepoStatus(RepoAvailability.online)) opens it for writing",
                kind=ErrorKind.READ_ONLY_REPOSITORY,
            )

    # -- changing: each returns another value -----------------------------------------------------

    def with_snapshot(self, entry: SnapshotEntry) -> Self:
        """Register a snapshot."""
        return replace(self, snapshots={**self.snapshots, entry.id: entry})

    def with_branch(self, name: str, snapshot_id: SnapshotId) -> Self:
        """Point a branch at a registered snapshot."""
        self.entry(snapshot_id)
        return replace(self, branches={**self.branches, name: snapshot_id})

    def with_new_branch(self, name: str, snapshot_id: SnapshotId) -> Self:
        """Create a branch."""
        check_ref_name(name)
        if name in self.branches:
            raise AlreadyExistsError(
                f"branch {name!r} exists; reset_branch moves it",
                kind=ErrorKind.BRANCH_ALREADY_EXISTS,
            )
        return self.with_branch(name, snapshot_id)

    def without_branch(self, name: str) -> Self:
        """Delete a branch."""
        check_not_main(name)
        self.branch_tip(name)
        return replace(self, branches={n: s for n, s in self.branches.items() if n != name})

    def with_new_tag(self, name: str, snapshot_id: SnapshotId) -> Self:
        """Create a tag; a name that was deleted once is gone for good."""
        check_ref_name(name)
        self.check_feature("create_tag")
        if name in self.deleted_tags:
            raise tag_was_deleted(name)
        if name in self.tags:
            raise tag_exists(name)
        self.entry(snapshot_id)
        return replace(self, tags={**self.tags, name: snapshot_id})

    def without_tag(self, name: str) -> Self:
        """Delete a tag and reserve its name for ever."""
        self.check_feature("delete_tag")
        self.tag_target(name)
        return replace(
            self,
            tags={n: s for n, s in self.tags.items() if n != name},
            deleted_tags=self.deleted_tags | {name},
        )

    def with_flag(self, flag_id: int, setting: bool | None) -> Self:  # noqa: FBT001  a value, not a mode
        """Switch a feature on, off, or back to its default."""
        return replace(
            self,
            enabled_flags=self.enabled_flags - {flag_id}
            | ({flag_id} if setting is True else set()),
            disabled_flags=self.disabled_flags - {flag_id}
            | ({flag_id} if setting is False else set()),
        )

    def with_snapshots(self, entries: Iterable[SnapshotEntry]) -> Self:
        """Replace the list of snapshots."""
        return replace(self, snapshots={entry.id: entry for entry in entries})

    def logged(self, event: UpdateType, *, now: int, backup_path: str | None, keep: int) -> Self:
        """Add an entry to the ops log, which keeps `keep` entries in this object.

        `backup_path` names the copy of the object that this update overwrites; None when there
        is nothing to overwrite. Times are strictly increasing: a clock that lags is led on.
        """
        updates = self.latest_updates
        if updates:
            updates = (replace(updates[0], backup_path=backup_path), *updates[1:])
            now = max(now, updates[0].updated_at_micros + 1)
        updates = (Update(event, now), *updates)
        overflow = next(
            (i for i in range(keep, len(updates)) if updates[i].backup_path is not None), None
        )
        if overflow is None:
            return replace(self, latest_updates=updates)
        return replace(
            self,
            latest_updates=updates[:overflow],
            repo_before_updates=updates[overflow].backup_path,
        )


def initial_repo_info(now: int, config: bytes | None = None) -> RepoInfo:
    """Return the repo info of a repository that holds the initial snapshot only."""
    entry = SnapshotEntry.of(initial_snapshot(now), None)
    return RepoInfo(
        branches={MAIN_BRANCH: INITIAL_SNAPSHOT_ID},
        snapshots={entry.id: entry},
        status=RepoStatus(RepoAvailability.online, datetime_of(now)),
        config=config,
        latest_updates=(Update(RepoInitialized(), now),),
    )


def check_ref_name(name: str, *, slashes: bool = True) -> str:
    """Return the name of a branch or tag if it can be one; spec 1 has no room for slashes."""
    if not name or (not slashes and "/" in name):
        raise InvalidInputError(
            f"{name!r} cannot name a branch or tag: use a non-empty name"
            f"{'' if slashes else ' without slashes'}",
            kind=ErrorKind.INVALID_REF_NAME,
        )
    return name


def check_not_main(name: str) -> None:
    """Refuse to delete the one branch that must exist."""
    if name == MAIN_BRANCH:
        raise SessionStateError(
            "branch 'main' cannot be deleted; reset_branch moves it",
            kind=ErrorKind.CANNOT_DELETE_MAIN,
        )


def tag_exists(name: str) -> AlreadyExistsError:
    """Return the error for creating a tag twice."""
    return AlreadyExistsError(
        f"tag {name!r} exists and tags never move; choose another name",
        kind=ErrorKind.TAG_ALREADY_EXISTS,
    )


def tag_was_deleted(name: str) -> AlreadyExistsError:
    """Return the error for creating a tag whose name was deleted."""
    return AlreadyExistsError(
        f"tag {name!r} was deleted and its name cannot be used again; choose another name",
        kind=ErrorKind.TAG_PREVIOUSLY_DELETED,
    )


def _get_ref(refs: Mapping[str, SnapshotId], name: str, noun: str, kind: ErrorKind) -> SnapshotId:
    found = refs.get(name)
    if found is None:
        known = ", ".join(sorted(refs)[:10]) or "none"
        raise RefNotFoundError(f"there is no {noun} {name!r}; known: {known}", kind=kind)
    return found
