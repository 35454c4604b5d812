"""Bringing a repository of format version 1 to version 2.

No snapshot, manifest or transaction log is rewritten: a `repo` object is made of the references,
the snapshots and the configuration. It is written last and never over another one, and it is what
makes a repository one of version 2; so an upgrade that was cut off can simply be repeated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from icestream.assets import layout
from icestream.assets.assets import Assets
from icestream.codec.configs import decode_config_yaml, encode_config_flex
from icestream.codec.refs import REFS_PREFIX, RefFile, RefKind, decode_ref, find_ref
from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    NotFoundError,
    SessionStateError,
    StorageError,
)
from icestream.model.ids import SnapshotId, id_text
from icestream.model.ops_log import (
    BranchCreated,
    NewCommit,
    RepoAvailability,
    RepoInitialized,
    RepoMigrated,
    RepoStatus,
    TagCreated,
    TagDeleted,
    Update,
    UpdateType,
)
from icestream.model.repo_info import MAIN_BRANCH, RepoInfo, SnapshotEntry
from icestream.model.times import datetime_of, now_micros
from icestream.repository.context import Context
from icestream.repository.pruning import reachable_entries
from icestream.repository.repository import Repository
from icestream.storage.protocol import Storage

_CREATED_AFTER_MICROS = 1000
_DELETED_AFTER_MICROS = 2000

Entries = Mapping[SnapshotId, SnapshotEntry]
DatedEvent = tuple[int, UpdateType]
"""The microsecond at which something may have happened, and what it was."""


def upgrade_icechunk_repository(
    repo: Repository,
    *,
    dry_run: bool = True,
    delete_unused_v1_files: bool = True,
    prefetch_concurrency: int | None = None,
) -> Repository:
    """Bring a repository from format version 1 to version 2, and return it opened again.

    Nobody else may use the repository meanwhile. `repo` itself becomes the upgraded repository;
    sessions made before must not be used any more. Snapshots that no branch or tag reaches are
    not taken over.

    Args:
        repo: A repository of version 1, or one of version 2 whose upgrade left files behind.
        dry_run: Read everything that is needed, change nothing.
        delete_unused_v1_files: Delete the references and the configuration of version 1.
        prefetch_concurrency: Changes nothing: the history of version 1 is read step by step.

    Raises:
        SessionStateError: There is nothing to upgrade.
        ConflictError: Somebody committed meanwhile.
    """
    del prefetch_concurrency
    context = repo._context  # noqa: SLF001  the repository's own package
    if context.timeline.spec == 1:
        refs = _read_refs(context.assets.storage)
        info = plan_upgrade(context, refs)
        if not dry_run:
            _save(context.assets, info, refs)
    elif not _v1_files(context.assets.storage):
        raise SessionStateError(
            "the repository has format version 2 already, there is nothing to upgrade",
            kind=ErrorKind.INVALID_REPOSITORY_MIGRATION,
        )
    if dry_run:
        return repo
    if delete_unused_v1_files:
        _delete_v1_files(context.assets)
    return _reopened(repo)


def _reopened(repo: Repository) -> Repository:
    upgraded = repo.reopen()
    upgraded.set_default_commit_metadata(repo.default_commit_metadata())
    # whoever still holds the old object must not go on writing version 1
    repo.__setstate__(upgraded.__getstate__())
    return upgraded


# -- reading version 1 ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RefTargets:
    """Where all references of version 1 point."""

    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    deleted_tags: Mapping[str, SnapshotId | None]


def _read_refs(storage: Storage) -> RefTargets:
    files: dict[RefFile, str] = {}
    for info in storage.list(REFS_PREFIX):
        ref = find_ref(info.path)
        if ref is not None:
            files[ref] = info.path
    targets = {
        ref: decode_ref(storage.get(path), name=path)
        for ref, path in sorted(files.items())
        if ref.kind is not RefKind.TAG_TOMBSTONE
    }
    deleted = sorted(ref.name for ref in files if ref.kind is RefKind.TAG_TOMBSTONE)
    return RefTargets(
        {ref.name: target for ref, target in targets.items() if ref.kind is RefKind.BRANCH},
        {
            ref.name: target
            for ref, target in targets.items()
            if ref.kind is RefKind.TAG and ref.name not in deleted
        },
        {name: targets.get(RefFile(RefKind.TAG, name)) for name in deleted},
    )


def _v1_files(storage: Storage) -> list[str]:
    files = [info.path for info in storage.list(REFS_PREFIX)]
    try:
        storage.head(layout.CONFIG)
    except NotFoundError:
        return files
    return [*files, layout.CONFIG]


# -- planning -------------------------------------------------------------------------------------


def plan_upgrade(context: Context, refs: RefTargets) -> RepoInfo:
    """Return the repo info that says what references, snapshots and configuration say."""
    tips = (*refs.branches.values(), *refs.tags.values())
    entries = reachable_entries(tips, context.timeline.ancestry)
    root = _root_of(refs.branches[MAIN_BRANCH], entries)
    config = context.timeline.load_config().data
    info = RepoInfo(
        branches=refs.branches,
        tags=refs.tags,
        deleted_tags=frozenset(refs.deleted_tags),
        snapshots=entries,
        status=RepoStatus(RepoAvailability.online, datetime_of(root.flushed_at)),
        config=None
        if config is None
        else encode_config_flex(decode_config_yaml(config, name=layout.CONFIG)),
        latest_updates=_ops_log(refs, entries, root),
    )
    kept = len(info.latest_updates) + 1
    return info.logged(RepoMigrated(1, 2), now=now_micros(), backup_path=None, keep=kept)


def _root_of(tip: SnapshotId, entries: Entries) -> SnapshotEntry:
    entry = entries[tip]
    while entry.parent_id is not None:
        entry = entries[entry.parent_id]
    return entry


def _ops_log(refs: RefTargets, entries: Entries, root: SnapshotEntry) -> tuple[Update, ...]:
    """Return an ops log as it may have been, newest first, no two entries at one time."""
    events = [
        *_commit_events(refs, entries, root),
        *_branch_events(refs, entries),
        *_tag_events(refs, entries, root),
    ]
    updates: list[Update] = []
    earliest = 0
    for moment, event in sorted(events, key=lambda dated: dated[0]):
        updates.append(Update(event, max(moment, earliest)))
        earliest = updates[-1].updated_at_micros + 1
    return tuple(reversed(updates))


def _commit_events(refs: RefTargets, entries: Entries, root: SnapshotEntry) -> Iterator[DatedEvent]:
    """Yield commits; one that several branches share was made on main, or the first of them."""
    yield root.flushed_at, RepoInitialized()
    seen: set[SnapshotId] = set()
    for branch in sorted(refs.branches, key=lambda name: (name != MAIN_BRANCH, name)):
        entry = entries[refs.branches[branch]]
        while entry.parent_id is not None and entry.id not in seen:
            seen.add(entry.id)
            yield entry.flushed_at, NewCommit(branch, id_text(entry.id))
            entry = entries[entry.parent_id]


def _branch_events(refs: RefTargets, entries: Entries) -> Iterator[DatedEvent]:
    for branch, tip in refs.branches.items():
        if branch != MAIN_BRANCH:
            yield entries[tip].flushed_at + _CREATED_AFTER_MICROS, BranchCreated(branch)


def _tag_events(refs: RefTargets, entries: Entries, root: SnapshotEntry) -> Iterator[DatedEvent]:
    for tag, target in refs.tags.items():
        yield entries[target].flushed_at + _CREATED_AFTER_MICROS, TagCreated(tag)
    for tag, deleted_target in refs.deleted_tags.items():
        if deleted_target is not None:
            # its snapshot may be unreachable by now, and then its time is not known
            moment = entries.get(deleted_target, root).flushed_at
            yield moment + _CREATED_AFTER_MICROS, TagCreated(tag)
            yield moment + _DELETED_AFTER_MICROS, TagDeleted(tag, id_text(deleted_target))


# -- doing ----------------------------------------------------------------------------------------


def _save(assets: Assets, info: RepoInfo, refs: RefTargets) -> None:
    """Write the repo object; where there is one, an earlier attempt came this far."""
    assets.storage.check_conditional_writes()
    if _read_refs(assets.storage) != refs:
        raise _refs_moved("branches or tags changed during the upgrade")
    try:
        assets.create_repo_info(info)
    except AlreadyExistsError:
        return


def _delete_v1_files(assets: Assets) -> None:
    info, _, _ = assets.load_repo_info()
    refs = _read_refs(assets.storage)
    unknown = {*refs.branches.values(), *refs.tags.values()} - info.snapshots.keys()
    if unknown:
        listed = ", ".join(sorted(map(id_text, unknown)))
        raise _refs_moved(f"references of version 1 point at snapshots unknown to `repo`: {listed}")
    result = assets.storage.delete_many(_v1_files(assets.storage))
    if result.failed:
        path, reason = next(iter(result.failed.items()))
        raise StorageError(
            f"the repository is upgraded, but {len(result.failed)} files of version 1 could not "
            f"be deleted, such as {path}: {reason}; run the upgrade again to delete them",
            kind=ErrorKind.OBJECT_STORE,
        )


def _refs_moved(what: str) -> ConflictError:
    return ConflictError(
        f"{what}; stop all writers and upgrade again", kind=ErrorKind.BRANCH_UPDATE_CONFLICT
    )
