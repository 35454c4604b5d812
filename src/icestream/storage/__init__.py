"""Bytes in object stores: the port, its backends, and the functions that make them."""

from icestream.model.chunk_refs import ChunkType
from icestream.model.object_stores import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
)
from icestream.model.storage_config import (
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)
from icestream.storage.factories import (
    azure_storage,
    gcs_storage,
    http_storage,
    in_memory_storage,
    local_filesystem_storage,
    redirect_storage,
)
from icestream.storage.protocol import (
    ByteRange,
    DeleteResult,
    ObjectInfo,
    Storage,
    StorageObjectInfo,
    Version,
)
from icestream.storage.s3_factories import (
    hf_storage,
    r2_storage,
    s3_object_store_storage,
    s3_storage,
    tigris_storage,
)
from icestream.storage.store_configs import (
    azure_store,
    gcs_store,
    http_store,
    local_filesystem_store,
    s3_store,
)

__all__ = [
    "AnyObjectStoreConfig",
    "ByteRange",
    "ChecksumAlgorithm",
    "ChunkType",
    "DeleteResult",
    "ObjectInfo",
    "ObjectStoreConfig",
    "S3Options",
    "Storage",
    "StorageConcurrencySettings",
    "StorageObjectInfo",
    "StorageRetriesSettings",
    "StorageSettings",
    "StorageTimeoutSettings",
    "Version",
    "azure_storage",
    "azure_store",
    "gcs_storage",
    "gcs_store",
    "hf_storage",
    "http_storage",
    "http_store",
    "in_memory_storage",
    "local_filesystem_storage",
    "local_filesystem_store",
    "r2_storage",
    "redirect_storage",
    "s3_object_store_storage",
    "s3_storage",
    "s3_store",
    "tigris_storage",
]
