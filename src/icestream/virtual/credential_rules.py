"""Which credentials fit which store, and whether they are secrets. Pure."""

from collections.abc import Mapping

from icestream.credentials import (
    AnyCredential,
    AzureCredentials,
    Credentials,
    GcsCredentials,
    S3Credentials,
)
from icestream.model.object_stores import AnyObjectStoreConfig
from icestream.model.platforms import Platform, platform_of, s3_options

_KINDS: Mapping[Platform | None, tuple[type[AnyCredential], ...]] = {
    Platform.S3: (Credentials.S3,),
    Platform.S3_COMPATIBLE: (Credentials.S3,),
    Platform.TIGRIS: (Credentials.S3,),
    Platform.GCS: (Credentials.Gcs,),
    Platform.AZURE: (Credentials.Azure,),
    Platform.HTTP: (Credentials.Http, Credentials.HttpAccess),
    Platform.LOCAL_FILE_SYSTEM: (Credentials.LocalFileSystemAccess,),
}
_OPEN = frozenset({Platform.HTTP, Platform.LOCAL_FILE_SYSTEM, None})
"""Where nothing is presented unless the reader gives something."""
_ANONYMOUS = (S3Credentials.Anonymous, GcsCredentials.Anonymous, AzureCredentials.Anonymous)
_TRUE = frozenset({"1", "on", "true", "y", "yes"})


def credential_kinds(store: AnyObjectStoreConfig) -> tuple[type[AnyCredential], ...]:
    """Return the kinds of credentials that fit a store."""
    return _KINDS.get(platform_of(store), ())


def needs_credentials(store: AnyObjectStoreConfig) -> bool:
    """Tell whether requests to a store are signed if nothing else is said."""
    return platform_of(store) not in _OPEN and not _is_anonymous(store)


def presents_secrets(store: AnyObjectStoreConfig, credentials: AnyCredential | None) -> bool:
    """Tell whether a request carries anything that is not for everybody to see."""
    if credentials is None:
        return needs_credentials(store)
    kept = getattr(credentials, "credentials", None)
    return kept is not None and not isinstance(kept, _ANONYMOUS)


def _is_anonymous(store: AnyObjectStoreConfig) -> bool:
    options = s3_options(store)
    if options is not None:
        return options.anonymous
    opts: Mapping[str, str] = getattr(store, "opts", None) or {}
    return any(
        name.lower().endswith("skip_signature") and value.lower() in _TRUE
        for name, value in opts.items()
    )
