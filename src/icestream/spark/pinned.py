"""One version of a repository, as tasks take it along: with its credentials, never in settings."""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Self

from pyspark import cloudpickle

from icestream.errors import ErrorKind, InvalidInputError
from icestream.repository.repository import Repository
from icestream.repository.session import Session

_OPEN_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionName:
    """Which version is meant: a branch, maybe as it was at a moment, a tag or a snapshot."""

    branch: str | None = None
    tag: str | None = None
    snapshot: str | None = None
    as_of: datetime | None = None

    def session(self, repo: Repository) -> Session:
        """Return a session on the version; it is `main` where nothing is named.

        Raises:
            NotFoundError: There is no such version.
            InvalidInputError: More than one is named.
        """
        named = [name for name in (self.branch, self.tag, self.snapshot) if name is not None]
        if len(named) > 1 or (self.as_of and (self.tag or self.snapshot)):
            raise InvalidInputError(
                "name one version: a branch, a branch with as-of, a tag, or a snapshot",
                kind=ErrorKind.INVALID_ARGUMENT,
            )
        branch = self.branch if named else "main"
        return repo.readonly_session(
            branch, tag=self.tag, snapshot_id=self.snapshot, as_of=self.as_of
        )


@dataclass(frozen=True, slots=True)
class PinnedRepository:
    """A repository at one snapshot; small, and the same for all tasks of a query."""

    snapshot_id: str
    pickled: bytes
    """The repository, credentials included, as another process takes it."""

    def __repr__(self) -> str:
        return f"<PinnedRepository at {self.snapshot_id}>"

    @classmethod
    def of(cls, repo: Repository, session: Session) -> Self:
        """Pin a repository at the snapshot of a session."""
        return cls(session.snapshot_id, cloudpickle.dumps(repo))  # type: ignore[no-untyped-call]  # of pyspark

    @property
    def repository(self) -> Repository:
        """The repository, opened once per process."""
        return _repository(self.pickled)

    @property
    def session(self) -> Session:
        """A session at the snapshot, opened once per process: tasks share what it has loaded."""
        return _session(self.pickled, self.snapshot_id)


@lru_cache(_OPEN_AT_ONCE)
def _repository(pickled: bytes) -> Repository:
    repo: Repository = cloudpickle.loads(pickled)
    return repo


@lru_cache(_OPEN_AT_ONCE)
def _session(pickled: bytes, snapshot_id: str) -> Session:
    return _repository(pickled).readonly_session(snapshot_id=snapshot_id)
