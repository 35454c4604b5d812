import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from tests.configs import full_config

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.config import (
    CachingConfig,
    CompressionAlgorithm,
    CompressionConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
    validate,
)
from icestream.model.config_nodes import ConfigNode
from icestream.model.containers import VirtualChunkContainer
from icestream.model.manifest_conditions import (
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from icestream.model.manifest_config import (
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
)
from icestream.model.object_stores import ObjectStoreConfig, S3Options
from icestream.model.storage_config import (
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)

S3 = ObjectStoreConfig.S3(S3Options())


def container(prefix: str, name: str | None = None) -> VirtualChunkContainer:
    return VirtualChunkContainer(prefix, S3, name)


def test_the_default_sets_nothing():
    assert RepositoryConfig.default() == RepositoryConfig()
    assert repr(RepositoryConfig.default()) == "RepositoryConfig()"
    assert CompressionConfig.default() == CompressionConfig()
    assert CachingConfig.default() == CachingConfig()
    assert CompressionAlgorithm.default() is CompressionAlgorithm.Zstd


def test_the_repr_shows_what_is_set_and_can_be_evaluated():
    config = CachingConfig(num_chunk_refs=3)

    assert repr(config) == "CachingConfig(num_chunk_refs=3)"
    assert eval(repr(config)) == config  # noqa: S307  our own text


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_configurations_can_be_copied_and_pickled(copied: Callable[[Any], Any]):
    config = full_config()
    config.storage = StorageSettings(timeouts=StorageTimeoutSettings(1, 2, 3, 4))
    config.extra["icestream"] = {"version": 1}

    assert copied(config) == config
    assert copied(config) is not config


@pytest.mark.parametrize(
    "node",
    [
        CompressionConfig(),
        CachingConfig(),
        ManifestConfig(),
        ManifestPreloadConfig(),
        ManifestSplittingConfig(),
        ManifestVirtualChunkLocationCompressionConfig(),
        StorageSettings(),
        StorageRetriesSettings(),
        StorageConcurrencySettings(),
        StorageTimeoutSettings(),
        RepoUpdateRetryConfig(),
        RepositoryConfig(),
        container("s3://a/"),
    ],
)
def test_equality_is_by_value_and_includes_unknown_keys(node: ConfigNode):
    other = copy.deepcopy(node)
    assert node == other

    other.extra["unknown"] = 1
    assert node != other


# -- validation -----------------------------------------------------------------------------------


def test_a_full_configuration_is_valid():
    validate(full_config())


def test_all_faults_are_named_by_path_in_one_error():
    preload_if = ManifestPreloadCondition.or_conditions(
        [ManifestPreloadCondition.true(), ManifestPreloadCondition.name_matches("(")]
    )
    config = RepositoryConfig(
        compression=CompressionConfig(level=300),
        manifest=ManifestConfig(preload=ManifestPreloadConfig(preload_if=preload_if)),
    )

    with pytest.raises(InvalidInputError) as caught:
        validate(config)

    assert caught.value.kind is ErrorKind.INVALID_CONFIG
    assert "compression.level: 300 is not in 0..255; " in str(caught.value)
    assert "manifest.preload.preload_if.or[1].name_matches.regex: '('" in str(caught.value)


def split(dim: Any, size: Any) -> ManifestConfig:
    rule = (ManifestSplitCondition.AnyArray(), ((dim, size),))
    return ManifestConfig(splitting=ManifestSplittingConfig((rule,)))


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (
            RepositoryConfig(inline_chunk_threshold_bytes=2**16),
            "chunk_threshold_bytes: 65536",
        ),
        (RepositoryConfig(inline_chunk_threshold_bytes=-1), "-1 is not in 0..65535"),
        (RepositoryConfig(max_concurrent_requests=0), "max_concurrent_requests: 0"),
        (RepositoryConfig(max_concurrent_decodes=True), "True is not a whole number"),
        (RepositoryConfig(compression="zstd"), "compression: 'zstd' is not a CompressionConfig"),  # type: ignore[arg-type]  # a wrong type is the test
        (RepositoryConfig(compression=CompressionConfig(algorithm="lz4")), "is not one of zstd"),  # type: ignore[arg-type]  # a wrong type is the test
        (RepositoryConfig(caching=CachingConfig(num_chunk_refs=2**64)), "caching.num_chunk_refs"),
        (
            RepositoryConfig(storage=StorageSettings(retries=StorageRetriesSettings(max_tries=0))),
            "storage.retries.max_tries: 0 is not in 1..65535",
        ),
        (
            RepositoryConfig(storage=StorageSettings(concurrency=StorageConcurrencySettings(1, 0))),
            "storage.concurrency.ideal_concurrent_request_size: 0",
        ),
        (
            RepositoryConfig(storage=StorageSettings(unsafe_use_metadata=1)),  # type: ignore[arg-type]  # a wrong type is the test
            "storage.unsafe_use_metadata: 1 is not true or false",
        ),
        (
            RepositoryConfig(storage=StorageSettings(storage_class=7)),  # type: ignore[arg-type]  # a wrong type is the test
            "storage.storage_class: 7 is not a text",
        ),
        (
            RepositoryConfig(manifest=split(ManifestSplitDimCondition.Any(), 0)),
            "manifest.splitting.split_sizes[0][1][0].num_chunks: 0",
        ),
        (
            RepositoryConfig(manifest=split(ManifestSplitDimCondition.Axis(-1), 1)),
            "manifest.splitting.split_sizes[0][1][0].condition.Axis: -1",
        ),
        (
            RepositoryConfig(manifest=split(ManifestSplitDimCondition.DimensionName("["), 1)),
            "manifest.splitting.split_sizes[0][1][0].condition.DimensionName: '['",
        ),
        (
            RepositoryConfig(manifest=split("time", 1)),
            "split_sizes[0][1][0]: ('time', 1) is not a dimension",
        ),
        (
            RepositoryConfig(virtual_chunk_containers={"s3://a/": "s3"}),  # type: ignore[dict-item]  # a wrong type is the test
            "virtual_chunk_containers['s3://a/']: 's3' is not a VirtualChunkContainer",
        ),
        (
            RepositoryConfig(
                virtual_chunk_containers={
                    "a": container("s3://a/", "n"),
                    "b": container("s3://b/", "n"),
                }
            ),
            "virtual_chunk_containers.b.name: 'n' is also that of virtual_chunk_containers.a",
        ),
        (
            RepositoryConfig(
                virtual_chunk_containers={"a": container("s3://a/"), "b": container("s3://a/")}
            ),
            "virtual_chunk_containers.b.url_prefix: 's3://a/' is also that of",
        ),
    ],
)
def test_each_fault_has_its_path(config: RepositoryConfig, fault: str):
    with pytest.raises(InvalidInputError) as caught:
        validate(config)

    assert fault in str(caught.value)


# -- containers -----------------------------------------------------------------------------------


def test_a_container_is_found_by_prefix_and_by_name():
    config = RepositoryConfig()
    config.set_virtual_chunk_container(container("s3://a/", "n"))

    assert config.get_virtual_chunk_container("s3://a/") == container("s3://a/", "n")
    assert config.get_virtual_chunk_container("n") == container("s3://a/", "n")
    assert config.get_virtual_chunk_container("other") is None


@pytest.mark.parametrize("replacement", [container("s3://b/", "n"), container("s3://a/", "m")])
def test_a_container_replaces_those_with_its_name_or_prefix(replacement: VirtualChunkContainer):
    config = RepositoryConfig()
    config.set_virtual_chunk_container(container("s3://a/", "n"))
    config.set_virtual_chunk_container(replacement)

    assert config.virtual_chunk_containers == {replacement.url_prefix: replacement}


def test_a_container_that_breaks_the_rules_is_not_set():
    config = RepositoryConfig()

    with pytest.raises(InvalidInputError, match="the scheme vcc, which is for relative"):
        config.set_virtual_chunk_container(container("vcc://a/"))
    assert config.virtual_chunk_containers is None


def test_setting_a_container_leaves_the_given_dict_alone():
    given = {"s3://a/": container("s3://a/")}
    config = RepositoryConfig(virtual_chunk_containers=given)
    config.set_virtual_chunk_container(container("s3://b/"))

    assert list(given) == ["s3://a/"]


# -- merging --------------------------------------------------------------------------------------


def test_merging_takes_every_field_that_the_other_sets():
    persisted = RepositoryConfig(
        inline_chunk_threshold_bytes=1,
        compression=CompressionConfig(level=5),
        caching=CachingConfig(num_chunk_refs=1, num_bytes_chunks=2),
        storage=StorageSettings(retries=StorageRetriesSettings(max_tries=3)),
        repo_update_retries=RepoUpdateRetryConfig(StorageRetriesSettings(max_tries=9)),
        manifest=ManifestConfig(
            virtual_chunk_location_compression=ManifestVirtualChunkLocationCompressionConfig(4)
        ),
    )
    given = RepositoryConfig(
        compression=CompressionConfig(),
        caching=CachingConfig(num_chunk_refs=7),
        storage=StorageSettings(retries=StorageRetriesSettings(max_backoff_ms=8)),
        repo_update_retries=RepoUpdateRetryConfig(StorageRetriesSettings(max_backoff_ms=9)),
        manifest=ManifestConfig(
            virtual_chunk_location_compression=ManifestVirtualChunkLocationCompressionConfig(
                compression_level=9
            )
        ),
        num_updates_per_repo_info_file=6,
    )

    assert persisted.merge(given) == RepositoryConfig(
        inline_chunk_threshold_bytes=1,
        compression=CompressionConfig(level=5),
        caching=CachingConfig(num_chunk_refs=7, num_bytes_chunks=2),
        storage=StorageSettings(retries=StorageRetriesSettings(max_tries=3, max_backoff_ms=8)),
        repo_update_retries=RepoUpdateRetryConfig(
            StorageRetriesSettings(max_tries=9, max_backoff_ms=9)
        ),
        manifest=ManifestConfig(
            virtual_chunk_location_compression=ManifestVirtualChunkLocationCompressionConfig(
                4, compression_level=9
            )
        ),
        num_updates_per_repo_info_file=6,
    )


def test_preloading_and_splitting_are_replaced_whole_as_in_icechunk():
    persisted = RepositoryConfig(
        manifest=ManifestConfig(
            preload=ManifestPreloadConfig(max_total_refs=1), splitting=ManifestSplittingConfig(())
        )
    )
    given = RepositoryConfig(
        manifest=ManifestConfig(preload=ManifestPreloadConfig(max_arrays_to_scan=2))
    )

    merged = persisted.merge(given).manifest

    assert merged == ManifestConfig(
        preload=ManifestPreloadConfig(max_arrays_to_scan=2), splitting=ManifestSplittingConfig(())
    )


def test_containers_are_merged_by_prefix_and_name():
    persisted = RepositoryConfig(
        virtual_chunk_containers={
            "s3://a/": container("s3://a/"),
            "s3://b/": container("s3://b/"),
            "s3://c/": container("s3://c/", "n"),
        }
    )
    override = VirtualChunkContainer("s3://b/", ObjectStoreConfig.S3Compatible(S3Options()))
    renamed = container("s3://d/", "n")
    given = RepositoryConfig(virtual_chunk_containers={"s3://b/": override, "s3://d/": renamed})

    assert persisted.merge(given).virtual_chunk_containers == {
        "s3://a/": container("s3://a/"),
        "s3://b/": override,
        "s3://d/": renamed,
    }


def test_merging_nothing_keeps_the_containers():
    persisted = RepositoryConfig(virtual_chunk_containers={"s3://a/": container("s3://a/")})

    assert persisted.merge(RepositoryConfig()) == persisted


def test_cleared_containers_replace_all():
    persisted = RepositoryConfig(virtual_chunk_containers={"s3://a/": container("s3://a/")})
    given = RepositoryConfig()
    given.clear_virtual_chunk_containers()
    given.set_virtual_chunk_container(container("s3://b/"))

    assert persisted.merge(given).virtual_chunk_containers == {"s3://b/": container("s3://b/")}


def test_unknown_keys_are_merged_key_by_key():
    persisted, given = RepositoryConfig(), RepositoryConfig()
    persisted.extra = {"icestream": {"version": 1}, "kept": 1}
    given.extra = {"icestream": {"version": 2}}

    assert persisted.merge(given).extra == {"icestream": {"version": 2}, "kept": 1}


def test_a_merged_configuration_shares_nothing_with_its_sources():
    persisted, given = full_config(), full_config()
    merged = persisted.merge(given)
    assert merged.compression is not None
    assert merged.virtual_chunk_containers is not None

    merged.compression.level = 9
    merged.virtual_chunk_containers["s3://a/"].name = "changed"

    assert persisted == given == full_config()
