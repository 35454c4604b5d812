"""The port to the record of branches, tags and history, which differs between format versions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from icestream.errors import ConflictError, ErrorKind
from icestream.model.ids import SnapshotId, id_text
from icestream.model.repo_info import SnapshotEntry
from icestream.storage.protocol import Version


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """A configuration as it is stored."""

    data: bytes | None = None
    """None if nothing but defaults was ever set."""
    version: Version | None = None
    """That of the object, where the configuration is one of its own."""
    extension: Mapping[str, Any] | None = None
    """A second copy of what icechunk drops when it saves a configuration (format version 2)."""


@dataclass(frozen=True, slots=True)
class KnownRefs:
    """Where branches and tags pointed when somebody last looked; they may have moved since."""

    branches: Mapping[str, SnapshotId] = field(default_factory=dict)
    tags: Mapping[str, SnapshotId] = field(default_factory=dict)


class Timeline(Protocol):
    """Where branches and tags point, and which snapshot came before which."""

    spec: int

    @property
    def known(self) -> KnownRefs:
        """What can be said of branches and tags without a request."""

    def branches(self) -> Mapping[str, SnapshotId]:
        """Return all branches."""

    def tags(self) -> Mapping[str, SnapshotId]:
        """Return all tags."""

    def branch_tip(self, name: str) -> SnapshotId:
        """Return where a branch points."""

    def tag_target(self, name: str) -> SnapshotId:
        """Return where a tag points."""

    def entry(self, snapshot_id: SnapshotId) -> SnapshotEntry:
        """Return what is recorded about a snapshot."""

    def ancestry(self, snapshot_id: SnapshotId) -> Iterator[SnapshotEntry]:
        """Yield a snapshot and its ancestors, newest first."""

    def writable_tip(self, branch: str, feature: str | None = None) -> SnapshotId:
        """Return where a branch points, if the repository and a feature are open for writing."""

    def create_branch(self, name: str, snapshot_id: SnapshotId) -> None:
        """Create a branch."""

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""

    def reset_branch(
        self, name: str, snapshot_id: SnapshotId, expected: SnapshotId | None = None
    ) -> None:
        """Point a branch elsewhere, if it still points at `expected`."""

    def create_tag(self, name: str, snapshot_id: SnapshotId) -> None:
        """Create a tag."""

    def delete_tag(self, name: str) -> None:
        """Delete a tag for ever."""

    def commit(self, branch: str, entry: SnapshotEntry) -> None:
        """Move a branch from the entry's parent to the entry.

        Raises:
            ConflictError: The branch points elsewhere.
        """

    def amend(self, branch: str, entry: SnapshotEntry, replaced: SnapshotId) -> None:
        """Move a branch from `replaced` to an entry that takes its place."""

    def register(self, entry: SnapshotEntry) -> None:
        """Record a snapshot that no branch points at."""

    def load_config(self) -> StoredConfig:
        """Return the stored configuration."""

    def save_config(self, config: StoredConfig, read: StoredConfig) -> StoredConfig:
        """Replace the configuration that was `read`.

        Raises:
            ConflictError: Somebody saved another one since.
        """


def branch_moved(branch: str, expected: SnapshotId | None, actual: SnapshotId) -> ConflictError:
    """Return the error for a commit that came second."""
    wanted = id_text(expected) if expected else None
    return ConflictError(
        f"branch {branch!r} moved to {id_text(actual)} while this session was based on {wanted}; "
        "call session.rebase(solver), or commit(..., rebase_with=solver)",
        kind=ErrorKind.COMMIT_CONFLICT,
        expected_parent=wanted,
        actual_parent=id_text(actual),
    )


def config_was_saved_by_another() -> ConflictError:
    """Return the error for saving a configuration that is not based on the stored one."""
    return ConflictError(
        "the stored configuration was changed by another writer; reopen the repository, "
        "make the change again and save it",
        kind=ErrorKind.CONFIG_UPDATED,
    )
