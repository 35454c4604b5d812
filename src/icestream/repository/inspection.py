"""The files of a repository as JSON documents, in the form that the icechunk package gives."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from icestream.assets import layout
from icestream.codec.columns import FlatColumns, Positions, root_table
from icestream.codec.header import HEADER_SIZE, MAGIC, FileType, decode_body
from icestream.codec.manifests import decode_manifest
from icestream.codec.repo_infos import decode_repo_info
from icestream.codec.snapshots import decode_snapshot
from icestream.codec.transaction_logs import decode_transaction_log
from icestream.errors import NotFoundError
from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import NodeId, SnapshotId, id_text, parse_manifest_id, parse_snapshot_id
from icestream.model.manifests import ManifestFile
from icestream.model.nodes import ArrayNode, Node
from icestream.model.ops_log import FeatureFlagChanged, RepoMigrated, RepoStatus, Update, UpdateType
from icestream.model.repo_info import SnapshotEntry
from icestream.model.times import datetime_of
from icestream.model.transaction_logs import TransactionLog, merge_logs
from icestream.repository.async_twins import async_twin
from icestream.repository.core import RepositoryCore

Document = dict[str, Any]

_COMPOSITE_NOTE = (
    "ancestors of this snapshot were expired: their transaction logs and its own are merged here; "
    "the header is that of its own log"
)
_MANIFEST_SLOTS, _ARRAY_SLOTS, _REF_SLOTS = 4, 2, 9
_COMPRESSED_LOCATION = 8
_AVAILABILITY_NAMES = ("Online", "ReadOnly", "Offline")


class Inspection(RepositoryCore):
    """The part of a repository that shows its files."""

    def inspect_snapshot(self, snapshot_id: str) -> Document:
        """Return the nodes of a snapshot and the manifests that they use."""
        wanted = parse_snapshot_id(snapshot_id)
        path = layout.snapshot_path(wanted)
        data = self._context.assets.storage.get(path)
        snapshot = decode_snapshot(data, name=path, expected_id=wanted)
        return {
            "id": id_text(snapshot.id),
            "header": _header(data),
            "flushed_at": _time(datetime_of(snapshot.flushed_at)),
            "commit_message": snapshot.message,
            "metadata": dict(snapshot.metadata),
            "manifests": [_manifest_file(file) for file in snapshot.manifest_files.values()],
            "nodes": [_node(node) for node in snapshot.nodes.values()],
        }

    inspect_snapshot_async = async_twin(inspect_snapshot)

    def inspect_repo_info(self) -> Document:
        """Return branches, tags, snapshots and the newest part of the ops log."""
        self._repo_info_timeline("the repo info")
        data = self._context.assets.storage.get(layout.REPO_INFO)
        info = decode_repo_info(data, name=layout.REPO_INFO)
        header = _header(data)
        return {
            "header": header,
            "spec_version": header["spec_version"],
            "branches": {name: id_text(tip) for name, tip in info.branches.items()},
            "tags": {name: id_text(target) for name, target in info.tags.items()},
            "deleted_tags": sorted(info.deleted_tags),
            "snapshots": [_entry(entry) for entry in info.snapshots.values()],
            "metadata": dict(info.metadata),
            "latest_updates": [_update(update) for update in info.latest_updates],
        }

    inspect_repo_info_async = async_twin(inspect_repo_info)

    def inspect_manifest(self, manifest_id: str) -> Document:
        """Return how many references a manifest has, by array and kind; not the references.

        `size_bytes` is the size of the decompressed content.
        """
        wanted = parse_manifest_id(manifest_id)
        path = layout.manifest_path(wanted)
        data = self._context.assets.storage.get(path)
        manifest = decode_manifest(data, name=path, expected_id=wanted)
        arrays = [_array_counts(node_id, table) for node_id, table in manifest.arrays.items()]
        _, body = decode_body(data, FileType.MANIFEST, name=path)
        return {
            "id": id_text(manifest.id),
            "header": _header(data),
            "size_bytes": len(body),
            "num_arrays": len(arrays),
            "total_chunk_refs": manifest.num_refs,
            "total_inline": sum(array["num_inline"] for array in arrays),
            "total_native": sum(array["num_native"] for array in arrays),
            "total_virtual": sum(array["num_virtual"] for array in arrays),
            "arrays": arrays,
            "compression": _location_compression(FlatColumns(body, path)),
        }

    inspect_manifest_async = async_twin(inspect_manifest)

    def inspect_transaction_log(self, snapshot_id: str) -> Document:
        """Return the nodes and chunks that a snapshot changed, expired ancestors included."""
        wanted = parse_snapshot_id(snapshot_id)
        path = layout.transaction_log_path(wanted)
        data = self._context.assets.storage.get(path)
        log = decode_transaction_log(data, name=path, expected_id=wanted)
        pruned = self._find_pruned_logs(wanted)
        if not pruned:
            return {"header": _header(data), **_log(log)}
        found = [earlier for earlier in pruned.values() if earlier is not None]
        return {
            "header": _header(data),
            **_log(merge_logs(wanted, [*found, log])),
            "synthetic_composite": {
                "note": _COMPOSITE_NOTE,
                "merged_pruned_ancestor_tx_logs": [id_text(earlier.id) for earlier in found],
                "missing_tx_logs": [id_text(i) for i, earlier in pruned.items() if earlier is None],
            },
        }

    inspect_transaction_log_async = async_twin(inspect_transaction_log)

    def _find_pruned_logs(
        self, snapshot_id: SnapshotId
    ) -> Mapping[SnapshotId, TransactionLog | None]:
        """Return the logs of expired ancestors, oldest first; None where one was collected."""
        try:
            entry = self._context.timeline.entry(snapshot_id)
        except NotFoundError:
            return {}
        logs: dict[SnapshotId, TransactionLog | None] = {}
        for log_id in entry.pruned_logs:
            try:
                logs[log_id] = self._context.assets.load_log(log_id)
            except NotFoundError:
                logs[log_id] = None
        return logs


# -- parts of documents ---------------------------------------------------------------------------


def _header(data: bytes) -> Document:
    """Return the header of a file that was decoded before, so that it is known to be sound."""
    written_by = data[len(MAGIC) : HEADER_SIZE - 3].decode(errors="replace").rstrip(" \0")
    name, _, version = written_by.partition("-")
    return {
        "written_by": written_by,
        "app_name": name,
        "app_version": version,
        "spec_version": f"{data[HEADER_SIZE - 3]}.0",
        "file_type": FileType(data[HEADER_SIZE - 2]).label.replace(" ", "-"),
        "compression": "zstd",
    }


def _time(moment: datetime) -> str:
    """Return a time as text with as many decimals as it needs, in threes."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    digits = "seconds" if not utc.microsecond else "microseconds"
    if utc.microsecond and utc.microsecond % 1000 == 0:
        digits = "milliseconds"
    return utc.isoformat(timespec=digits) + "Z"


def _present(**values: Any) -> Document:
    """Return the values that are there; absent ones have no key in these documents."""
    return {name: value for name, value in values.items() if value is not None}


def _manifest_file(file: ManifestFile) -> Document:
    return {
        "id": id_text(file.id),
        "size_bytes": file.size_bytes,
        "num_chunk_refs": file.num_refs,
    }


def _node(node: Node) -> Document:
    document = {"id": id_text(node.id), "path": node.path, "node_type": "group"}
    if not isinstance(node, ArrayNode):
        return document
    names = node.dimension_names or (None,) * len(node.shape)
    return {
        **document,
        "node_type": "array",
        "shape": [
            _present(name=name, array_length=size.array_length, num_chunks=size.num_chunks)
            for name, size in zip(names, node.shape, strict=True)
        ],
        "manifest_refs": [
            {"id": id_text(ref.manifest_id), "extents": [list(extent) for extent in ref.extents]}
            for ref in node.manifests
        ],
    }


def _entry(entry: SnapshotEntry) -> Document:
    return _present(
        id=id_text(entry.id),
        parent_id=None if entry.parent_id is None else id_text(entry.parent_id),
        flushed_at=_time(datetime_of(entry.flushed_at)),
        message=entry.message,
        metadata=dict(entry.metadata),
    )


def _update(update: Update) -> Document:
    return _present(
        update_type=_event(update.kind),
        updated_at=_time(update.updated_at),
        backup_path=update.backup_path,
    )


def _event(event: UpdateType) -> Document:
    name = type(event).__name__
    # the one event whose name has no suffix in these documents
    suffix = "" if isinstance(event, FeatureFlagChanged) else "Update"
    values = {f.name: getattr(event, f.name) for f in fields(event)}  # type: ignore[arg-type]  # every event is a dataclass
    if isinstance(event, RepoMigrated):
        values = {key: f"{version}.0" for key, version in values.items()}
    return {
        "type": name + suffix,
        **{k: _status(v) if isinstance(v, RepoStatus) else v for k, v in values.items()},
    }


def _status(status: RepoStatus) -> Document:
    return {
        "availability": _AVAILABILITY_NAMES[status.availability.value],
        "limited_availability_reason": status.limited_availability_reason,
        "set_at": _time(status.set_at),
    }


def _array_counts(node_id: NodeId, table: ChunkTable) -> Document:
    return {
        "node_id": id_text(node_id),
        "num_chunk_refs": len(table),
        "num_inline": int((table.kind == ChunkType.inline).sum()),
        "num_native": int((table.kind == ChunkType.native).sum()),
        "num_virtual": int((table.kind == ChunkType.virtual).sum()),
    }


def _location_compression(flat: FlatColumns) -> Document:
    """Return how many locations are compressed; decoded references do not show it any more."""
    root = root_table(flat, _MANIFEST_SLOTS)
    dictionary, algorithm = root.find(2), root.find(3)
    compressed = 0
    for _, arrays in flat.table_vector(root.require(1, "arrays"), _ARRAY_SLOTS):
        for refs in arrays.require(1, "refs").as_array().tolist():
            for _, tables in flat.table_vector(Positions(1, refs), _REF_SLOTS):
                found = tables.find(_COMPRESSED_LOCATION)
                compressed += 0 if found is None else found.positions.count
    return _present(
        # the default of the field is true, whether there is a dictionary or not
        uses_location_compression=algorithm is None
        or bool(flat.gather(algorithm.positions, "u1")[0]),
        dictionary_size_bytes=dictionary and flat.vector(dictionary.positions, 1)[1],
        num_compressed_refs=compressed,
    )


def _log(log: TransactionLog) -> Document:
    return {
        "new_groups": _node_ids(log.new_groups),
        "new_arrays": _node_ids(log.new_arrays),
        "deleted_groups": _node_ids(log.deleted_groups),
        "deleted_arrays": _node_ids(log.deleted_arrays),
        "updated_groups": _node_ids(log.updated_groups),
        "updated_arrays": _node_ids(log.updated_arrays),
        "updated_chunks": [
            {"node_id": id_text(node_id), "chunks": index.tolist()}
            for node_id, index in sorted(log.updated_chunks.items())
        ],
        "moved_nodes": [{"from": move.from_path, "to": move.to_path} for move in log.moved_nodes],
    }


def _node_ids(node_ids: Iterable[NodeId]) -> list[str]:
    return [id_text(node_id) for node_id in sorted(node_ids)]
