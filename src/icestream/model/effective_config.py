"""The settings in force: what a configuration sets, and defaults for everything else.

The field defaults below are the one table of defaults. They are those of icechunk, but for the
compression level.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from icestream.model.config import CompressionAlgorithm, RepositoryConfig
from icestream.model.config_nodes import ConfigNode, Integer, Part, rules
from icestream.model.containers import VirtualChunkContainer
from icestream.model.manifest_conditions import (
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from icestream.model.manifest_config import SplitSizes
from icestream.model.manifest_sets import ChunkManifests

DEFAULT_COMPRESSION_LEVEL = 1
"""Metadata files are zstd frames of this level; icechunk has 3, larger files in more time."""

DEFAULT_PRELOAD_CONDITION = ManifestPreloadCondition.and_conditions(
    [
        ManifestPreloadCondition.name_matches(
            r"(?i)^(x|y|z|t|[ijk]|(x|y|z)_?c(oord)?|(nav_|geo)?(lat|lon)([_.].*|itude.*|s)?"
            r"|r?lat|r?lon|.*(time|date)|.*(depth|height|altitude|level|lev|pressure|isobaric).*)$"
        ),
        ManifestPreloadCondition.num_refs(None, 1001),
    ]
)
"""Arrays named like coordinates of the CF conventions, if they are small."""

DEFAULT_SPLIT_SIZES: SplitSizes = (
    (ManifestSplitCondition.AnyArray(), ((ManifestSplitDimCondition.Any(), 2**32 - 1),)),
)
"""One manifest per array."""

DEFAULT_PACKING = ChunkManifests().completed()
"""Small arrays share a manifest."""


def available_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveCompression:
    """How metadata files are compressed."""

    algorithm: CompressionAlgorithm = CompressionAlgorithm.Zstd
    level: int = DEFAULT_COMPRESSION_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveCaching:
    """How much is kept in memory."""

    num_snapshot_nodes: int = 500_000
    num_chunk_refs: int = 15_000_000
    num_transaction_changes: int = 0
    num_bytes_attributes: int = 0
    num_bytes_chunks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveRetries:
    """How failed requests are tried again."""

    max_tries: int = 10
    initial_backoff_ms: int = 100
    max_backoff_ms: int = 180_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveConcurrency:
    """How large objects are cut into concurrent requests."""

    max_concurrent_requests_for_object: int = 18
    ideal_concurrent_request_size: int = 12 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveTimeouts:
    """How long the client waits; None leaves it to the client."""

    connect_timeout_ms: int | None = None
    read_timeout_ms: int | None = None
    operation_timeout_ms: int | None = None
    operation_attempt_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveStorage:
    """How the object store is used."""

    concurrency: EffectiveConcurrency = EffectiveConcurrency()
    retries: EffectiveRetries = EffectiveRetries()
    timeouts: EffectiveTimeouts = EffectiveTimeouts()
    unsafe_use_conditional_create: bool = True
    unsafe_use_conditional_update: bool = True
    unsafe_use_metadata: bool = True
    storage_class: str | None = None
    metadata_storage_class: str | None = None
    chunks_storage_class: str | None = None
    minimum_size_for_multipart_upload: int = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePreload:
    """Which manifests are loaded as soon as a session opens."""

    max_total_refs: int = 10_000
    preload_if: ManifestPreloadCondition = DEFAULT_PRELOAD_CONDITION
    max_arrays_to_scan: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSplitting:
    """Where the references of an array are split over several manifests."""

    split_sizes: SplitSizes = DEFAULT_SPLIT_SIZES


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveLocationCompression:
    """How locations of virtual chunks are compressed."""

    min_num_chunks: int = 1000
    dictionary_max_training_samples: int = 100
    dictionary_max_size_bytes: int = 2048
    compression_level: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveManifest:
    """How manifests are preloaded, split and compressed."""

    preload: EffectivePreload = EffectivePreload()
    splitting: EffectiveSplitting = EffectiveSplitting()
    virtual_chunk_location_compression: EffectiveLocationCompression = (
        EffectiveLocationCompression()
    )
    max_concurrent_manifest_fetches_during_commit: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveRepoUpdateRetries:
    """How updates of the repo info are tried again."""

    default: EffectiveRetries = EffectiveRetries(
        max_tries=100, initial_backoff_ms=50, max_backoff_ms=30_000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveConfig:
    """Every setting with the value in force."""

    inline_chunk_threshold_bytes: int = 512
    get_partial_values_concurrency: int = 10
    compression: EffectiveCompression = EffectiveCompression()
    max_concurrent_requests: int = 256
    max_concurrent_decodes: int = field(default_factory=available_cpus)
    caching: EffectiveCaching = EffectiveCaching()
    storage: EffectiveStorage = EffectiveStorage()
    virtual_chunk_containers: Mapping[str, VirtualChunkContainer] = field(default_factory=dict)
    """Those that follow the rules, by url prefix or template."""
    default_containers: bool = True
    manifest: EffectiveManifest = EffectiveManifest()
    chunk_manifests: ChunkManifests = DEFAULT_PACKING
    """With the set `default`; without preloading, `manifest.preload` is in force."""
    repo_update_retries: EffectiveRepoUpdateRetries = EffectiveRepoUpdateRetries()
    num_updates_per_repo_info_file: int = 1000
    manifest_cache_bytes: int = 2 * 1024**3
    """Memory for manifests, beside the limit on their references."""


def effective(config: RepositoryConfig) -> EffectiveConfig:
    """Return the settings in force under a configuration."""
    containers = (config.virtual_chunk_containers or {}).values()
    usable = {c.key: c for c in containers if not any(c.faults())}
    resolved: EffectiveConfig = _resolved(config, EffectiveConfig())
    return replace(
        resolved,
        virtual_chunk_containers=usable,
        default_containers=config.default_containers,
        chunk_manifests=(config.chunk_manifests or ChunkManifests()).completed(),
        manifest_cache_bytes=resolved.manifest_cache_bytes
        if config.manifest_cache_bytes is None
        else config.manifest_cache_bytes,
    )


def _resolved(node: ConfigNode, defaults: Any) -> Any:
    """Return the defaults with everything that the node sets put over them."""
    changes: dict[str, Any] = {}
    for name, rule in rules(type(node)).items():
        value = getattr(node, name)
        if value is None or name not in {f.name for f in fields(defaults)}:
            continue
        if isinstance(rule, Part):
            value = _resolved(value, getattr(defaults, name))
        elif isinstance(rule, Integer):
            value = max(value, rule.lowest)  # a stored zero is tolerated, but no limit
        changes[name] = value
    return replace(defaults, **changes)
