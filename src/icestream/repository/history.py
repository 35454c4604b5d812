"""What happened, when, and what it changed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from icestream.errors import ErrorKind, InvalidInputError, NotFoundError
from icestream.model.ids import SnapshotId, id_text, parse_snapshot_id
from icestream.model.ops_log import Update
from icestream.model.repo_info import SnapshotEntry
from icestream.model.times import datetime_of
from icestream.model.transaction_logs import TransactionLog, merge_logs
from icestream.repository.ancestry_graphs import AncestryGraph
from icestream.repository.async_twins import async_iterator_twin, async_twin
from icestream.repository.core import RepositoryCore
from icestream.repository.diffs import Diff, diff_of_log


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """One version in the history of a repository."""

    id: str
    parent_id: str | None
    written_at: datetime
    message: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ManifestFileInfo:
    """One manifest file of a snapshot."""

    id: str
    size_bytes: int
    num_chunk_refs: int


class History(RepositoryCore):
    """The part of a repository that looks back."""

    def ancestry(
        self, *, branch: str | None = None, tag: str | None = None, snapshot_id: str | None = None
    ) -> Iterator[SnapshotInfo]:
        """Yield a version and all before it, newest first."""
        newest = self._resolve_one(branch, tag, snapshot_id)
        return map(_snapshot_info, self._context.timeline.ancestry(newest))

    async_ancestry = async_iterator_twin(ancestry)

    def ancestry_graph(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        plain: bool = False,
    ) -> AncestryGraph:
        """Return a picture of the history: as text, and as SVG in notebooks.

        Without arguments it shows all branches and tags.
        """
        timeline = self._context.timeline
        branches, tags = timeline.branches(), timeline.tags()
        if branch is None and tag is None and snapshot_id is None:
            tips = [*branches.values(), *tags.values()]
        else:
            tips = [self._resolve_one(branch, tag, snapshot_id)]
        entries: dict[SnapshotId, SnapshotEntry] = {}
        for tip in tips:
            for entry in timeline.ancestry(tip):
                if entry.id in entries:
                    break
                entries[entry.id] = entry
        return AncestryGraph.of(entries, branches, tags, plain=plain)

    ancestry_graph_async = async_twin(ancestry_graph)

    def lookup_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        """Return what is known about a snapshot."""
        return _snapshot_info(self._context.timeline.entry(parse_snapshot_id(snapshot_id)))

    lookup_snapshot_async = async_twin(lookup_snapshot)

    def list_manifest_files(self, snapshot_id: str) -> list[ManifestFileInfo]:
        """Return the manifest files that a snapshot refers to."""
        snapshot = self._context.assets.load_snapshot(
            self._context.timeline.entry(parse_snapshot_id(snapshot_id)).id
        )
        return [
            ManifestFileInfo(id_text(file.id), file.size_bytes, file.num_refs)
            for file in snapshot.manifest_files.values()
        ]

    list_manifest_files_async = async_twin(list_manifest_files)

    def ops_log(self) -> Iterator[Update]:
        """Yield everything that was done to the repository, newest first."""
        return self._repo_info_timeline("the ops log").updates()

    ops_log_async = async_iterator_twin(ops_log)

    def diff(
        self,
        *,
        from_branch: str | None = None,
        from_tag: str | None = None,
        from_snapshot_id: str | None = None,
        to_branch: str | None = None,
        to_tag: str | None = None,
        to_snapshot_id: str | None = None,
    ) -> Diff:
        """Return what changed from one version to a later one that descends from it."""
        first = self._resolve_one(from_branch, from_tag, from_snapshot_id)
        last = self._resolve_one(to_branch, to_tag, to_snapshot_id)
        log = merge_logs(last, self._logs_between(first, last))
        before = self._context.assets.load_snapshot(first)
        after = self._context.assets.load_snapshot(last)
        return diff_of_log(log, before.nodes, after.nodes)

    diff_async = async_twin(diff)

    def _logs_between(self, first: SnapshotId, last: SnapshotId) -> list[TransactionLog]:
        """Return the transaction logs after `first` up to `last`, oldest first."""
        log_ids: list[SnapshotId] = []
        for entry in self._context.timeline.ancestry(last):
            if entry.id == first:
                return [
                    log
                    for log_id in log_ids[::-1]
                    if (log := self._find_log(log_id, required=log_id == last)) is not None
                ]
            log_ids += [entry.id, *entry.pruned_logs[::-1]]
        raise InvalidInputError(
            f"{id_text(first)} is not an ancestor of {id_text(last)}; give the older version first",
            kind=ErrorKind.BAD_SNAPSHOT_CHAIN_FOR_DIFF,
        )

    def _find_log(self, log_id: SnapshotId, *, required: bool) -> TransactionLog | None:
        """Return a log; those of expired snapshots may have been collected."""
        try:
            return self._context.assets.load_log(log_id)
        except NotFoundError:
            if required:
                raise
            return None

    def _resolve_one(
        self, branch: str | None, tag: str | None, snapshot_id: str | None
    ) -> SnapshotId:
        if sum(name is not None for name in (branch, tag, snapshot_id)) != 1:
            raise InvalidInputError(
                "give exactly one of branch, tag and snapshot_id", kind=ErrorKind.INVALID_ARGUMENT
            )
        return self._resolve(branch, tag, snapshot_id)


def _snapshot_info(entry: SnapshotEntry) -> SnapshotInfo:
    return SnapshotInfo(
        id_text(entry.id),
        None if entry.parent_id is None else id_text(entry.parent_id),
        datetime_of(entry.flushed_at),
        entry.message,
        dict(entry.metadata),
    )
