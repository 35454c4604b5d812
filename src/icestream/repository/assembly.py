"""The parts of an open repository, made from its storage and its configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icestream.assets.assets import Assets, AssetSettings
from icestream.credentials import containers_credentials
from icestream.model.attribution import Attribution
from icestream.model.config import RepositoryConfig
from icestream.model.container_sets import ContainerSet
from icestream.model.effective_config import EffectiveConfig, EffectiveRetries, effective
from icestream.model.location_rules import LocationRules, location_rules
from icestream.model.manifest_sets import ChunkManifests
from icestream.repository.context import Context
from icestream.repository.manifest_pieces import PackingConfig
from icestream.repository.spec1 import RefTimeline
from icestream.repository.spec2 import RepoInfoTimeline
from icestream.repository.timeline import KnownRefs, Timeline
from icestream.storage.places import place_of
from icestream.storage.protocol import Storage
from icestream.storage.retries import RetryPolicy
from icestream.virtual.access import Access
from icestream.virtual.reader import VirtualReader


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """What the person who opens a repository may say."""

    config: RepositoryConfig | None = None
    authorize_virtual_chunk_access: Mapping[str, Any] | None = None
    attribution: Attribution | None = None


def assemble(
    storage: Storage,
    config: RepositoryConfig,
    options: OpenOptions,
    *,
    spec: int,
    persisted: RepositoryConfig,
    known: KnownRefs | None = None,
) -> Context:
    """Return the context of a repository.

    Args:
        storage: Where it is.
        config: The configuration in force.
        options: What the person who opens it says.
        spec: The version of its format.
        persisted: The configuration that is stored.
        known: Where branches and tags pointed when the configuration was read.
    """
    settings = effective(config)
    assets = Assets(storage, _asset_settings(settings, location_rules(config)))
    policy = _policy(settings.repo_update_retries.default)
    timeline: Timeline
    if spec == 1:
        timeline = RefTimeline(assets, retry=policy)
    else:
        timeline = RepoInfoTimeline(
            assets,
            retry=policy,
            kept_updates=settings.num_updates_per_repo_info_file,
            known=known,
        )
    containers = ContainerSet.of(
        config.list_virtual_chunk_containers(),
        defaults=config.default_containers,
        # version 1 of the format has no relative locations
        persisted=() if spec == 1 else persisted.list_virtual_chunk_containers(),
    )
    return Context(
        assets=assets,
        timeline=timeline,
        config=config,
        reader=VirtualReader(containers, _access(options, storage), storage),
        inline_threshold_bytes=settings.inline_chunk_threshold_bytes,
        packing=_packing(config),
        retry=policy,
    )


def _access(options: OpenOptions, storage: Storage) -> Access:
    given = options.config.list_virtual_chunk_containers() if options.config else []
    endpoint = place_of(storage).endpoint_url
    return Access.of(
        # marks bare credentials with their platform, as users of icechunk do by hand
        containers_credentials(options.authorize_virtual_chunk_access or {}),
        given,
        own_endpoints=() if endpoint is None else (endpoint,),
    )


def with_settings(storage: Storage, given: RepositoryConfig | None) -> Storage:
    """Apply the storage settings of the person who opens; stored ones belong to other machines."""
    if given is None or given.storage is None or given.storage.retries is None:
        return storage
    return storage.with_retries(_policy(effective(given).storage.retries))


def _policy(retries: EffectiveRetries) -> RetryPolicy:
    return RetryPolicy(
        max_tries=retries.max_tries,
        initial_backoff_s=retries.initial_backoff_ms / 1000,
        max_backoff_s=retries.max_backoff_ms / 1000,
    )


def _packing(config: RepositoryConfig) -> PackingConfig:
    splitting = None if config.manifest is None else config.manifest.splitting
    return PackingConfig(config.chunk_manifests or ChunkManifests(), splitting)


def _asset_settings(settings: EffectiveConfig, locations: LocationRules) -> AssetSettings:
    return AssetSettings(
        compression_level=settings.compression.level,
        cached_snapshot_nodes=settings.caching.num_snapshot_nodes,
        cached_chunk_refs=settings.caching.num_chunk_refs,
        cached_manifest_bytes=settings.manifest_cache_bytes,
        cached_log_changes=settings.caching.num_transaction_changes,
        cached_chunk_bytes=settings.caching.num_bytes_chunks,
        locations=locations,
    )
