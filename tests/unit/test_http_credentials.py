"""Credentials for web servers: tokens and headers, never shown."""

import pickle
from datetime import UTC, datetime, timedelta

import pytest

from icestream.credentials import (
    AnyHttpCredential,
    Credentials,
    HttpCredentials,
    HttpHeaders,
    containers_credentials,
    http_bearer_credentials,
    http_bearer_headers,
    http_header_credentials,
    http_refreshable_credentials,
)
from icestream.errors import ErrorKind, InvalidInputError

SECRET = "hush-hush"

calls: list[int] = []


def renewed() -> HttpHeaders:
    calls.append(1)
    ends = datetime.now(UTC) + timedelta(hours=1)
    return http_bearer_headers(f"{SECRET}-{len(calls)}", expires_after=ends)


EVERY_KIND: dict[str, AnyHttpCredential] = {
    "bearer": http_bearer_credentials(SECRET),
    "header": http_header_credentials({"X-Api-Key": SECRET}),
    "function": http_refreshable_credentials(renewed, scatter_initial_credentials=True),
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_secret_is_never_shown_and_travels(kind: str) -> None:
    credential = EVERY_KIND[kind]
    marked = containers_credentials({"https://host/": credential})
    copy = pickle.loads(pickle.dumps(credential))

    assert SECRET not in f"{credential!r} {credential} {marked!r} {credential.fresh()!r}"
    assert copy == credential
    assert hash(copy) == hash(credential)
    assert marked == {"https://host/": Credentials.Http(credential)}


def test_presents_a_token_or_headers() -> None:
    assert http_bearer_credentials("t").fresh().headers == {"Authorization": "Bearer t"}
    assert http_header_credentials({"X-Key": "k"}).fresh().headers == {"X-Key": "k"}


def test_the_function_is_asked_when_it_is_needed() -> None:
    calls.clear()
    credential = http_refreshable_credentials(renewed)

    assert isinstance(credential, HttpCredentials.Refreshable)
    assert [credential.fresh().headers for _ in range(2)] == [
        {"Authorization": f"Bearer {SECRET}-1"}
    ] * 2


def test_headers_cannot_be_changed_from_outside() -> None:
    given = {"X-Key": "k"}
    credential = http_header_credentials(given)
    given["X-Key"] = "other"

    assert credential.fresh().headers == {"X-Key": "k"}


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Key": f"{SECRET}\r\nHost: evil"},
        {"X-Key": f"{SECRET}ñ"},
        {"X Key": SECRET},
        {"": SECRET},
    ],
)
def test_what_breaks_out_of_a_header_is_refused_unseen(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        http_header_credentials(headers)
    assert caught.value.kind is ErrorKind.INVALID_CREDENTIALS
    assert SECRET not in str(caught.value)


def test_an_empty_token_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="empty"):
        http_bearer_credentials("")
