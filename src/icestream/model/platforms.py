"""Platforms of object stores: their names, schemes, and what is in force where nothing is said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypedDict, Unpack

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.object_stores import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
)


class Platform(StrEnum):
    """Who runs an object store, and thus how to talk to it."""

    S3 = "s3"
    GCS = "gcs"
    AZURE = "azure"
    TIGRIS = "tigris"
    MINIO = "minio"
    S3_COMPATIBLE = "s3_compatible"
    HTTP = "http"
    LOCAL_FILE_SYSTEM = "local_file_system"


class StoreOptions(TypedDict, total=False):
    """How to reach a store, whatever its platform."""

    region: str | None
    endpoint_url: str | None
    """The scheme may be left out: it is https, or http where `allow_http` is given."""
    anonymous: bool
    allow_http: bool
    force_path_style: bool
    """Of the S3 family."""
    requester_pays: bool
    """Of the S3 family."""
    network_stream_timeout_seconds: int | None
    """Of the S3 family."""
    checksum_algorithm: ChecksumAlgorithm | None
    """Of the S3 family."""
    headers: Mapping[str, str]
    """Of web servers."""
    options: Mapping[str, str]
    """Of the client for GCS, Azure and web servers, by its own names."""
    path: str
    """Of the local file system: what locations with a scheme of the user's own are below."""


@dataclass(frozen=True, slots=True)
class PlatformDefaults:
    """What is in force where a container leaves it open; None leaves it to the client."""

    region: str | None = None
    endpoint_url: str | None = None
    allow_http: bool = False
    force_path_style: bool = False


PLATFORM_DEFAULTS: Mapping[Platform, PlatformDefaults] = {
    Platform.S3: PlatformDefaults(region="us-east-1"),
    Platform.S3_COMPATIBLE: PlatformDefaults(region="us-east-1"),
    Platform.MINIO: PlatformDefaults(
        region="us-east-1",
        endpoint_url="http://localhost:9000",
        allow_http=True,
        force_path_style=True,
    ),
    Platform.TIGRIS: PlatformDefaults(region="auto", endpoint_url="https://t3.storage.dev"),
    Platform.GCS: PlatformDefaults(),
    Platform.AZURE: PlatformDefaults(),
    Platform.HTTP: PlatformDefaults(),
    Platform.LOCAL_FILE_SYSTEM: PlatformDefaults(),
}
"""The one table of defaults per platform."""

_PLATFORMS: Mapping[type[AnyObjectStoreConfig], Platform] = {
    ObjectStoreConfig.LocalFileSystem: Platform.LOCAL_FILE_SYSTEM,
    ObjectStoreConfig.S3: Platform.S3,
    ObjectStoreConfig.S3Compatible: Platform.S3_COMPATIBLE,
    ObjectStoreConfig.Tigris: Platform.TIGRIS,
    ObjectStoreConfig.Gcs: Platform.GCS,
    ObjectStoreConfig.Azure: Platform.AZURE,
    ObjectStoreConfig.Http: Platform.HTTP,
}

PLATFORM_OF_SCHEME: Mapping[str, Platform] = {
    "s3": Platform.S3,
    "tigris": Platform.TIGRIS,
    "gcs": Platform.GCS,
    "azure": Platform.AZURE,
    "http": Platform.HTTP,
    "https": Platform.HTTP,
    "file": Platform.LOCAL_FILE_SYSTEM,
}
"""By the first name of the scheme."""


def platform_of(store: AnyObjectStoreConfig) -> Platform | None:
    """Return the platform of a store; None for one in memory."""
    return _PLATFORMS.get(type(store))


def make_store(platform: Platform, **given: Unpack[StoreOptions]) -> AnyObjectStoreConfig:
    """Return the store of a platform with these options.

    Raises:
        InvalidInputError: An option is not one of this platform.
    """
    endpoint_url = given.get("endpoint_url")
    if endpoint_url:
        given["endpoint_url"] = complete_endpoint(
            endpoint_url, allow_http=given.get("allow_http", False)
        )
    match platform:
        case Platform.GCS:
            return ObjectStoreConfig.Gcs(_client_options(platform, given, "base_url") or None)
        case Platform.AZURE:
            return ObjectStoreConfig.Azure(_client_options(platform, given, "endpoint") or None)
        case Platform.HTTP:
            return _http_store(given)
        case Platform.LOCAL_FILE_SYSTEM:
            _refuse_others(platform, given, {"path", "region"})
            return ObjectStoreConfig.LocalFileSystem(given.get("path", "/"))
        case _:
            return _s3_store(platform, given)


def complete_endpoint(endpoint_url: str, *, allow_http: bool) -> str:
    """Return an endpoint with its scheme, which people leave out: `localhost:9000`."""
    if "://" in endpoint_url:
        return endpoint_url
    return f"{'http' if allow_http else 'https'}://{endpoint_url}"


def with_defaults(
    store: AnyObjectStoreConfig, repository_store: AnyObjectStoreConfig | None = None
) -> AnyObjectStoreConfig:
    """Return a store with everything in force: what it says, else the defaults of its platform.

    A region that is not given is that of the repository if it is on the same platform. So is the
    endpoint of a store that only has the interface of S3, which has no default.
    """
    platform = platform_of(store)
    options = s3_options(store)
    if platform is None or options is None:
        return store
    defaults = PLATFORM_DEFAULTS[platform]
    same = repository_store is not None and platform_of(repository_store) is platform
    nearby = s3_options(repository_store) if same and repository_store is not None else None
    endpoint_url = options.endpoint_url or defaults.endpoint_url
    if endpoint_url is None and nearby is not None and platform is Platform.S3_COMPATIBLE:
        endpoint_url = nearby.endpoint_url
    completed = replace(
        options,
        region=options.region or (nearby and nearby.region) or defaults.region,
        endpoint_url=endpoint_url
        and complete_endpoint(endpoint_url, allow_http=options.allow_http),
    )
    return _S3_FAMILY[platform](completed)


_S3_FAMILY: Mapping[Platform, Callable[[S3Options], AnyObjectStoreConfig]] = {
    Platform.S3: ObjectStoreConfig.S3,
    Platform.S3_COMPATIBLE: ObjectStoreConfig.S3Compatible,
    Platform.MINIO: ObjectStoreConfig.S3Compatible,
    Platform.TIGRIS: ObjectStoreConfig.Tigris,
}

_S3_NAMES = frozenset(S3Options.__dataclass_fields__)


def s3_options(store: AnyObjectStoreConfig) -> S3Options | None:
    """Return the S3 options of a store, if it is of that family."""
    match store:
        case ObjectStoreConfig.S3() | ObjectStoreConfig.S3Compatible():
            return store.options
        case ObjectStoreConfig.Tigris():
            return store.opts
        case _:
            return None


def _s3_store(platform: Platform, given: StoreOptions) -> AnyObjectStoreConfig:
    _refuse_others(platform, given, _S3_NAMES)
    options = S3Options(**{name: given[name] for name in _S3_NAMES if name in given})  # type: ignore[literal-required]  # names of both
    if platform is Platform.MINIO:  # which is no platform of the format: what it implies is stored
        defaults = PLATFORM_DEFAULTS[platform]
        options.region = options.region or defaults.region
        options.force_path_style = given.get("force_path_style", defaults.force_path_style)
        if options.endpoint_url is None:
            options.endpoint_url, options.allow_http = defaults.endpoint_url, defaults.allow_http
    return _S3_FAMILY[platform](options)


def _http_store(given: StoreOptions) -> ObjectStoreConfig.Http:
    _refuse_others(
        Platform.HTTP, given, {"region", "anonymous", "allow_http", "headers", "options"}
    )
    options = dict(given.get("options") or {})
    if given.get("allow_http"):
        options["allow_http"] = "true"
    return ObjectStoreConfig.Http(options or None, dict(given.get("headers") or {}) or None)


def _client_options(platform: Platform, given: StoreOptions, endpoint: str) -> dict[str, str]:
    """Return the options of the client that say the same."""
    known = {"region", "endpoint_url", "anonymous", "allow_http", "options"}
    _refuse_others(platform, given, known)
    options = dict(given.get("options") or {})
    endpoint_url = given.get("endpoint_url")
    if endpoint_url is not None:
        options[endpoint] = endpoint_url
    if given.get("anonymous"):
        options["skip_signature"] = "true"
    if given.get("allow_http"):
        options["allow_http"] = "true"
    return options


def _refuse_others(
    platform: Platform, given: StoreOptions, known: "set[str] | frozenset[str]"
) -> None:
    others = sorted(name for name, value in given.items() if value and name not in known)
    if others:
        raise InvalidInputError(
            f"{', '.join(others)} cannot be set for {platform}; it has {', '.join(sorted(known))}",
            kind=ErrorKind.INVALID_CONFIG,
        )
