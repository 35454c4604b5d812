"""Entries of the ops log: what happened to a repository, one small value per kind of event."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

from icestream.model.times import datetime_of, now_micros


class RepoAvailability(Enum):
    """Whether a repository accepts writes."""

    online = 0
    read_only = 1
    offline = 2
    """In the format; the icechunk package treats it as online."""


@dataclass(frozen=True, slots=True)
class RepoStatus:
    """Whether a repository accepts writes, since when, and why not."""

    availability: RepoAvailability
    set_at: datetime = field(default_factory=lambda: datetime_of(now_micros()))
    limited_availability_reason: str | None = None


if TYPE_CHECKING:

    class _KindsByName(type):
        """Tells type checkers of `UpdateType.NewCommit` and its like."""

        def __getattr__(cls, name: str) -> "type[UpdateType]": ...

else:
    _KindsByName = type


class UpdateType(metaclass=_KindsByName):
    """The kinds of events; ids are in text form. Each kind is a subclass of this class."""


@dataclass(frozen=True, slots=True)
class RepoInitialized(UpdateType):
    """The repository was created."""


@dataclass(frozen=True, slots=True)
class RepoMigrated(UpdateType):
    """The repository was brought to another version of the format."""

    from_version: int
    to_version: int


@dataclass(frozen=True, slots=True)
class ConfigChanged(UpdateType):
    """Another configuration was saved."""


@dataclass(frozen=True, slots=True)
class MetadataChanged(UpdateType):
    """The repository metadata was set."""


@dataclass(frozen=True, slots=True)
class TagCreated(UpdateType):
    """A tag was created."""

    name: str


@dataclass(frozen=True, slots=True)
class TagDeleted(UpdateType):
    """A tag was deleted."""

    name: str
    previous_snap_id: str


@dataclass(frozen=True, slots=True)
class BranchCreated(UpdateType):
    """A branch was created."""

    name: str


@dataclass(frozen=True, slots=True)
class BranchDeleted(UpdateType):
    """A branch was deleted."""

    name: str
    previous_snap_id: str


@dataclass(frozen=True, slots=True)
class BranchReset(UpdateType):
    """A branch was pointed at another snapshot."""

    name: str
    previous_snap_id: str


@dataclass(frozen=True, slots=True)
class NewCommit(UpdateType):
    """A commit moved a branch forward."""

    branch: str
    new_snap_id: str


@dataclass(frozen=True, slots=True)
class CommitAmended(UpdateType):
    """The newest commit of a branch was replaced."""

    branch: str
    previous_snap_id: str
    new_snap_id: str


@dataclass(frozen=True, slots=True)
class NewDetachedSnapshot(UpdateType):
    """A snapshot was written that no branch points at."""

    new_snap_id: str


@dataclass(frozen=True, slots=True)
class GCRan(UpdateType):
    """Garbage was collected."""


@dataclass(frozen=True, slots=True)
class ExpirationRan(UpdateType):
    """Old snapshots were expired."""


@dataclass(frozen=True, slots=True)
class FeatureFlagChanged(UpdateType):
    """A feature was switched; None is back to its default."""

    id: int
    new_value: bool | None


@dataclass(frozen=True, slots=True)
class RepoStatusChanged(UpdateType):
    """The availability was set."""

    status: RepoStatus


EVENT_KINDS: tuple[type[UpdateType], ...] = (
    RepoInitialized,
    RepoMigrated,
    ConfigChanged,
    MetadataChanged,
    TagCreated,
    TagDeleted,
    BranchCreated,
    BranchDeleted,
    BranchReset,
    NewCommit,
    CommitAmended,
    NewDetachedSnapshot,
    GCRan,
    ExpirationRan,
    FeatureFlagChanged,
    RepoStatusChanged,
)
"""All kinds in the order of the format: kind number k is entry k - 1."""


for _kind in EVENT_KINDS:
    # users of the icechunk package write UpdateType.NewCommit
    setattr(UpdateType, _kind.__name__, _kind)


@dataclass(frozen=True, slots=True)
class Update:
    """One entry of the ops log."""

    kind: UpdateType
    updated_at_micros: int
    backup_path: str | None = None
    """File below `overwritten/` that holds the repo info in which this entry was the newest."""

    @property
    def updated_at(self) -> datetime:
        """When it happened."""
        return datetime_of(self.updated_at_micros)
