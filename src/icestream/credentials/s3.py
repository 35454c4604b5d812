"""Credentials for S3 and stores with its interface."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from icestream.credentials.arguments import at_most_one_way, bad_arguments, not_refused
from icestream.credentials.refreshable import Refreshable


@dataclass(frozen=True, slots=True)
class S3StaticCredentials:
    """A pair of keys for S3, maybe temporary."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_after: datetime | None = None


class S3Credentials:
    """Ways to sign requests to S3."""

    @dataclass(frozen=True, slots=True)
    class FromEnv:
        """Take what the environment offers: variables, instance or container metadata."""

    @dataclass(frozen=True, slots=True)
    class Anonymous:
        """Do not sign: public buckets."""

    @dataclass(frozen=True, slots=True)
    class Static:
        """Sign with these keys."""

        credentials: S3StaticCredentials

    class Refreshable(Refreshable[S3StaticCredentials]):
        """Sign with keys that a function supplies."""


AnyS3Credential = (
    S3Credentials.Static
    | S3Credentials.Anonymous
    | S3Credentials.FromEnv
    | S3Credentials.Refreshable
)


def s3_static_credentials(
    *,
    access_key_id: str,
    secret_access_key: str,
    session_token: str | None = None,
    expires_after: datetime | None = None,
) -> S3Credentials.Static:
    """Return credentials that sign with these keys."""
    return S3Credentials.Static(
        S3StaticCredentials(access_key_id, secret_access_key, session_token, expires_after)
    )


def s3_anonymous_credentials() -> S3Credentials.Anonymous:
    """Return credentials that sign nothing."""
    return S3Credentials.Anonymous()


def s3_from_env_credentials() -> S3Credentials.FromEnv:
    """Return credentials that the environment supplies."""
    return S3Credentials.FromEnv()


def s3_refreshable_credentials(
    get_credentials: Callable[[], S3StaticCredentials],
    scatter_initial_credentials: bool = False,  # noqa: FBT001, FBT002 - icechunk's signature
) -> S3Credentials.Refreshable:
    """Return credentials that the function supplies; it must be picklable."""
    return S3Credentials.Refreshable.from_function(
        get_credentials, scatter_initial=scatter_initial_credentials
    )


def s3_credentials(  # noqa: PLR0913 - icechunk's signature
    *,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyS3Credential:
    """Return credentials for S3; without any argument, those of the environment."""
    static = (access_key_id, secret_access_key, session_token, expires_after)
    at_most_one_way(
        "s3_credentials",
        static_keys=any(part is not None for part in static),
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
    )
    if access_key_id and secret_access_key:
        return s3_static_credentials(
            access_key_id=access_key_id,
            secret_access_key=secret_access_key,
            session_token=session_token,
            expires_after=expires_after,
        )
    if any(part is not None for part in static):
        raise bad_arguments("s3_credentials needs both access_key_id and secret_access_key")
    if get_credentials is not None:
        return s3_refreshable_credentials(get_credentials, scatter_initial_credentials)
    if anonymous:
        return s3_anonymous_credentials()
    not_refused("s3_credentials", from_env=from_env)
    return s3_from_env_credentials()
