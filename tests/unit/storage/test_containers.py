"""What a container leaves open: defaults of its platform, of the repository, of the environment."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from icestream.credentials import (
    Credentials,
    HttpAccess,
    HttpCredentials,
    LocalFileSystemAccess,
    azure_credentials,
    gcs_credentials,
    http_bearer_credentials,
    http_header_credentials,
    s3_credentials,
)
from icestream.errors import ErrorKind, IcestreamError, InvalidInputError, ReadOnlyError
from icestream.model.platforms import Platform
from icestream.storage import (
    ObjectStoreConfig,
    S3Options,
    Storage,
    azure_storage,
    gcs_storage,
    http_storage,
    in_memory_storage,
    local_filesystem_storage,
    s3_storage,
    tigris_storage,
)
from icestream.storage.addresses import AzureAddress, GcsAddress, HttpAddress, S3Address
from icestream.storage.containers import open_container
from icestream.storage.local_files import LocalFiles
from icestream.storage.object_store import ObjectStorage
from icestream.storage.places import Place, place_of, platform_of
from icestream.storage.retries import RetryPolicy
from icestream.testing.doubles import CountingStorage

SECRET = "hush-hush"
KEYS: dict[str, Any] = {"access_key_id": "own", "secret_access_key": SECRET}
OWN_S3 = s3_credentials(**KEYS)
GIVEN_S3 = s3_credentials(access_key_id="given", secret_access_key=SECRET)


def on_aws(**arguments: Any) -> Storage:
    return s3_storage(bucket="own", prefix="p", **{"region": "eu-west-1", **KEYS, **arguments})


def on_minio(endpoint_url: str = "http://localhost:9000") -> Storage:
    return on_aws(endpoint_url=endpoint_url, allow_http=True, region="here")


def on_azure(account: str = "acc", **arguments: Any) -> Storage:
    return azure_storage(
        account=account, container="own", prefix="p", access_key="a2V5", **arguments
    )


def on_gcs(**arguments: Any) -> Storage:
    return gcs_storage(bucket="own", prefix="p", bearer_token=SECRET, **arguments)


def s3(**options: Any) -> ObjectStoreConfig.S3:
    return ObjectStoreConfig.S3(S3Options(**options))


def compatible(**options: Any) -> ObjectStoreConfig.S3Compatible:
    return ObjectStoreConfig.S3Compatible(S3Options(**options))


def tigris(**options: Any) -> ObjectStoreConfig.Tigris:
    return ObjectStoreConfig.Tigris(S3Options(**options))


def address_of(storage: Storage) -> Any:
    assert isinstance(storage, ObjectStorage)
    return storage.address


# places


@pytest.mark.parametrize(
    ("storage", "place"),
    [
        (on_aws(), Place(platform=Platform.S3)),
        (on_aws(endpoint_url="https://s3.eu-west-1.amazonaws.com"), Place(platform=Platform.S3)),
        (
            on_aws(endpoint_url="https://s3.evil.com/amazonaws.com"),
            Place(
                platform=Platform.S3_COMPATIBLE, endpoint_url="https://s3.evil.com/amazonaws.com"
            ),
        ),
        (
            on_minio("http://LOCALHOST:9000/"),
            Place(platform=Platform.S3_COMPATIBLE, endpoint_url="http://localhost:9000"),
        ),
        (tigris_storage(bucket="b", prefix="p", region="auto"), Place(platform=Platform.TIGRIS)),
        (on_gcs(), Place(platform=Platform.GCS)),
        (
            on_gcs(config={"GOOGLE_BASE_URL": "http://h:1"}),
            Place(platform=Platform.GCS, endpoint_url="http://h:1"),
        ),
        (on_azure(), Place(platform=Platform.AZURE, account="acc")),
        (
            http_storage("https://Host:8443/a/b"),
            Place(platform=Platform.HTTP, endpoint_url="https://host:8443"),
        ),
        (local_filesystem_storage("/nowhere"), Place(platform=Platform.LOCAL_FILE_SYSTEM)),
        (in_memory_storage(), Place(platform=None)),
        (CountingStorage(on_aws()), Place(platform=Platform.S3)),
    ],
)
def test_tells_where_a_storage_is(storage: Storage, place: Place) -> None:
    assert place_of(storage) == place
    assert platform_of(storage) is place.platform


def test_a_place_knows_region_and_credentials_and_shows_neither_secret() -> None:
    place = place_of(on_aws())

    assert (place.region, place.credentials) == ("eu-west-1", OWN_S3)
    assert SECRET not in repr(place)


# S3 and its relatives


@pytest.mark.parametrize(
    ("store", "like", "region", "endpoint_url"),
    [
        (s3(), None, None, None),
        (s3(), on_aws(), "eu-west-1", None),
        (s3(region="sa-east-1"), on_aws(), "sa-east-1", None),
        (s3(), on_minio(), None, None),
        (s3(), on_gcs(), None, None),
        (s3(), in_memory_storage(), None, None),
        (s3(endpoint_url="localhost:9000", allow_http=True), None, None, "http://localhost:9000"),
        (s3(endpoint_url="minio.org"), None, None, "https://minio.org"),
        (s3(endpoint_url="http://h:1", allow_http=True), on_minio(), "here", "http://h:1"),
        (
            s3(endpoint_url="https://s3.amazonaws.com"),
            on_aws(),
            "eu-west-1",
            "https://s3.amazonaws.com",
        ),
        (compatible(), None, None, None),
        (compatible(), on_minio(), "here", "http://localhost:9000"),
        (compatible(), on_aws(), None, None),
        (compatible(endpoint_url="https://r2.example"), on_minio(), "here", "https://r2.example"),
        (tigris(), None, None, "https://bucket.t3.storage.dev"),
        (tigris(), on_aws(), None, "https://bucket.t3.storage.dev"),
        (
            tigris(),
            tigris_storage(bucket="own", prefix="p", region="iad"),
            "iad",
            "https://bucket.t3.storage.dev",
        ),
    ],
)
def test_region_and_endpoint_of_s3(
    store: Any, like: Storage | None, region: str | None, endpoint_url: str | None
) -> None:
    address = address_of(open_container(store, bucket="bucket", like=like))

    assert isinstance(address, S3Address)
    assert (address.options.region, address.options.endpoint_url) == (region, endpoint_url)
    assert (address.bucket, address.prefix, address.encodes_keys) == ("bucket", "", False)


@pytest.mark.parametrize(
    ("store", "like", "credentials"),
    [
        (s3(), None, s3_credentials(from_env=True)),
        (s3(), on_aws(), OWN_S3),
        (s3(region="sa-east-1"), on_aws(), OWN_S3),
        (s3(anonymous=True), on_aws(), s3_credentials(anonymous=True)),
        (
            s3(),
            on_aws(anonymous=True, access_key_id=None, secret_access_key=None),
            s3_credentials(anonymous=True),
        ),
        (s3(), on_minio(), s3_credentials(from_env=True)),
        (s3(endpoint_url="https://evil.example"), on_aws(), s3_credentials(from_env=True)),
        (compatible(), on_minio(), OWN_S3),
        (compatible(endpoint_url="localhost:9000", allow_http=True), on_minio(), OWN_S3),
        (
            compatible(endpoint_url="https://localhost:9000"),
            on_minio(),
            s3_credentials(from_env=True),
        ),
        (
            compatible(endpoint_url="http://localhost:9001", allow_http=True),
            on_minio(),
            s3_credentials(from_env=True),
        ),
        (tigris(), on_aws(), s3_credentials(from_env=True)),
        (s3(), on_gcs(), s3_credentials(from_env=True)),
    ],
)
def test_credentials_of_the_repository_go_only_where_they_go_already(
    store: Any, like: Storage | None, credentials: Any
) -> None:
    address = address_of(open_container(store, bucket="bucket", like=like))

    assert address.credentials == credentials


def test_given_credentials_win() -> None:
    for given in (GIVEN_S3, Credentials.S3(GIVEN_S3)):
        opened = open_container(s3(anonymous=True), given, bucket="b", like=on_aws())
        assert address_of(opened).credentials == GIVEN_S3
        assert not address_of(opened).options.anonymous


def test_a_container_on_tigris_asks_for_its_region() -> None:
    opened = open_container(tigris(region="iad"), bucket="bucket")

    assert address_of(opened).headers.read["X-Tigris-Regions"] == "iad"
    assert address_of(opened).virtual_hosted
    elsewhere = open_container(tigris(endpoint_url="https://h"), bucket="bucket")
    assert not address_of(elsewhere).virtual_hosted


def test_other_options_are_kept() -> None:
    store = s3(requester_pays=True, network_stream_timeout_seconds=7, force_path_style=True)
    options = address_of(open_container(store, bucket="b")).options

    assert (options.requester_pays, options.network_stream_timeout_seconds) == (True, 7)


# the other platforms


def test_gcs_takes_its_own_endpoint_and_the_credentials_of_the_same_place() -> None:
    anonymous, own = gcs_credentials(anonymous=True), gcs_credentials(bearer_token=SECRET)
    emulator = {"base_url": "http://h:1", "allow_http": "true"}
    for opts, like, credentials in (
        (None, None, gcs_credentials(from_env=True)),
        (None, on_gcs(), own),
        (emulator, on_gcs(), gcs_credentials(from_env=True)),
        (emulator, on_gcs(config={"google_base_url": "http://h:1"}), own),
        ({"skip_signature": "true"}, on_gcs(), gcs_credentials(from_env=True)),
        ({"google_service_account_key": "{}"}, on_gcs(), gcs_credentials(from_env=True)),
        (None, on_aws(), gcs_credentials(from_env=True)),
    ):
        address = address_of(open_container(ObjectStoreConfig.Gcs(opts), bucket="b", like=like))
        assert isinstance(address, GcsAddress)
        assert address.credentials == credentials
        assert dict(address.options) == (opts or {})
    given = open_container(ObjectStoreConfig.Gcs(), Credentials.Gcs(anonymous), bucket="b")
    assert address_of(given).credentials == anonymous
    assert not address_of(given).encodes_keys


@pytest.mark.parametrize(
    ("opts", "like", "account", "endpoint", "shares"),
    [
        ({"account": "acc"}, None, "acc", None, False),
        ({"account": "acc"}, on_azure(), "acc", None, True),
        ({"AZURE_STORAGE_ACCOUNT_NAME": "acc"}, on_azure(), "acc", None, True),
        ({"account": "other"}, on_azure(), "other", None, False),
        (None, on_azure(), "acc", None, True),
        (None, on_azure(config={"endpoint": "http://h:1/acc"}), "acc", "http://h:1/acc", True),
        (
            {"account": "other"},
            on_azure(config={"endpoint": "http://h:1/acc"}),
            "other",
            None,
            False,
        ),
        (
            {"account": "acc", "endpoint": "https://evil.example"},
            on_azure(),
            "acc",
            "https://evil.example",
            False,
        ),
        ({"account": "acc", "sas_token": "x"}, on_azure(), "acc", None, False),
    ],
)
def test_account_and_endpoint_of_azure(
    *, opts: Any, like: Storage | None, account: str, endpoint: str | None, shares: bool
) -> None:
    opened = open_container(ObjectStoreConfig.Azure(opts), bucket="container", like=like)
    address = address_of(opened)

    assert isinstance(address, AzureAddress)
    assert (address.account, address.container) == (account, "container")
    assert address.options.get("endpoint") == endpoint
    own = azure_credentials(access_key="a2V5")
    assert address.credentials == (own if shares else azure_credentials(from_env=True))


def test_azure_without_an_account_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidInputError, match="account"):
        open_container(ObjectStoreConfig.Azure(), bucket="container", like=on_aws())
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "env")
    opened = open_container(ObjectStoreConfig.Azure(), bucket="container")
    assert address_of(opened).account == "env"


@pytest.mark.parametrize(
    ("scheme", "opts", "url"),
    [
        ("https", None, "https://host:1"),
        ("http", None, "http://host:1"),
        ("models", None, "https://host:1"),
        ("models", {"allow_http": "true"}, "http://host:1"),
        ("https", {"allow_http": "true"}, "https://host:1"),
    ],
)
def test_scheme_and_host_of_a_web_server(scheme: str, opts: Any, url: str) -> None:
    opened = open_container(ObjectStoreConfig.Http(opts), bucket="host:1", scheme=scheme)

    assert isinstance(address_of(opened), HttpAddress)
    assert address_of(opened).base_url == url
    assert address_of(opened).credentials is None


def test_headers_of_a_web_server_and_over_them_those_of_credentials() -> None:
    store = ObjectStoreConfig.Http(None, {"X-Plain": "1", "authorization": "Basic old"})
    opened = open_container(store, http_bearer_credentials(SECRET), bucket="host", scheme="https")

    assert address_of(opened).request_headers() == {
        "X-Plain": "1",
        "Authorization": f"Bearer {SECRET}",
    }
    assert SECRET not in f"{opened!r} {address_of(opened)!r}"


def test_headers_of_the_repository_go_only_to_its_own_server() -> None:
    like = http_storage("https://host/repo", headers={"X-Key": SECRET})
    same, other, consented = (
        address_of(
            open_container(ObjectStoreConfig.Http(), given, bucket=host, scheme=scheme, like=like)
        )
        for host, scheme, given in (
            ("host", "https", None),
            ("other", "https", None),
            ("host", "https", HttpAccess),
        )
    )
    plain = open_container(ObjectStoreConfig.Http(), bucket="host", scheme="http", like=like)

    assert same.credentials == http_header_credentials({"X-Key": SECRET})
    assert other.credentials is None
    assert isinstance(consented.credentials, HttpCredentials.Static)
    assert consented.request_headers() == {}
    assert address_of(plain).credentials is None


def test_local_files_begin_at_the_root_or_below_the_path_of_the_store(tmp_path: Path) -> None:
    store = ObjectStoreConfig.LocalFileSystem(str(tmp_path))
    whole = open_container(store, LocalFileSystemAccess, bucket="")
    part = open_container(store, bucket="folder")

    assert isinstance(whole, LocalFiles)
    assert isinstance(part, LocalFiles)
    assert (whole.path, part.path) == ("/", str(tmp_path / "folder"))


# refusals


@pytest.mark.parametrize(
    ("store", "credentials"),
    [
        (s3(), gcs_credentials(bearer_token=SECRET)),
        (s3(), Credentials.Gcs(gcs_credentials(bearer_token=SECRET))),
        (s3(), HttpAccess),
        (tigris(), LocalFileSystemAccess),
        (ObjectStoreConfig.Gcs(), GIVEN_S3),
        (ObjectStoreConfig.Azure({"account": "a"}), Credentials.S3(GIVEN_S3)),
        (ObjectStoreConfig.Http(), azure_credentials(access_key=SECRET)),
        (ObjectStoreConfig.LocalFileSystem("/nowhere"), http_bearer_credentials(SECRET)),
    ],
)
def test_credentials_for_another_platform_are_refused(store: Any, credentials: Any) -> None:
    with pytest.raises(InvalidInputError, match="is no credential for") as caught:
        open_container(store, credentials, bucket="bucket")
    assert caught.value.kind is ErrorKind.INVALID_CREDENTIALS
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("store", "bucket", "match"),
    [
        (s3(endpoint_url="http://h:1"), "b", "allow_http"),
        (s3(endpoint_url="ftp://h:1"), "b", "ftp"),
        (ObjectStoreConfig.InMemory(), "b", "memory"),
        (s3(), "", "empty"),
        *(
            (s3(), bucket, "no name")
            for bucket in ("a/b", "..", "a?b", "u@h", "a b", "a\\b", "%2e")
        ),
        (ObjectStoreConfig.Http(), "user@host", "no name"),
        (ObjectStoreConfig.LocalFileSystem("/data"), "..", "no name"),
        (ObjectStoreConfig.Http(None, {"X-A": "b\r\nHost: c"}), "host", "X-A"),
    ],
)
def test_settings_that_reach_nothing_are_refused(store: Any, bucket: str, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        open_container(store, bucket=bucket, scheme="https")


@pytest.mark.parametrize(
    "store",
    [
        s3(),
        compatible(endpoint_url="https://h"),
        tigris(),
        ObjectStoreConfig.Gcs(),
        ObjectStoreConfig.Azure({"account": "a"}),
        ObjectStoreConfig.Http(),
        ObjectStoreConfig.LocalFileSystem("/nowhere"),
    ],
)
def test_a_container_is_read_only_and_travels(store: Any) -> None:
    opened = open_container(store, bucket="bucket", scheme="https")
    copy = pickle.loads(pickle.dumps(opened))

    for storage in (opened, copy):
        assert storage.read_only
        with pytest.raises(ReadOnlyError):
            storage.put("a", b"x")


def test_settings_that_make_no_client_are_told_at_the_first_read() -> None:
    opened = open_container(ObjectStoreConfig.Gcs({"no_such": SECRET}), bucket="bucket")

    with pytest.raises(IcestreamError, match="no_such") as caught:
        opened.get("a")
    assert caught.value.kind is ErrorKind.STORAGE_CONFIG
    assert SECRET not in str(caught.value)


def test_patience_is_that_of_the_platform_unless_told_otherwise() -> None:
    quick = RetryPolicy(max_tries=1)

    def policy(storage: Storage) -> RetryPolicy:
        assert isinstance(storage, ObjectStorage)
        return storage.retry

    assert policy(open_container(s3(), bucket="b")) == RetryPolicy()
    assert policy(open_container(ObjectStoreConfig.Http(), bucket="b")).max_tries == 5
    assert policy(open_container(s3(), bucket="b", retry=quick)) == quick
    assert policy(open_container(ObjectStoreConfig.Http(), bucket="b", retry=quick)) == quick
