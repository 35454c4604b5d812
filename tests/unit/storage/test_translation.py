"""Errors of obstore, recognised by class or by text, and stripped of secrets."""

import pytest
from obstore import exceptions

from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    IcestreamError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from icestream.storage.translation import Failure, classify, safe_text, shown_cause, translate

# texts of obstore 0.12
ANSWER = "Generic S3 error: Error performing {} http://h/b/k in 1ms - Server returned non-2xx "


def _generic(text: str) -> exceptions.GenericError:
    return exceptions.GenericError(text)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (FileNotFoundError("Object at location k not found"), Failure.NOT_FOUND),
        (FileNotFoundError("404: <Code>NoSuchBucket</Code>"), Failure.NO_BUCKET),
        (_generic("404 Not Found: <Code>ContainerNotFound</Code>"), Failure.NO_BUCKET),
        (exceptions.AlreadyExistsError("k"), Failure.EXISTS),
        (exceptions.PreconditionError("k"), Failure.PRECONDITION),
        (exceptions.PermissionDeniedError("k"), Failure.DENIED),
        (exceptions.UnauthenticatedError("k"), Failure.UNAUTHENTICATED),
        (exceptions.NotSupportedError("k"), Failure.UNSUPPORTED),
        (NotImplementedError("k"), Failure.UNSUPPORTED),
        (_generic(ANSWER + "status code: 403 Forbidden: "), Failure.DENIED),
        (_generic(ANSWER + "status code: 401 Unauthorized: "), Failure.UNAUTHENTICATED),
        (_generic(ANSWER + "status code: 416 Range Not Satisfiable: "), Failure.PAST_END),
        (_generic(ANSWER + "status code: 429 Too Many Requests: "), Failure.THROTTLED),
        (_generic(ANSWER + "status code: 503 Service Unavailable: "), Failure.THROTTLED),
        (_generic(ANSWER + "status code: 409 Conflict: "), Failure.THROTTLED),
        (_generic(ANSWER + "status code: 400 Bad Request: "), Failure.REJECTED),
        (_generic(ANSWER + "status code: 500 Internal Server Error: "), Failure.LOST),
        (_generic(ANSWER + "status code: 502 Bad Gateway: "), Failure.LOST),
        (
            _generic(ANSWER + "status code: 301: <Code>PermanentRedirect</Code>"),
            Failure.WRONG_REGION,
        ),
        (
            _generic(
                "GET http://h/b/k in 1ms - Received redirect without LOCATION, this normally "
                "indicates an incorrectly configured region"
            ),
            Failure.WRONG_REGION,
        ),
        (
            _generic("400: <Code>AuthorizationHeaderMalformed</Code>\n<Message>the region"),
            Failure.WRONG_REGION,
        ),
        (_generic("400 Bad Request: <Code>ExpiredToken</Code>"), Failure.EXPIRED),
        (exceptions.PermissionDeniedError("403: <Code>ExpiredToken</Code>"), Failure.EXPIRED),
        (
            exceptions.PermissionDeniedError(
                "<AuthenticationErrorDetail>Signature not valid in the specified time frame: Start"
            ),
            Failure.EXPIRED,
        ),
        (
            _generic("Error performing PUT http://169.254.169.254/latest/api/token in 1s - error"),
            Failure.NO_CREDENTIALS,
        ),
        (
            _generic("GET http://metadata.google.internal/computeMetadata/v1 in 1s - HTTP error"),
            Failure.NO_CREDENTIALS,
        ),
        (
            FileNotFoundError(
                "Object at location NoSuchBucket not found: Error performing GET "
                "http://h/b/ExpiredToken in 1.5ms - Server returned non-2xx status code: 404"
            ),
            Failure.NOT_FOUND,
        ),
        (
            _generic(
                "Error performing GET http://h/b/404%20Not in 12.5ms - Server returned non-2xx "
                "status code: 503 Service Unavailable: \n\nDebug source:\nNoSuchBucket"
            ),
            Failure.THROTTLED,
        ),
        (_generic("HTTP error: error sending request for http://127.0.0.1:9/b/k"), Failure.LOST),
        (_generic("Generic S3 error: HTTP error: error decoding response body"), Failure.LOST),
    ],
)
def test_tells_what_a_failure_means(error: BaseException, failure: Failure) -> None:
    assert classify(error) is failure


@pytest.mark.parametrize(
    ("error", "kind", "expected"),
    [
        (FileNotFoundError("k"), ErrorKind.OBJECT_NOT_FOUND, NotFoundError),
        (exceptions.AlreadyExistsError("k"), ErrorKind.OBJECT_ALREADY_EXISTS, AlreadyExistsError),
        (exceptions.PreconditionError("k"), ErrorKind.PRECONDITION_FAILED, ConflictError),
        (exceptions.InvalidPathError("k"), ErrorKind.INVALID_PATH, InvalidInputError),
        (exceptions.PermissionDeniedError("k"), ErrorKind.PERMISSION_DENIED, StorageError),
        (exceptions.UnauthenticatedError("k"), ErrorKind.INVALID_CREDENTIALS, StorageError),
        (_generic("ExpiredToken"), ErrorKind.CREDENTIALS_EXPIRED, StorageError),
        (_generic("GET http://169.254.169.254/x"), ErrorKind.INVALID_CREDENTIALS, StorageError),
        (_generic("PermanentRedirect"), ErrorKind.WRONG_REGION, StorageError),
        (_generic("reset"), ErrorKind.OBJECT_STORE, StorageError),
    ],
)
def test_translates_to_what_a_caller_can_act_on(
    error: BaseException, kind: ErrorKind, expected: type[IcestreamError]
) -> None:
    translated = translate(error, "read", "chunks/A in s3://b/p")

    assert type(translated) is expected
    assert translated.kind is kind
    assert "chunks/A in s3://b/p" in str(translated)


def test_keeps_what_an_answer_says_and_drops_the_rest() -> None:
    error = _generic(
        "403 Forbidden: <?xml version='1.0'?><Error><Code>SlowDown</Code>\n"
        "<Message>Less, please</Message></Error>\n\nDebug source:\nGeneric { store: ... }"
    )

    assert safe_text(error) == "403 Forbidden: SlowDown: Less, please"


@pytest.mark.parametrize(
    "url", ["https://h/k?sp=r&sig=hush%3D", "https://user:hush@h/k", "http://h/k?X-Amz-Sig=hush"]
)
def test_shows_no_secret_of_a_url(url: str) -> None:
    error = _generic(f'error sending request for url ("{url}")')

    assert "hush" not in safe_text(error)
    assert "h/k" in safe_text(error)
    assert shown_cause(error) is None


@pytest.mark.parametrize("start", ["<?xml version='1.0'?>", "", "<!DOCTYPE html>"])
def test_shows_no_body_of_an_answer_but_its_code_and_message(start: str) -> None:
    body = f"{start}<Error><Code>ExpiredToken</Code><Token-0>hush</Token-0></Error>"
    error = _generic(f"{ANSWER}status code: 400 Bad Request: {body}")

    assert "hush" not in safe_text(error)
    assert safe_text(error).endswith("ExpiredToken")
    assert shown_cause(error) is None


def test_chains_an_error_without_secrets() -> None:
    error = _generic("error sending request for http://h/k")

    assert shown_cause(error) is error


def test_long_texts_are_cut() -> None:
    assert len(safe_text(_generic("x" * 10_000))) < 500
