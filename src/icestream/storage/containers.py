"""Read-only storages in the buckets of others, from what a virtual chunk container says of them.

Keys are taken as they are: other programs named the objects.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import replace

from icestream.credentials import (
    AnyAzureCredential,
    AnyCredential,
    AnyGcsCredential,
    AnyHttpCredential,
    AnyS3Credential,
    AzureCredentials,
    Credentials,
    GcsCredentials,
    HttpCredentials,
    HttpHeaders,
    S3Credentials,
)
from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.object_stores import AnyObjectStoreConfig, ObjectStoreConfig, S3Options
from icestream.model.platforms import Platform
from icestream.storage.addresses import AzureAddress, GcsAddress, HttpAddress, S3Address
from icestream.storage.arguments import (
    bad_argument,
    checked_name,
    completed_endpoint,
    merged_headers,
)
from icestream.storage.http import HttpStorage
from icestream.storage.local_files import LocalFiles
from icestream.storage.object_store import ObjectStorage
from icestream.storage.places import (
    Place,
    PresentedCredential,
    place_of,
    place_of_azure,
    place_of_gcs,
    place_of_http,
    place_of_s3,
    plain_name,
    plain_options,
    s3_platform,
)
from icestream.storage.protocol import Storage
from icestream.storage.retries import RetryPolicy
from icestream.storage.s3_factories import consistency_headers, tigris_endpoint

ContainerCredential = AnyCredential | PresentedCredential
"""Credentials with the mark of their platform, or without."""

RETRIES: Mapping[Platform, RetryPolicy] = {
    Platform.HTTP: RetryPolicy(max_tries=5, initial_backoff_s=0.5)
}
"""Where patience differs from the default: a web server may be a small one."""

_BUCKET = re.compile(r"[^\s/\\?#@%\x00-\x1f\x7f]+")
_ACCOUNT_NAMES = ("account_name", "account")
_AUTHENTICATES = re.compile(r"key|token|secret|credential|service_account|skip_signature")


def open_container(
    store: AnyObjectStoreConfig,
    credentials: ContainerCredential | None = None,
    *,
    bucket: str,
    scheme: str = "",
    like: Storage | None = None,
    retry: RetryPolicy | None = None,
) -> Storage:
    """Return a read-only storage at the root of a bucket; no request is sent.

    What the store leaves open is what its platform offers. The region, the endpoint of a store that
    only has the interface of S3, and the account of Azure are those of the repository, if that is
    on the same platform.

    Args:
        store: The platform, and how to reach it.
        credentials: What to present. None presents nothing if the store is anonymous, else what
            the repository presents if it is at the same place, else what the environment offers.
        bucket: The first part of a location behind its scheme: a bucket, a container of Azure, the
            host of a web server. Empty for local files whose paths begin at the root of the disk.
        scheme: The scheme of the location: `http` is the one for web servers without encryption.
        like: The storage of the repository.
        retry: How patiently requests are repeated; None is what suits the platform.

    Raises:
        InvalidInputError: The settings reach nothing, or the credentials are for something else.
    """
    own = None if like is None else place_of(like)
    opened: Storage
    match store:
        case ObjectStoreConfig.S3() | ObjectStoreConfig.S3Compatible() | ObjectStoreConfig.Tigris():
            opened = _open_s3(store, _for_s3(credentials), _checked(bucket), own)
        case ObjectStoreConfig.Gcs():
            opened = _open_gcs(store, _for_gcs(credentials), _checked(bucket), own)
        case ObjectStoreConfig.Azure():
            opened = _open_azure(store, _for_azure(credentials), _checked(bucket), own)
        case ObjectStoreConfig.Http():
            url = f"{_web_scheme(store, scheme)}://{_checked(bucket)}"
            opened = _open_http(store, _for_http(credentials), url, own)
        case ObjectStoreConfig.LocalFileSystem():
            return _open_files(store, credentials, bucket)
        case ObjectStoreConfig.InMemory():
            raise bad_argument("store", "no virtual chunks are in the memory of a process")
    platform = place_of(opened).platform
    patience = retry or (None if platform is None else RETRIES.get(platform))
    return opened if patience is None else opened.with_retries(patience)


# S3 and its relatives

_S3Store = ObjectStoreConfig.S3 | ObjectStoreConfig.S3Compatible | ObjectStoreConfig.Tigris


def _open_s3(
    store: _S3Store, given: AnyS3Credential | None, bucket: str, own: Place | None
) -> Storage:
    options = _completed(store, own)
    on_tigris = isinstance(store, ObjectStoreConfig.Tigris)
    address = S3Address(
        bucket=bucket,
        options=replace(options, anonymous=False),
        headers=merged_headers(consistency_headers(options.region) if on_tigris else None),
    )
    if on_tigris and options.endpoint_url is None:
        at_tigris = replace(options, anonymous=False, endpoint_url=tigris_endpoint(bucket))
        address = replace(address, options=at_tigris, virtual_hosted=True)
    if given is None and options.anonymous:
        given = S3Credentials.Anonymous()
    if given is None:
        shared = _shared(place_of_s3(address), own)
        given = shared if isinstance(shared, AnyS3Credential) else S3Credentials.FromEnv()
    return ObjectStorage(replace(address, credentials=given), read_only=True)


def _completed(store: _S3Store, own: Place | None) -> S3Options:
    """Return the options with what the repository knows of the same platform."""
    options = store.opts if isinstance(store, ObjectStoreConfig.Tigris) else store.options
    endpoint_url = completed_endpoint(options.endpoint_url, allow_http=options.allow_http)
    options = replace(options, endpoint_url=endpoint_url)
    if own is None or own.platform is not _platform(store, endpoint_url):
        return options
    if options.region is None:
        options = replace(options, region=own.region)
    if endpoint_url is None and own.endpoint_url is not None:
        plain = own.endpoint_url.startswith("http:")
        options = replace(options, endpoint_url=own.endpoint_url, allow_http=plain)
    return options


def _platform(store: _S3Store, endpoint_url: str | None) -> Platform:
    if endpoint_url is not None:
        return s3_platform(endpoint_url)
    match store:
        case ObjectStoreConfig.Tigris():
            return Platform.TIGRIS
        case ObjectStoreConfig.S3Compatible():
            return Platform.S3_COMPATIBLE
        case _:
            return Platform.S3


# the other platforms


def _open_gcs(
    store: ObjectStoreConfig.Gcs, given: AnyGcsCredential | None, bucket: str, own: Place | None
) -> Storage:
    options = dict(store.opts or {})
    address = GcsAddress(bucket=bucket, options=options, encodes_keys=False)
    if given is None and not _authenticates(options):
        shared = _shared(place_of_gcs(address), own)
        given = shared if isinstance(shared, AnyGcsCredential) else None
    return ObjectStorage(
        replace(address, credentials=given or GcsCredentials.FromEnv()), read_only=True
    )


def _open_azure(
    store: ObjectStoreConfig.Azure,
    given: AnyAzureCredential | None,
    container: str,
    own: Place | None,
) -> Storage:
    named = plain_options(store.opts or {})
    options = {
        name: value
        for name, value in (store.opts or {}).items()
        if plain_name(name) not in _ACCOUNT_NAMES
    }
    neighbour = own if own is not None and own.platform is Platform.AZURE else None
    account = _account(named) or (neighbour and neighbour.account) or _account_of_environment()
    if neighbour is not None and account == neighbour.account and "endpoint" not in named:
        # hosts belong to accounts: the one of the repository is the one of this container
        options |= _endpoint_option(neighbour.endpoint_url)
    address = AzureAddress(
        account=account, container=container, options=options, encodes_keys=False
    )
    if given is None and not _authenticates(options):
        shared = _shared(place_of_azure(address), own)
        given = shared if isinstance(shared, AnyAzureCredential) else None
    return ObjectStorage(
        replace(address, credentials=given or AzureCredentials.FromEnv()), read_only=True
    )


def _account(options: Mapping[str, str]) -> str | None:
    return next((options[name] for name in _ACCOUNT_NAMES if options.get(name)), None)


def _account_of_environment() -> str:
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    if not account:
        raise bad_argument("account", "azure needs the name of an account; add it to the store")
    return account


def _endpoint_option(endpoint_url: str | None) -> dict[str, str]:
    if endpoint_url is None:
        return {}
    plain = {"allow_http": "true"} if endpoint_url.startswith("http:") else {}
    return {"endpoint": endpoint_url, **plain}


def _open_http(
    store: ObjectStoreConfig.Http, given: AnyHttpCredential | None, url: str, own: Place | None
) -> Storage:
    headers = HttpHeaders(store.headers or {}).headers
    address = HttpAddress(
        base_url=url,
        options=store.opts or {},
        headers=merged_headers(dict(headers)),
        encodes_keys=False,
    )
    if given is None:
        shared = _shared(place_of_http(address), own)
        given = shared if isinstance(shared, AnyHttpCredential) else None
    return HttpStorage(replace(address, credentials=given))


def _web_scheme(store: ObjectStoreConfig.Http, scheme: str) -> str:
    """Return the scheme of a web server; a location may have one of the user's own."""
    if scheme in {"http", "https"}:
        return scheme
    allowed = plain_options(store.opts or {}).get("allow_http", "false")
    return "http" if allowed.lower() == "true" else "https"


def _open_files(
    store: ObjectStoreConfig.LocalFileSystem, credentials: ContainerCredential | None, bucket: str
) -> Storage:
    if credentials is not None and not isinstance(credentials, Credentials.LocalFileSystemAccess):
        raise _unfit(credentials, Platform.LOCAL_FILE_SYSTEM)
    return LocalFiles(f"{store.path}/{_checked(bucket)}" if bucket else "/")


# credentials


def _for_s3(credentials: ContainerCredential | None) -> AnyS3Credential | None:
    inner = credentials.credentials if isinstance(credentials, Credentials.S3) else credentials
    if inner is None or isinstance(inner, AnyS3Credential):
        return inner
    raise _unfit(inner, Platform.S3)


def _for_gcs(credentials: ContainerCredential | None) -> AnyGcsCredential | None:
    inner = credentials.credentials if isinstance(credentials, Credentials.Gcs) else credentials
    if inner is None or isinstance(inner, AnyGcsCredential):
        return inner
    raise _unfit(inner, Platform.GCS)


def _for_azure(credentials: ContainerCredential | None) -> AnyAzureCredential | None:
    inner = credentials.credentials if isinstance(credentials, Credentials.Azure) else credentials
    if inner is None or isinstance(inner, AnyAzureCredential):
        return inner
    raise _unfit(inner, Platform.AZURE)


def _for_http(credentials: ContainerCredential | None) -> AnyHttpCredential | None:
    if isinstance(credentials, Credentials.HttpAccess):
        return HttpCredentials.Static(HttpHeaders({}))  # consent, and nothing to present
    inner = credentials.credentials if isinstance(credentials, Credentials.Http) else credentials
    if inner is None or isinstance(inner, AnyHttpCredential):
        return inner
    raise _unfit(inner, Platform.HTTP)


def _shared(place: Place, own: Place | None) -> PresentedCredential | None:
    """Return what the repository presents, if it presents it at this very place."""
    return own.credentials if own is not None and own == place else None


def _authenticates(options: Mapping[str, str]) -> bool:
    """Tell whether options say themselves what to present; icechunk allows it there."""
    return any(_AUTHENTICATES.search(name.lower()) for name in options)


def _unfit(credentials: ContainerCredential, platform: Platform) -> InvalidInputError:
    return InvalidInputError(
        f"{type(credentials).__qualname__} is no credential for a container on {platform}",
        kind=ErrorKind.INVALID_CREDENTIALS,
    )


def _checked(bucket: str) -> str:
    """Return a bucket or host that cannot become another place inside a URL."""
    if not _BUCKET.fullmatch(checked_name("bucket", bucket)) or bucket in {".", ".."}:
        raise bad_argument("bucket", f"{bucket!r} is no name of a bucket, container or host")
    return bucket
