"""Where each kind of file lies below the root of a repository."""

from icestream.model.ids import ChunkId, ManifestId, SnapshotId, id_text, new_chunk_id

REPO_INFO = "repo"
CONFIG = "config.yaml"
SNAPSHOTS = "snapshots/"
MANIFESTS = "manifests/"
TRANSACTION_LOGS = "transactions/"
CHUNKS = "chunks/"
BACKUPS = "overwritten/"

_YEAR_3000_MS = 32_503_680_000_000


def snapshot_path(snapshot_id: SnapshotId) -> str:
    """Return the path of a snapshot."""
    return SNAPSHOTS + id_text(snapshot_id)


def manifest_path(manifest_id: ManifestId) -> str:
    """Return the path of a manifest."""
    return MANIFESTS + id_text(manifest_id)


def transaction_log_path(snapshot_id: SnapshotId) -> str:
    """Return the path of the transaction log of a snapshot."""
    return TRANSACTION_LOGS + id_text(snapshot_id)


def chunk_path(chunk_id: ChunkId) -> str:
    """Return the path of a native chunk."""
    return CHUNKS + id_text(chunk_id)


def new_backup_name(path: str, now_micros: int) -> str:
    """Return a file name below `overwritten/`; newer names sort first."""
    return f"{path}.{_YEAR_3000_MS - now_micros // 1000:014d}.{id_text(new_chunk_id())}"
