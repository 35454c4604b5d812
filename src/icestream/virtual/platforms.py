"""The platforms that containers are on, and what may be presented to them. Pure."""

from collections.abc import Mapping
from enum import StrEnum

from icestream.credentials import (
    AnyCredential,
    AzureCredentials,
    Credentials,
    GcsCredentials,
    S3Credentials,
)
from icestream.model.containers import s3_options
from icestream.model.object_stores import AnyObjectStoreConfig, ObjectStoreConfig


class Platform(StrEnum):
    """What kind of store a container is on."""

    S3 = "S3"
    S3_COMPATIBLE = "a store with the S3 interface"
    TIGRIS = "Tigris"
    GCS = "Google Cloud Storage"
    AZURE = "Azure Blob Storage"
    HTTP = "a web server"
    LOCAL = "the local file system"
    MEMORY = "memory"


_PLATFORMS: Mapping[type[AnyObjectStoreConfig], Platform] = {
    ObjectStoreConfig.InMemory: Platform.MEMORY,
    ObjectStoreConfig.LocalFileSystem: Platform.LOCAL,
    ObjectStoreConfig.S3: Platform.S3,
    ObjectStoreConfig.S3Compatible: Platform.S3_COMPATIBLE,
    ObjectStoreConfig.Tigris: Platform.TIGRIS,
    ObjectStoreConfig.Gcs: Platform.GCS,
    ObjectStoreConfig.Azure: Platform.AZURE,
    ObjectStoreConfig.Http: Platform.HTTP,
}
_SECRETS: Mapping[Platform, type[AnyCredential]] = {
    Platform.S3: Credentials.S3,
    Platform.S3_COMPATIBLE: Credentials.S3,
    Platform.TIGRIS: Credentials.S3,
    Platform.GCS: Credentials.Gcs,
    Platform.AZURE: Credentials.Azure,
}
_CONSENTS: Mapping[Platform, type[AnyCredential]] = {
    Platform.HTTP: Credentials.HttpAccess,
    Platform.LOCAL: Credentials.LocalFileSystemAccess,
}
_ANONYMOUS = (S3Credentials.Anonymous, GcsCredentials.Anonymous, AzureCredentials.Anonymous)


def platform_of(store: AnyObjectStoreConfig) -> Platform:
    """Return the platform of a store."""
    return _PLATFORMS[type(store)]


def credential_kinds(store: AnyObjectStoreConfig) -> tuple[type[AnyCredential], ...]:
    """Return the kinds of credentials that fit a store."""
    platform = platform_of(store)
    fitting = _SECRETS.get(platform) or _CONSENTS.get(platform)
    return () if fitting is None else (fitting,)


def needs_credentials(store: AnyObjectStoreConfig) -> bool:
    """Tell whether requests to a store are signed, unless it is anonymous."""
    options = s3_options(store)
    is_anonymous = options is not None and options.anonymous
    return platform_of(store) in _SECRETS and not is_anonymous


def presents_secrets(store: AnyObjectStoreConfig, credentials: AnyCredential | None) -> bool:
    """Tell whether a request carries anything that is not for everybody to see."""
    if credentials is None:
        return needs_credentials(store)
    kept = getattr(credentials, "credentials", None)
    return kept is not None and not isinstance(kept, _ANONYMOUS)
