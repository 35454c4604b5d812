"""The functions that make storages: icechunk's parameters, no request, no secret shown."""

import inspect
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import icechunk
import icechunk.storage
import pytest

import icestream.storage as ours
from icestream.errors import ErrorKind, InvalidInputError, ReadOnlyError, StorageError
from icestream.storage import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
    Storage,
)
from icestream.storage.addresses import Address, AzureAddress, GcsAddress, Purpose, S3Address
from icestream.storage.http import HttpStorage
from icestream.storage.object_store import ObjectStorage
from icestream.storage.obstore_library import library
from icestream.storage.retries import RetryPolicy

SECRET = "hush-hush"
KEYS: dict[str, Any] = {"access_key_id": "key", "secret_access_key": SECRET}

FUNCTIONS = [
    name for name in icechunk.storage.__all__ if inspect.isfunction(getattr(icechunk.storage, name))
]

MAKERS: dict[str, Callable[[], Storage]] = {
    "s3": lambda: ours.s3_storage(
        bucket="b", prefix="p/q", region="r", session_token=SECRET, headers={"x": SECRET}, **KEYS
    ),
    "s3 object store": lambda: ours.s3_object_store_storage(bucket="b", prefix=None, **KEYS),
    "tigris": lambda: ours.tigris_storage(bucket="b", prefix="p", region="iad", **KEYS),
    "r2": lambda: ours.r2_storage(bucket="b", prefix="p", account_id="a", **KEYS),
    "hf": lambda: ours.hf_storage(bucket="b", prefix="p", namespace="n", **KEYS),
    "gcs": lambda: ours.gcs_storage(bucket="b", prefix="p", bearer_token=SECRET),
    "gcs anonymous": lambda: ours.gcs_storage(bucket="b", prefix="p", anonymous=True),
    "azure": lambda: ours.azure_storage(
        account="a", container="c", prefix="p", sas_token=f"sig={SECRET}"
    ),
    "azure key": lambda: ours.azure_storage(
        account="a", container="c", prefix="p", config={"client_secret": SECRET}, anonymous=True
    ),
    "http": lambda: ours.http_storage("https://h/p", headers={"authorization": SECRET}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_has_the_parameters_of_icechunk(name: str) -> None:
    def parameters(function: Any) -> list[tuple[str, Any, Any]]:
        found = inspect.signature(function).parameters.values()
        return [(one.name, one.kind, one.default) for one in found]

    assert parameters(getattr(ours, name)) == parameters(getattr(icechunk.storage, name))


def test_has_the_names_of_icechunk() -> None:
    # chunk types and storage settings belong to the store and the configuration
    elsewhere = {
        "ChunkType",
        "StorageConcurrencySettings",
        "StorageRetriesSettings",
        "StorageSettings",
        "StorageTimeoutSettings",
    }

    assert set(icechunk.storage.__all__) - elsewhere <= set(ours.__all__)


@pytest.mark.parametrize("kind", MAKERS)
def test_shows_where_but_not_with_what(kind: str) -> None:
    storage = MAKERS[kind]()
    assert isinstance(storage, ObjectStorage)

    assert storage.address.url in repr(storage)
    assert SECRET not in f"{storage!r} {storage} {storage.address!r}"


@pytest.mark.parametrize("kind", MAKERS)
def test_pickles_before_and_after_its_clients_exist(kind: str) -> None:
    storage = MAKERS[kind]()
    assert isinstance(storage, ObjectStorage)
    before = pickle.dumps(storage)
    storage._client(Purpose.READ)

    for pickled in (before, pickle.dumps(storage)):
        copy = pickle.loads(pickled)
        assert copy.address == storage.address
        assert copy.read_only == storage.read_only
        copy._client(Purpose.READ)


@pytest.mark.parametrize("kind", MAKERS)
def test_makes_one_client_per_purpose(kind: str) -> None:
    storage = MAKERS[kind]()
    assert isinstance(storage, ObjectStorage)

    assert storage._client(Purpose.READ) is storage._client(Purpose.READ)
    assert storage._client(Purpose.READ) is not storage._client(Purpose.WRITE_ONCE)


def _url(storage: Storage) -> str:
    assert isinstance(storage, ObjectStorage)
    return storage.address.url


def test_knows_the_endpoints_of_platforms() -> None:
    assert _url(MAKERS["tigris"]()) == "s3://b/p at https://b.t3.storage.dev"
    assert _url(MAKERS["r2"]()) == "s3://b/p at https://a.r2.cloudflarestorage.com"
    assert _url(MAKERS["hf"]()) == "s3://b/p at https://s3.hf.co/n"
    assert _url(ours.r2_storage(prefix="b/p/q", endpoint_url="https://e", anonymous=True)) == (
        "s3://b/p/q at https://e"
    )


def test_weak_consistency_only_reads() -> None:
    storage = ours.tigris_storage(bucket="b", prefix="p", use_weak_consistency=True, anonymous=True)

    assert storage.read_only
    with pytest.raises(ReadOnlyError):
        storage.put("a", b"x")


def test_a_trailing_slash_of_the_prefix_does_not_matter() -> None:
    assert _url(ours.gcs_storage(bucket="b", prefix="p/", anonymous=True)) == "gs://b/p"


BAD: dict[str, Callable[[], Storage]] = {
    "no bucket": lambda: ours.s3_storage(bucket="", prefix="p", anonymous=True),
    "rooted prefix": lambda: ours.s3_storage(bucket="b", prefix="/p", anonymous=True),
    "rooted keys": lambda: ours.s3_storage(
        bucket="b", prefix=None, legacy_rooted_keys=True, anonymous=True
    ),
    "tigris without region": lambda: ours.tigris_storage(bucket="b", prefix="p", anonymous=True),
    "r2 without account": lambda: ours.r2_storage(bucket="b", prefix="p", anonymous=True),
    "no container": lambda: ours.azure_storage(account="a", container="", prefix="p"),
    "no url": lambda: ours.http_storage("ftp://h/p"),
}


@pytest.mark.parametrize("case", BAD)
def test_arguments_that_make_no_storage_are_refused(case: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        BAD[case]()
    assert caught.value.kind is ErrorKind.STORAGE_CONFIG


def test_half_a_key_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        ours.s3_storage(bucket="b", prefix="p", access_key_id="key")


def test_a_checksum_that_cannot_be_sent_is_refused_for_writes_only() -> None:
    storage = ours.s3_storage(
        bucket="b", prefix="p", anonymous=True, checksum_algorithm=ChecksumAlgorithm.Sha1
    )
    assert isinstance(storage, ObjectStorage)
    storage._client(Purpose.READ)

    with pytest.raises(StorageError, match="Sha256"):
        storage.put("a", b"x")


def test_settings_that_no_client_takes_are_named() -> None:
    storage = ours.gcs_storage(bucket="b", prefix="p", anonymous=True, config={"nonsense": "1"})

    with pytest.raises(StorageError, match="settings for gs://b/p make no client") as caught:
        storage.get("a")
    assert caught.value.kind is ErrorKind.STORAGE_CONFIG


def test_conditional_writes_are_not_repeated_by_the_client() -> None:
    retry = RetryPolicy(max_tries=7)
    addresses: list[Address] = [
        S3Address(bucket="b"),
        GcsAddress(bucket="b", options={"skip_signature": "true"}),
        AzureAddress(account="a", container="c"),
    ]

    for address in addresses:
        tries = {
            purpose: address.client(library(), purpose, retry).retry_config["max_retries"]
            for purpose in Purpose
        }
        assert tries == {Purpose.READ: 6, Purpose.WRITE: 6, Purpose.WRITE_ONCE: 0}


def test_another_patience_keeps_the_place() -> None:
    storage = MAKERS["http"]()
    assert isinstance(storage, HttpStorage)
    patient = storage.with_retries(RetryPolicy(max_tries=2))

    assert isinstance(patient, HttpStorage)
    assert patient.address == storage.address
    assert patient.read_only


def test_delays_grow_from_nothing_to_their_ceiling() -> None:
    policy = RetryPolicy(max_tries=6, initial_backoff_s=1, max_backoff_s=4)
    runs = [list(policy.delays_s()) for _ in range(200)]

    assert {len(run) for run in runs} == {6}
    assert {run[0] for run in runs} == {0}
    for place, ceiling in enumerate((1, 2, 4, 4, 4), start=1):
        longest = max(run[place] for run in runs)
        assert ceiling / 2 < longest <= ceiling


def test_store_configurations_hold_what_was_given() -> None:
    options = S3Options(region="r", endpoint_url="e", network_stream_timeout_seconds=60)

    assert ours.s3_store(region="r", endpoint_url="e") == ObjectStoreConfig.S3(options)
    assert ours.s3_store(region="r", endpoint_url="e", s3_compatible=True) == (
        ObjectStoreConfig.S3Compatible(options)
    )
    assert ours.local_filesystem_store("/p").path == "/p"
    assert ours.gcs_store({"a": "b"}).opts == {"a": "b"}
    assert ours.azure_store(account="a", config={"b": "c"}).opts == {"account": "a", "b": "c"}
    assert ours.http_store(headers={"h": "v"}).headers == {"h": "v"}


def test_store_configurations_pickle_compare_and_keep_secrets() -> None:
    options = S3Options(region="r", checksum_algorithm=ChecksumAlgorithm.Crc32c)
    configs: list[AnyObjectStoreConfig] = [
        ObjectStoreConfig.InMemory(),
        ObjectStoreConfig.LocalFileSystem("/p"),
        ObjectStoreConfig.S3(options),
        ObjectStoreConfig.S3Compatible(options),
        ObjectStoreConfig.Tigris(options),
        ObjectStoreConfig.Gcs({"service_account_key": SECRET, "base_url": "u"}),
        ObjectStoreConfig.Azure({"account": "me", "sas_token": SECRET}),
        ObjectStoreConfig.Http({"timeout": "1s"}, {"authorization": SECRET}),
    ]

    assert pickle.loads(pickle.dumps(configs)) == configs
    assert SECRET not in repr(configs)
    assert "'account': 'me'" in repr(configs)
    assert configs[2] != configs[3]
    assert ObjectStoreConfig.S3(options) != ObjectStoreConfig.S3(replace(options, region="s"))


def test_options_can_be_changed_as_in_icechunk() -> None:
    options, theirs = S3Options(), icechunk.S3Options()
    for name in ("region", "endpoint_url", "allow_http", "anonymous", "force_path_style"):
        assert getattr(options, name) == getattr(theirs, name)
    options.region = "elsewhere"

    assert options == S3Options(region="elsewhere")
