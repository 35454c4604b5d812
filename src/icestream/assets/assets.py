"""Typed load and save: model values on one side, objects of a storage on the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from icestream.assets import layout
from icestream.assets.cache import WeightedCache
from icestream.codec.manifests import decode_manifest, encode_manifest
from icestream.codec.repo_infos import decode_repo_info, encode_repo_info
from icestream.codec.snapshots import decode_snapshot, encode_snapshot
from icestream.codec.transaction_logs import (
    ChunkParts,
    decode_transaction_log,
    encode_transaction_log,
)
from icestream.errors import IntegrityError
from icestream.model.chunk_refs import NativeRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import (
    ChunkId,
    ManifestId,
    NodeId,
    SnapshotId,
    new_chunk_id,
    new_manifest_id,
)
from icestream.model.location_rules import NO_LOCATION_COMPRESSION, LocationRules
from icestream.model.manifests import LocationCompression, Manifest, ManifestFile
from icestream.model.repo_info import RepoInfo
from icestream.model.snapshots import Snapshot
from icestream.model.transaction_logs import TransactionLog
from icestream.storage.protocol import ByteRange, Storage, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetSettings:
    """How files are written, and how much of them is kept in memory."""

    compression_level: int = 1
    cached_snapshot_nodes: int = 500_000
    cached_chunk_refs: int = 15_000_000
    cached_manifest_bytes: int = 2 * 1024**3
    cached_log_changes: int = 0
    cached_chunk_bytes: int = 0
    locations: LocationRules = NO_LOCATION_COMPRESSION


class Assets:
    """The files of one repository."""

    def __init__(self, storage: Storage, settings: AssetSettings) -> None:
        self.storage = storage
        self.settings = settings
        self._snapshots = WeightedCache[SnapshotId, Snapshot](settings.cached_snapshot_nodes)
        self._manifests = WeightedCache[ManifestId, Manifest](
            settings.cached_chunk_refs, settings.cached_manifest_bytes
        )
        self._logs = WeightedCache[SnapshotId, TransactionLog](settings.cached_log_changes)
        self._chunks = WeightedCache[tuple[ChunkId, int, int], bytes](settings.cached_chunk_bytes)

    def __reduce__(self) -> tuple[type["Assets"], tuple[Storage, AssetSettings]]:
        return Assets, (self.storage, self.settings)

    def forget(self) -> None:
        """Empty the caches: files were deleted, and must not be shown from memory."""
        for cache in (self._snapshots, self._manifests, self._logs, self._chunks):
            cache.clear()

    # -- snapshots ------------------------------------------------------------------------------

    def load_snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """Return a snapshot."""

        def load() -> Snapshot:
            path = layout.snapshot_path(snapshot_id)
            return decode_snapshot(self.storage.get(path), name=path, expected_id=snapshot_id)

        return self._snapshots.get(snapshot_id, load, lambda found: (len(found.nodes) + 1,))

    def save_snapshot(self, snapshot: Snapshot, *, spec: int) -> None:
        """Write a snapshot."""
        data = encode_snapshot(snapshot, spec=spec, level=self.settings.compression_level)
        self.storage.put(layout.snapshot_path(snapshot.id), data)
        self._snapshots.put(snapshot.id, snapshot, (len(snapshot.nodes) + 1,))

    # -- manifests ------------------------------------------------------------------------------

    def load_manifest(self, manifest_id: ManifestId) -> Manifest:
        """Return a manifest; one fetch and one decode, however many ask for it."""

        def load() -> Manifest:
            path = layout.manifest_path(manifest_id)
            return decode_manifest(self.storage.get(path), name=path, expected_id=manifest_id)

        return self._manifests.get(manifest_id, load, _weights_of_manifest)

    @property
    def cached_manifest_weights(self) -> tuple[int, ...]:
        """References and bytes of the manifests in memory."""
        return self._manifests.weights

    def find_cached_manifest(self, manifest_id: ManifestId) -> Manifest | None:
        """Return a manifest if it is in memory."""
        return self._manifests.find(manifest_id)

    def save_manifest(
        self,
        arrays: Mapping[NodeId, ChunkTable],
        *,
        spec: int,
        locations: LocationCompression | None,
    ) -> ManifestFile:
        """Write the references of some arrays as a manifest of its own."""
        manifest = Manifest(new_manifest_id(), dict(sorted(arrays.items())))
        data = encode_manifest(
            manifest.id,
            manifest.arrays,
            spec=spec,
            level=self.settings.compression_level,
            locations=locations,
        )
        self.storage.put(layout.manifest_path(manifest.id), data)
        self._manifests.put(manifest.id, manifest, _weights_of_manifest(manifest))
        return ManifestFile(manifest.id, len(data), manifest.num_refs)

    # -- transaction logs -----------------------------------------------------------------------

    def load_log(self, snapshot_id: SnapshotId) -> TransactionLog:
        """Return the transaction log of a snapshot."""

        def load() -> TransactionLog:
            path = layout.transaction_log_path(snapshot_id)
            data = self.storage.get(path)
            return decode_transaction_log(data, name=path, expected_id=snapshot_id)

        return self._logs.get(snapshot_id, load, lambda found: (found.num_changes + 1,))

    def save_log(
        self, log: TransactionLog, *, spec: int, parts: ChunkParts = MappingProxyType({})
    ) -> None:
        """Write a transaction log; see `encode_transaction_log`."""
        level = self.settings.compression_level
        data = encode_transaction_log(log, spec=spec, level=level, parts=parts)
        self.storage.put(layout.transaction_log_path(log.id), data)

    # -- the repo info --------------------------------------------------------------------------

    def load_repo_info(self) -> tuple[RepoInfo, bytes, Version]:
        """Return the repo info, its stored bytes and their version."""
        data, version = self.storage.get_versioned(layout.REPO_INFO)
        return decode_repo_info(data, name=layout.REPO_INFO), data, version

    def create_repo_info(self, info: RepoInfo) -> None:
        """Write the first repo info; it must not exist."""
        data = encode_repo_info(info, level=self.settings.compression_level)
        self.storage.put_if_absent(layout.REPO_INFO, data)

    def replace_repo_info(self, info: RepoInfo, version: Version) -> None:
        """Write the repo info over the version it was made from."""
        data = encode_repo_info(info, level=self.settings.compression_level)
        self.storage.put_if_version(layout.REPO_INFO, data, version)

    def load_backup(self, name: str) -> RepoInfo:
        """Return an earlier repo info."""
        path = layout.BACKUPS + name
        return decode_repo_info(self.storage.get(path), name=path)

    def save_backup(self, name: str, data: bytes) -> None:
        """Keep a copy of an object that is about to be replaced."""
        self.storage.put(layout.BACKUPS + name, data)

    # -- chunks ---------------------------------------------------------------------------------

    def save_chunk(self, data: bytes) -> NativeRef:
        """Write a native chunk."""
        chunk_id = new_chunk_id()
        self.storage.put(layout.chunk_path(chunk_id), data)
        return NativeRef(chunk_id, 0, len(data))

    async def save_chunk_async(self, data: bytes) -> NativeRef:
        """Write a native chunk, awaiting the storage."""
        chunk_id = new_chunk_id()
        await self.storage.put_async(layout.chunk_path(chunk_id), data)
        return NativeRef(chunk_id, 0, len(data))

    def load_chunk(self, ref: NativeRef, byte_range: ByteRange) -> bytes:
        """Return a range of a native chunk, counted from the chunk's own start."""
        start, end = ref.byte_offset + byte_range[0], ref.byte_offset + byte_range[1]
        if not self.settings.cached_chunk_bytes:
            return _checked(
                self.storage.get(layout.chunk_path(ref.chunk_id), (start, end)), ref, end - start
            )
        data = self._chunks.get(
            (ref.chunk_id, start, end),
            lambda: self.storage.get(layout.chunk_path(ref.chunk_id), (start, end)),
            lambda found: (len(found),),
        )
        return _checked(data, ref, end - start)

    async def load_chunk_async(self, ref: NativeRef, byte_range: ByteRange) -> bytes:
        """Return a range of a native chunk, awaiting the storage."""
        start, end = ref.byte_offset + byte_range[0], ref.byte_offset + byte_range[1]
        key = (ref.chunk_id, start, end)
        data = self._chunks.find(key)
        if data is None:
            data = await self.storage.get_async(layout.chunk_path(ref.chunk_id), (start, end))
            self._chunks.put(key, data, (len(data),))
        return _checked(data, ref, end - start)


def _weights_of_manifest(manifest: Manifest) -> tuple[int, int]:
    return manifest.num_refs + 1, manifest.num_bytes


def _checked(data: bytes, ref: NativeRef, length: int) -> bytes:
    if len(data) != length:
        raise IntegrityError(
            f"{layout.chunk_path(ref.chunk_id)} gave {len(data)} bytes, {length} are recorded; "
            "the object was cut or replaced"
        )
    return data
