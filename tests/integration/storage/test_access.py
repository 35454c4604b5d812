"""Wrong credentials, missing buckets, stores that cannot be trusted: who is told what."""

import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from tests.integration.storage.web_servers import fake_s3_without_conditions, running

from icestream.credentials import S3StaticCredentials
from icestream.errors import ErrorKind, StorageError
from icestream.storage import Storage, azure_storage, s3_storage
from icestream.storage.object_store import ObjectStorage
from icestream.testing.servers import AzureServer, S3Server

pytestmark = pytest.mark.server

WRONG = "wrong-secret-that-must-not-be-shown"

VERBS: dict[str, Callable[[Storage], Any]] = {
    "get": lambda storage: storage.get("a"),
    "range": lambda storage: storage.get("a", (0, 1)),
    "head": lambda storage: storage.head("a"),
    "list": lambda storage: list(storage.list()),
    "put": lambda storage: storage.put("a", b"x"),
    "create": lambda storage: storage.put_if_absent("a", b"x"),
    "delete": lambda storage: storage.delete_many(["a"]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_wrong_keys_are_denied_with_a_remedy(
    seaweedfs: S3Server, seaweedfs_bucket: str, verb: str
) -> None:
    arguments = {**seaweedfs.storage_arguments(), "secret_access_key": WRONG}
    storage = s3_storage(bucket=seaweedfs_bucket, prefix="p", **arguments)

    with pytest.raises(StorageError, match="credentials") as caught:
        VERBS[verb](storage)
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED
    assert not caught.value.retryable
    assert WRONG not in str(caught.value) + repr(caught.value.__cause__) + repr(storage)


@pytest.mark.parametrize("verb", ["get", "list", "put", "create"])
def test_unsigned_requests_are_denied(
    seaweedfs: S3Server, seaweedfs_bucket: str, verb: str
) -> None:
    arguments = seaweedfs.storage_arguments()
    del arguments["access_key_id"], arguments["secret_access_key"]
    storage = s3_storage(bucket=seaweedfs_bucket, prefix="p", anonymous=True, **arguments)

    with pytest.raises(StorageError) as caught:
        VERBS[verb](storage)
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED


@pytest.mark.parametrize("verb", ["get", "list", "put", "create", "delete"])
def test_a_missing_bucket_is_named(moto: S3Server, verb: str) -> None:
    storage = s3_storage(bucket="not-there", prefix="p", **moto.storage_arguments())

    with pytest.raises(StorageError, match=r"does not exist.*create it") as caught:
        VERBS[verb](storage)
    assert caught.value.kind is ErrorKind.STORAGE_CONFIG
    assert "s3://not-there/p" in str(caught.value)


@pytest.mark.parametrize("verb", ["get", "range", "list", "put", "create"])
def test_a_signature_of_azure_is_never_shown(azurite: AzureServer, verb: str) -> None:
    token = azurite.sas_token().replace("sp=rwdlac", "sp=rwdlacx")
    signature = token.partition("sig=")[2]
    storage = azure_storage(
        container=azurite.new_container(),
        prefix="p",
        sas_token=token,
        **azurite.storage_arguments(),
    )

    with pytest.raises(StorageError) as caught:
        VERBS[verb](storage)
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED
    assert signature not in str(caught.value) + repr(caught.value.__cause__) + repr(storage)


def test_a_signature_of_azure_lets_in(azurite: AzureServer) -> None:
    storage = azure_storage(
        container=azurite.new_container(),
        prefix="p",
        sas_token=azurite.sas_token(),
        **azurite.storage_arguments(),
    )
    storage.put("a", b"x")

    assert storage.get("a") == b"x"


def _keys(access_key_id: str, secret_access_key: str) -> S3StaticCredentials:
    ends = datetime.now(UTC) + timedelta(hours=1)
    return S3StaticCredentials(access_key_id, secret_access_key, expires_after=ends)


def test_refreshed_keys_sign_requests_here_and_in_copies(
    seaweedfs: S3Server, seaweedfs_bucket: str
) -> None:
    arguments = seaweedfs.storage_arguments()
    keys = (arguments.pop("access_key_id"), arguments.pop("secret_access_key"))
    storage = s3_storage(
        bucket=seaweedfs_bucket, prefix="p", get_credentials=partial(_keys, *keys), **arguments
    )
    storage.put("a", b"x")

    assert pickle.loads(pickle.dumps(storage)).get("a") == b"x"


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
def test_a_store_that_ignores_conditions_is_refused(header: str) -> None:
    with running(fake_s3_without_conditions(ignored=frozenset({header}))) as url:
        storage = _on_fake(url)

        with pytest.raises(StorageError, match=r"not safe to write.*use a store") as caught:
            storage.check_conditional_writes()
    assert caught.value.kind is ErrorKind.PRECONDITIONS_IGNORED
    assert url in str(caught.value)


def test_a_store_that_honours_conditions_is_asked_once() -> None:
    with running(fake_s3_without_conditions(ignored=frozenset())) as url:
        storage = _on_fake(url)
        storage.check_conditional_writes()
    # the store is gone: asking again would fail
    storage.check_conditional_writes()

    assert isinstance(storage, ObjectStorage)


def test_the_environment_may_name_a_store_without_encryption(
    seaweedfs: S3Server, seaweedfs_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", seaweedfs.endpoint_url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", seaweedfs.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", seaweedfs.secret_access_key)

    with pytest.raises(StorageError):
        s3_storage(bucket=seaweedfs_bucket, prefix="p").put("a", b"x")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    storage = s3_storage(bucket=seaweedfs_bucket, prefix="p")
    storage.put("a", b"x")

    assert storage.get("a") == b"x"


def _on_fake(url: str) -> Storage:
    return s3_storage(
        bucket="b",
        prefix="p",
        endpoint_url=url,
        allow_http=True,
        access_key_id="key",
        secret_access_key=WRONG,
    )
