"""What icechunk cannot hold, under the one key `icestream` of a stored configuration."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from icestream.codec.configs import (
    decode_config_flex,
    decode_config_yaml,
    encode_config_flex,
    encode_config_yaml,
    encode_extension,
    with_extension,
)
from icestream.codec.flexbuffers import decode_flex
from icestream.errors import FormatError
from icestream.model.config import RepositoryConfig, validate
from icestream.model.containers import VirtualChunkContainer
from icestream.model.effective_config import effective
from icestream.model.extension_config import LocationCompressionRule
from icestream.model.manifest_conditions import ManifestSplitCondition
from icestream.model.manifest_config import ManifestVirtualChunkLocationCompressionConfig
from icestream.model.object_stores import ObjectStoreConfig, S3Options
from icestream.model.storage_config import StorageRetriesSettings, StorageSettings

of = VirtualChunkContainer.of

type Encode = Callable[[RepositoryConfig], bytes]
type Decode = Callable[..., RepositoryConfig]

codecs = pytest.mark.parametrize(
    ("encode", "decode"),
    [(encode_config_yaml, decode_config_yaml), (encode_config_flex, decode_config_flex)],
    ids=["yaml", "flexbuffer"],
)


def config_with(*containers: VirtualChunkContainer) -> RepositoryConfig:
    config = RepositoryConfig()
    for container in containers:
        config.set_virtual_chunk_container(container)
    return config


def tree_of(config: RepositoryConfig) -> dict[str, Any]:
    tree: dict[str, Any] = decode_flex(encode_config_flex(config), name="config")
    return tree


def from_yaml(text: str) -> RepositoryConfig:
    return decode_config_yaml(text.encode(), name="config.yaml")


SETTINGS = StorageSettings(retries=StorageRetriesSettings(max_tries=3))
OWN = [
    of(prefix="s3", region="sa-east-1", anonymous=True, requester_pays=True),
    of(name="m", prefix="models/dev", object_store="gcs", region="africa-south1"),
    of(name="local", prefix="models", object_store="local_file_system", path="/copy"),
    of(prefix="https://h", headers={"accept": "x"}, options={"timeout": "3s"}),
    of(prefix="az://c", options={"account": "a"}, settings=SETTINGS),
    of(
        name="t",
        object_store="minio",
        url_template="s3://b/{}/{}.nc",
        default_template_arguments=["a", None],
    ),
]


@codecs
def test_every_kind_of_container_comes_back(encode: Encode, decode: Decode):
    config = config_with(*OWN, of(name="n", prefix="s3://native/"))

    assert decode(encode(config), name="config") == config
    validate(decode(encode(config), name="config"))


def test_only_what_icechunk_can_have_is_in_its_own_list():
    tree = tree_of(config_with(*OWN, of(name="n", prefix="s3://native/")))

    assert list(tree["virtual_chunk_containers"]) == ["s3://native/"]
    assert tree["icestream"]["version"] == 1
    assert [item["prefix"] for item in tree["icestream"]["containers"]] == [
        container.url_prefix for container in OWN
    ]


def test_a_container_is_stored_in_words_that_people_write():
    tree = tree_of(config_with(OWN[1], OWN[0]))

    assert tree["icestream"]["containers"] == [
        {
            "prefix": "models/dev",
            "name": "m",
            "object_store": "gcs",
            "region": "africa-south1",
        },
        {
            "prefix": "s3",
            "object_store": "s3",
            "region": "sa-east-1",
            "anonymous": True,
            "requester_pays": True,
        },
    ]


def test_containers_of_the_design_document_are_read_as_written():
    config = from_yaml("""
icestream:
  containers:
  - {name: minio-override, prefix: s3://bucket/prefix/array, object_store: minio,
     endpoint_url: localhost:9000, allow_http: true}
  - {name: modela, prefix: modela://virtual-a, object_store: gcs}
""")

    override = config.get_virtual_chunk_container("minio-override")
    assert override is not None
    assert override.store == ObjectStoreConfig.S3Compatible(
        S3Options(
            region="us-east-1",
            endpoint_url="http://localhost:9000",
            allow_http=True,
            force_path_style=True,
        )
    )
    assert config.get_virtual_chunk_container("modela://virtual-a") == of(
        name="modela", prefix="modela://virtual-a", object_store="gcs"
    )


def test_what_icechunk_has_no_place_for_is_added_to_its_containers():
    config = config_with(of(name="n", prefix="gs://b/", region="africa-south1", settings=SETTINGS))

    tree = tree_of(config)

    assert tree["virtual_chunk_containers"]["gs://b/"].keys() == {"url_prefix", "store", "name"}
    assert tree["icestream"]["containers"] == [
        {"prefix": "gs://b/", "region": "africa-south1", "settings": {"retries": {"max_tries": 3}}}
    ]
    assert decode_config_flex(encode_config_flex(config), name="config") == config


def test_without_extensions_there_is_no_key():
    assert "icestream" not in tree_of(config_with(of(prefix="s3://native/")))
    assert encode_extension(RepositoryConfig()) is None
    assert encode_config_yaml(RepositoryConfig()) == b"{}\n"


@codecs
def test_default_containers_are_switched_off_for_good(encode: Encode, decode: Decode):
    config = RepositoryConfig()
    assert config.default_containers
    config.default_containers = False

    read = decode(encode(config), name="config")

    assert read == config
    assert not read.default_containers
    assert not effective(read).default_containers
    assert not read.merge(RepositoryConfig()).default_containers


def test_default_containers_are_switched_on_again_for_a_run():
    stored, given = RepositoryConfig(), RepositoryConfig()
    stored.default_containers, given.default_containers = False, True

    assert stored.merge(given).default_containers
    assert not stored.default_containers


@codecs
def test_rules_for_the_compression_of_locations_come_back(encode: Encode, decode: Decode):
    config = RepositoryConfig()
    config.location_compression_rules = (
        LocationCompressionRule(ManifestSplitCondition.path_matches("^/raw"), enabled=False),
        LocationCompressionRule(settings=ManifestVirtualChunkLocationCompressionConfig(10)),
    )

    assert decode(encode(config), name="config") == config


@codecs
def test_unknown_keys_of_ours_survive_a_change(encode: Encode, decode: Decode):
    with pytest.warns(UserWarning, match="object_store: 'ipfs' is not one of s3"):
        config = from_yaml("""
virtual_chunk_containers:
  s3://n/: {url_prefix: s3://n/, store: !s3 {anonymous: false, allow_http: false}}
icestream:
  chunk-manifests: {sets: [1]}
  containers:
  - {prefix: models, object_store: s3, shard: 3}
  - {prefix: s3://n/, owner: somebody}
  - {prefix: far, object_store: ipfs}
  location_compression:
  - {enabled: false, speed: 9}
""")
    config.default_containers = False
    config.set_virtual_chunk_container(of(prefix="s3"))

    with pytest.warns(UserWarning, match="ipfs"):
        tree = tree_of(decode(encode(config), name="config"))["icestream"]

    assert tree["chunk-manifests"] == {"sets": [1]}
    assert {"prefix": "models", "object_store": "s3", "shard": 3} in tree["containers"]
    assert {"prefix": "s3://n/", "owner": "somebody"} in tree["containers"]
    assert {"prefix": "far", "object_store": "ipfs"} in tree["containers"]
    assert len(tree["containers"]) == 4
    assert tree["location_compression"] == [{"enabled": False, "speed": 9}]


def test_a_newer_version_is_kept_and_mentioned():
    with pytest.warns(UserWarning, match=r"icestream\.version: is 7, of a newer icestream"):
        config = from_yaml("icestream: {version: 7, default_containers: false, novelty: 1}")

    assert not config.default_containers
    assert tree_of(config)["icestream"] == {
        "version": 7,
        "default_containers": False,
        "novelty": 1,
    }


def test_a_document_without_version_is_upgraded():
    config = from_yaml("icestream: {containers: {models: {object_store: s3, name: m}}}")

    assert config == config_with(of(name="m", prefix="models", object_store="s3"))
    assert tree_of(config)["icestream"] == {
        "version": 1,
        "containers": [{"prefix": "models", "name": "m", "object_store": "s3"}],
    }


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        ("{object_store: s3}", "icestream.containers[0].prefix: None is not a text"),
        ("{prefix: models}", "[0]: has no object_store, and 'models' is no other container"),
        ("{prefix: m, object_store: s3, region: 5}", "[0].region: 5 is not a text"),
        ("{prefix: m, object_store: s3, anonymous: 1}", "[0].anonymous: 1 is not true or false"),
        ("{prefix: m, object_store: gcs, options: [a]}", "[0].options: a list is not a mapping"),
        (
            "{prefix: m, object_store: gcs, options: {a: [hunter2]}}",
            "store.a: a list is not a text",
        ),
        ("{prefix: m, object_store: s3, headers: {a: b}}", "headers cannot be set for s3"),
        ("{prefix: m, object_store: s3, checksum_algorithm: md5}", "'md5' is not one of crc32"),
        ("{prefix: m, object_store: s3, name: 5}", "[0].name: 5 is not a text"),
        ("{prefix: vcc, object_store: s3}", "'vcc' has the scheme vcc"),
        ("{prefix: s3, object_store: gcs}", "'s3' does not fit the store Gcs"),
        ("{prefix: a, name: t, object_store: s3, url_template: 's3://b/{}'}", "is not below 'a'"),
        (
            "{prefix: a, object_store: s3, default_template_arguments: [3]}",
            "(3,) is not a list of texts",
        ),
        ("{prefix: m, object_store: s3, settings: {retries: 3}}", "settings.retries: a int is not"),
        ("7", "[0]: a int is not a mapping"),
    ],
)
def test_a_faulty_container_of_ours_is_a_warning_and_survives(item: str, fault: str):
    text = f"icestream: {{version: 1, containers: [{item}]}}"
    with pytest.warns(UserWarning, match="the configuration has faults") as caught:
        config = from_yaml(text)

    assert fault in str(caught[0].message)
    assert "hunter2" not in str(caught[0].message)
    assert effective(config).virtual_chunk_containers == {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert len(tree_of(from_yaml(text))["icestream"]["containers"]) == 1


@pytest.mark.parametrize("content", ["3", "[a]", "{default_containers: maybe}", "{version: 0.5}"])
def test_a_key_of_ours_with_the_wrong_content_is_an_error(content: str):
    with pytest.raises(FormatError, match="icestream"):
        from_yaml(f"icestream: {content}")


def test_cleared_containers_are_gone_from_both_places():
    config = config_with(*OWN, of(prefix="s3://native/"))
    config.clear_virtual_chunk_containers()

    assert tree_of(config) == {"virtual_chunk_containers": {}}
    assert config.list_virtual_chunk_containers() == []


def test_containers_given_at_run_time_are_merged_by_place_over_the_stored_ones():
    stored = config_with(of(prefix="s3", region="a"), of(prefix="gs://b/", name="b"))
    given = config_with(of(prefix="s3://", region="c"), of(prefix="s3://b/array", region="d"))

    merged = stored.merge(given).list_virtual_chunk_containers()

    assert [(c.url_prefix, c.region) for c in merged] == [
        ("gs://b/", None),
        ("s3://", "c"),
        ("s3://b/array", "d"),
    ]


@pytest.mark.parametrize(
    ("key", "replacement"),
    [
        ("s3", of(prefix="s3://")),
        ("models", of(prefix="models://", object_store="s3")),
        ("gs://b/", of(prefix="gcs://b")),
    ],
)
def test_a_container_replaces_one_of_the_same_place(key: str, replacement: VirtualChunkContainer):
    config = config_with(of(prefix=key, object_store="gcs" if key[0] == "g" else "s3"))
    config.set_virtual_chunk_container(replacement)

    assert config.list_virtual_chunk_containers() == [replacement]


def test_the_copy_of_an_extension_restores_what_another_program_dropped():
    config = config_with(*OWN, of(name="n", prefix="gs://native/", settings=SETTINGS))
    config.default_containers = False
    config.storage = StorageSettings(storage_class="x")
    copy = encode_extension(config)
    assert copy is not None
    left = decode_config_yaml(encode_config_yaml(config), name="config")
    left.icestream = None
    left.virtual_chunk_containers = {"gs://native/": of(name="n", prefix="gs://native/")}
    left.storage = config.storage

    restored = with_extension(left, copy, name="repo")

    assert restored == config


def test_an_extension_with_the_wrong_content_is_an_error():
    with pytest.raises(FormatError, match="icestream"):
        with_extension(RepositoryConfig(), {"default_containers": 3}, name="repo")
