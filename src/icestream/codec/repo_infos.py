"""The repo info file of spec 2: refs, the list of snapshots, the ops log, status, configuration.

The file names snapshots by their index in a list ordered by id, so that every index moves when a
snapshot is added: values have ids only, and indexes exist between the two ends of this module.
"""

import struct
from collections.abc import Mapping
from typing import Any

from icestream.codec.flatbuffer import FlatReader, FlatWriter, TableType
from icestream.codec.header import FileType, decode_body, encode_file
from icestream.codec.metadata_items import read_metadata, write_metadata
from icestream.errors import ErrorKind, FormatError
from icestream.model.ids import SnapshotId, id_text, parse_snapshot_id
from icestream.model.ops_log import (
    EVENT_KINDS,
    FeatureFlagChanged,
    RepoAvailability,
    RepoStatus,
    RepoStatusChanged,
    Update,
    UpdateType,
)
from icestream.model.repo_info import MAIN_BRANCH, RepoInfo, SnapshotEntry
from icestream.model.times import datetime_of, micros_of

_SPEC = 2
_NO_PARENT = -1

_REPO = TableType(
    "Repo",
    "spec_version B",
    "tags &!",
    "branches &!",
    "deleted_tags &!",
    "snapshots &!",
    "status &!",
    "metadata &",
    "latest_updates &!",
    "repo_before_updates &",
    "config &",
    "enabled_feature_flags &",
    "disabled_feature_flags &",
    "extra &",
)
_REF = TableType("Ref", "name &!", "snapshot_index I")
_SNAPSHOT_INFO = TableType(
    "SnapshotInfo",
    "id 12s!",
    "parent_offset i",
    "flushed_at Q",
    "message &!",
    "metadata &",
    "pruned_ancestor_tx_logs &",
)
_STATUS = TableType("RepoStatus", "availability B", "set_at Q", "limited_availability_reason &")
_UPDATE = TableType(
    "Update", "update_type_type B", "update_type &!", "updated_at Q", "backup_path &"
)

_EVENT_TABLES = (
    TableType("RepoInitializedUpdate"),
    TableType("RepoMigratedUpdate", "from_version B", "to_version B"),
    TableType("ConfigChangedUpdate"),
    TableType("MetadataChangedUpdate"),
    TableType("TagCreatedUpdate", "name &!"),
    TableType("TagDeletedUpdate", "name &!", "previous_snap_id 12s!"),
    TableType("BranchCreatedUpdate", "name &!"),
    TableType("BranchDeletedUpdate", "name &!", "previous_snap_id 12s!"),
    TableType("BranchResetUpdate", "name &!", "previous_snap_id 12s!"),
    TableType("NewCommitUpdate", "branch &!", "new_snap_id 12s!"),
    TableType("CommitAmendedUpdate", "branch &!", "previous_snap_id 12s!", "new_snap_id 12s!"),
    TableType("NewDetachedSnapshotUpdate", "new_snap_id 12s!"),
    TableType("GCRanUpdate"),
    TableType("ExpirationRanUpdate"),
    TableType("FeatureFlagChangedUpdate", "id H", "new_value B", "is_set B"),
    TableType("RepoStatusChangedUpdate", "status &!"),
)
"""The members of the union UpdateType, in the order of `EVENT_KINDS`: number k is entry k - 1."""

_KIND_NUMBERS = {kind: number for number, kind in enumerate(EVENT_KINDS, start=1)}

_FLAG = struct.Struct("<H")
_OBJECT_ID = struct.Struct("12s")


# -- writing --------------------------------------------------------------------------------------


def encode_repo_info(info: RepoInfo, *, level: int) -> bytes:
    """Return the file of a repo info.

    Raises:
        FormatError: A branch, tag or parent names a snapshot that is not in the list, or the
            value breaks a rule without which the icechunk package cannot write any more.
    """
    _check_rules(info)
    return encode_file(_RepoInfoWriter(info).finished(), FileType.REPO_INFO, _SPEC, level=level)


def _check_rules(info: RepoInfo) -> None:
    updates = info.latest_updates
    if MAIN_BRANCH not in info.branches:
        raise _refuse(f"there is no branch {MAIN_BRANCH!r}")
    if not updates:
        raise _refuse("the ops log is empty")
    if updates[0].backup_path is not None:
        raise _refuse("the newest entry of the ops log has a backup path")
    if len(updates) > 1 and updates[0].updated_at_micros <= updates[1].updated_at_micros:
        raise _refuse("the newest entry of the ops log is not later than the one before")


def _refuse(why: str) -> FormatError:
    return FormatError(f"the repo info cannot be written: {why}", kind=ErrorKind.SERIALIZATION)


class _RepoInfoWriter(FlatWriter):
    def __init__(self, info: RepoInfo) -> None:
        super().__init__()
        self._info = info
        self._indexes = {id_: index for index, id_ in enumerate(sorted(info.snapshots))}

    def finished(self) -> bytes:
        info = self._info
        root = self.table(
            _REPO,
            _SPEC,
            self._write_refs(info.tags),
            self._write_refs(info.branches),
            self.offsets([self.string(name) for name in sorted(info.deleted_tags)]),
            self.offsets([self._write_entry(info.snapshots[id_]) for id_ in self._indexes]),
            self._write_status(info.status),
            write_metadata(self, info.metadata, _SPEC),
            self.offsets([self._write_update(update) for update in info.latest_updates]),
            self._find_string(info.repo_before_updates),
            None if info.config is None else self.vector(info.config),
            self._write_flags(info.enabled_flags),
            self._write_flags(info.disabled_flags),
            None if info.extra is None else self.vector(info.extra),
        )
        return self.finish(root)

    def _write_refs(self, refs: Mapping[str, SnapshotId]) -> int:
        return self.offsets(
            [
                self.table(_REF, self.string(name), self._index_of(refs[name], f"ref {name!r}"))
                for name in sorted(refs)  # code point order is the order of the UTF-8 bytes
            ]
        )

    def _write_entry(self, entry: SnapshotEntry) -> int:
        parent = _NO_PARENT
        if entry.parent_id is not None:
            parent = self._index_of(entry.parent_id, entry)
        pruned = [(id_,) for id_ in entry.pruned_logs]
        return self.table(
            _SNAPSHOT_INFO,
            entry.id,
            parent,
            entry.flushed_at,
            self.string(entry.message),
            write_metadata(self, entry.metadata, _SPEC),
            self.structs(_OBJECT_ID, pruned) if pruned else None,
        )

    def _index_of(self, snapshot_id: SnapshotId, owner: SnapshotEntry | str) -> int:
        index = self._indexes.get(snapshot_id)
        if index is None:
            subject = owner if isinstance(owner, str) else f"snapshot {id_text(owner.id)}"
            raise _refuse(f"{subject} names {id_text(snapshot_id)}, which is not in the list")
        return index

    def _write_status(self, status: RepoStatus) -> int:
        return self.table(
            _STATUS,
            status.availability.value,
            micros_of(status.set_at),
            self._find_string(status.limited_availability_reason),
        )

    def _write_update(self, update: Update) -> int:
        return self.table(
            _UPDATE,
            _KIND_NUMBERS[type(update.kind)],
            self._write_event(update.kind),
            update.updated_at_micros,
            self._find_string(update.backup_path),
        )

    def _write_event(self, event: UpdateType) -> int:
        table = _EVENT_TABLES[_KIND_NUMBERS[type(event)] - 1]
        if isinstance(event, FeatureFlagChanged):
            is_on, is_set = event.new_value is True, event.new_value is not None
            return self.table(table, event.id, is_on, is_set)
        if isinstance(event, RepoStatusChanged):
            return self.table(table, self._write_status(event.status))
        values: list[Any] = []
        for field in table.fields:
            value = getattr(event, field.name)
            if field.is_offset:
                values.append(self.string(value))
            else:
                values.append(parse_snapshot_id(value) if isinstance(value, str) else value)
        return self.table(table, *values)

    def _write_flags(self, flags: frozenset[int]) -> int | None:
        return self.structs(_FLAG, [(flag,) for flag in sorted(flags)]) if flags else None

    def _find_string(self, text: str | None) -> int | None:
        return None if text is None else self.string(text)


# -- reading --------------------------------------------------------------------------------------


def decode_repo_info(data: bytes, *, name: str) -> RepoInfo:
    """Return the repo info in a file.

    Args:
        data: The whole file.
        name: What to call the file in errors.

    Raises:
        FormatError: The file is damaged, or of a version or with entries not known here.
    """
    spec, body = decode_body(data, FileType.REPO_INFO, name=name)
    if spec != _SPEC:
        raise FormatError(f"{name}: a repo info of spec version {spec} cannot exist")
    return _RepoInfoReader(body, name).info()


class _RepoInfoReader(FlatReader):
    def info(self) -> RepoInfo:
        # fmt: off
        (
            spec_version, tags, branches, deleted_tags, snapshots, status, metadata,
            updates, before, config, enabled, disabled, extra,
        ) = self.read_root(_REPO)
        # fmt: on
        self._check_version(spec_version)
        entries = self._read_entries(snapshots)
        ids = list(entries)
        return RepoInfo(
            tags=self._read_refs(tags, ids, "Repo.tags"),
            branches=self._read_refs(branches, ids, "Repo.branches"),
            deleted_tags=frozenset(
                self.string(at, "Repo.deleted_tags")
                for at in self.positions(deleted_tags, "Repo.deleted_tags")
            ),
            snapshots=entries,
            status=self._read_status(status),
            metadata=read_metadata(self, metadata, _SPEC) if metadata else {},
            latest_updates=tuple(
                [self._read_update(at) for at in self.positions(updates, "Repo.latest_updates")]
            ),
            repo_before_updates=self._find_string(before, "Repo.repo_before_updates"),
            config=self.vector(config, "Repo.config") if config else None,
            enabled_flags=self._read_flags(enabled, "Repo.enabled_feature_flags"),
            disabled_flags=self._read_flags(disabled, "Repo.disabled_feature_flags"),
            extra=self.vector(extra, "Repo.extra") if extra else None,
        )

    def _check_version(self, spec_version: int) -> None:
        if spec_version < _SPEC:
            raise self.wrong("Repo.spec_version", f"is {spec_version}, expected {_SPEC}")
        if spec_version > _SPEC:
            raise FormatError(
                f"{self.name}: follows spec version {spec_version}, this package reads {_SPEC}; "
                "please upgrade",
                kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
            )

    def _read_entries(self, start: int) -> dict[SnapshotId, SnapshotEntry]:
        """Return all snapshots in the order of the file, which indexes refer to."""
        places = self.positions(start, "Repo.snapshots")
        rows = [self.read(at, _SNAPSHOT_INFO) for at in places]
        ids = [SnapshotId(row[0]) for row in rows]
        entries = {id_: self._read_entry(row, ids) for id_, row in zip(ids, rows, strict=True)}
        if len(entries) < len(ids):
            raise FormatError(
                f"{self.name}: Repo.snapshots: a snapshot is there twice",
                kind=ErrorKind.DUPLICATE_SNAPSHOT_ID,
            )
        return entries

    def _read_entry(self, row: list[Any], ids: list[SnapshotId]) -> SnapshotEntry:
        id_, parent, flushed_at, message, metadata, pruned = row
        return SnapshotEntry(
            id=SnapshotId(id_),
            parent_id=None
            if parent == _NO_PARENT
            else self._id_at(parent, ids, "SnapshotInfo.parent_offset"),
            flushed_at=self.check_micros(flushed_at, "SnapshotInfo.flushed_at"),
            message=self.string(message, "SnapshotInfo.message"),
            metadata=read_metadata(self, metadata, _SPEC) if metadata else {},
            pruned_logs=self._read_ids(pruned) if pruned else (),
        )

    def _read_ids(self, start: int) -> tuple[SnapshotId, ...]:
        packed = self.vector(start, "SnapshotInfo.pruned_ancestor_tx_logs", _OBJECT_ID.size)
        return tuple([SnapshotId(id_) for (id_,) in _OBJECT_ID.iter_unpack(packed)])

    def _id_at(self, index: int, ids: list[SnapshotId], label: str) -> SnapshotId:
        if not 0 <= index < len(ids):
            raise self.wrong(label, f"{index} is no index in a list of {len(ids)} snapshots")
        return ids[index]

    def _read_refs(self, start: int, ids: list[SnapshotId], label: str) -> dict[str, SnapshotId]:
        refs: dict[str, SnapshotId] = {}
        for position in self.positions(start, label):
            name_at, index = self.read(position, _REF)
            name = self.string(name_at, label)
            if name in refs:
                raise self.wrong(label, f"{name!r} is there twice")
            refs[name] = self._id_at(index, ids, label)
        return refs

    def _read_status(self, position: int) -> RepoStatus:
        availability, set_at, reason = self.read(position, _STATUS)
        try:
            known = RepoAvailability(availability)
        except ValueError as error:
            raise self.wrong("RepoStatus.availability", f"{availability} is not known") from error
        return RepoStatus(
            known,
            datetime_of(self.check_micros(set_at, "RepoStatus.set_at")),
            self._find_string(reason, "RepoStatus.limited_availability_reason"),
        )

    def _read_update(self, position: int) -> Update:
        kind, content, updated_at, backup_path = self.read(position, _UPDATE)
        if not 1 <= kind <= len(EVENT_KINDS):
            raise self.wrong(
                "Update.update_type_type",
                f"kind {kind} of the ops log is not known here; please upgrade",
            )
        return Update(
            self._read_event(kind, content),
            self.check_micros(updated_at, "Update.updated_at"),
            self._find_string(backup_path, "Update.backup_path"),
        )

    def _read_event(self, kind: int, position: int) -> UpdateType:
        event, table = EVENT_KINDS[kind - 1], _EVENT_TABLES[kind - 1]
        values = self.read(position, table)
        if event is FeatureFlagChanged:
            flag_id, new_value, is_set = values
            return FeatureFlagChanged(flag_id, bool(new_value) if is_set else None)
        if event is RepoStatusChanged:
            return RepoStatusChanged(self._read_status(values[0]))
        for slot, (field, value) in enumerate(zip(table.fields, values, strict=True)):
            if field.is_offset:
                values[slot] = self.string(value, f"{table.name}.{field.name}")
            elif isinstance(value, bytes):
                values[slot] = id_text(value)
        return event(*values)

    def _read_flags(self, start: int, label: str) -> frozenset[int]:
        packed = self.vector(start, label, _FLAG.size) if start else b""
        return frozenset(flag for (flag,) in _FLAG.iter_unpack(packed))

    def _find_string(self, start: int, label: str) -> str | None:
        return self.string(start, label) if start else None
