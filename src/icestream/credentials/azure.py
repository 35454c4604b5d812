"""Credentials for Azure Blob Storage."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from icestream.credentials.arguments import at_most_one_way, bad_arguments, not_refused
from icestream.credentials.refreshable import Refreshable


class AzureRefreshableCredential:
    """What a function for `AzureCredentials.Refreshable` returns."""

    @dataclass(frozen=True, slots=True)
    class AccessKey:
        """An account key."""

        key: str = field(repr=False)
        expires_after: datetime | None = field(default=None, kw_only=True)

    @dataclass(frozen=True, slots=True)
    class SasToken:
        """A shared access signature."""

        token: str = field(repr=False)
        expires_after: datetime | None = field(default=None, kw_only=True)

    @dataclass(frozen=True, slots=True)
    class BearerToken:
        """A bearer token."""

        bearer: str = field(repr=False)
        expires_after: datetime | None = field(default=None, kw_only=True)


AnyAzureRefreshableCredential = (
    AzureRefreshableCredential.AccessKey
    | AzureRefreshableCredential.SasToken
    | AzureRefreshableCredential.BearerToken
)


class AzureStaticCredentials:
    """Fixed credentials for Azure Blob Storage."""

    @dataclass(frozen=True, slots=True)
    class AccessKey:
        """An account key."""

        key: str = field(repr=False)

    @dataclass(frozen=True, slots=True)
    class SasToken:
        """A shared access signature."""

        token: str = field(repr=False)

    @dataclass(frozen=True, slots=True)
    class BearerToken:
        """A bearer token."""

        token: str = field(repr=False)


AnyAzureStaticCredential = (
    AzureStaticCredentials.AccessKey
    | AzureStaticCredentials.SasToken
    | AzureStaticCredentials.BearerToken
)


class AzureCredentials:
    """Ways to authenticate to Azure Blob Storage."""

    @dataclass(frozen=True, slots=True)
    class FromEnv:
        """Take what the environment offers."""

    @dataclass(frozen=True, slots=True)
    class Anonymous:
        """Do not authenticate: public containers."""

    @dataclass(frozen=True, slots=True)
    class Static:
        """Authenticate with these."""

        credentials: AnyAzureStaticCredential

    class Refreshable(Refreshable[AnyAzureRefreshableCredential]):
        """Authenticate with what a function supplies."""


AnyAzureCredential = (
    AzureCredentials.FromEnv
    | AzureCredentials.Anonymous
    | AzureCredentials.Static
    | AzureCredentials.Refreshable
)


def azure_static_credentials(
    *,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
) -> AnyAzureStaticCredential:
    """Return fixed credentials for Azure Blob Storage; exactly one argument is needed."""
    at_most_one_way(
        "azure_static_credentials",
        access_key=access_key,
        sas_token=sas_token,
        bearer_token=bearer_token,
    )
    if access_key is not None:
        return AzureStaticCredentials.AccessKey(access_key)
    if sas_token is not None:
        return AzureStaticCredentials.SasToken(sas_token)
    if bearer_token is not None:
        return AzureStaticCredentials.BearerToken(bearer_token)
    raise bad_arguments("azure_static_credentials needs one of its arguments")


def azure_refreshable_credentials(
    get_credentials: Callable[[], AnyAzureRefreshableCredential],
    scatter_initial_credentials: bool = False,  # noqa: FBT001, FBT002 - icechunk's signature
) -> AzureCredentials.Refreshable:
    """Return credentials that the function supplies; it must be picklable."""
    return AzureCredentials.Refreshable.from_function(
        get_credentials, scatter_initial=scatter_initial_credentials
    )


def azure_from_env_credentials() -> AzureCredentials.FromEnv:
    """Return credentials that the environment supplies."""
    return AzureCredentials.FromEnv()


def azure_anonymous_credentials() -> AzureCredentials.Anonymous:
    """Return credentials that present nothing."""
    return AzureCredentials.Anonymous()


def azure_credentials(  # noqa: PLR0913 - icechunk's signature
    *,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    get_credentials: Callable[[], AnyAzureRefreshableCredential] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyAzureCredential:
    """Return credentials for Azure Blob Storage; without any argument, the environment's."""
    static = {"access_key": access_key, "sas_token": sas_token, "bearer_token": bearer_token}
    at_most_one_way(
        "azure_credentials",
        **static,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
    )
    if any(part is not None for part in static.values()):
        return AzureCredentials.Static(azure_static_credentials(**static))
    if get_credentials is not None:
        return azure_refreshable_credentials(get_credentials, scatter_initial_credentials)
    if anonymous:
        return azure_anonymous_credentials()
    not_refused("azure_credentials", from_env=from_env)
    return azure_from_env_credentials()
