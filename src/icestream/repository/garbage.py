"""Garbage collection: objects that no version of the repository uses are deleted.

An object is deleted only if it is older than a moment that the caller gives. That is what protects
writers who have uploaded chunks and not committed yet: the moment must lie before the start of the
longest running write. On top of that, commits that are made while garbage is collected are looked
for before each round of deletions.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import batched

from icestream.assets import layout
from icestream.assets.assets import Assets
from icestream.errors import ConflictError, ErrorKind, StorageError
from icestream.model import ops_log
from icestream.model.chunk_refs import ChunkType
from icestream.model.ids import OBJECT_ID_SIZE, SnapshotId
from icestream.model.manifests import Manifest
from icestream.model.ops_log import UpdateType
from icestream.model.repo_info import RepoInfo, SnapshotEntry
from icestream.repository.context import Context
from icestream.repository.manifest_walks import (
    WalkLimits,
    manifest_files_of,
    reachable_from_refs,
    walk_manifests,
)
from icestream.repository.pruning import prune, reachable_entries
from icestream.repository.row_sets import RowSet, id_rows, parse_id_names
from icestream.repository.spec2 import RepoInfoTimeline
from icestream.storage.protocol import DeleteResult, ObjectInfo, Storage, Version

_BATCH = 1000
_MAX_ERRORS = 10
_SECOND = timedelta(seconds=1)

_PHASES = {
    layout.SNAPSHOTS: "snapshots",
    layout.TRANSACTION_LOGS: "transaction_logs",
    layout.MANIFESTS: "manifests",
    layout.CHUNKS: "chunks",
}
"""What is deleted, in this order: nothing goes before that which refers to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GCSummary:
    """What a garbage collection deleted, or would delete."""

    bytes_deleted: int = 0
    chunks_deleted: int = 0
    manifests_deleted: int = 0
    snapshots_deleted: int = 0
    attributes_deleted: int = 0
    """Always 0: the format has no such files yet."""
    transaction_logs_deleted: int = 0
    objects_failed_to_delete: int = 0
    """Objects that are still there; the next run finds them again."""
    throttled_batches: int = 0
    """Always 0: storages wait and try again by themselves when they are throttled."""
    delete_errors: list[str] = field(default_factory=list)
    """The first distinct reasons, at most ten."""
    skipped_phases: list[str] = field(default_factory=list)
    """What was not deleted because deleting something that refers to it had failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GCOptions:
    """What to collect, and how hard to work."""

    older_than: datetime
    dry_run: bool = False
    limits: WalkLimits = field(default_factory=WalkLimits)
    max_concurrent_deletes: int = 10
    max_consecutive_delete_failures: int = 50


def collect_garbage(context: Context, options: GCOptions) -> GCSummary:
    """Delete what no branch, tag or young snapshot uses; start over if the repository changes.

    Raises:
        ConflictError: The repository changed during every attempt.
        StorageError: Deleting failed too many times in a row.
    """
    if not options.dry_run:
        context.assets.storage.check_conditional_writes()
    for delay_s in context.retry.delays_s():
        time.sleep(delay_s)
        try:
            return _collect_once(context, options)
        except ConflictError as error:
            if error.kind is not ErrorKind.REPO_INFO_UPDATED:
                raise
    raise _repository_changed()


def _collect_once(context: Context, options: GCOptions) -> GCSummary:
    timeline, assets = context.timeline, context.assets
    retained = _Retained(assets, options.limits)
    newcomers: Callable[[], Iterable[SnapshotEntry]]
    if isinstance(timeline, RepoInfoTimeline):
        deletable = _old_snapshots(assets.storage, options.older_than)
        info = timeline.load()
        if not options.dry_run:
            info.check_writable()
        planned = plan_collection(info, deletable)
        retained.keep(planned.snapshots.values())
        if not options.dry_run:
            timeline.update(lambda newest: _collected(newest, info, planned))
        newcomers = _RepoWatch(assets).newcomers
    else:
        retained.keep(reachable_from_refs(timeline).values())
        newcomers = _RefWatch(context).newcomers
    summary = _Sweep(assets.storage, retained, newcomers, options).run()
    assets.forget()
    return summary


def plan_collection(info: RepoInfo, deletable: set[SnapshotId]) -> RepoInfo:
    """Return the repo info without the deletable snapshots that no branch or tag reaches."""
    tips = (*info.tags.values(), *info.branches.values())
    dropped = deletable - reachable_entries(tips, info.ancestry).keys()
    return prune(info, dropped, lambda ancestor: ancestor.id not in dropped)


def _collected(newest: RepoInfo, seen: RepoInfo, planned: RepoInfo) -> tuple[RepoInfo, UpdateType]:
    """Return what was planned, if it was planned for the newest repo info."""
    if newest.latest_updates[0] != seen.latest_updates[0]:
        raise _repository_changed()
    return planned, ops_log.GCRan()


def _old_snapshots(storage: Storage, older_than: datetime) -> set[SnapshotId]:
    old = [info for info in storage.list(layout.SNAPSHOTS) if is_older(info, older_than)]
    ids, _ = parse_id_names([info.path.removeprefix(layout.SNAPSHOTS) for info in old])
    return {SnapshotId(row.tobytes()) for row in ids}


def is_older(info: ObjectInfo, moment: datetime) -> bool:
    """Tell whether an object was certainly written before a moment.

    Some stores cut times down to whole seconds: such an object may be up to a second younger.
    """
    written = info.last_modified
    return written < moment if written.microsecond else written + _SECOND <= moment


def _repository_changed() -> ConflictError:
    return ConflictError(
        "the repository changed while garbage was being looked for; run garbage_collect again "
        "when fewer commits are made",
        kind=ErrorKind.REPO_INFO_UPDATED,
    )


# -- what stays -----------------------------------------------------------------------------------


class _Retained:
    """Ids of everything that must stay, by the folder it lies in."""

    def __init__(self, assets: Assets, limits: WalkLimits) -> None:
        self._assets = assets
        self._limits = limits
        self._seen: set[SnapshotId] = set()
        self._ids = {prefix: RowSet(OBJECT_ID_SIZE) for prefix in _PHASES}

    def keep(self, entries: Iterable[SnapshotEntry]) -> None:
        """Keep snapshots and all that they use."""
        new = [entry for entry in entries if entry.id not in self._seen]
        ids = [entry.id for entry in new]
        logs = [log for entry in new for log in (entry.id, *entry.pruned_logs)]
        self._seen.update(ids)
        self._ids[layout.SNAPSHOTS].add(id_rows(ids))
        self._ids[layout.TRANSACTION_LOGS].add(id_rows(logs))
        files = list(manifest_files_of(self._assets, ids, self._limits).values())
        manifests = id_rows([file.id for file in files])
        is_known = self._ids[layout.MANIFESTS].holds(manifests)
        unknown = [file for file, known in zip(files, is_known, strict=True) if not known]
        self._ids[layout.MANIFESTS].add(manifests)
        for manifest in walk_manifests(self._assets, unknown, self._limits):
            self._keep_chunks(manifest)

    def _keep_chunks(self, manifest: Manifest) -> None:
        for table in manifest.arrays.values():
            if table.chunk_id is not None:
                self._ids[layout.CHUNKS].add(table.chunk_id[table.kind == ChunkType.native])

    def others(self, prefix: str, infos: Sequence[ObjectInfo]) -> list[ObjectInfo]:
        """Return the objects below a prefix that may go; stray files are nobody's business."""
        ids, places = parse_id_names([info.path.removeprefix(prefix) for info in infos])
        return [infos[i] for i in places[~self._ids[prefix].holds(ids)]]


class _RepoWatch:
    """Sees commits that are made meanwhile, format version 2."""

    def __init__(self, assets: Assets) -> None:
        self._assets = assets
        self._version: Version | None = None

    def newcomers(self) -> Iterable[SnapshotEntry]:
        """Return all listed snapshots if the repo info changed since it was last asked."""
        if self._version is not None:
            newest = self._assets.storage.head(layout.REPO_INFO).version
            if newest.same_as(self._version):
                return ()
        info, _, self._version = self._assets.load_repo_info()
        return info.snapshots.values()


class _RefWatch:
    """Sees commits that are made meanwhile, format version 1."""

    def __init__(self, context: Context) -> None:
        self._timeline = context.timeline
        self._tips: set[SnapshotId] = set()

    def newcomers(self) -> Iterable[SnapshotEntry]:
        """Return all reachable snapshots if branches or tags moved since it was last asked."""
        tips = {*self._timeline.branches().values(), *self._timeline.tags().values()}
        if tips == self._tips:
            return ()
        self._tips = tips
        return reachable_entries(tips, self._timeline.ancestry).values()


# -- what goes ------------------------------------------------------------------------------------


class _Sweep:
    """One pass over all objects, deleting those that are old and not retained."""

    def __init__(
        self,
        storage: Storage,
        retained: _Retained,
        newcomers: Callable[[], Iterable[SnapshotEntry]],
        options: GCOptions,
    ) -> None:
        self._storage = storage
        self._retained = retained
        self._newcomers = newcomers
        self._options = options
        self._deleted = dict.fromkeys(_PHASES, 0)
        self._bytes = 0
        self._failed = 0
        self._failures_in_a_row = 0
        self._errors: list[str] = []
        self._skipped: list[str] = []

    def run(self) -> GCSummary:
        """Delete what can go and return what was deleted."""
        for prefix, name in _PHASES.items():
            if self._failed:
                self._skipped.append(name)
            else:
                self._sweep(prefix)
        return GCSummary(
            bytes_deleted=self._bytes,
            chunks_deleted=self._deleted[layout.CHUNKS],
            manifests_deleted=self._deleted[layout.MANIFESTS],
            snapshots_deleted=self._deleted[layout.SNAPSHOTS],
            transaction_logs_deleted=self._deleted[layout.TRANSACTION_LOGS],
            objects_failed_to_delete=self._failed,
            delete_errors=self._errors,
            skipped_phases=self._skipped,
        )

    def _sweep(self, prefix: str) -> None:
        parallel = max(self._options.max_concurrent_deletes, 1)
        with ThreadPoolExecutor(parallel) as pool:
            for listed in batched(self._storage.list(prefix), _BATCH * parallel):
                doomed = self._choose(prefix, listed)
                batches = list(batched(doomed, _BATCH))
                for batch, result in zip(batches, pool.map(self._delete, batches), strict=True):
                    self._tally(prefix, batch, result)

    def _choose(self, prefix: str, listed: Sequence[ObjectInfo]) -> list[ObjectInfo]:
        old = [info for info in listed if is_older(info, self._options.older_than)]
        doomed = self._retained.others(prefix, old)
        if not doomed or self._options.dry_run:
            return doomed
        self._retained.keep(self._newcomers())
        return self._retained.others(prefix, doomed)

    def _delete(self, batch: Sequence[ObjectInfo]) -> DeleteResult:
        if self._options.dry_run:
            return DeleteResult(len(batch))
        paths = [info.path for info in batch]
        try:
            return self._storage.delete_many(paths)
        except StorageError as error:
            # some may be gone all the same: they count as failed, and are not there next time
            return DeleteResult(0, dict.fromkeys(paths, str(error)))

    def _tally(self, prefix: str, batch: Sequence[ObjectInfo], result: DeleteResult) -> None:
        self._deleted[prefix] += result.deleted
        self._bytes += sum(info.size_bytes for info in batch if info.path not in result.failed)
        self._failed += len(result.failed)
        self._failures_in_a_row = self._failures_in_a_row + 1 if result.failed else 0
        distinct = dict.fromkeys([*self._errors, *result.failed.values()])
        self._errors = list(distinct)[:_MAX_ERRORS]
        if self._failures_in_a_row >= self._options.max_consecutive_delete_failures:
            raise StorageError(
                f"{self._failures_in_a_row} requests in a row to delete objects below {prefix} "
                f"failed, the last with: {self._errors[-1]}; run garbage_collect again when "
                "deleting is possible",
                kind=ErrorKind.GC_DELETES_FAILING,
            )
