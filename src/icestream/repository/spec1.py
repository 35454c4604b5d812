"""The record of history in format version 1: one small object per branch and tag."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from icestream.assets import layout
from icestream.assets.assets import Assets
from icestream.codec.refs import (
    REFS_PREFIX,
    RefKind,
    branch_path,
    decode_ref,
    encode_ref,
    find_ref,
    tag_path,
    tag_tombstone_path,
)
from icestream.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    ErrorKind,
    NotFoundError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from icestream.model.ids import SnapshotId, id_text
from icestream.model.repo_info import (
    SnapshotEntry,
    check_not_main,
    check_ref_name,
    tag_exists,
    tag_was_deleted,
)
from icestream.model.times import now_micros
from icestream.repository.timeline import (
    KnownRefs,
    StoredConfig,
    branch_moved,
    config_was_saved_by_another,
)
from icestream.storage.protocol import Version
from icestream.storage.retries import RetryPolicy

_JSON = "application/json"
_YAML = "application/yaml"


class RefTimeline:
    """Reads and writes the objects below `refs/`, and `config.yaml`."""

    spec = 1
    known = KnownRefs()
    """Nothing: a reference is one small object, which is read when it is needed."""

    def __init__(self, assets: Assets, *, retry: RetryPolicy) -> None:
        self._assets = assets
        self._storage = assets.storage
        self._retry = retry

    # -- asking ---------------------------------------------------------------------------------

    def branches(self) -> Mapping[str, SnapshotId]:
        """Return all branches."""
        return self._targets(RefKind.BRANCH, self.branch_tip)

    def tags(self) -> Mapping[str, SnapshotId]:
        """Return all tags."""
        return self._targets(RefKind.TAG, self.tag_target)

    def _targets(
        self, kind: RefKind, target_of: Callable[[str], SnapshotId]
    ) -> dict[str, SnapshotId]:
        """Return where references point, without those that are deleted while they are read."""
        targets: dict[str, SnapshotId] = {}
        for name in self._ref_names(kind):
            try:
                targets[name] = target_of(name)
            except RefNotFoundError:
                continue
        return targets

    def _ref_names(self, kind: RefKind) -> list[str]:
        found = [find_ref(info.path) for info in self._storage.list(REFS_PREFIX)]
        refs = [ref for ref in found if ref is not None]
        deleted = {ref.name for ref in refs if ref.kind is RefKind.TAG_TOMBSTONE}
        hidden = deleted if kind is RefKind.TAG else set()
        return sorted(ref.name for ref in refs if ref.kind is kind and ref.name not in hidden)

    def branch_tip(self, name: str) -> SnapshotId:
        """Return where a branch points."""
        return self._read_branch(name)[0]

    def _read_branch(self, name: str) -> tuple[SnapshotId, Version]:
        path = branch_path(check_ref_name(name, slashes=False))
        try:
            data, version = self._storage.get_versioned(path)
        except NotFoundError as error:
            raise _no_ref("branch", name, ErrorKind.BRANCH_NOT_FOUND) from error
        return decode_ref(data, name=path), version

    def tag_target(self, name: str) -> SnapshotId:
        """Return where a tag points."""
        path = tag_path(check_ref_name(name, slashes=False))
        if self._exists(tag_tombstone_path(name)) or not self._exists(path):
            raise _no_ref("tag", name, ErrorKind.TAG_NOT_FOUND)
        return decode_ref(self._storage.get(path), name=path)

    def entry(self, snapshot_id: SnapshotId) -> SnapshotEntry:
        """Return what a snapshot says about itself."""
        try:
            snapshot = self._assets.load_snapshot(snapshot_id)
        except NotFoundError as error:
            raise SnapshotNotFoundError(f"there is no snapshot {id_text(snapshot_id)}") from error
        return SnapshotEntry.of(snapshot, snapshot.parent_id)

    def ancestry(self, snapshot_id: SnapshotId) -> Iterator[SnapshotEntry]:
        """Yield a snapshot and its ancestors, newest first."""
        seen: set[SnapshotId] = set()
        current: SnapshotId | None = snapshot_id
        while current is not None and current not in seen:
            seen.add(current)
            entry = self.entry(current)
            yield entry
            current = entry.parent_id

    def writable_tip(self, branch: str, feature: str | None = None) -> SnapshotId:
        """Return where a branch points; refuse features that this version does not have."""
        if feature == "move_node":
            raise needs_spec2("moving nodes")
        return self.branch_tip(branch)

    def _exists(self, path: str) -> bool:
        try:
            self._storage.head(path)
        except NotFoundError:
            return False
        return True

    # -- references -----------------------------------------------------------------------------

    def create_branch(self, name: str, snapshot_id: SnapshotId) -> None:
        """Create a branch."""
        self.entry(snapshot_id)
        path = branch_path(check_ref_name(name, slashes=False))
        try:
            self._storage.put_if_absent(path, encode_ref(snapshot_id), content_type=_JSON)
        except AlreadyExistsError as error:
            raise AlreadyExistsError(
                f"branch {name!r} exists; reset_branch moves it",
                kind=ErrorKind.BRANCH_ALREADY_EXISTS,
            ) from error

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""
        check_not_main(name)
        self.branch_tip(name)
        self._storage.delete_many([branch_path(name)])

    def reset_branch(
        self, name: str, snapshot_id: SnapshotId, expected: SnapshotId | None = None
    ) -> None:
        """Point a branch elsewhere, if it still points at `expected`."""
        self.entry(snapshot_id)
        self._move_branch(name, snapshot_id, expected)

    def create_tag(self, name: str, snapshot_id: SnapshotId) -> None:
        """Create a tag."""
        check_ref_name(name, slashes=False)
        self.entry(snapshot_id)
        if self._exists(tag_tombstone_path(name)):
            raise tag_was_deleted(name)
        try:
            self._storage.put_if_absent(tag_path(name), encode_ref(snapshot_id), content_type=_JSON)
        except AlreadyExistsError as error:
            raise tag_exists(name) from error

    def delete_tag(self, name: str) -> None:
        """Delete a tag for ever: the reference stays, a marker beside it hides it."""
        self.tag_target(name)
        self._storage.put(tag_tombstone_path(name), b"")

    # -- commits --------------------------------------------------------------------------------

    def commit(self, branch: str, entry: SnapshotEntry) -> None:
        """Move a branch from the entry's parent to the entry."""
        self._move_branch(branch, entry.id, entry.parent_id)

    def _move_branch(self, name: str, target: SnapshotId, expected: SnapshotId | None) -> None:
        """Swap a branch; a swap that failed may have happened, so it is looked for first."""
        attempted = False
        for delay_s in self._retry.delays_s():
            time.sleep(delay_s)
            tip, version = self._read_branch(name)
            if attempted and self._contains(tip, target, expected):
                return
            if expected is not None and tip != expected:
                raise branch_moved(name, expected, tip)
            attempted = True
            try:
                self._storage.put_if_version(
                    branch_path(name), encode_ref(target), version, content_type=_JSON
                )
            except (ConflictError, CommitUnknownError):
                continue
            return
        raise ConflictError(
            f"branch {name!r} kept moving through {self._retry.max_tries} tries; try again",
            kind=ErrorKind.UPDATE_ATTEMPTS_EXHAUSTED,
        )

    def _contains(self, tip: SnapshotId, target: SnapshotId, expected: SnapshotId | None) -> bool:
        for entry in self.ancestry(tip):
            if entry.id == target:
                return True
            if entry.id == expected:
                return False
        return False

    def amend(self, branch: str, entry: SnapshotEntry, replaced: SnapshotId) -> None:  # noqa: ARG002  the port's signature
        """Refuse: this version of the format has no amend."""
        raise needs_spec2("amending a commit")

    def register(self, entry: SnapshotEntry) -> None:
        """Do nothing: a snapshot file is all the record that a detached snapshot has here."""

    # -- configuration --------------------------------------------------------------------------

    def load_config(self) -> StoredConfig:
        """Return the stored configuration."""
        try:
            return StoredConfig(*self._storage.get_versioned(layout.CONFIG))
        except NotFoundError:
            return StoredConfig()

    def save_config(self, config: StoredConfig, read: StoredConfig) -> StoredConfig:
        """Replace the configuration that was `read`, keeping a copy of it."""
        if self.load_config().data != read.data:
            # before a copy is kept: copies of lost races would look like history
            raise config_was_saved_by_another()
        try:
            return replace(config, version=self._put_config(config.data or b"", read))
        except (AlreadyExistsError, ConflictError) as error:
            raise config_was_saved_by_another() from error

    def _put_config(self, data: bytes, read: StoredConfig) -> Version:
        if read.data is None or read.version is None:
            return self._storage.put_if_absent(layout.CONFIG, data, content_type=_YAML)
        self._assets.save_backup(layout.new_backup_name(layout.CONFIG, now_micros()), read.data)
        return self._storage.put_if_version(layout.CONFIG, data, read.version, content_type=_YAML)


def needs_spec2(what: str) -> SessionStateError:
    """Return the error for something that format version 1 cannot express."""
    return SessionStateError(
        f"{what} needs format version 2; upgrade the repository with "
        "icestream.upgrade_icechunk_repository(repo, dry_run=False)",
        kind=ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION,
    )


def _no_ref(noun: str, name: str, kind: ErrorKind) -> RefNotFoundError:
    return RefNotFoundError(f"there is no {noun} {name!r}", kind=kind)
