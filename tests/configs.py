"""Configurations for tests: one with every key set, and strategies for any."""

from typing import Any

from hypothesis import strategies as st

from icestream.model.config import (
    CachingConfig,
    CompressionAlgorithm,
    CompressionConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
)
from icestream.model.containers import VirtualChunkContainer, s3_options
from icestream.model.extension_config import ExtensionConfig, LocationCompressionRule
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
from icestream.model.object_stores import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
)
from icestream.model.storage_config import StorageRetriesSettings, StorageSettings

Preload = ManifestPreloadCondition
Split = ManifestSplitCondition
Dim = ManifestSplitDimCondition


def full_config() -> RepositoryConfig:
    """Return a configuration in which everything that is saved is set."""
    return RepositoryConfig(
        inline_chunk_threshold_bytes=1,
        get_partial_values_concurrency=2,
        compression=CompressionConfig(CompressionAlgorithm.Zstd, 4),
        max_concurrent_requests=5,
        caching=CachingConfig(1, 2, 3, 4, 2**40),
        virtual_chunk_containers={c.url_prefix: c for c in containers()},
        manifest=ManifestConfig(
            ManifestPreloadConfig(
                7,
                (Preload.name_matches("a") | Preload.true() | Preload.false())
                & Preload.num_refs(1, 5)
                & Preload.num_refs(None, None)
                & Preload.path_matches("/x"),
                9,
            ),
            ManifestSplittingConfig.from_dict(
                {
                    Split.AnyArray(): {Dim.Axis(1): 2, Dim.DimensionName("5"): 3, Dim.Any(): 4},
                    Split.name_matches("true") | Split.path_matches("0o17"): {Dim.Any(): 7},
                    Split.and_conditions([]): {},
                }
            ),
            ManifestVirtualChunkLocationCompressionConfig(
                1,
                dictionary_max_training_samples=2,
                dictionary_max_size_bytes=3,
                compression_level=-4,
            ),
            8,
        ),
        repo_update_retries=RepoUpdateRetryConfig(StorageRetriesSettings(1, 2, 3)),
        num_updates_per_repo_info_file=77,
        max_concurrent_decodes=6,
    )


def containers() -> list[VirtualChunkContainer]:
    """Return one container for each kind of store."""
    full_options = S3Options(
        region="r",
        endpoint_url="http://é",
        allow_http=True,
        anonymous=True,
        force_path_style=True,
        network_stream_timeout_seconds=4,
        requester_pays=True,
        checksum_algorithm=ChecksumAlgorithm.Crc64Nvme,
    )
    return [
        VirtualChunkContainer("s3://a/", ObjectStoreConfig.S3(full_options), "n"),
        VirtualChunkContainer("s3://c/", ObjectStoreConfig.S3Compatible(S3Options())),
        VirtualChunkContainer("tigris://a/", ObjectStoreConfig.Tigris(S3Options())),
        VirtualChunkContainer("gs://a/", ObjectStoreConfig.Gcs({"a": "1"})),
        VirtualChunkContainer("az://x/y/", ObjectStoreConfig.Azure({"account": "q"})),
        VirtualChunkContainer("http://h/", ObjectStoreConfig.Http({"t": "3"}, {"h": "v"}), "h"),
        VirtualChunkContainer("file:///data/x/", ObjectStoreConfig.LocalFileSystem("/data/x")),
    ]


# -- strategies -----------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
keys = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
regexes = texts.map(lambda text: "".join(c if c.isalnum() else "." for c in text))
u16 = st.none() | st.integers(1, 2**16 - 1)
u32 = st.none() | st.integers(0, 2**32 - 1)
u64 = st.none() | st.integers(0, 2**64 - 1)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)

_bounds = st.none() | st.integers(0, 2**32 - 1)
preload_conditions: st.SearchStrategy[Preload] = st.recursive(
    st.builds(Preload.name_matches, regexes)
    | st.builds(Preload.path_matches, regexes)
    | st.builds(Preload.num_refs, _bounds, _bounds)
    | st.sampled_from([Preload.true(), Preload.false()]),
    lambda inner: (
        st.builds(Preload.or_conditions, st.lists(inner, max_size=3))
        | st.builds(Preload.and_conditions, st.lists(inner, max_size=3))
    ),
    max_leaves=6,
)
split_conditions: st.SearchStrategy[Split] = st.recursive(
    st.builds(Split.name_matches, regexes)
    | st.builds(Split.path_matches, regexes)
    | st.just(Split.AnyArray()),
    lambda inner: (
        st.builds(Split.or_conditions, st.lists(inner, max_size=3))
        | st.builds(Split.and_conditions, st.lists(inner, max_size=3))
    ),
    max_leaves=6,
)
_dims = (
    st.builds(Dim.Axis, st.integers(0, 2**32 - 1))
    | st.builds(Dim.DimensionName, regexes)
    | st.builds(Dim.Any)
)
split_sizes = st.lists(
    st.tuples(
        split_conditions,
        st.lists(st.tuples(_dims, st.integers(1, 2**32 - 1)), max_size=3).map(tuple),
    ),
    max_size=3,
).map(tuple)

_s3_options = st.builds(
    S3Options,
    region=st.none() | texts,
    endpoint_url=st.none() | texts,
    allow_http=st.booleans(),
    anonymous=st.booleans(),
    force_path_style=st.booleans(),
    network_stream_timeout_seconds=u32,
    requester_pays=st.booleans(),
    checksum_algorithm=st.none() | st.sampled_from(ChecksumAlgorithm),
)
_options = st.dictionaries(keys.filter(lambda key: key != "headers"), texts, min_size=1, max_size=3)
_places: st.SearchStrategy[tuple[str, AnyObjectStoreConfig]] = st.one_of(
    st.tuples(st.just("s3"), st.builds(ObjectStoreConfig.S3, _s3_options)),
    st.tuples(st.just("s3"), st.builds(ObjectStoreConfig.S3Compatible, _s3_options)),
    st.tuples(st.just("tigris"), st.builds(ObjectStoreConfig.Tigris, _s3_options)),
    st.tuples(st.just("gcs"), st.builds(ObjectStoreConfig.Gcs, st.none() | _options)),
    st.tuples(st.just("abfs"), st.builds(ObjectStoreConfig.Azure, st.none() | _options)),
    st.tuples(
        st.just("https"),
        st.builds(ObjectStoreConfig.Http, st.none() | _options, st.none() | _options),
    ),
    st.tuples(st.just("file"), st.builds(ObjectStoreConfig.LocalFileSystem, texts)),
)


@st.composite
def container_maps(draw: st.DrawFn) -> dict[str, VirtualChunkContainer]:
    """Return containers with prefixes and names of their own."""
    found = {}
    for i, (scheme, store) in enumerate(draw(st.lists(_places, max_size=4))):
        host = "/" if scheme == "file" else ""
        prefix = f"{scheme}://{host}bucket{i}/folder/"
        name = draw(st.none() | st.just(f"name {i}"))
        found[prefix] = VirtualChunkContainer(prefix, store, name)
    for i, (_, store) in enumerate(draw(st.lists(_places, max_size=3))):
        container = draw(_own_containers(i, store))
        found[container.key] = container
    return found


@st.composite
def _own_containers(draw: st.DrawFn, i: int, store: AnyObjectStoreConfig) -> VirtualChunkContainer:
    """Return a container that icechunk cannot have."""
    prefix = draw(
        st.sampled_from([f"models{i}", f"models{i}://", f"models{i}/dev", f"m{i}://a/b/"])
    )
    options = s3_options(store)
    if options is not None and options.endpoint_url:
        options.endpoint_url = f"http://{options.endpoint_url}"  # its scheme would be added
    container = VirtualChunkContainer(prefix, store, draw(st.none() | st.just(f"own {i}")))
    if draw(st.booleans()):
        container.name = f"template {i}"
        container.url_prefix = f"models{i}/"
        container.url_template = f"models{i}/{{}}/x-{{}}.nc"
        container.default_template_arguments = draw(st.none() | st.tuples(st.none() | st.just("é")))
    if draw(st.booleans()):
        container.settings = StorageSettings(retries=StorageRetriesSettings(max_tries=3))
    if options is None:
        container.region_note = draw(st.none() | st.just("africa-south1"))
    return container


_extensions = st.builds(
    ExtensionConfig,
    default_containers=st.booleans(),
    location_compression=st.none()
    | st.lists(
        st.builds(
            LocationCompressionRule,
            arrays=st.none() | split_conditions,
            enabled=st.none() | st.booleans(),
            settings=st.none() | st.builds(ManifestVirtualChunkLocationCompressionConfig, u16),
        ),
        max_size=2,
    ).map(tuple),
)


def own_containers(config: RepositoryConfig) -> list[VirtualChunkContainer]:
    """Return the containers that icechunk cannot have."""
    return [c for c in config.list_virtual_chunk_containers() if any(c.icechunk_faults())]


@st.composite
def configs(draw: st.DrawFn) -> RepositoryConfig:
    """Return any valid configuration without storage settings, with unknown keys at some levels."""
    retries = st.builds(StorageRetriesSettings, u16, u32, u32)
    compression = st.builds(
        CompressionConfig,
        st.none() | st.just(CompressionAlgorithm.Zstd),
        st.none() | st.integers(0, 255),
    )
    preload = st.builds(ManifestPreloadConfig, u32, st.none() | preload_conditions, u32)
    locations = st.builds(
        ManifestVirtualChunkLocationCompressionConfig,
        u16,
        dictionary_max_training_samples=u16,
        dictionary_max_size_bytes=u32,
        compression_level=st.none() | st.integers(-(2**31), 2**31 - 1),
    )
    manifest = st.builds(
        ManifestConfig,
        st.none() | preload,
        st.none() | st.builds(ManifestSplittingConfig, st.none() | split_sizes),
        st.none() | locations,
        u16,
    )
    config = draw(
        st.builds(
            RepositoryConfig,
            inline_chunk_threshold_bytes=u16,
            compression=st.none() | compression,
            caching=st.none() | st.builds(CachingConfig, u64, u64, u64, u64, u64),
            virtual_chunk_containers=st.none() | container_maps(),
            manifest=st.none() | manifest,
            repo_update_retries=st.none() | st.builds(RepoUpdateRetryConfig, st.none() | retries),
            num_updates_per_repo_info_file=u16,
        )
    )
    config.icestream = draw(st.none() | _extensions)
    unknown = st.dictionaries(keys.map(lambda key: f"x-{key}"), json_values, max_size=2)
    for node in (config, config.compression, config.manifest, *own_containers(config)):
        if isinstance(node, VirtualChunkContainer):
            node.own_extra = draw(unknown)
        elif node is not None:
            node.extra = draw(unknown)
    return config
