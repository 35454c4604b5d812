"""Objects of others on real servers and on fakes: let in, turned away, and told apart."""

import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from icestream.credentials import (
    GcsBearerCredential,
    HttpHeaders,
    S3StaticCredentials,
    azure_credentials,
    gcs_credentials,
    gcs_refreshable_credentials,
    http_bearer_credentials,
    http_bearer_headers,
    http_header_credentials,
    http_refreshable_credentials,
    s3_credentials,
    s3_refreshable_credentials,
)
from icestream.errors import ErrorKind, IcestreamError, NotFoundError, StorageError
from icestream.storage import ObjectStoreConfig, S3Options, Storage, azure_storage, s3_storage
from icestream.storage.containers import open_container
from icestream.storage.retries import RetryPolicy
from icestream.testing.fake_servers import Answer, FakeGcs, FakeWebServer, SeenRequest
from icestream.testing.servers import AzureServer, S3Server

SECRET = "hush-hush-0123456789"
ONCE = RetryPolicy(max_tries=1)
ODD_KEYS = (
    "with space.nc",
    "year=2026/mañana.nc",
    "hash#1",
    "percent%41",
    "tilde~",
    "colon:plus+and&equals=",
)


def everything_said(error: BaseException) -> str:
    """Return all that a log of the error could show."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))


# S3


def compatible(server: S3Server, **options: Any) -> ObjectStoreConfig.S3Compatible:
    """Return the store as people write it: host and port, without a scheme."""
    endpoint_url = f"127.0.0.1:{server.port}"
    options = {"endpoint_url": endpoint_url, "allow_http": True, "region": "us-east-1", **options}
    return ObjectStoreConfig.S3Compatible(S3Options(**options))


@pytest.mark.server
@pytest.mark.parametrize("key", ODD_KEYS)
def test_keys_on_s3_are_taken_as_they_are(
    seaweedfs: S3Server, seaweedfs_bucket: str, key: str
) -> None:
    arguments = seaweedfs.storage_arguments()
    own = s3_storage(bucket=seaweedfs_bucket, prefix="foreign", **arguments)
    own.put(key, key.encode())
    opened = open_container(compatible(seaweedfs), bucket=seaweedfs_bucket, like=own)

    etag = opened.head(f"foreign/{key}").version.etag
    assert opened.get_if_unchanged(f"foreign/{key}", (1, 3), etag=etag) == key.encode()[1:3]


def _keys(access_key_id: str, secret_access_key: str) -> S3StaticCredentials:
    ends = datetime.now(UTC) + timedelta(hours=1)
    return S3StaticCredentials(access_key_id, secret_access_key, expires_after=ends)


@pytest.mark.server
def test_reads_from_s3_with_every_kind_of_credentials(
    seaweedfs: S3Server, seaweedfs_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = s3_storage(bucket=seaweedfs_bucket, prefix=None, **seaweedfs.storage_arguments())
    own.put("kinds/a", b"0123")
    pair = (seaweedfs.access_key_id, seaweedfs.secret_access_key)
    static = s3_credentials(access_key_id=pair[0], secret_access_key=pair[1])
    renewed = s3_refreshable_credentials(partial(_keys, *pair))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", pair[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", pair[1])
    store = compatible(seaweedfs)

    for credentials, like in (
        (static, None),
        (renewed, None),
        (None, own),
        (None, None),
        (s3_credentials(from_env=True), own),
    ):
        opened = open_container(store, credentials, bucket=seaweedfs_bucket, like=like)
        assert pickle.loads(pickle.dumps(opened)).get("kinds/a", (1, 3)) == b"12"
    anonymous = open_container(
        store, s3_credentials(anonymous=True), bucket=seaweedfs_bucket, like=own
    )
    with pytest.raises(StorageError) as caught:
        anonymous.get("kinds/a")
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED


class FakeS3Fault(FakeWebServer):
    """A fake S3 that answers every request with one error."""

    def __init__(self, status: int, code: str, message: str, more: str = "") -> None:
        super().__init__()
        text = f"<Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>"
        self._fault = Answer(status, text.encode())

    def answer(self, request: SeenRequest) -> Answer:
        del request
        return self._fault


@dataclass(frozen=True)
class Fault:
    """An error of S3 and what becomes of it."""

    status: int
    code: str
    message: str
    kind: ErrorKind
    match: str
    more: str = ""


S3_FAULTS = {
    "elsewhere": Fault(
        301, "PermanentRedirect", "Use the specified endpoint.", ErrorKind.WRONG_REGION, "region"
    ),
    "malformed": Fault(
        400,
        "AuthorizationHeaderMalformed",
        "the region 'us-east-1' is wrong; expecting 'eu-west-1'",
        ErrorKind.WRONG_REGION,
        "another region.*expecting 'eu-west-1'",
    ),
    "ended": Fault(
        400,
        "ExpiredToken",
        "The provided token has expired.",
        ErrorKind.CREDENTIALS_EXPIRED,
        "have ended: renew",
        f"<Token-0>{SECRET}</Token-0>",
    ),
    "denied": Fault(
        403, "AccessDenied", "Access Denied", ErrorKind.PERMISSION_DENIED, "permission denied"
    ),
    "unsigned": Fault(
        403,
        "SignatureDoesNotMatch",
        "The signature does not match.",
        ErrorKind.PERMISSION_DENIED,
        "credentials are right",
        f"<StringToSign>{SECRET}</StringToSign>",
    ),
    "no bucket": Fault(
        404, "NoSuchBucket", "No such bucket", ErrorKind.STORAGE_CONFIG, "does not exist"
    ),
    "beyond": Fault(
        416, "InvalidRange", "Not satisfiable", ErrorKind.INVALID_OBJECT_SIZE, "ends before"
    ),
    "busy": Fault(503, "SlowDown", "Less, please", ErrorKind.THROTTLED, "overloaded"),
}


@pytest.mark.parametrize("name", S3_FAULTS)
def test_errors_of_s3_are_told_apart_without_secrets(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fault = S3_FAULTS[name]
    credentials = s3_credentials(
        access_key_id="key", secret_access_key=SECRET, session_token=f"{SECRET}-session"
    )
    with FakeS3Fault(fault.status, fault.code, fault.message, fault.more) as server:
        store = ObjectStoreConfig.S3Compatible(
            S3Options(region="us-east-1", endpoint_url=server.host, allow_http=True)
        )
        opened = open_container(store, credentials, bucket="bucket", retry=ONCE)
        for read in (
            lambda: opened.get("data/NoSuchBucket ExpiredToken.nc", (0, 4)),
            lambda: opened.get_if_unchanged("data/a.nc", (0, 4), etag="x"),
        ):
            with pytest.raises(StorageError, match=fault.match) as caught:
                read()
            assert caught.value.kind is fault.kind
            assert "in s3://bucket/" in str(caught.value)
            assert SECRET not in everything_said(caught.value)
    assert SECRET not in caplog.text + repr(opened)


def test_words_in_a_key_are_not_taken_for_an_answer() -> None:
    with FakeS3Fault(404, "NoSuchKey", "The specified key does not exist.") as server:
        store = ObjectStoreConfig.S3Compatible(
            S3Options(region="us-east-1", endpoint_url=server.host, allow_http=True)
        )
        opened = open_container(store, s3_credentials(anonymous=True), bucket="bucket", retry=ONCE)
        for key in (
            "NoSuchBucket",
            "ExpiredToken",
            "PermanentRedirect",
            "invalid_token/InvalidRange",
        ):
            with pytest.raises(NotFoundError):
                opened.get(key, (0, 1))


# Azure


def _azure(server: AzureServer) -> ObjectStoreConfig.Azure:
    arguments = server.storage_arguments()
    return ObjectStoreConfig.Azure({"account": arguments["account"], **arguments["config"]})


@pytest.mark.server
def test_reads_from_azure_with_a_key_a_signature_or_what_the_repository_has(
    azurite: AzureServer,
) -> None:
    container = azurite.new_container()
    own = azure_storage(
        container=container,
        prefix="",
        access_key=azurite.access_key,
        **azurite.storage_arguments(),
    )
    own.put("folder/a b.nc", b"0123")
    key = azure_credentials(access_key=azurite.access_key)
    signature = azure_credentials(sas_token=azurite.sas_token())

    for store, credentials, like in (
        (_azure(azurite), key, None),
        (_azure(azurite), signature, None),
        (_azure(azurite), None, own),
        (ObjectStoreConfig.Azure(), None, own),
    ):
        opened = open_container(store, credentials, bucket=container, like=like)
        etag = opened.head("folder/a b.nc").version.etag
        assert opened.get_if_unchanged("folder/a b.nc", (1, 3), etag=etag) == b"12"


@pytest.mark.server
def test_a_signature_of_azure_that_has_ended_is_turned_away_unseen(azurite: AzureServer) -> None:
    ended = azurite.sas_token(valid_for=timedelta(hours=-1))
    opened = open_container(
        _azure(azurite), azure_credentials(sas_token=ended), bucket=azurite.new_container()
    )

    with pytest.raises(StorageError) as caught:
        opened.get("a", (0, 1))
    # Azurite does not say why; the real one says that the time has passed
    assert caught.value.kind in {ErrorKind.PERMISSION_DENIED, ErrorKind.CREDENTIALS_EXPIRED}
    assert ended.partition("sig=")[2] not in everything_said(caught.value)


# Google Cloud Storage, by a fake


@pytest.fixture
def gcs() -> Iterator[FakeGcs]:
    with FakeGcs({"a": SECRET, "b": "token-b", "public": None}) as server:
        for bucket in server.tokens:
            server.put(f"/{bucket}/folder/x=1 y.nc", b"0123")
        yield server


def _token(token: str) -> GcsBearerCredential:
    return GcsBearerCredential(token, expires_after=datetime.now(UTC) + timedelta(hours=1))


def test_each_bucket_of_gcs_has_its_own_token(gcs: FakeGcs) -> None:
    store = ObjectStoreConfig.Gcs(gcs.store_options())
    for bucket, credentials in (
        ("a", gcs_credentials(bearer_token=SECRET)),
        ("b", gcs_refreshable_credentials(partial(_token, "token-b"))),
        ("public", gcs_credentials(anonymous=True)),
    ):
        opened = open_container(store, credentials, bucket=bucket)
        assert opened.get("folder/x=1 y.nc", (1, 3)) == b"12"


@pytest.mark.parametrize(
    ("bucket", "token", "kind", "match"),
    [
        ("a", "token-b", ErrorKind.PERMISSION_DENIED, "permission denied"),
        ("a", f"{SECRET}-old", ErrorKind.INVALID_CREDENTIALS, "missing, wrong or have ended"),
        ("a", None, ErrorKind.INVALID_CREDENTIALS, "missing, wrong or have ended"),
        ("missing", SECRET, ErrorKind.STORAGE_CONFIG, "does not exist"),
    ],
)
def test_errors_of_gcs_are_told_apart_without_secrets(
    gcs: FakeGcs, *, bucket: str, token: str | None, kind: ErrorKind, match: str
) -> None:
    credentials = gcs_credentials(bearer_token=token, anonymous=True if token is None else None)
    opened = open_container(ObjectStoreConfig.Gcs(gcs.store_options()), credentials, bucket=bucket)

    with pytest.raises(StorageError, match=match) as caught:
        opened.get_if_unchanged("folder/x=1 y.nc", (1, 3), etag="x")
    assert caught.value.kind is kind
    assert SECRET not in everything_said(caught.value) + repr(opened)


# web servers


def open_web(server: FakeWebServer, credentials: Any = None, **headers: str) -> Storage:
    """Open a container on a fake web server."""
    store = ObjectStoreConfig.Http(None, headers)
    return open_container(store, credentials, bucket=server.host, scheme="http", retry=ONCE)


def test_a_web_server_lets_in_who_has_the_token_or_header() -> None:
    for required, credentials in (
        ({"Authorization": f"Bearer {SECRET}"}, http_bearer_credentials(SECRET)),
        ({"X-Api-Key": SECRET}, http_header_credentials({"x-api-key": SECRET})),
    ):
        with FakeWebServer(required_headers=required) as server:
            server.put("/folder/a b.nc", b"0123")
            opened = open_web(server, credentials)
            assert opened.get("folder/a b.nc", (1, 3)) == b"12"
            assert pickle.loads(pickle.dumps(opened)).get("folder/a b.nc", (1, 3)) == b"12"
            with pytest.raises(StorageError, match="missing, wrong or have ended") as caught:
                open_web(server, http_bearer_credentials(f"{SECRET}-old")).get("folder/a b.nc")
            assert caught.value.kind is ErrorKind.INVALID_CREDENTIALS
            assert SECRET not in everything_said(caught.value) + repr(opened)


tokens: list[str] = []


def next_token() -> HttpHeaders:
    tokens.append(f"token-{len(tokens) + 1}")
    # ends at once, so that every read asks again
    return http_bearer_headers(tokens[-1], expires_after=datetime.now(UTC))


def test_a_token_for_a_web_server_is_renewed_before_it_ends() -> None:
    tokens.clear()
    with FakeWebServer() as server:
        server.put("/a", b"0123")
        opened = open_web(server, http_refreshable_credentials(next_token))
        for _ in range(3):
            opened.get("a", (0, 1))
        sent = [request.headers["authorization"] for request in server.requests]

    assert len(set(sent)) == 3
    assert set(sent) <= {f"Bearer {token}" for token in tokens}
    assert b"token-" not in pickle.dumps(opened)


def test_headers_of_the_store_are_sent_too() -> None:
    with FakeWebServer(required_headers={"X-Plain": "1"}) as server:
        server.put("/a", b"0123")
        assert open_web(server, X_Plain="0", **{"X-Plain": "1"}).get("a", (0, 1)) == b"0"


class Redirecting(FakeWebServer):
    """A fake web server that sends everybody elsewhere."""

    def __init__(self, target: FakeWebServer) -> None:
        super().__init__()
        self._target = target

    def answer(self, request: SeenRequest) -> Answer:
        return Answer(302, headers={"Location": self._target.url + quote(request.path)})


def test_a_token_does_not_follow_a_redirect_to_another_host() -> None:
    with FakeWebServer() as target, Redirecting(target) as server:
        target.put("/a", b"0123")
        opened = open_web(server, http_bearer_credentials(SECRET))
        assert opened.get("a", (1, 3)) == b"12"

    assert "authorization" in server.requests[0].headers
    assert "authorization" not in target.requests[0].headers


WEB_FAULTS: dict[str, tuple[Callable[[Storage], object], type[IcestreamError], ErrorKind]] = {
    "gone": (lambda s: s.get("missing", (0, 1)), NotFoundError, ErrorKind.OBJECT_NOT_FOUND),
    "beyond": (lambda s: s.get("a", (7, 9)), StorageError, ErrorKind.INVALID_OBJECT_SIZE),
    "short": (lambda s: s.get("a", (2, 9)), StorageError, ErrorKind.INVALID_OBJECT_SIZE),
}


@pytest.mark.parametrize("name", WEB_FAULTS)
def test_errors_of_a_web_server_are_told_apart(name: str) -> None:
    read, expected, kind = WEB_FAULTS[name]
    with FakeWebServer() as server:
        server.put("/a", b"0123")
        with pytest.raises(expected) as caught:
            read(open_web(server))
    assert caught.value.kind is kind


def test_a_server_that_is_not_there_may_be_tried_again() -> None:
    with FakeWebServer() as server:
        opened = open_web(server, http_bearer_credentials(SECRET))

    with pytest.raises(StorageError) as caught:
        opened.get("a", (0, 1))
    assert caught.value.retryable
    assert SECRET not in everything_said(caught.value)
