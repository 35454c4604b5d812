import dataclasses

import pytest
from tests.configs import full_config

from icestream.model.config import CompressionConfig, RepositoryConfig, RepoUpdateRetryConfig
from icestream.model.containers import VirtualChunkContainer
from icestream.model.effective_config import (
    DEFAULT_COMPRESSION_LEVEL,
    EffectiveConfig,
    available_cpus,
    effective,
)
from icestream.model.object_stores import ObjectStoreConfig, S3Options
from icestream.model.storage_config import StorageRetriesSettings, StorageSettings


def test_nothing_set_gives_the_defaults():
    config = effective(RepositoryConfig())

    assert config == EffectiveConfig()
    assert config.inline_chunk_threshold_bytes == 512
    assert config.get_partial_values_concurrency == 10
    assert config.max_concurrent_requests == 256
    assert config.max_concurrent_decodes == available_cpus()
    assert config.num_updates_per_repo_info_file == 1000
    assert dataclasses.astuple(config.caching) == (500_000, 15_000_000, 0, 0, 0)
    assert dataclasses.astuple(config.storage.retries) == (10, 100, 180_000)
    assert dataclasses.astuple(config.storage.concurrency) == (18, 12 * 2**20)
    assert config.storage.minimum_size_for_multipart_upload == 100 * 2**20
    assert dataclasses.astuple(config.repo_update_retries.default) == (100, 50, 30_000)
    assert config.manifest.preload.max_total_refs == 10_000
    assert config.manifest.preload.max_arrays_to_scan == 50
    locations = config.manifest.virtual_chunk_location_compression
    assert dataclasses.astuple(locations) == (1000, 100, 2048, 3)
    assert config.manifest.max_concurrent_manifest_fetches_during_commit == 1


def test_the_compression_level_is_ours_unless_one_is_set():
    assert effective(RepositoryConfig()).compression.level == DEFAULT_COMPRESSION_LEVEL == 1
    given = RepositoryConfig(compression=CompressionConfig(level=3))
    assert effective(given).compression.level == 3


def test_each_field_is_resolved_on_its_own():
    config = effective(
        RepositoryConfig(
            storage=StorageSettings(retries=StorageRetriesSettings(max_tries=2)),
            repo_update_retries=RepoUpdateRetryConfig(StorageRetriesSettings(max_tries=3)),
        )
    )

    assert dataclasses.astuple(config.storage.retries) == (2, 100, 180_000)
    assert dataclasses.astuple(config.repo_update_retries.default) == (3, 50, 30_000)


def test_persisted_overrides_defaults_and_given_overrides_persisted():
    persisted = RepositoryConfig(inline_chunk_threshold_bytes=1, max_concurrent_requests=2)
    given = RepositoryConfig(max_concurrent_requests=3)

    config = effective(persisted.merge(given))

    assert config.inline_chunk_threshold_bytes == 1
    assert config.max_concurrent_requests == 3
    assert config.get_partial_values_concurrency == 10


def test_everything_that_is_set_is_in_force():
    config = effective(full_config())

    assert config.compression.level == 4
    assert config.caching.num_bytes_chunks == 2**40
    assert config.manifest.preload.max_total_refs == 7
    assert full_config().manifest is not None
    assert config.virtual_chunk_containers == full_config().virtual_chunk_containers


def test_a_stored_zero_is_no_limit_of_zero():
    assert effective(RepositoryConfig(max_concurrent_requests=0)).max_concurrent_requests == 1


def test_containers_that_break_the_rules_are_left_out():
    good = VirtualChunkContainer("s3://a/", ObjectStoreConfig.S3(S3Options()))
    bad = VirtualChunkContainer("s3://b/", ObjectStoreConfig.Gcs())
    config = RepositoryConfig(virtual_chunk_containers={"a": good, "b": bad})

    assert effective(config).virtual_chunk_containers == {"s3://a/": good}


@pytest.mark.parametrize(
    ("path", "num_refs", "preloaded"),
    [
        ("/time", 10, True),
        ("/a/latitude", 1000, True),
        ("/lon", 1001, False),
        ("/x", 1, True),
        ("/valid_time", 1, True),
        ("/temperature", 1, False),
        ("/precipitation", 1, False),
    ],
)
def test_small_coordinates_are_preloaded_by_default(path: str, num_refs: int, preloaded: bool):  # noqa: FBT001  a value
    preload = effective(RepositoryConfig()).manifest.preload

    assert preload.preload_if.matches(path, num_refs) is preloaded


def test_arrays_are_not_split_by_default():
    ((condition, ((_, size),)),) = effective(RepositoryConfig()).manifest.splitting.split_sizes

    assert condition.matches("/any/array")
    assert size == 2**32 - 1
