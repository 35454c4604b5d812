"""Where objects are and who asks for them: everything that is needed to make a client.

Addresses are values: they pickle, compare and may be shown, and hold no connection.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

from icestream.credentials import (
    AnyAzureCredential,
    AnyGcsCredential,
    AnyHttpCredential,
    AnyS3Credential,
    AzureCredentials,
    AzureRefreshableCredential,
    AzureStaticCredentials,
    GcsCredentials,
    GcsStaticCredentials,
    S3Credentials,
    S3StaticCredentials,
)
from icestream.credentials.refreshable import aware
from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.object_stores import ChecksumAlgorithm, S3Options
from icestream.storage.retries import RetryPolicy

_DEFAULT_STREAM_TIMEOUT_S = 60
_NO_TIMEOUT = "24h"


class Purpose(Enum):
    """What a client is for."""

    READ = auto()
    WRITE = auto()
    WRITE_ONCE = auto()
    """Conditional writes: a repeated one finds its own result and calls it a conflict, so the
    client must not repeat them by itself."""


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """Extra headers of reads and writes; their values may be secrets."""

    read: Mapping[str, str] = field(default_factory=dict, repr=False)
    write: Mapping[str, str] = field(default_factory=dict, repr=False)

    def of(self, purpose: Purpose) -> dict[str, str]:
        """Return the headers that a client for `purpose` sends."""
        return dict(self.read if purpose is Purpose.READ else self.write)


class Address(Protocol):
    """What `ObjectStorage` needs to know of a platform."""

    @property
    def url(self) -> str:
        """The place, for messages."""

    @property
    def encodes_keys(self) -> bool:
        """Whether icechunk percent-encodes odd characters of keys on this platform."""

    def client(self, obstore: Any, purpose: Purpose, retry: RetryPolicy) -> Any:
        """Make an obstore client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Address:
    """A prefix of a bucket on S3 or a store with its interface."""

    bucket: str
    prefix: str = ""
    options: S3Options = field(default_factory=S3Options)
    credentials: AnyS3Credential = field(default_factory=S3Credentials.FromEnv)
    headers: RequestHeaders = field(default_factory=RequestHeaders)
    virtual_hosted: bool = False
    """The bucket is part of the host name, and `endpoint_url` contains it."""
    encodes_keys: bool = False

    @property
    def url(self) -> str:
        """The place, for messages."""
        endpoint = f" at {self.options.endpoint_url}" if self.options.endpoint_url else ""
        return f"s3://{self.bucket}/{self.prefix}{endpoint}"

    def client(self, obstore: Any, purpose: Purpose, retry: RetryPolicy) -> Any:
        """Make an obstore client."""
        options = self.options
        config: dict[str, Any] = {"virtual_hosted_style_request": self.virtual_hosted}
        if options.region is not None:
            config["region"] = options.region
        if options.endpoint_url is not None:
            config["endpoint"] = options.endpoint_url
        if options.requester_pays:
            config["request_payer"] = True
        if purpose is not Purpose.READ and options.checksum_algorithm is not None:
            config["checksum_algorithm"] = _checksum_name(options.checksum_algorithm)
        if options.anonymous or isinstance(self.credentials, S3Credentials.Anonymous):
            config["skip_signature"] = True
        return obstore.store.S3Store(
            self.bucket,
            prefix=self.prefix or None,
            config=config,
            client_options=client_options(
                purpose,
                self.headers,
                {"allow_http": options.allow_http or _is_plain_by_environment(options)},
                options.network_stream_timeout_seconds,
            ),
            retry_config=retry.client_options(retry=purpose is not Purpose.WRITE_ONCE),
            credential_provider=self._provider(),
        )

    def _provider(self) -> Callable[[], dict[str, object]] | None:
        # keys as settings would be mixed with a session token of the environment
        credentials = self.credentials
        match credentials:
            case S3Credentials.Static():
                return lambda: _s3_keys(credentials.credentials)
            case S3Credentials.Refreshable():
                return lambda: _s3_keys(credentials.fresh())
            case _:
                return None


def _s3_keys(keys: S3StaticCredentials) -> dict[str, object]:
    return {
        "access_key_id": keys.access_key_id,
        "secret_access_key": keys.secret_access_key,
        "token": keys.session_token,
        "expires_at": keys.expires_after and aware(keys.expires_after),
    }


def _checksum_name(algorithm: ChecksumAlgorithm) -> str:
    names = {ChecksumAlgorithm.Sha256: "SHA256", ChecksumAlgorithm.Crc64Nvme: "CRC64NVME"}
    if algorithm not in names:
        raise InvalidInputError(
            f"the checksum {algorithm.name} cannot be sent; use Sha256 or Crc64Nvme",
            kind=ErrorKind.STORAGE_CONFIG,
        )
    return names[algorithm]


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsAddress:
    """A prefix of a bucket on Google Cloud Storage."""

    bucket: str
    prefix: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: AnyGcsCredential = field(default_factory=GcsCredentials.FromEnv)
    headers: RequestHeaders = field(default_factory=RequestHeaders)
    encodes_keys: bool = True

    @property
    def url(self) -> str:
        """The place, for messages."""
        return f"gs://{self.bucket}/{self.prefix}"

    def client(self, obstore: Any, purpose: Purpose, retry: RetryPolicy) -> Any:
        """Make an obstore client."""
        config, client = split_options(self.options)
        return obstore.store.GCSStore(
            self.bucket,
            prefix=self.prefix or None,
            config={**config, **self._credential_config()},
            client_options=client_options(purpose, self.headers, client),
            retry_config=retry.client_options(retry=purpose is not Purpose.WRITE_ONCE),
            credential_provider=self._provider(),
        )

    def _credential_config(self) -> dict[str, Any]:
        match self.credentials:
            case GcsCredentials.Anonymous():
                return {"skip_signature": True}
            case GcsCredentials.Static(GcsStaticCredentials.ServiceAccount(path)):
                return {"service_account": path}
            case GcsCredentials.Static(GcsStaticCredentials.ServiceAccountKey(key)):
                return {"service_account_key": key}
            case GcsCredentials.Static(GcsStaticCredentials.ApplicationCredentials(path)):
                return {"application_credentials": path}
            case _:
                return {}

    def _provider(self) -> Callable[[], dict[str, object]] | None:
        credentials = self.credentials
        match credentials:
            case GcsCredentials.Static(GcsStaticCredentials.BearerToken(token)):
                return lambda: {"token": token, "expires_at": None}
            case GcsCredentials.Refreshable():
                return lambda: _gcs_token(credentials)
            case _:
                return None


def _gcs_token(credentials: GcsCredentials.Refreshable) -> dict[str, object]:
    token = credentials.fresh()
    return {
        "token": token.bearer,
        "expires_at": token.expires_after and aware(token.expires_after),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureAddress:
    """A prefix of a container on Azure Blob Storage."""

    account: str
    container: str
    prefix: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: AnyAzureCredential = field(default_factory=AzureCredentials.FromEnv)
    headers: RequestHeaders = field(default_factory=RequestHeaders)
    encodes_keys: bool = True

    @property
    def url(self) -> str:
        """The place, for messages."""
        return f"az://{self.account}/{self.container}/{self.prefix}"

    def client(self, obstore: Any, purpose: Purpose, retry: RetryPolicy) -> Any:
        """Make an obstore client."""
        config, client = split_options(self.options)
        if isinstance(self.credentials, AzureCredentials.Anonymous):
            config["skip_signature"] = True
        return obstore.store.AzureStore(
            self.container,
            prefix=self.prefix or None,
            config={**config, "account_name": self.account},
            client_options=client_options(purpose, self.headers, client),
            retry_config=retry.client_options(retry=purpose is not Purpose.WRITE_ONCE),
            credential_provider=self._provider(),
        )

    def _provider(self) -> Callable[[], dict[str, object]] | None:
        credentials = self.credentials
        match credentials:
            case AzureCredentials.Static():
                return lambda: _azure_secret(credentials.credentials)
            case AzureCredentials.Refreshable():
                return lambda: _azure_secret(credentials.fresh())
            case _:
                return None


def _azure_secret(secret: object) -> dict[str, object]:
    expires_after = getattr(secret, "expires_after", None)
    ends = {"expires_at": expires_after and aware(expires_after)}
    match secret:
        case AzureStaticCredentials.AccessKey(key) | AzureRefreshableCredential.AccessKey(key):
            return {"access_key": key, **ends}
        case AzureStaticCredentials.SasToken(token) | AzureRefreshableCredential.SasToken(token):
            return {"sas_token": token.removeprefix("?"), **ends}
        case AzureStaticCredentials.BearerToken(token):
            return {"token": token, **ends}
        case AzureRefreshableCredential.BearerToken(bearer):
            return {"token": bearer, **ends}
        case _:
            raise InvalidInputError(
                f"{type(secret).__name__} is no credential for Azure",
                kind=ErrorKind.INVALID_CREDENTIALS,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAddress:
    """A directory of a web server."""

    base_url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: AnyHttpCredential | None = None
    headers: RequestHeaders = field(default_factory=RequestHeaders)
    encodes_keys: bool = True

    @property
    def url(self) -> str:
        """The place, for messages."""
        return self.base_url

    def request_headers(self) -> dict[str, str]:
        """Return what is sent now: the fixed headers, and over them those of the credentials."""
        presented = {} if self.credentials is None else dict(self.credentials.fresh().headers)
        taken = {name.lower() for name in presented}
        fixed = {
            name: text for name, text in self.headers.read.items() if name.lower() not in taken
        }
        return {**fixed, **presented}

    def client(self, obstore: Any, purpose: Purpose, retry: RetryPolicy) -> Any:
        """Make an obstore client."""
        _, client = split_options(self.options)
        plain = self.base_url.startswith("http://")
        headers = RequestHeaders(self.request_headers())
        return obstore.store.HTTPStore(
            self.base_url,
            client_options=client_options(purpose, headers, {"allow_http": plain, **client}),
            retry_config=retry.client_options(retry=True),
        )


_ALLOW_HTTP = "AWS_ALLOW_HTTP"
"""As object_store calls it; the options that a client is given here hide it there."""
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "randomize_addresses",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)


def split_options(options: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part the options of a platform from those of the HTTP client; icechunk mixes them."""
    platform = {name: value for name, value in options.items() if name not in _CLIENT_OPTIONS}
    client = {name: value for name, value in options.items() if name in _CLIENT_OPTIONS}
    return platform, client


def _is_plain_by_environment(options: S3Options) -> bool:
    """Tell whether the environment names the endpoint, and allows it to be without encryption."""
    allowed = os.environ.get(_ALLOW_HTTP, "").lower() in {"true", "1"}
    return options.endpoint_url is None and allowed


def client_options(
    purpose: Purpose,
    headers: RequestHeaders,
    given: Mapping[str, Any],
    stream_timeout_s: int | None = None,
) -> dict[str, Any]:
    """Return the options of an HTTP client.

    A read may last as long as bytes arrive. The client cannot see whether an upload makes
    progress, so a write gets a total time instead, in which a slow line moves 100 MiB.
    """
    idle_s = _DEFAULT_STREAM_TIMEOUT_S if stream_timeout_s is None else stream_timeout_s
    options: dict[str, Any] = {"timeout": _NO_TIMEOUT}
    if idle_s and purpose is Purpose.READ:
        options["read_timeout"] = f"{idle_s}s"
    elif idle_s:
        options["timeout"] = f"{5 * idle_s}s"
    if extra := headers.of(purpose):
        options["default_headers"] = extra
    return {**options, **given}
