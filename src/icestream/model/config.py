"""The configuration of a repository, with the names that icechunk has.

Everything is optional: None means unset. `effective` (in `effective_config`) fills in the
defaults, `validate` says what is wrong.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, Self

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.config_nodes import (
    LIMIT_U16,
    TEXT,
    U8,
    U16,
    U64,
    Choice,
    ConfigNode,
    Fault,
    Part,
    joined,
)
from icestream.model.containers import VirtualChunkContainer
from icestream.model.extension_config import ExtensionConfig, LocationCompressionRule
from icestream.model.manifest_config import ManifestConfig
from icestream.model.manifest_sets import ChunkManifests
from icestream.model.storage_config import StorageRetriesSettings, StorageSettings


class CompressionAlgorithm(IntEnum):
    """How metadata files are compressed."""

    Zstd = 0

    @staticmethod
    def default() -> "CompressionAlgorithm":
        """Return the algorithm that is used when none is set."""
        return CompressionAlgorithm.Zstd


@dataclass(slots=True, repr=False)
class CompressionConfig(ConfigNode):
    """How metadata files are compressed."""

    algorithm: Annotated[
        CompressionAlgorithm | None, Choice({"zstd": CompressionAlgorithm.Zstd})
    ] = None
    level: Annotated[int | None, U8] = None

    @staticmethod
    def default() -> "CompressionConfig":
        """Return a configuration with nothing set."""
        return CompressionConfig()


@dataclass(slots=True, repr=False)
class CachingConfig(ConfigNode):
    """How much is kept in memory."""

    num_snapshot_nodes: Annotated[int | None, U64] = None
    num_chunk_refs: Annotated[int | None, U64] = None
    num_transaction_changes: Annotated[int | None, U64] = None
    num_bytes_attributes: Annotated[int | None, U64] = None
    num_bytes_chunks: Annotated[int | None, U64] = None

    @staticmethod
    def default() -> "CachingConfig":
        """Return a configuration with nothing set."""
        return CachingConfig()


@dataclass(slots=True, repr=False)
class RepoUpdateRetryConfig(ConfigNode):
    """How updates of the repo info are tried again when another writer was faster."""

    default: Annotated[StorageRetriesSettings | None, Part(StorageRetriesSettings)] = None


class ContainersRule:
    """Containers by url prefix, each name and prefix once."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if not isinstance(value, dict):
            yield Fault(path, f"{value!r} is not a dict of containers")
            return
        seen: dict[tuple[str, str], str] = {}
        for key, container in value.items():
            at = joined(path, str(key))
            if not isinstance(container, VirtualChunkContainer):
                yield Fault(at, f"{container!r} is not a VirtualChunkContainer")
                continue
            faults = list(container.faults(at))
            yield from faults
            if all(fault.tolerated for fault in faults):
                yield from _repetitions(container, at, seen)


def _repetitions(
    container: VirtualChunkContainer, path: str, seen: dict[tuple[str, str], str]
) -> Iterator[Fault]:
    """Yield a fault for a place or name that is in `seen`, and add those that are not."""
    for identity in container.identities():
        first = seen.setdefault(identity, path)
        if first != path:
            reason = f"{getattr(container, identity[0])!r} is also that of {first}"
            yield Fault(joined(path, identity[0]), reason, tolerated=True)


@dataclass(slots=True, repr=False)
class RepositoryConfig(ConfigNode):
    """Everything that can be set about a repository."""

    inline_chunk_threshold_bytes: Annotated[int | None, U16] = None
    """Chunks up to this size are stored in the manifest."""
    get_partial_values_concurrency: Annotated[int | None, LIMIT_U16] = None
    compression: Annotated[CompressionConfig | None, Part(CompressionConfig)] = None
    max_concurrent_requests: Annotated[int | None, LIMIT_U16] = None
    caching: Annotated[CachingConfig | None, Part(CachingConfig)] = None
    storage: Annotated[StorageSettings | None, Part(StorageSettings)] = None
    """For this run only: never saved with the repository."""
    virtual_chunk_containers: Annotated[
        dict[str, VirtualChunkContainer] | None, ContainersRule()
    ] = None
    """By url prefix or template."""
    manifest: Annotated[ManifestConfig | None, Part(ManifestConfig)] = None
    repo_update_retries: Annotated[RepoUpdateRetryConfig | None, Part(RepoUpdateRetryConfig)] = None
    num_updates_per_repo_info_file: Annotated[int | None, LIMIT_U16] = None
    """Entries of the ops log in the repo info; older ones are in its backups."""
    max_concurrent_decodes: Annotated[int | None, LIMIT_U16] = None
    previous_file: Annotated[str | None, TEXT] = field(default=None, init=False)
    """Unused by the format; kept as read."""
    icestream: Annotated[ExtensionConfig | None, Part(ExtensionConfig)] = field(
        default=None, init=False
    )
    """What icechunk does not have."""
    replaces_containers: bool = field(default=False, init=False, compare=False)
    """Whether the containers were cleared, so that merging does not bring any back."""

    @staticmethod
    def default() -> "RepositoryConfig":
        """Return a configuration with nothing set."""
        return RepositoryConfig()

    @property
    def default_containers(self) -> bool:
        """Whether there are containers for the common platforms without declaring them."""
        return self.icestream is None or self.icestream.default_containers is not False

    @default_containers.setter
    def default_containers(self, wanted: bool) -> None:
        self._extension().default_containers = wanted

    @property
    def location_compression_rules(self) -> tuple[LocationCompressionRule, ...]:
        """How locations of single arrays are compressed; the first rule for an array decides."""
        return (self.icestream and self.icestream.location_compression) or ()

    @location_compression_rules.setter
    def location_compression_rules(self, rules: Iterable[LocationCompressionRule]) -> None:
        self._extension().location_compression = tuple(rules)

    @property
    def chunk_manifests(self) -> ChunkManifests | None:
        """Manifest sets, the rules for them, and preloading; None leaves all to defaults."""
        return None if self.icestream is None else self.icestream.chunk_manifests

    @chunk_manifests.setter
    def chunk_manifests(self, wanted: ChunkManifests | None) -> None:
        self._extension().chunk_manifests = wanted

    @property
    def manifest_cache_bytes(self) -> int | None:
        """Memory for manifests that are kept; `caching.num_chunk_refs` limits them too."""
        return None if self.icestream is None else self.icestream.manifest_cache_bytes

    @manifest_cache_bytes.setter
    def manifest_cache_bytes(self, wanted: int | None) -> None:
        self._extension().manifest_cache_bytes = wanted

    def _extension(self) -> ExtensionConfig:
        if self.icestream is None:
            self.icestream = ExtensionConfig()
        return self.icestream

    def list_virtual_chunk_containers(self) -> list[VirtualChunkContainer]:
        """Return the containers that were set, without the default ones."""
        return list((self.virtual_chunk_containers or {}).values())

    def get_virtual_chunk_container(self, name: str) -> VirtualChunkContainer | None:
        """Return the container with this url prefix, template or name."""
        containers = self.virtual_chunk_containers or {}
        named = (c for c in containers.values() if name in {c.url_prefix, c.url_template, c.name})
        return containers.get(name) or next(named, None)

    def set_virtual_chunk_container(self, cont: VirtualChunkContainer) -> None:
        """Add a container; it replaces those with its name or its url prefix.

        Raises:
            InvalidInputError: The container breaks the rules for prefixes and names.
        """
        raise_faults(list(cont.faults()))
        containers = self.virtual_chunk_containers or {}
        kept = {key: other for key, other in containers.items() if not cont.replaces(other)}
        self.virtual_chunk_containers = {**kept, cont.key: cont}

    def clear_virtual_chunk_containers(self) -> None:
        """Remove all containers; merged over another configuration, remove its containers too."""
        self.virtual_chunk_containers = {}
        self.replaces_containers = True

    def merge(self, other: Self) -> Self:
        """Return a copy in which everything that `other` sets takes precedence.

        Nested parts are merged field by field, except for preloading and splitting, which are
        replaced. Containers of `other` are added to those here, and replace those with the same
        prefix or name; after `other.clear_virtual_chunk_containers()` they replace all.
        """
        merged = ConfigNode.merge(self, other)
        merged.replaces_containers = self.replaces_containers or other.replaces_containers
        mine, theirs = self.virtual_chunk_containers, other.virtual_chunk_containers
        if mine and theirs is not None and not other.replaces_containers:
            taken = {identity for c in theirs.values() for identity in c.identities()}
            kept = {
                key: container
                for key, container in mine.items()
                if key not in theirs and taken.isdisjoint(container.identities())
            }
            merged.virtual_chunk_containers = deepcopy({**kept, **theirs})
        return merged


def validate(config: RepositoryConfig) -> None:
    """Check a configuration before it is used or saved.

    Raises:
        InvalidInputError: Something is wrong; the message names every fault by its path.
    """
    raise_faults(list(config.faults()))


def raise_faults(faults: list[Fault]) -> None:
    """Raise one error that names all faults, if there are any."""
    if faults:
        raise InvalidInputError(
            f"invalid configuration: {'; '.join(map(str, faults))}", kind=ErrorKind.INVALID_CONFIG
        )
