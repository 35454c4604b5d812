"""Credentials that tell when they end."""

import base64
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from icestream.credentials import (
    Credentials,
    GcsBearerCredential,
    azure_credentials,
    gcs_credentials,
    gcs_refreshable_credentials,
    http_bearer_credentials,
    http_header_credentials,
    s3_credentials,
)
from icestream.credentials.expiry import have_ended

PAST = datetime(2001, 1, 1, tzinfo=UTC)
FUTURE = datetime.now(UTC) + timedelta(days=1)


def web_token(claims: object) -> str:
    """Return a JSON Web Token without a signature."""
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


def s3_keys(end: datetime) -> Any:
    return s3_credentials(access_key_id="a", secret_access_key="b", expires_after=end)


def sas(end: datetime) -> Any:
    return azure_credentials(sas_token=f"sv=2021&se={end:%Y-%m-%dT%H:%M:%SZ}&sig=x")


def jwt(end: datetime) -> Any:
    return http_bearer_credentials(web_token({"exp": end.timestamp()}))


def jwt_in_gcs(end: datetime) -> Any:
    return gcs_credentials(bearer_token=web_token({"exp": int(end.timestamp())}))


def naive_s3(end: datetime) -> Any:
    return s3_keys(end.replace(tzinfo=None))


def refreshed(end: datetime) -> Any:
    found = gcs_refreshable_credentials(partial(GcsBearerCredential, "t", expires_after=end))
    found.fresh()
    return found


@pytest.mark.parametrize("make", [s3_keys, naive_s3, sas, jwt, jwt_in_gcs, refreshed])
def test_what_has_ended_is_told_from_what_has_not(make: Any) -> None:
    assert have_ended(make(PAST))
    assert not have_ended(make(FUTURE))


def test_what_stands_around_credentials_does_not_hide_them() -> None:
    assert have_ended(Credentials.S3(s3_keys(PAST)))
    assert not have_ended(Credentials.S3(s3_keys(FUTURE)))


@pytest.mark.parametrize(
    "credentials",
    [
        None,
        Credentials.HttpAccess(),
        s3_credentials(anonymous=True),
        s3_credentials(from_env=True),
        s3_credentials(access_key_id="a", secret_access_key="b"),
        azure_credentials(access_key="key"),
        azure_credentials(sas_token="sig=x"),
        azure_credentials(sas_token="se=tomorrow&sig=x"),
        gcs_credentials(bearer_token="opaque"),
        gcs_refreshable_credentials(partial(GcsBearerCredential, "t", expires_after=PAST)),
        http_header_credentials({"X-Api-Key": "a.b.c", "X-Other": "a.%%%.c"}),
        http_bearer_credentials(web_token({"sub": "me"})),
        http_bearer_credentials(web_token(["exp"])),
        http_bearer_credentials(web_token({"exp": "soon"})),
        http_bearer_credentials(web_token({"exp": 1e300})),
    ],
)
def test_what_says_nothing_has_not_ended(credentials: Any) -> None:
    assert not have_ended(credentials)
