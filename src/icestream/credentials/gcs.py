"""Credentials for Google Cloud Storage."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from icestream.credentials.arguments import at_most_one_way, bad_arguments, not_refused
from icestream.credentials.refreshable import Refreshable


@dataclass(frozen=True, slots=True)
class GcsBearerCredential:
    """A bearer token for Google Cloud Storage."""

    bearer: str = field(repr=False)
    expires_after: datetime | None = field(default=None, kw_only=True)


class GcsStaticCredentials:
    """Fixed credentials for Google Cloud Storage."""

    @dataclass(frozen=True, slots=True)
    class ServiceAccount:
        """A service account, by the path of its JSON file."""

        path: str

    @dataclass(frozen=True, slots=True)
    class ServiceAccountKey:
        """A service account, by the text of its JSON file."""

        key: str = field(repr=False)

    @dataclass(frozen=True, slots=True)
    class ApplicationCredentials:
        """Application default credentials, by the path of their JSON file."""

        path: str

    @dataclass(frozen=True, slots=True)
    class BearerToken:
        """A bearer token that does not end."""

        token: str = field(repr=False)


AnyGcsStaticCredential = (
    GcsStaticCredentials.ServiceAccount
    | GcsStaticCredentials.ServiceAccountKey
    | GcsStaticCredentials.ApplicationCredentials
    | GcsStaticCredentials.BearerToken
)


class GcsCredentials:
    """Ways to authenticate to Google Cloud Storage."""

    @dataclass(frozen=True, slots=True)
    class FromEnv:
        """Take what the environment offers."""

    @dataclass(frozen=True, slots=True)
    class Anonymous:
        """Do not authenticate: public buckets."""

    @dataclass(frozen=True, slots=True)
    class Static:
        """Authenticate with these."""

        credentials: AnyGcsStaticCredential

    class Refreshable(Refreshable[GcsBearerCredential]):
        """Authenticate with tokens that a function supplies."""


AnyGcsCredential = (
    GcsCredentials.Anonymous
    | GcsCredentials.FromEnv
    | GcsCredentials.Static
    | GcsCredentials.Refreshable
)


def gcs_static_credentials(
    *,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
) -> AnyGcsStaticCredential:
    """Return fixed credentials for Google Cloud Storage; exactly one argument is needed."""
    at_most_one_way(
        "gcs_static_credentials",
        service_account_file=service_account_file,
        service_account_key=service_account_key,
        application_credentials=application_credentials,
        bearer_token=bearer_token,
    )
    if service_account_file is not None:
        return GcsStaticCredentials.ServiceAccount(service_account_file)
    if service_account_key is not None:
        return GcsStaticCredentials.ServiceAccountKey(service_account_key)
    if application_credentials is not None:
        return GcsStaticCredentials.ApplicationCredentials(application_credentials)
    if bearer_token is not None:
        return GcsStaticCredentials.BearerToken(bearer_token)
    raise bad_arguments("gcs_static_credentials needs one of its arguments")


def gcs_refreshable_credentials(
    get_credentials: Callable[[], GcsBearerCredential],
    scatter_initial_credentials: bool = False,  # noqa: FBT001, FBT002 - icechunk's signature
) -> GcsCredentials.Refreshable:
    """Return credentials that the function supplies; it must be picklable."""
    return GcsCredentials.Refreshable.from_function(
        get_credentials, scatter_initial=scatter_initial_credentials
    )


def gcs_anonymous_credentials() -> GcsCredentials.Anonymous:
    """Return credentials that present nothing."""
    return GcsCredentials.Anonymous()


def gcs_from_env_credentials() -> GcsCredentials.FromEnv:
    """Return credentials that the environment supplies."""
    return GcsCredentials.FromEnv()


def gcs_credentials(  # noqa: PLR0913 - icechunk's signature
    *,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    get_credentials: Callable[[], GcsBearerCredential] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyGcsCredential:
    """Return credentials for Google Cloud Storage; without any argument, the environment's."""
    static = {
        "service_account_file": service_account_file,
        "service_account_key": service_account_key,
        "application_credentials": application_credentials,
        "bearer_token": bearer_token,
    }
    at_most_one_way(
        "gcs_credentials",
        **static,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
    )
    if any(part is not None for part in static.values()):
        return GcsCredentials.Static(gcs_static_credentials(**static))
    if get_credentials is not None:
        return gcs_refreshable_credentials(get_credentials, scatter_initial_credentials)
    if anonymous:
        return gcs_anonymous_credentials()
    not_refused("gcs_credentials", from_env=from_env)
    return gcs_from_env_credentials()
