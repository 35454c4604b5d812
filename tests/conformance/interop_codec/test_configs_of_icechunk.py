"""Configurations: what icechunk saves is read here with equal values, and the other way round."""

import inspect
import struct
from enum import Enum
from pathlib import Path
from typing import Any

import flatbuffers.table
import icechunk
import icechunk._icechunk_python as peer
import pytest
import zstandard
from tests.configs import full_config

from icestream.codec.configs import (
    decode_config_flex,
    decode_config_yaml,
    encode_config_flex,
    encode_config_yaml,
)
from icestream.codec.flexbuffers import decode_flex
from icestream.codec.metadata_values import encode_value
from icestream.model import attribution, config, containers, manifest_config, storage_config
from icestream.model.attribution import Attribution
from icestream.model.config import RepositoryConfig
from icestream.model.config_nodes import ConfigNode, rules
from icestream.model.containers import VirtualChunkContainer
from icestream.model.manifest_conditions import (
    ArrayCondition,
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from icestream.model.manifest_config import (
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
)
from icestream.model.object_stores import ObjectStoreConfig, S3Options

HEADER_SIZE = 39
CONFIG_SLOT = 9
METADATA_SLOT = 6
MODULES = (attribution, config, containers, manifest_config, storage_config)


@pytest.fixture
def storage(tmp_path: Path) -> Any:
    return icechunk.local_filesystem_storage(str(tmp_path))


def test_every_key_that_icechunk_saves_in_spec_1_is_read(storage: Any, tmp_path: Path):
    icechunk.Repository.create(storage, as_peer(full_config()), spec_version=1)

    config = decode_config_yaml((tmp_path / "config.yaml").read_bytes(), name="config.yaml")

    assert config.storage is not None  # icechunk saves what its backend used
    config.storage = None
    assert config == full_config()


def test_every_key_that_icechunk_saves_in_spec_2_is_read(storage: Any, tmp_path: Path):
    icechunk.Repository.create(storage, as_peer(full_config()), spec_version=2)

    config = decode_config_flex(repo_vector(tmp_path, CONFIG_SLOT), name="repo")

    config.storage = None
    assert config == full_config()


def test_storage_settings_that_icechunk_saves_are_read(storage: Any, tmp_path: Path):
    given = icechunk.StorageSettings(
        concurrency=icechunk.StorageConcurrencySettings(3, 4),
        retries=icechunk.StorageRetriesSettings(5, 6, 7),
        unsafe_use_conditional_create=True,
        unsafe_use_conditional_update=True,
        unsafe_use_metadata=False,
        storage_class="A",
        metadata_storage_class="B",
        chunks_storage_class="C",
        minimum_size_for_multipart_upload=8,
        timeouts=icechunk.StorageTimeoutSettings(1, 2, 3, 4),
    )
    saved = icechunk.RepositoryConfig(storage=given)
    icechunk.Repository.create(storage, saved, spec_version=2)

    config = decode_config_flex(repo_vector(tmp_path, CONFIG_SLOT), name="repo")

    assert config.storage is not None
    assert as_peer(config.storage) == given


def test_icechunk_reads_every_key_of_our_yaml(storage: Any, tmp_path: Path):
    icechunk.Repository.create(storage, spec_version=1)
    (tmp_path / "config.yaml").write_bytes(encode_config_yaml(full_config()))

    assert icechunk.Repository.fetch_config(storage) == as_peer(full_config())
    assert icechunk.Repository.open(storage).list_branches() == {"main"}


@pytest.mark.parametrize(
    "text",
    ["7", "0o17", "1e3", "yes", "null", "~", "a: b", "# x", " x ", "é\n", "\x85", "a\u2028b"],
)
def test_icechunk_reads_odd_texts_of_our_yaml(storage: Any, tmp_path: Path, text: str):
    config = RepositoryConfig(
        manifest=ManifestConfig(
            ManifestPreloadConfig(preload_if=ManifestPreloadCondition.name_matches(text)),
            ManifestSplittingConfig.from_dict(
                {
                    ManifestSplitCondition.path_matches(text): {
                        ManifestSplitDimCondition.DimensionName(text): 1
                    }
                }
            ),
        )
    )
    icechunk.Repository.create(storage, spec_version=1)
    (tmp_path / "config.yaml").write_bytes(encode_config_yaml(config))

    assert icechunk.Repository.fetch_config(storage) == as_peer(config)


@pytest.mark.parametrize(
    "name",
    [
        "RepositoryConfig",
        "CompressionConfig",
        "CachingConfig",
        "ManifestConfig",
        "ManifestPreloadConfig",
        "ManifestSplittingConfig",
        "ManifestVirtualChunkLocationCompressionConfig",
        "StorageSettings",
        "StorageRetriesSettings",
        "StorageConcurrencySettings",
        "StorageTimeoutSettings",
        "RepoUpdateRetryConfig",
        "VirtualChunkContainer",
        "VirtualChunkSpec",
        "Attribution",
    ],
)
def test_parameters_and_attributes_are_those_of_icechunk(name: str):
    ours = next(getattr(module, name) for module in MODULES if hasattr(module, name))
    theirs = getattr(peer, name)
    parameters = inspect.signature(ours).parameters.values()
    expected = inspect.signature(theirs).parameters.values()

    assert [(p.name, p.kind) for p in parameters] == [(p.name, p.kind) for p in expected]
    public = {attribute for attribute in dir(theirs) if not attribute.startswith("_")}
    assert public <= set(dir(ours))


def test_icechunk_reads_every_key_of_our_flexbuffer(storage: Any, tmp_path: Path):
    icechunk.Repository.create(storage, icechunk.RepositoryConfig(max_concurrent_requests=7))
    replace_repo_vector(tmp_path, CONFIG_SLOT, encode_config_flex(full_config()))

    assert icechunk.Repository.fetch_config(storage) == as_peer(full_config())
    assert icechunk.Repository.open(storage).list_branches() == {"main"}


@pytest.mark.parametrize("spec", [1, 2])
def test_icechunk_passes_over_keys_that_only_we_know(storage: Any, tmp_path: Path, spec: int):
    config = RepositoryConfig(max_concurrent_requests=7)
    config.extra["icestream"] = {"version": 1, "chunk-manifests": {"sets": [1, "two", None]}}
    peer_config = icechunk.RepositoryConfig(max_concurrent_requests=7)
    icechunk.Repository.create(storage, peer_config, spec_version=spec)
    if spec == 1:
        (tmp_path / "config.yaml").write_bytes(encode_config_yaml(config))
    else:
        replace_repo_vector(tmp_path, CONFIG_SLOT, encode_config_flex(config))

    assert icechunk.Repository.fetch_config(storage) == peer_config


def test_metadata_values_have_the_bytes_that_icechunk_writes(storage: Any, tmp_path: Path):
    metadata = {
        "numbers": [1, 2, 3],
        "wide": list(range(300)),
        "mixed": [-1, 2],
        "floats": [0.1, 0.2, 0.3, 0.4, 0.5],
        "texts": ["x", "yé"],
        "nothing": None,
        "map": {"é": 1.5},
    }
    repo = icechunk.Repository.create(storage, spec_version=2)
    repo.set_metadata(metadata)

    stored = repo_metadata(tmp_path)

    assert {name: decode_flex(data, name=name) for name, data in stored.items()} == metadata
    assert {name: encode_value(value, 2) for name, value in metadata.items()} == stored


@pytest.mark.parametrize(
    ("prefix", "store", "name"),
    [
        ("s3://foo/", ObjectStoreConfig.S3(S3Options()), "a b"),
        ("s3://foo", ObjectStoreConfig.S3(S3Options()), None),
        ("foo/", ObjectStoreConfig.S3(S3Options()), None),
        ("s3://foo/", ObjectStoreConfig.S3(S3Options()), "a/b"),
        ("s3://foo/", ObjectStoreConfig.S3(S3Options()), ""),
        ("file:///x/", ObjectStoreConfig.S3(S3Options()), None),
        ("s3:///x/", ObjectStoreConfig.S3(S3Options()), None),
        ("S3://a/b/", ObjectStoreConfig.S3(S3Options()), None),
        ("s3://u:p@a:9/", ObjectStoreConfig.S3(S3Options()), None),
        ("s3://a b/", ObjectStoreConfig.S3(S3Options()), None),
        ("s3://a/", ObjectStoreConfig.Tigris(S3Options()), None),
        ("tigris://a/", ObjectStoreConfig.Tigris(S3Options()), None),
        ("tigris://a/", ObjectStoreConfig.S3(S3Options()), None),
        ("s3://a/", ObjectStoreConfig.LocalFileSystem("/x"), None),
        ("file:///", ObjectStoreConfig.LocalFileSystem("/"), None),
        ("file://", ObjectStoreConfig.LocalFileSystem("/"), None),
        ("file:///x/y/", ObjectStoreConfig.LocalFileSystem("/x"), None),
        ("azure://a/b/", ObjectStoreConfig.Azure({}), None),
        ("abfss://a/b/", ObjectStoreConfig.Azure({}), None),
        ("abfs://a/b/", ObjectStoreConfig.Azure({}), None),
        ("gs://a/b/?x/", ObjectStoreConfig.Gcs({}), None),
        ("gcs://a/", ObjectStoreConfig.Gcs({}), None),
        ("https://a/", ObjectStoreConfig.Http({}, {}), None),
        ("memory://a/", ObjectStoreConfig.InMemory(), None),
    ],
)
def test_the_rules_for_containers_are_those_of_icechunk(
    prefix: str, store: ObjectStoreConfig, name: str | None
):
    container = VirtualChunkContainer(prefix, store, name)  # type: ignore[arg-type]  # any variant
    config = icechunk.RepositoryConfig()
    try:
        config.set_virtual_chunk_container(as_peer(container))
    except ValueError:
        refused = True
    else:
        refused = False

    assert bool(list(container.icechunk_faults())) is refused


@pytest.mark.parametrize(
    "labels",
    [
        {"client": "a/1"},
        {"client": "a b"},
        {"client": "a/"},
        {"client": ""},
        {"client": "!#$%&'*+.^_`|~-"},
        {"client": "a(b)"},
        {"workload": " x "},
        {"workload": "a\\b"},
        {"principal": "a=b"},
        {"principal": "é"},
    ],
)
def test_the_rules_for_attribution_are_those_of_icechunk(labels: dict[str, str]):
    assert _refuses(Attribution, labels) == _refuses(peer.Attribution, labels)


def test_merging_has_the_meaning_of_icechunk_but_for_containers():
    one, other = full_config(), RepositoryConfig(inline_chunk_threshold_bytes=99)
    other.manifest = full_config().manifest
    assert one.manifest is not None
    one.manifest.preload = None
    one.virtual_chunk_containers = None

    assert as_peer(one.merge(other)) == as_peer(one).merge(as_peer(other))


# -- the same value as an object of icechunk ------------------------------------------------------


def as_peer(value: Any) -> Any:
    """Return what icechunk has for a value of ours, made by its constructors."""
    match value:
        case ConfigNode():
            parameters = inspect.signature(type(value)).parameters
            settings = {
                name: as_peer(getattr(value, name))
                for name in rules(type(value))
                if name in parameters
            }
            made = getattr(peer, type(value).__name__)(**settings)
        case ArrayCondition():
            made = _peer_condition(value)
        case S3Options():
            fields = {name: as_peer(getattr(value, name)) for name in value.__slots__}
            made = icechunk.S3Options(**fields)
        case Enum():
            made = getattr(getattr(peer, type(value).__name__), value.name)
        case tuple():
            made = tuple(map(as_peer, value))
        case dict():
            made = {key: as_peer(item) for key, item in value.items()}
        case _:
            made = _peer_variant(value)
    return made


def _peer_variant(value: Any) -> Any:
    outer, _, inner = type(value).__qualname__.partition(".")
    if not inner:
        return value
    fields = [as_peer(getattr(value, name)) for name in value.__slots__]
    return getattr(getattr(peer, outer), inner)(*fields)


def _peer_condition(condition: ArrayCondition) -> Any:
    peer_type = getattr(peer, type(condition).__name__)
    if condition.conditions or condition.variant in {"or", "and"}:
        make = getattr(peer_type, f"{condition.variant}_conditions")
        return make([_peer_condition(part) for part in condition.conditions])
    if condition.regex:
        return getattr(peer_type, condition.variant)(condition.regex)
    if isinstance(condition, ManifestPreloadCondition) and condition.variant == "num_refs":
        return peer_type.num_refs(*condition.bounds)
    return getattr(peer_type, {"any_array": "AnyArray"}.get(condition.variant, condition.variant))()


def _refuses(make: Any, labels: dict[str, str]) -> bool:
    try:
        make(**labels)
    except ValueError:
        return True
    return False


# -- the repo object, without any code of ours ----------------------------------------------------


def repo_body(root: Path) -> tuple[bytes, bytearray]:
    stored = (root / "repo").read_bytes()
    body = zstandard.ZstdDecompressor().decompressobj().decompress(stored[HEADER_SIZE:])
    return stored[:HEADER_SIZE], bytearray(body)


def root_table(body: bytearray) -> flatbuffers.table.Table:
    return flatbuffers.table.Table(body, struct.unpack_from("<I", body)[0])


def vector(table: flatbuffers.table.Table, slot: int) -> bytes:
    offset = table.Offset(4 + 2 * slot)
    start = table.Vector(offset)
    return bytes(table.Bytes[start : start + table.VectorLen(offset)])


def repo_vector(root: Path, slot: int) -> bytes:
    return vector(root_table(repo_body(root)[1]), slot)


def repo_metadata(root: Path) -> dict[str, bytes]:
    table = root_table(repo_body(root)[1])
    offset = table.Offset(4 + 2 * METADATA_SLOT)
    items = {}
    for i in range(table.VectorLen(offset)):
        position = table.Indirect(table.Vector(offset) + 4 * i)
        item = flatbuffers.table.Table(table.Bytes, position)
        items[item.String(item.Pos + item.Offset(4)).decode()] = vector(item, 1)
    return items


def replace_repo_vector(root: Path, slot: int, content: bytes) -> None:
    """Put a vector at the end of the repo object and let the slot, which is set, refer to it."""
    header, body = repo_body(root)
    table = root_table(body)
    field = table.Pos + table.Offset(4 + 2 * slot)
    body += bytes(-len(body) % 8)
    struct.pack_into("<I", body, field, len(body) - field)
    body += struct.pack("<I", len(content)) + content
    (root / "repo").write_bytes(header + zstandard.ZstdCompressor().compress(bytes(body)))
