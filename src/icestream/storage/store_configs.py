"""The functions that make store configurations; names and parameters are icechunk's."""

from icestream.model.object_stores import ChecksumAlgorithm, ObjectStoreConfig, S3Options
from icestream.storage.arguments import Headers


def local_filesystem_store(path: str) -> ObjectStoreConfig.LocalFileSystem:
    """Return the configuration of a store of local files."""
    return ObjectStoreConfig.LocalFileSystem(path)


def s3_store(  # noqa: PLR0913, PLR0917 - icechunk's signature
    region: str | None = None,
    endpoint_url: str | None = None,
    allow_http: bool = False,  # noqa: FBT001, FBT002
    anonymous: bool = False,  # noqa: FBT001, FBT002
    s3_compatible: bool = False,  # noqa: FBT001, FBT002
    force_path_style: bool = False,  # noqa: FBT001, FBT002
    network_stream_timeout_seconds: int = 60,
    requester_pays: bool = False,  # noqa: FBT001, FBT002
    checksum_algorithm: ChecksumAlgorithm | None = None,
) -> ObjectStoreConfig.S3Compatible | ObjectStoreConfig.S3:
    """Return the configuration of S3 or of a store with its interface."""
    options = S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        anonymous=anonymous,
        force_path_style=force_path_style,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        requester_pays=requester_pays,
        checksum_algorithm=checksum_algorithm,
    )
    if s3_compatible:
        return ObjectStoreConfig.S3Compatible(options)
    return ObjectStoreConfig.S3(options)


def gcs_store(opts: dict[str, str] | None = None) -> ObjectStoreConfig.Gcs:
    """Return the configuration of Google Cloud Storage."""
    return ObjectStoreConfig.Gcs(opts)


def azure_store(*, account: str, config: dict[str, str] | None = None) -> ObjectStoreConfig.Azure:
    """Return the configuration of Azure Blob Storage."""
    return ObjectStoreConfig.Azure({"account": account, **(config or {})})


def http_store(
    opts: dict[str, str] | None = None, headers: Headers = None
) -> ObjectStoreConfig.Http:
    """Return the configuration of a web server."""
    return ObjectStoreConfig.Http(opts, headers)
