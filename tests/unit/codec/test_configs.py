import warnings
from collections.abc import Callable
from typing import Any

import pytest
from tests.configs import full_config

from icestream.codec.configs import (
    decode_config_flex,
    decode_config_yaml,
    encode_config_flex,
    encode_config_yaml,
)
from icestream.codec.flexbuffers import decode_flex, encode_flex
from icestream.errors import ErrorKind, FormatError, InvalidInputError
from icestream.model.config import CompressionConfig, RepositoryConfig, validate
from icestream.model.containers import VirtualChunkContainer
from icestream.model.manifest_conditions import ManifestPreloadCondition
from icestream.model.manifest_config import ManifestConfig, ManifestPreloadConfig
from icestream.model.object_stores import ObjectStoreConfig
from icestream.model.storage_config import StorageSettings

type Encode = Callable[[RepositoryConfig], bytes]
type Decode = Callable[..., RepositoryConfig]

codecs = pytest.mark.parametrize(
    ("encode", "decode"),
    [(encode_config_yaml, decode_config_yaml), (encode_config_flex, decode_config_flex)],
    ids=["yaml", "flexbuffer"],
)


def from_yaml(text: str) -> RepositoryConfig:
    return decode_config_yaml(text.encode(), name="config.yaml")


@codecs
def test_every_key_comes_back(encode: Encode, decode: Decode):
    assert decode(encode(full_config()), name="config") == full_config()


@codecs
def test_storage_settings_are_never_saved(encode: Encode, decode: Decode):
    config = RepositoryConfig(storage=StorageSettings(unsafe_use_conditional_update=False))

    assert decode(encode(config), name="config") == RepositoryConfig()


def test_storage_settings_that_another_program_saved_are_read():
    config = from_yaml("storage: {retries: {max_tries: 3}, unsafe_use_metadata: false}")

    assert config.storage is not None
    assert config.storage.retries is not None
    assert config.storage.retries.max_tries == 3
    assert config.storage.unsafe_use_metadata is False


UNKNOWN_EVERYWHERE = """
icestream: {version: 1, chunk-colours: {sets: [a, !b 3]}}
compression: {level: 3, window: 9}
virtual_chunk_containers:
  s3://a/:
    url_prefix: s3://a/
    store: !s3 {anonymous: true, allow_http: false, sign: v5}
    owner: someone
manifest:
  shuffle: true
  preload:
    preload_if: !or
    - !name_matches {regex: a, flags: i}
    - !num_refs {from: Unbounded, to: !Excluded 4, step: 2}
  splitting:
    order: hilbert
    split_sizes:
    - - any_array
      - - {condition: !Axis 0, num_chunks: 4, phase: 1}
repo_update_retries: {default: {max_tries: 3, jitter: 0.5}, amend: null}
"""


@codecs
def test_unknown_keys_at_every_level_survive_a_change(encode: Encode, decode: Decode):
    config = from_yaml(UNKNOWN_EVERYWHERE)
    config.inline_chunk_threshold_bytes = 9
    assert config.compression is not None
    config.compression.level = 5

    tree = decode_flex(encode_config_flex(decode(encode(config), name="config")), name="x")

    assert tree["icestream"] == {"version": 1, "chunk-colours": {"sets": ["a", {"b": 3}]}}
    assert tree["compression"] == {"level": 5, "window": 9}
    container = tree["virtual_chunk_containers"]["s3://a/"]
    assert container["owner"] == "someone"
    assert container["store"]["s3"]["sign"] == "v5"
    assert tree["manifest"]["shuffle"] is True
    regex, num_refs = tree["manifest"]["preload"]["preload_if"]["or"]
    assert regex["name_matches"]["flags"] == "i"
    assert num_refs["num_refs"]["step"] == 2
    splitting = tree["manifest"]["splitting"]
    assert splitting["order"] == "hilbert"
    assert splitting["split_sizes"][0][1][0]["phase"] == 1
    assert tree["repo_update_retries"]["default"]["jitter"] == 0.5
    assert "amend" in tree["repo_update_retries"]


def test_the_key_of_the_seed_era_is_read_with_a_warning_and_never_written():
    with pytest.warns(UserWarning, match="unsafe_overwrite_refs: has become storage"):
        config = from_yaml("unsafe_overwrite_refs: true")

    assert config.storage is not None
    assert config.storage.unsafe_use_conditional_create is False
    assert config.storage.unsafe_use_conditional_update is False
    assert encode_config_yaml(config) == b"{}\n"


def test_every_fault_is_named_by_its_path_in_one_error():
    text = """
inline_chunk_threshold_bytes: 70000
compression: {level: 300, algorithm: lz4}
caching: [1]
manifest:
  preload: {preload_if: !or ['true', !name_matches {}, !num_refs {from: !Included -1, to: x}]}
  splitting: {split_sizes: [[any_array, [{condition: Any, num_chunks: 0}]], [any_array]]}
virtual_chunk_containers:
  s3://a/: {url_prefix: s3://a/, store: !s3 {anonymous: true}}
  s3://b/: {url_prefix: s3://b/, store: !r2 {}}
  gs://c/: {url_prefix: gs://c/, store: !gcs {a: 1}}
  gs://d/: {store: !gcs {}}
repo_update_retries: {default: {max_tries: 0}}
"""
    with pytest.raises(FormatError) as caught:
        from_yaml(text)

    assert caught.value.kind is ErrorKind.CONFIG_DESERIALIZATION
    message = str(caught.value)
    assert message.startswith("config.yaml: invalid configuration: ")
    for fault in (
        "inline_chunk_threshold_bytes: 70000 is not in 0..65535",
        "compression.level: 300 is not in 0..255",
        "compression.algorithm: 'lz4' is not one of zstd",
        "caching: a list is not a mapping",
        "manifest.preload.preload_if.or[1].name_matches.regex: is missing",
        "manifest.preload.preload_if.or[2].num_refs.from.Included: -1 is not in 0..4294967295",
        "manifest.preload.preload_if.or[2].num_refs.to: 'x' is not one of Unbounded",
        "manifest.splitting.split_sizes[0][1][0].num_chunks: 0 is not in 1..4294967295",
        "manifest.splitting.split_sizes[1]: is not a condition and a list",
        "virtual_chunk_containers['s3://a/'].store.allow_http: is missing",
        "virtual_chunk_containers['s3://b/'].store: 'r2' is not one of in_memory",
        "virtual_chunk_containers['gs://c/'].store.a: a int is not a text",
        "virtual_chunk_containers['gs://d/'].url_prefix: is missing",
        "repo_update_retries.default.max_tries: 0 is not in 1..65535",
    ):
        assert fault in message


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("manifest: {preload: {preload_if: !name_matches {regex: '('}}}", "name_matches.regex"),
        ("max_concurrent_requests: 0", "max_concurrent_requests: 0 is not in 1"),
        (
            "virtual_chunk_containers: {a: {url_prefix: s3://a/, store: !gcs {}}}",
            "virtual_chunk_containers.a.url_prefix: 's3://a/' does not fit the store Gcs",
        ),
    ],
)
def test_what_icechunk_tolerates_in_a_stored_configuration_is_a_warning(text: str, warning: str):
    with pytest.warns(UserWarning, match="config.yaml: the configuration has faults") as caught:
        config = from_yaml(text)

    assert warning in str(caught[0].message)
    with pytest.raises(InvalidInputError, match="invalid configuration"):
        validate(config)


def test_a_prefix_without_its_final_slash_is_repaired():
    config = from_yaml("virtual_chunk_containers: {a: {url_prefix: s3://a, store: !s3 " + S3 + "}}")

    assert config.get_virtual_chunk_container("s3://a/") is not None


S3 = "{anonymous: false, allow_http: false}"


@pytest.mark.parametrize("form", ["true", "'true'", "!true null"])
def test_conditions_without_content_are_read_in_all_their_forms(form: str):
    config = from_yaml("manifest: {preload: {preload_if: " + form + "}}")

    assert config.manifest is not None
    assert config.manifest.preload is not None
    assert config.manifest.preload.preload_if == ManifestPreloadCondition.true()


@pytest.mark.parametrize(
    ("first", "stop", "expected"),
    [
        ("!Included 3", "!Excluded 9", (3, 9)),
        ("!Excluded 3", "!Included 9", (4, 10)),
        ("Unbounded", "Unbounded", (None, None)),
        ("!Excluded 4294967295", "!Included 4294967295", (2**32, None)),
    ],
)
def test_ranges_of_any_bounds_are_read_as_half_open(first: str, stop: str, expected: Any):
    config = from_yaml(
        f"manifest: {{preload: {{preload_if: !num_refs {{from: {first}, to: {stop}}}}}}}"
    )

    assert config.manifest is not None
    assert config.manifest.preload is not None
    assert config.manifest.preload.preload_if == ManifestPreloadCondition.num_refs(*expected)
    assert decode_config_flex(encode_config_flex(config), name="config") == config


def test_a_configuration_that_icechunk_could_not_open_is_not_encoded():
    config = RepositoryConfig(compression=CompressionConfig(level=300))

    with pytest.raises(InvalidInputError, match=r"compression\.level: 300") as caught:
        encode_config_flex(config)
    assert caught.value.kind is ErrorKind.INVALID_CONFIG


@codecs
def test_what_no_document_can_hold_is_refused(encode: Encode, decode: Decode):
    config = RepositoryConfig()
    config.extra["x"] = object()

    with pytest.raises(InvalidInputError, match="object cannot be part of a configuration"):
        encode(config)


@codecs
def test_endless_unknown_values_are_refused(encode: Encode, decode: Decode):
    config = RepositoryConfig()
    config.extra["x"] = [config.extra]

    with pytest.raises(InvalidInputError, match="nests deeper"):
        encode(config)


@pytest.mark.parametrize("value", [3, "x", None, [1]])
def test_a_flexbuffer_that_is_no_mapping_is_refused(value: Any):
    with pytest.raises(FormatError, match=r"repo: invalid configuration: a .* is not a mapping"):
        decode_config_flex(encode_flex(value), name="repo")


def test_wrong_bytes_are_named_as_a_configuration():
    with pytest.raises(FormatError, match=r"repo: .*too few") as caught:
        decode_config_flex(b"", name="repo")

    assert caught.value.kind is ErrorKind.CONFIG_DESERIALIZATION


def test_an_empty_document_is_an_empty_configuration():
    assert from_yaml("") == from_yaml("{}") == RepositoryConfig()


def test_variants_are_written_as_tags_and_unit_variants_quoted_where_needed():
    config = RepositoryConfig(
        manifest=ManifestConfig(
            ManifestPreloadConfig(
                preload_if=ManifestPreloadCondition.true() & ManifestPreloadCondition.num_refs(1, 2)
            )
        ),
        virtual_chunk_containers={
            "file:///x/": VirtualChunkContainer(
                "file:///x/", ObjectStoreConfig.LocalFileSystem("/x")
            )
        },
    )

    assert encode_config_yaml(config).decode() == (
        "virtual_chunk_containers:\n"
        "  file:///x/:\n"
        "    url_prefix: file:///x/\n"
        "    store: !local_file_system '/x'\n"
        "manifest:\n"
        "  preload:\n"
        "    preload_if: !and\n"
        "    - 'true'\n"
        "    - !num_refs\n"
        "      from: !Included 1\n"
        "      to: !Excluded 2\n"
    )


def test_secrets_in_options_are_not_shown_in_errors():
    text = "virtual_chunk_containers: {a: {url_prefix: s3://a/, store: !http {token: [hunter2]}}}"

    with pytest.raises(FormatError) as caught:
        from_yaml(text)
    assert "hunter2" not in str(caught.value)


def test_decoding_a_valid_document_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = from_yaml("compression: {level: 3}")

    assert config == RepositoryConfig(compression=CompressionConfig(level=3))
