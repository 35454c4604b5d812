"""Whose machines a storage is on: what decides which defaults and credentials may be shared."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from icestream.credentials import (
    AnyAzureCredential,
    AnyGcsCredential,
    AnyHttpCredential,
    AnyS3Credential,
    HttpCredentials,
    HttpHeaders,
)
from icestream.errors import InternalError
from icestream.model.platforms import Platform
from icestream.storage.addresses import Address, AzureAddress, GcsAddress, HttpAddress, S3Address
from icestream.storage.local import LocalStorage
from icestream.storage.object_store import ObjectStorage
from icestream.storage.protocol import Storage

PresentedCredential = AnyS3Credential | AnyGcsCredential | AnyAzureCredential | AnyHttpCredential

_AWS_HOST = re.compile(r"(?:.*\.)?s3[.-](?:[a-z0-9-]+\.)*amazonaws\.com(?:\.cn)?")
_TIGRIS_HOST = re.compile(
    r"(?:.*\.)?(?:t3\.storage\.dev|fly\.storage\.tigris\.dev|t3\.tigrisfiles\.io)"
)
_VENDOR = re.compile(r"^(?:google|azure_storage|azure)_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A service of a platform. Two that are equal are run by the same people.

    Credentials for one may be presented at the other; region and credentials are not compared.
    """

    platform: Platform | None
    """None is the memory of a process."""
    endpoint_url: str | None = None
    """Without a slash at its end; None where the platform has one of its own."""
    account: str | None = None
    """Of Azure, where each account has hosts of its own."""
    region: str | None = field(default=None, compare=False)
    credentials: PresentedCredential | None = field(default=None, compare=False, repr=False)


def place_of(storage: Storage) -> Place:
    """Return where a storage is; behind a redirect, where that leads."""
    backend = storage.backend
    if isinstance(backend, ObjectStorage):
        return _place_of_address(backend.address)
    is_local = isinstance(backend, LocalStorage)
    return Place(platform=Platform.LOCAL_FILE_SYSTEM if is_local else None)


def _place_of_address(address: Address) -> Place:
    match address:
        case S3Address():
            return place_of_s3(address)
        case GcsAddress():
            return place_of_gcs(address)
        case AzureAddress():
            return place_of_azure(address)
        case HttpAddress():
            return place_of_http(address)
        case _:
            raise InternalError(f"{type(address).__name__} is on no known platform")


def platform_of(storage: Storage) -> Platform | None:
    """Return the platform that a storage is on; None is the memory of a process."""
    return place_of(storage).platform


def place_of_s3(address: S3Address) -> Place:
    """Return where a bucket is, judged by its endpoint."""
    endpoint_url = address.options.endpoint_url
    platform = s3_platform(endpoint_url)
    return Place(
        platform=platform,
        endpoint_url=_shared(endpoint_url) if platform is Platform.S3_COMPATIBLE else None,
        region=address.options.region,
        credentials=address.credentials,
    )


def s3_platform(endpoint_url: str | None) -> Platform:
    """Return which of the platforms with the interface of S3 is at an endpoint."""
    if endpoint_url is None:
        return Platform.S3
    host = (urlsplit(endpoint_url).hostname or "").lower()
    if _AWS_HOST.fullmatch(host):
        return Platform.S3
    return Platform.TIGRIS if _TIGRIS_HOST.fullmatch(host) else Platform.S3_COMPATIBLE


def place_of_gcs(address: GcsAddress) -> Place:
    """Return where a bucket of Google Cloud Storage is."""
    return Place(
        platform=Platform.GCS,
        endpoint_url=_shared(plain_options(address.options).get("base_url")),
        credentials=address.credentials,
    )


def place_of_azure(address: AzureAddress) -> Place:
    """Return where a container of Azure Blob Storage is."""
    return Place(
        platform=Platform.AZURE,
        endpoint_url=_shared(plain_options(address.options).get("endpoint")),
        account=address.account,
        credentials=address.credentials,
    )


def place_of_http(address: HttpAddress) -> Place:
    """Return where a web server is; fixed headers may be what lets a reader in."""
    parts = urlsplit(address.base_url)
    credentials = address.credentials
    if credentials is None and address.headers.read:
        credentials = HttpCredentials.Static(HttpHeaders(address.headers.read))
    return Place(
        platform=Platform.HTTP,
        endpoint_url=f"{parts.scheme}://{parts.netloc}".lower(),
        credentials=credentials,
    )


def plain_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a client under their short names; each has several."""
    return {plain_name(name): value for name, value in options.items()}


def plain_name(option: str) -> str:
    """Return the short name of an option of a client."""
    return _VENDOR.sub("", option.lower())


def _shared(endpoint_url: str | None) -> str | None:
    if not endpoint_url:
        return None
    parts = urlsplit(endpoint_url)
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}"
