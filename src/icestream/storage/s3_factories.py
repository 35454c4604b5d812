"""Storages on S3 and on stores with its interface; names and parameters are icechunk's."""

from collections.abc import Callable
from datetime import datetime

from icestream.credentials import S3StaticCredentials, s3_credentials
from icestream.model.object_stores import ChecksumAlgorithm, S3Options
from icestream.storage.addresses import S3Address
from icestream.storage.arguments import (
    Headers,
    bad_argument,
    checked_name,
    checked_prefix,
    merged_headers,
)
from icestream.storage.object_store import ObjectStorage
from icestream.storage.protocol import Storage

# ruff: noqa: PLR0913 - the signatures are icechunk's, so that its scripts run here

_TIGRIS_HOST = "t3.storage.dev"


def s3_storage(
    *,
    bucket: str,
    prefix: str | None,
    region: str | None = None,
    endpoint_url: str | None = None,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
    force_path_style: bool = False,
    network_stream_timeout_seconds: int = 60,
    requester_pays: bool = False,
    checksum_algorithm: ChecksumAlgorithm | None = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: Headers = None,
    write_headers: Headers = None,
    headers: Headers = None,
) -> Storage:
    """Return a storage in a bucket of S3 or of a store with its interface.

    Without credentials those of the environment are used. Buckets are always addressed in the
    path, which every store understands; `force_path_style` is accepted and changes nothing.
    """
    _no_rooted_keys(legacy_rooted_keys)
    return ObjectStorage(
        S3Address(
            bucket=checked_name("bucket", bucket),
            prefix=checked_prefix(prefix),
            options=S3Options(
                region=region,
                endpoint_url=endpoint_url,
                allow_http=allow_http,
                anonymous=anonymous or False,
                force_path_style=force_path_style,
                network_stream_timeout_seconds=network_stream_timeout_seconds,
                requester_pays=requester_pays,
                checksum_algorithm=checksum_algorithm,
            ),
            credentials=s3_credentials(
                access_key_id=access_key_id,
                secret_access_key=secret_access_key,
                session_token=session_token,
                expires_after=expires_after,
                anonymous=anonymous,
                from_env=from_env,
                get_credentials=get_credentials,
                scatter_initial_credentials=scatter_initial_credentials,
            ),
            headers=merged_headers(headers, read_headers, write_headers),
        )
    )


def s3_object_store_storage(
    *,
    bucket: str,
    prefix: str | None,
    region: str | None = None,
    endpoint_url: str | None = None,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    force_path_style: bool = False,
    read_headers: Headers = None,
    write_headers: Headers = None,
    headers: Headers = None,
) -> Storage:
    """Return a storage on S3 that names odd keys as icechunk's function of this name does."""
    return ObjectStorage(
        S3Address(
            bucket=checked_name("bucket", bucket),
            prefix=checked_prefix(prefix),
            options=S3Options(
                region=region,
                endpoint_url=endpoint_url,
                allow_http=allow_http,
                anonymous=anonymous or False,
                force_path_style=force_path_style,
            ),
            credentials=s3_credentials(
                access_key_id=access_key_id,
                secret_access_key=secret_access_key,
                session_token=session_token,
                expires_after=expires_after,
                anonymous=anonymous,
                from_env=from_env,
            ),
            headers=merged_headers(headers, read_headers, write_headers),
            encodes_keys=True,
        )
    )


def tigris_storage(
    *,
    bucket: str,
    prefix: str | None,
    region: str | None = None,
    endpoint_url: str | None = None,
    use_weak_consistency: bool = False,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    checksum_algorithm: ChecksumAlgorithm | None = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: Headers = None,
    write_headers: Headers = None,
    headers: Headers = None,
) -> Storage:
    """Return a storage on Tigris; one with weak consistency only reads, from the nearest copy."""
    if region is None and not use_weak_consistency:
        raise bad_argument(
            "region",
            "tigris needs the region of the bucket to be consistent; or read only, with "
            "use_weak_consistency=True",
        )
    _no_rooted_keys(legacy_rooted_keys)
    consistency = consistency_headers(None if use_weak_consistency else region)
    address = S3Address(
        bucket=checked_name("bucket", bucket),
        prefix=checked_prefix(prefix),
        options=S3Options(
            region=region,
            endpoint_url=endpoint_url or tigris_endpoint(bucket),
            allow_http=allow_http,
            anonymous=anonymous or False,
            network_stream_timeout_seconds=network_stream_timeout_seconds,
            checksum_algorithm=checksum_algorithm,
        ),
        credentials=s3_credentials(
            access_key_id=access_key_id,
            secret_access_key=secret_access_key,
            session_token=session_token,
            expires_after=expires_after,
            anonymous=anonymous,
            from_env=from_env,
            get_credentials=get_credentials,
            scatter_initial_credentials=scatter_initial_credentials,
        ),
        headers=merged_headers(
            {**consistency, **(headers or {})},
            read_headers,
            write_headers,
        ),
        virtual_hosted=endpoint_url is None,
    )
    return ObjectStorage(address, read_only=use_weak_consistency)


def tigris_endpoint(bucket: str) -> str:
    """Return where Tigris has a bucket: at a host of its own."""
    return f"https://{bucket}.{_TIGRIS_HOST}"


def consistency_headers(region: str | None) -> dict[str, str]:
    """Return what asks Tigris for the copy in this region, and not for the nearest."""
    if region is None:
        return {}
    return {"X-Tigris-Consistent": "true", "X-Tigris-Regions": region}


def r2_storage(
    *,
    bucket: str | None = None,
    prefix: str | None = None,
    account_id: str | None = None,
    endpoint_url: str | None = None,
    region: str | None = None,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    checksum_algorithm: ChecksumAlgorithm | None = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: Headers = None,
    write_headers: Headers = None,
    headers: Headers = None,
) -> Storage:
    """Return a storage on Cloudflare R2; without `bucket`, the prefix begins with its name."""
    if bucket is None:
        bucket, _, prefix = checked_prefix(prefix).partition("/")
    if endpoint_url is None and account_id is None:
        raise bad_argument("account_id", "r2 needs it, or endpoint_url")
    return s3_storage(
        bucket=bucket,
        prefix=prefix,
        region=region or "auto",
        endpoint_url=endpoint_url or f"https://{account_id}.r2.cloudflarestorage.com",
        allow_http=allow_http,
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
        force_path_style=True,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        checksum_algorithm=checksum_algorithm,
        legacy_rooted_keys=legacy_rooted_keys,
        read_headers=read_headers,
        write_headers=write_headers,
        headers=headers,
    )


def hf_storage(
    *,
    bucket: str,
    prefix: str | None,
    namespace: str,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    legacy_rooted_keys: bool | None = None,
    read_headers: Headers = None,
    write_headers: Headers = None,
    headers: Headers = None,
) -> Storage:
    """Return a storage in a bucket of the Hugging Face hub, owned by `namespace`."""
    return s3_storage(
        bucket=bucket,
        prefix=prefix,
        region="us-east-1",
        endpoint_url=f"https://s3.hf.co/{checked_name('namespace', namespace)}",
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
        force_path_style=True,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        legacy_rooted_keys=legacy_rooted_keys,
        read_headers=read_headers,
        write_headers=write_headers,
        headers=headers,
    )


def _no_rooted_keys(legacy_rooted_keys: bool | None) -> None:  # noqa: FBT001 - icechunk's flag
    if legacy_rooted_keys:
        raise bad_argument(
            "legacy_rooted_keys",
            "keys that begin with a slash cannot be reached; copy the repository below a prefix",
        )
