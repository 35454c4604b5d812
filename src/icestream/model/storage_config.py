"""How the object store is used. These settings belong to a run and are never saved."""

from dataclasses import dataclass
from typing import Annotated

from icestream.model.config_nodes import (
    BOOLEAN,
    POSITIVE_U16,
    POSITIVE_U64,
    TEXT,
    U32,
    U64,
    ConfigNode,
    Part,
)


@dataclass(slots=True, repr=False)
class StorageRetriesSettings(ConfigNode):
    """How failed requests are tried again, with exponential back-off."""

    max_tries: Annotated[int | None, POSITIVE_U16] = None
    """Tries including the first one."""
    initial_backoff_ms: Annotated[int | None, U32] = None
    max_backoff_ms: Annotated[int | None, U32] = None


@dataclass(slots=True, repr=False)
class StorageConcurrencySettings(ConfigNode):
    """How large objects are cut into concurrent requests."""

    max_concurrent_requests_for_object: Annotated[int | None, POSITIVE_U16] = None
    ideal_concurrent_request_size: Annotated[int | None, POSITIVE_U64] = None
    """In bytes."""


@dataclass(slots=True, repr=False)
class StorageTimeoutSettings(ConfigNode):
    """How long the client waits; unset leaves it to the client."""

    connect_timeout_ms: Annotated[int | None, U32] = None
    read_timeout_ms: Annotated[int | None, U32] = None
    operation_timeout_ms: Annotated[int | None, U32] = None
    operation_attempt_timeout_ms: Annotated[int | None, U32] = None


@dataclass(slots=True, repr=False)
class StorageSettings(ConfigNode):
    """How the object store is used."""

    concurrency: Annotated[StorageConcurrencySettings | None, Part(StorageConcurrencySettings)] = (
        None
    )
    retries: Annotated[StorageRetriesSettings | None, Part(StorageRetriesSettings)] = None
    unsafe_use_conditional_create: Annotated[bool | None, BOOLEAN] = None
    """False gives up safety among concurrent writers, for stores that lack create-only writes."""
    unsafe_use_conditional_update: Annotated[bool | None, BOOLEAN] = None
    """False gives up safety among concurrent writers, for stores that lack put-if-match."""
    unsafe_use_metadata: Annotated[bool | None, BOOLEAN] = None
    """False leaves out object metadata, for stores that lack it."""
    storage_class: Annotated[str | None, TEXT] = None
    """Of all objects, in the words of the store."""
    metadata_storage_class: Annotated[str | None, TEXT] = None
    chunks_storage_class: Annotated[str | None, TEXT] = None
    minimum_size_for_multipart_upload: Annotated[int | None, U64] = None
    """In bytes."""
    timeouts: Annotated[StorageTimeoutSettings | None, Part(StorageTimeoutSettings)] = None
