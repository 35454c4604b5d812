"""What a reader or writer may present to an object store; never shown in a repr or an error.

Names and parameters are those of the icechunk package. Credentials pickle, because they travel to
workers with the storage that uses them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from icestream.credentials.arguments import bad_arguments
from icestream.credentials.azure import (
    AnyAzureCredential,
    AnyAzureRefreshableCredential,
    AnyAzureStaticCredential,
    AzureCredentials,
    AzureRefreshableCredential,
    AzureStaticCredentials,
    azure_anonymous_credentials,
    azure_credentials,
    azure_from_env_credentials,
    azure_refreshable_credentials,
    azure_static_credentials,
)
from icestream.credentials.gcs import (
    AnyGcsCredential,
    AnyGcsStaticCredential,
    GcsBearerCredential,
    GcsCredentials,
    GcsStaticCredentials,
    gcs_anonymous_credentials,
    gcs_credentials,
    gcs_from_env_credentials,
    gcs_refreshable_credentials,
    gcs_static_credentials,
)
from icestream.credentials.http import (
    AnyHttpCredential,
    HttpCredentials,
    HttpHeaders,
    http_bearer_credentials,
    http_bearer_headers,
    http_header_credentials,
    http_refreshable_credentials,
)
from icestream.credentials.s3 import (
    AnyS3Credential,
    S3Credentials,
    S3StaticCredentials,
    s3_anonymous_credentials,
    s3_credentials,
    s3_from_env_credentials,
    s3_refreshable_credentials,
    s3_static_credentials,
)

__all__ = [
    "AnyAzureCredential",
    "AnyAzureRefreshableCredential",
    "AnyAzureStaticCredential",
    "AnyCredential",
    "AnyGcsCredential",
    "AnyGcsStaticCredential",
    "AnyHttpCredential",
    "AnyS3Credential",
    "AzureCredentials",
    "AzureRefreshableCredential",
    "AzureStaticCredentials",
    "Credentials",
    "GcsBearerCredential",
    "GcsCredentials",
    "GcsStaticCredentials",
    "HttpAccess",
    "HttpCredentials",
    "HttpHeaders",
    "LocalFileSystemAccess",
    "S3Credentials",
    "S3StaticCredentials",
    "azure_anonymous_credentials",
    "azure_credentials",
    "azure_from_env_credentials",
    "azure_refreshable_credentials",
    "azure_static_credentials",
    "containers_credentials",
    "gcs_anonymous_credentials",
    "gcs_credentials",
    "gcs_from_env_credentials",
    "gcs_refreshable_credentials",
    "gcs_static_credentials",
    "http_bearer_credentials",
    "http_bearer_headers",
    "http_header_credentials",
    "http_refreshable_credentials",
    "s3_anonymous_credentials",
    "s3_credentials",
    "s3_from_env_credentials",
    "s3_refreshable_credentials",
    "s3_static_credentials",
]


class Credentials:
    """Credentials of any platform, as virtual chunk containers take them."""

    @dataclass(frozen=True, slots=True)
    class S3:
        """For a container on S3 or a store with its interface."""

        credentials: AnyS3Credential

    @dataclass(frozen=True, slots=True)
    class Gcs:
        """For a container on Google Cloud Storage."""

        credentials: AnyGcsCredential

    @dataclass(frozen=True, slots=True)
    class Azure:
        """For a container on Azure Blob Storage."""

        credentials: AnyAzureCredential

    @dataclass(frozen=True, slots=True)
    class Http:
        """For a container on a web server that asks for a token or other headers."""

        credentials: AnyHttpCredential

    @dataclass(frozen=True, slots=True)
    class LocalFileSystemAccess:
        """Consent to read local files; nothing is presented."""

    @dataclass(frozen=True, slots=True)
    class HttpAccess:
        """Consent to read from a web server; nothing is presented."""


AnyCredential = (
    Credentials.S3
    | Credentials.Gcs
    | Credentials.Azure
    | Credentials.Http
    | Credentials.LocalFileSystemAccess
    | Credentials.HttpAccess
)

LocalFileSystemAccess = Credentials.LocalFileSystemAccess()
HttpAccess = Credentials.HttpAccess()


def containers_credentials(
    m: Mapping[
        str,
        AnyS3Credential
        | AnyGcsCredential
        | AnyAzureCredential
        | AnyHttpCredential
        | Credentials.LocalFileSystemAccess
        | Credentials.HttpAccess
        | None,
    ],
) -> dict[str, AnyCredential | None]:
    """Return credentials per prefix of a virtual chunk container, marked with their platform."""
    marked: dict[str, AnyCredential | None] = {}
    for prefix, given in m.items():
        if given is None or isinstance(given, AnyCredential):
            marked[prefix] = given
        elif isinstance(given, AnyS3Credential):
            marked[prefix] = Credentials.S3(given)
        elif isinstance(given, AnyGcsCredential):
            marked[prefix] = Credentials.Gcs(given)
        elif isinstance(given, AnyAzureCredential):
            marked[prefix] = Credentials.Azure(given)
        elif isinstance(given, AnyHttpCredential):
            marked[prefix] = Credentials.Http(given)
        else:
            raise bad_arguments(f"{type(given).__name__} for {prefix!r} is no credential")
    return marked
