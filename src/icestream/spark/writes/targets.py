"""A branch that is written to: where tasks put chunks, and where the driver commits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from icestream.model.conflicts import ConflictDetector
from icestream.model.ids import parse_snapshot_id
from icestream.repository.repository import Repository
from icestream.repository.session import ForkSession, Session
from icestream.repository.working_copy import SessionMode
from icestream.spark.pinned import PinnedRepository
from icestream.spark.writes.written_tables import ArrayTables, put_tables


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A branch as it was when the write began; small, and the same for all tasks."""

    pinned: PinnedRepository
    branch: str

    @classmethod
    def of(cls, repo: Repository, branch: str) -> Self:
        """Settle the version that is written on, the newest one of a branch.

        Raises:
            RefNotFoundError: There is no such branch.
            ReadOnlyError: The repository takes no commits.
        """
        return cls(PinnedRepository.of(repo, repo.writable_session(branch)), branch)

    def fork(self) -> ForkSession:
        """Return a session for one task; its changes go nowhere by themselves."""
        context, snapshot = self._base()
        return ForkSession(context, snapshot, mode=SessionMode.writable)

    def session(self) -> Session:
        """Return a session that commits to the branch if it is still where it was."""
        context, snapshot = self._base()
        return Session(context, snapshot, branch=self.branch, mode=SessionMode.writable)

    def commit(self, tables: ArrayTables, commit: "CommitWords") -> str | None:
        """Set references in one commit and return its snapshot id; None if there are none.

        Raises:
            ConflictError: Somebody else committed to the branch meanwhile; nothing is changed.
        """
        if not tables:
            return None
        session = self.session()
        put_tables(session, tables)
        solver = ConflictDetector() if commit.rebase else None
        return session.commit(commit.message, dict(commit.metadata or {}), rebase_with=solver)

    def _base(self) -> Any:
        context = self.pinned.repository._context  # noqa: SLF001  a session at an older version
        return context, context.assets.load_snapshot(parse_snapshot_id(self.pinned.snapshot_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWords:
    """How a write becomes a version."""

    message: str = "written by Spark"
    metadata: Mapping[str, Any] | None = None
    rebase: bool = False
    """Go on after commits of others, as long as none of them touched the same chunks or arrays."""
