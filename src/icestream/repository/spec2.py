"""The record of history in format version 2: one `repo` object, swapped as a whole."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from icestream.assets import layout
from icestream.assets.assets import Assets
from icestream.errors import CommitUnknownError, ConflictError, ErrorKind, NotFoundError
from icestream.model import ops_log
from icestream.model.ids import SnapshotId, id_text
from icestream.model.ops_log import Update, UpdateType
from icestream.model.repo_info import RepoInfo, SnapshotEntry
from icestream.model.times import now_micros
from icestream.repository.timeline import (
    KnownRefs,
    StoredConfig,
    branch_moved,
    config_was_saved_by_another,
)
from icestream.storage.retries import RetryPolicy

EXTENSION_COPY_KEY = "icestream.config"
"""The key of the repository metadata under which settings are kept that icechunk drops."""

Change = Callable[[RepoInfo], tuple[RepoInfo, UpdateType]]
"""A pure step from one repo info to the next, and what to call it in the ops log."""


class RepoInfoTimeline:
    """Reads and swaps the `repo` object."""

    spec = 2

    def __init__(
        self,
        assets: Assets,
        *,
        retry: RetryPolicy,
        kept_updates: int,
        known: KnownRefs | None = None,
    ) -> None:
        self._assets = assets
        self._retry = retry
        self._kept_updates = kept_updates
        self.known = known or KnownRefs()

    def __getstate__(self) -> dict[str, Any]:
        # only good for guessing, and there may be many
        return {**self.__dict__, "known": KnownRefs()}

    def load(self) -> RepoInfo:
        """Return the newest repo info."""
        return self._seen(self._assets.load_repo_info()[0])

    def _seen(self, info: RepoInfo) -> RepoInfo:
        self.known = KnownRefs(info.branches, info.tags)
        return info

    def update(self, change: Change, *, even_if_read_only: bool = False) -> RepoInfo:
        """Replace the repo info with `change(newest)`, however many writers compete.

        `change` runs once per attempt, each time on newer input. A failed swap may have happened
        all the same: the answer was lost, and somebody else wrote on top. So each attempt first
        looks for the ops-log entry of the one before.

        Raises:
            ConflictError: Every attempt lost the race.
        """
        attempted: Update | None = None
        unknown: CommitUnknownError | None = None
        for delay_s in self._retry.delays_s():
            time.sleep(delay_s)
            info, data, version = self._assets.load_repo_info()
            if attempted is not None and _was_applied(attempted, info):
                return info
            if not even_if_read_only:
                info.check_writable()
            changed, event = change(info)
            backup = layout.new_backup_name(layout.REPO_INFO, now_micros())
            changed = changed.logged(
                event, now=now_micros(), backup_path=backup, keep=self._kept_updates
            )
            attempted = changed.latest_updates[0]
            self._assets.save_backup(backup, data)
            try:
                self._assets.replace_repo_info(changed, version)
            except ConflictError:
                continue
            except CommitUnknownError as error:
                unknown = error
                continue
            return self._seen(changed)
        raise ConflictError(
            f"the repo object kept changing through {self._retry.max_tries} tries; "
            "try again, or raise repo_update_retries in the configuration",
            kind=ErrorKind.UPDATE_ATTEMPTS_EXHAUSTED,
        ) from unknown

    # -- asking ---------------------------------------------------------------------------------

    def branches(self) -> Mapping[str, SnapshotId]:
        """Return all branches."""
        return self.load().branches

    def tags(self) -> Mapping[str, SnapshotId]:
        """Return all tags."""
        return self.load().tags

    def branch_tip(self, name: str) -> SnapshotId:
        """Return where a branch points."""
        return self.load().branch_tip(name)

    def tag_target(self, name: str) -> SnapshotId:
        """Return where a tag points."""
        return self.load().tag_target(name)

    def entry(self, snapshot_id: SnapshotId) -> SnapshotEntry:
        """Return what is recorded about a snapshot."""
        return self.load().entry(snapshot_id)

    def ancestry(self, snapshot_id: SnapshotId) -> Iterator[SnapshotEntry]:
        """Yield a snapshot and its ancestors, newest first."""
        yield from self.load().ancestry(snapshot_id)

    def writable_tip(self, branch: str, feature: str | None = None) -> SnapshotId:
        """Return where a branch points, if the repository and a feature are open for writing."""
        info = self.load()
        info.check_writable()
        if feature is not None:
            info.check_feature(feature)
        return info.branch_tip(branch)

    def updates(self) -> Iterator[Update]:
        """Yield the whole ops log, newest first; a lost backup ends it quietly."""
        info = self.load()
        while True:
            yield from info.latest_updates
            if info.repo_before_updates is None:
                return
            try:
                info = self._assets.load_backup(info.repo_before_updates)
            except NotFoundError:
                return

    # -- references -----------------------------------------------------------------------------

    def create_branch(self, name: str, snapshot_id: SnapshotId) -> None:
        """Create a branch."""
        self.update(
            lambda info: (info.with_new_branch(name, snapshot_id), ops_log.BranchCreated(name))
        )

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""

        def change(info: RepoInfo) -> tuple[RepoInfo, UpdateType]:
            changed = info.without_branch(name)
            return changed, ops_log.BranchDeleted(name, id_text(info.branch_tip(name)))

        self.update(change)

    def reset_branch(
        self, name: str, snapshot_id: SnapshotId, expected: SnapshotId | None = None
    ) -> None:
        """Point a branch elsewhere, if it still points at `expected`."""

        def change(info: RepoInfo) -> tuple[RepoInfo, UpdateType]:
            tip = info.branch_tip(name)
            if expected is not None and tip != expected:
                raise branch_moved(name, expected, tip)
            return info.with_branch(name, snapshot_id), ops_log.BranchReset(name, id_text(tip))

        self.update(change)

    def create_tag(self, name: str, snapshot_id: SnapshotId) -> None:
        """Create a tag."""
        self.update(lambda info: (info.with_new_tag(name, snapshot_id), ops_log.TagCreated(name)))

    def delete_tag(self, name: str) -> None:
        """Delete a tag for ever."""

        def change(info: RepoInfo) -> tuple[RepoInfo, UpdateType]:
            changed = info.without_tag(name)
            return changed, ops_log.TagDeleted(name, id_text(info.tag_target(name)))

        self.update(change)

    # -- commits --------------------------------------------------------------------------------

    def commit(self, branch: str, entry: SnapshotEntry) -> None:
        """Move a branch from the entry's parent to the entry."""

        def change(info: RepoInfo) -> tuple[RepoInfo, UpdateType]:
            tip = info.branch_tip(branch)
            if tip != entry.parent_id:
                raise branch_moved(branch, entry.parent_id, tip)
            changed = info.with_snapshot(entry).with_branch(branch, entry.id)
            return changed, ops_log.NewCommit(branch, id_text(entry.id))

        self.update(change)

    def amend(self, branch: str, entry: SnapshotEntry, replaced: SnapshotId) -> None:
        """Move a branch from `replaced` to an entry that takes its place."""

        def change(info: RepoInfo) -> tuple[RepoInfo, UpdateType]:
            tip = info.branch_tip(branch)
            if tip != replaced:
                raise branch_moved(branch, replaced, tip)
            amended = replace(entry, pruned_logs=info.entry(replaced).pruned_logs)
            changed = info.with_snapshot(amended).with_branch(branch, entry.id)
            return changed, ops_log.CommitAmended(branch, id_text(replaced), id_text(entry.id))

        self.update(change)

    def register(self, entry: SnapshotEntry) -> None:
        """Record a snapshot that no branch points at."""
        self.update(
            lambda info: (info.with_snapshot(entry), ops_log.NewDetachedSnapshot(id_text(entry.id)))
        )

    # -- configuration --------------------------------------------------------------------------

    def load_config(self) -> StoredConfig:
        """Return the stored configuration."""
        info = self.load()
        return StoredConfig(info.config, extension=info.metadata.get(EXTENSION_COPY_KEY))

    def save_config(self, config: StoredConfig, read: StoredConfig) -> StoredConfig:
        """Replace the configuration that was `read`; commits in between do not matter."""

        def change(info: RepoInfo) -> tuple[RepoInfo, UpdateType]:
            if info.config != read.data:
                raise config_was_saved_by_another()
            metadata = {k: v for k, v in info.metadata.items() if k != EXTENSION_COPY_KEY}
            if config.extension is not None:
                metadata[EXTENSION_COPY_KEY] = config.extension
            return replace(info, config=config.data, metadata=metadata), ops_log.ConfigChanged()

        self.update(change)
        return config


def _was_applied(attempted: Update, info: RepoInfo) -> bool:
    """Tell whether an update is in the ops log; backup paths are filled in later."""
    return any(
        update.kind == attempted.kind and update.updated_at_micros == attempted.updated_at_micros
        for update in info.latest_updates
    )
