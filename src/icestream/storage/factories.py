"""The functions that make storages; names and parameters are icechunk's.

Those for S3 and its relatives are in `s3_factories`.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from icestream.credentials import GcsBearerCredential, azure_credentials, gcs_credentials
from icestream.errors import ErrorKind, StorageError
from icestream.storage.addresses import AzureAddress, GcsAddress, HttpAddress
from icestream.storage.arguments import (
    Headers,
    bad_argument,
    checked_name,
    checked_prefix,
    merged_headers,
)
from icestream.storage.http import HttpStorage, RedirectStorage
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.storage.object_store import ObjectStorage
from icestream.storage.protocol import Storage
from icestream.storage.s3_factories import r2_storage, s3_storage, tigris_storage

# ruff: noqa: PLR0913 - the signatures are icechunk's, so that its scripts run here


def in_memory_storage() -> Storage:
    """Return a storage in the memory of this process; every call makes a new, empty one."""
    return InMemoryStorage()


def local_filesystem_storage(path: str) -> Storage:
    """Return a storage in a directory; it is made when the first object is written."""
    return LocalStorage(path)


def http_storage(
    base_url: str, opts: dict[str, str] | None = None, headers: Headers = None
) -> Storage:
    """Return a read-only storage below a URL.

    `headers` are sent with every request, for example an authorization.
    """
    if urlsplit(base_url).scheme not in {"http", "https"}:
        raise bad_argument("base_url", f"{base_url!r} is no http:// or https:// URL")
    return HttpStorage(
        HttpAddress(base_url=base_url, options=opts or {}, headers=merged_headers(headers))
    )


def redirect_storage(base_url: str) -> Storage:
    """Return a read-only storage at the place that the URL redirects to.

    The redirect names a public place: `s3://bucket/prefix?region=r`, `gs://bucket/prefix`,
    `r2://bucket/prefix?account_id=a`, `tigris://bucket/prefix?region=r` or
    `https+icechunk://host/path`. It is asked for at the first use.
    """
    return RedirectStorage(base_url, _open_public)


def gcs_storage(
    *,
    bucket: str,
    prefix: str | None,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    config: dict[str, str] | None = None,
    get_credentials: Callable[[], GcsBearerCredential] | None = None,
    scatter_initial_credentials: bool = False,
    read_headers: Headers = None,
    write_headers: Headers = None,
    headers: Headers = None,
) -> Storage:
    """Return a storage in a bucket of Google Cloud Storage."""
    return ObjectStorage(
        GcsAddress(
            bucket=checked_name("bucket", bucket),
            prefix=checked_prefix(prefix),
            options=config or {},
            credentials=gcs_credentials(
                service_account_file=service_account_file,
                service_account_key=service_account_key,
                application_credentials=application_credentials,
                bearer_token=bearer_token,
                from_env=from_env,
                anonymous=anonymous,
                get_credentials=get_credentials,
                scatter_initial_credentials=scatter_initial_credentials,
            ),
            headers=merged_headers(headers, read_headers, write_headers),
        )
    )


def azure_storage(
    *,
    account: str,
    container: str,
    prefix: str,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    config: dict[str, str] | None = None,
) -> Storage:
    """Return a storage in a container of Azure Blob Storage."""
    return ObjectStorage(
        AzureAddress(
            account=checked_name("account", account),
            container=checked_name("container", container),
            prefix=checked_prefix(prefix),
            options=config or {},
            credentials=azure_credentials(
                access_key=access_key,
                sas_token=sas_token,
                bearer_token=bearer_token,
                from_env=from_env,
                anonymous=anonymous,
            ),
        )
    )


def _open_public(place: SplitResult) -> Storage:
    """Open what a redirect names; nobody's credentials are presented to a place found that way."""
    query = {name: values[-1] for name, values in parse_qs(place.query).items()}
    where: dict[str, Any] = {"bucket": place.netloc, "prefix": place.path.strip("/")}
    storage: Storage
    match place.scheme:
        case "s3":
            storage = s3_storage(**where, region=_needed(query, "region"), anonymous=True)
        case "gs" | "gcs":
            storage = gcs_storage(**where, anonymous=True)
        case "r2":
            account_id = _needed(query, "account_id")
            storage = r2_storage(
                **where, account_id=account_id, region=query.get("region"), anonymous=True
            )
        case "tigris":
            storage = tigris_storage(
                **where,
                region=query.get("region"),
                use_weak_consistency="region" not in query,
                anonymous=True,
            )
        case "http+icechunk" | "http+ic" | "https+icechunk" | "https+ic":
            scheme = place.scheme.partition("+")[0]
            return http_storage(place._replace(scheme=scheme).geturl())
        case other:
            raise StorageError(
                f"a redirect to {other}:// is not followed; s3, gs, r2, tigris, http+icechunk and "
                "https+icechunk are",
                kind=ErrorKind.BAD_REDIRECT,
            )
    return storage


def _needed(query: Mapping[str, str], name: str) -> str:
    if name not in query:
        raise StorageError(
            f"the redirect names no {name}: it must end in ?{name}=...", kind=ErrorKind.BAD_REDIRECT
        )
    return query[name]
