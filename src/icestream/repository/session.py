"""A view of one snapshot, and the changes that a writer makes on it."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from icestream.errors import ErrorKind, InvalidInputError, NodeNotFoundError, SessionStateError
from icestream.model.chunk_refs import ChunkType, kind_of
from icestream.model.chunk_tables import ChunkTable, replace_columns
from icestream.model.config import RepositoryConfig
from icestream.model.conflicts import ConflictSolver
from icestream.model.ids import id_text
from icestream.model.nodes import ArrayNode
from icestream.model.paths import absolute
from icestream.model.snapshots import Snapshot
from icestream.repository import chunk_moves, commits, node_moves
from icestream.repository.async_twins import async_twin
from icestream.repository.commit_statistics import CommitStatistics
from icestream.repository.context import Context
from icestream.repository.diffs import Diff, diff_of_changes
from icestream.repository.flush import Flushed
from icestream.repository.location_listing import (
    all_locations,
    stream_location_batches,
    stream_locations,
)
from icestream.repository.preloading import Preload
from icestream.repository.rebase import rebase
from icestream.repository.working_copy import SessionMode, WorkingCopy
from icestream.zarr_store.store import IcestreamStore


class Session:
    """One snapshot, read or edited; `store` is its zarr store, `commit` makes edits a version."""

    def __init__(
        self,
        context: Context,
        snapshot: Snapshot,
        *,
        branch: str | None = None,
        mode: SessionMode = SessionMode.readonly,
        preload: Preload | None = None,
    ) -> None:
        self._copy = WorkingCopy(context, snapshot, mode)
        self._preload = preload
        self._branch = branch
        self._commit_statistics: CommitStatistics | None = None

    # -- what it is -----------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        """Tell whether the session refuses writes."""
        return self._copy.read_only

    @property
    def mode(self) -> SessionMode:
        """What the session may do."""
        return self._copy.mode

    @property
    def snapshot_id(self) -> str:
        """The snapshot that the session is based on."""
        return id_text(self._copy.snapshot.id)

    @property
    def branch(self) -> str | None:
        """The branch that a commit would move; None for sessions that cannot commit."""
        return self._branch

    @property
    def config(self) -> RepositoryConfig:
        """The configuration of the repository, as the session uses it."""
        return self._copy.context.config

    def preload_finished(self, timeout: float | None = None) -> bool:
        """Wait until no manifest is being loaded ahead of reading, at most `timeout` seconds.

        Nobody has to: a read that needs a manifest which is on its way waits for that one only.
        """
        return self._preload is None or self._preload.finished(timeout)

    @property
    def store(self) -> IcestreamStore:
        """The zarr store of this session."""
        return IcestreamStore(self, self._copy)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Session):
            return NotImplemented
        return self is other or (
            type(self) is type(other)
            and self.snapshot_id == other.snapshot_id
            and (self._branch, self.mode) == (other._branch, other.mode)
            and self._copy.context.assets.storage == other._copy.context.assets.storage
            and not self.has_uncommitted_changes
            and not other.has_uncommitted_changes
        )

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        changes = "uncommitted changes" if self.has_uncommitted_changes else "no changes"
        where = f"branch {self._branch!r}, " if self._branch else ""
        name, mode = type(self).__name__, self._copy.mode.name
        return f"<icestream.{name} {mode}, {where}snapshot {self.snapshot_id}, {changes}>"

    def __getstate__(self) -> dict[str, Any]:
        if not self.read_only:
            raise SessionStateError(
                "a writable session cannot be pickled, its copies could not be committed together; "
                "use session.fork() for workers and session.merge(fork) afterwards "
                "(icestream.xarray.to_icestream does so), or repo.readonly_session() for reading",
                kind=ErrorKind.PICKLE,
            )
        return {**self.__dict__, "_preload": None}  # threads stay in their process

    # -- changes --------------------------------------------------------------------------------

    @property
    def has_uncommitted_changes(self) -> bool:
        """Tell whether there is something to commit."""
        return not self._copy.changes.is_empty

    def status(self) -> Diff:
        """Return what a commit would record."""
        return diff_of_changes(self._copy.changes, self._copy.snapshot.nodes)

    def discard_changes(self) -> None:
        """Forget all uncommitted changes."""
        self._copy.check_can_write()
        self._copy.start_over(self._copy.snapshot)

    def commit(
        self,
        message: str,
        metadata: dict[str, Any] | None = None,
        *,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1_000,
        allow_empty: bool = False,
    ) -> str:
        """Make the changes a new version of the branch and return its snapshot id.

        The session is read-only afterwards and shows the new version.

        Raises:
            ConflictError: The branch moved, and there is no `rebase_with` to rebase with.
            RebaseFailedError: The other writer touched the same things.
            SessionStateError: There is nothing to commit, or the session cannot commit.
        """
        with self._copy.lock:
            flushed = commits.commit(
                self._copy.context,
                self._commit_request(message, metadata, allow_empty=allow_empty),
                solver=rebase_with,
                rebase_tries=rebase_tries,
            )
            return self._finish(flushed)

    commit_async = async_twin(commit)

    def amend(
        self, message: str, *, metadata: dict[str, Any] | None = None, allow_empty: bool = False
    ) -> str:
        """Replace the newest commit of the branch by one that also has these changes."""
        with self._copy.lock:
            request = self._commit_request(message, metadata, allow_empty=allow_empty)
            return self._finish(commits.amend(self._copy.context, request))

    amend_async = async_twin(amend)

    def flush(self, message: str, *, metadata: dict[str, Any] | None = None) -> str:
        """Write the changes as a snapshot that no branch points at, and return its id."""
        with self._copy.lock:
            request = self._commit_request(message, metadata, allow_empty=False)
            return self._finish(commits.flush_detached(self._copy.context, request))

    flush_async = async_twin(flush)

    def rebase(self, solver: ConflictSolver) -> None:
        """Move the changes on top of the newest commit of the branch.

        Raises:
            RebaseFailedError: There are conflicts that the solver does not settle; the session
                is as it was after the last commit that could be passed.
        """
        with self._copy.lock:
            branch = self._check_on_branch()
            self._copy.replace_base(
                rebase(
                    self._copy.context,
                    self._copy.snapshot,
                    self._copy.changes,
                    branch=branch,
                    solver=solver,
                )
            )

    rebase_async = async_twin(rebase)

    @property
    def commit_statistics(self) -> CommitStatistics | None:
        """What the commit of this session read, wrote and linked; None before it."""
        return self._commit_statistics

    # -- forks ----------------------------------------------------------------------------------

    def fork(self) -> "ForkSession":
        """Return a copy for a worker: picklable, writable, to be merged back with `merge`.

        Uncommitted changes are written first as a snapshot of their own, which is never part of
        the history, so that a fork is small and sees them all.
        """
        self._copy.check_can_write(ErrorKind.CANNOT_FORK_READ_ONLY_SESSION)
        with self._copy.lock:
            base = self._copy.snapshot
            if self.has_uncommitted_changes:
                base = commits.write_snapshot(self._copy.context, base, self._copy.changes, "fork")
            return ForkSession(self._copy.context, base, mode=SessionMode.writable)

    def merge(self, *others: "ForkSession") -> None:
        """Take over the changes of forks; where two wrote one chunk, the last one given wins."""
        # copied first, one lock at a time: two forks may be merged into each other at once
        theirs = [other._copy.copy_changes() for other in others]  # noqa: SLF001  another session
        with self._copy.lock:
            self._copy.check_can_write(ErrorKind.MERGE_NOT_ALLOWED)
            base = self._copy.snapshot.nodes
            for their_base, changes in theirs:
                self._copy.changes.merge(changes, base=base, other_base=their_base.nodes)
            self._copy.replace_base(self._copy.snapshot)

    merge_async = async_twin(merge)

    # -- nodes and chunks -----------------------------------------------------------------------

    def move(self, from_path: str, to_path: str) -> None:
        """Move or rename a group or array with everything below it; rearrange sessions only."""
        if self._copy.mode is not SessionMode.rearrange:
            raise SessionStateError(
                "nodes are moved in a rearrange session; commit this one and use "
                "repo.rearrange_session(branch)",
                kind=ErrorKind.NON_REARRANGE_SESSION,
            )
        with self._copy.lock:
            node_moves.move(self._copy.nodes, absolute(from_path), absolute(to_path))

    move_async = async_twin(move)

    def get_node_id(self, path: str) -> str:
        """Return the id of a node, which stays the same over commits and moves."""
        node = self._copy.nodes.find(absolute(path))
        if node is None:
            raise NodeNotFoundError(f"there is no group or array at {path}")
        return id_text(node.id)

    get_node_id_async = async_twin(get_node_id)

    def all_virtual_chunk_locations(self, *, stored: bool = False) -> list[str]:
        """Return the location of every virtual chunk, one per chunk.

        Locations are absolute; `stored` gives them as they are stored.
        """
        return all_locations(self._copy, stored=stored)

    all_virtual_chunk_locations_async = async_twin(all_virtual_chunk_locations)

    def iter_virtual_chunk_locations(
        self,
        *,
        prefix: str | None = None,
        array_path: str | None = None,
        distinct: bool = True,
        stored: bool = False,
    ) -> Iterator[str]:
        """Yield locations of virtual chunks, manifest by manifest.

        Args:
            prefix: Only the object of this name, or what is below it.
            array_path: Only those of this array.
            distinct: Each location once, not once per chunk.
            stored: As they are stored, not made absolute.
        """
        return stream_locations(
            self._copy, prefix=prefix, array_path=array_path, distinct=distinct, stored=stored
        )

    def iter_virtual_chunk_location_batches(
        self, *, prefix: str | None = None, array_path: str | None = None, stored: bool = False
    ) -> Iterator[pa.ChunkedArray]:
        """Yield distinct locations of virtual chunks as Arrow texts, one column per manifest.

        The arguments are those of `iter_virtual_chunk_locations`. Where every chunk is an object
        of its own, this is several times faster: no Python text is made.
        """
        return stream_location_batches(
            self._copy, prefix=prefix, array_path=array_path, stored=stored
        )

    async def chunk_coordinates(
        self, array_path: str, batch_size: int = 1000
    ) -> AsyncIterator[tuple[int, ...]]:
        """Yield the index of every chunk of an array that was written."""
        index = self._copy.table(self._get_array(array_path)).index
        for start in range(0, len(index), batch_size):
            for row in index[start : start + batch_size].tolist():
                yield tuple(row)

    def reference_table(self, array_path: str, *, stored: bool = False) -> ChunkTable:
        """Return all chunk references of an array, in columns.

        Locations are absolute; `stored` gives them as they are stored.
        """
        table = self._copy.table(self._get_array(array_path))
        if stored or not len(table.locations):
            return table
        return replace_columns(table, locations=self._copy.absolute_locations(table.locations))

    def chunk_type(self, array_path: str, chunk_coordinates: Sequence[int]) -> ChunkType:
        """Return how the bytes of a chunk are kept."""
        array = self._get_array(array_path)
        found = self._copy.find_chunk(array.path, tuple(map(int, chunk_coordinates)))
        return kind_of(None if found is None else found.ref)

    chunk_type_async = async_twin(chunk_type)

    def shift_array(self, array_path: str, chunk_offset: Iterable[int]) -> None:
        """Shift all chunks of an array by whole chunks; what leaves the grid is dropped."""
        with self._copy.lock:
            self._copy.check_can_edit()
            array = self._get_array(array_path)
            table = self._copy.table(array)
            edits = chunk_moves.plan_shift(array, table, tuple(chunk_offset))
            self._copy.changes.edits_of(array).set_table(edits)

    def reindex_array(
        self,
        array_path: str,
        forward: Callable[[Iterable[int]], Iterable[int] | None],
        backward: Callable[[Iterable[int]], Iterable[int] | None] | None = None,
    ) -> None:
        """Move the chunks of an array to where `forward` says; None leaves one where it is.

        With `backward`, the inverse of `forward`, positions that nothing moved into are cleared.
        """
        with self._copy.lock:
            self._copy.check_can_edit()
            array = self._get_array(array_path)
            table = self._copy.table(array)
            edits = chunk_moves.plan_reindex(array, table, forward, backward)
            self._copy.changes.edits_of(array).set_table(edits)

    # -- inside ---------------------------------------------------------------------------------

    def _get_array(self, path: str) -> ArrayNode:
        return self._copy.get_array(absolute(path))

    def _check_on_branch(self) -> str:
        if self.read_only or self._branch is None:
            raise SessionStateError(
                "only a writable session on a branch can commit or rebase; forks are merged into "
                "the session they came from",
                kind=ErrorKind.COMMIT_NOT_ALLOWED,
            )
        return self._branch

    def _commit_request(
        self, message: str, metadata: dict[str, Any] | None, *, allow_empty: bool
    ) -> commits.CommitRequest:
        branch = self._check_on_branch()
        if self._copy.changes.is_empty and not allow_empty:
            raise SessionStateError(
                "there is nothing to commit; allow_empty=True commits all the same",
                kind=ErrorKind.NO_CHANGES_TO_COMMIT,
            )
        if not isinstance(message, str):
            raise InvalidInputError(f"the commit message must be a text, not {message!r}")
        return commits.CommitRequest(
            base=self._copy.snapshot,
            changes=self._copy.changes,
            branch=branch,
            message=message,
            metadata={**self._copy.context.commit_metadata, **(metadata or {})},
        )

    def _finish(self, flushed: Flushed) -> str:
        """Become a read-only view of what was just written."""
        self._copy.mode = SessionMode.readonly
        self._copy.start_over(flushed.snapshot)
        self._commit_statistics = flushed.statistics
        return self.snapshot_id


class ForkSession(Session):
    """A session for a worker: it pickles with its changes, and is merged instead of committed."""

    @property
    def mode(self) -> SessionMode:
        """Always readonly: a fork cannot commit."""
        return SessionMode.readonly

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__
