"""From the errors of obstore to those of this package: what happened, and what may help.

obstore tells some failures by class and others only by their text, so both are looked at. Classes
are compared by name, because a forked child has a second copy of them.
"""

import re
from enum import Enum, auto

from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    IcestreamError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)


class Failure(Enum):
    """What a failed request means for the one who sent it."""

    NOT_FOUND = auto()
    NO_BUCKET = auto()
    EXISTS = auto()
    PRECONDITION = auto()
    DENIED = auto()
    UNAUTHENTICATED = auto()
    """The store does not know who asks."""
    EXPIRED = auto()
    """What was presented has ended."""
    NO_CREDENTIALS = auto()
    """There was nothing to present: the environment has no credentials."""
    WRONG_REGION = auto()
    THROTTLED = auto()
    """Refused before it was executed; may pass later."""
    PAST_END = auto()
    INVALID = auto()
    UNSUPPORTED = auto()
    REJECTED = auto()
    """The store answered, and the answer is no."""
    LOST = auto()
    """No answer, or none that can be trusted: the request may have been executed."""


PASSING = frozenset({Failure.THROTTLED, Failure.LOST})
"""What may succeed when it is tried again."""

_BY_CLASS = {
    "FileNotFoundError": Failure.NOT_FOUND,
    "NotFoundError": Failure.NOT_FOUND,
    "AlreadyExistsError": Failure.EXISTS,
    "PreconditionError": Failure.PRECONDITION,
    "NotModifiedError": Failure.PRECONDITION,
    "PermissionDeniedError": Failure.DENIED,
    "UnauthenticatedError": Failure.UNAUTHENTICATED,
    "NotSupportedError": Failure.UNSUPPORTED,
    "NotImplementedError": Failure.UNSUPPORTED,
    "InvalidPathError": Failure.INVALID,
    "UnknownConfigurationKeyError": Failure.INVALID,
    "ValueError": Failure.INVALID,
}
_BY_STATUS = {
    401: Failure.UNAUTHENTICATED,
    403: Failure.DENIED,
    404: Failure.NOT_FOUND,
    409: Failure.THROTTLED,  # S3: another conditional write is under way
    412: Failure.PRECONDITION,
    416: Failure.PAST_END,
    429: Failure.THROTTLED,
    503: Failure.THROTTLED,
}
_STATUS = re.compile(r"status(?: code)?:? \(?(\d{3})\b|\b(\d{3}) [A-Z][A-Za-z ]+\b")
_BY_TEXT = {
    Failure.NO_BUCKET: re.compile(
        r"NoSuchBucket|ContainerNotFound|bucket does not exist", re.IGNORECASE
    ),
    # S3, then Azure, then web servers
    Failure.EXPIRED: re.compile(
        r"ExpiredToken|TokenRefreshRequired|RequestExpired|token (?:has |is )?expired"
        r"|Signature not valid in the specified time frame|invalid_token",
        re.IGNORECASE,
    ),
    # the first two are bodies of S3, the third is what obstore makes of a 301 without a body
    Failure.WRONG_REGION: re.compile(
        r"PermanentRedirect|AuthorizationHeaderMalformed.*region|incorrectly configured region"
        r"|IllegalLocationConstraint",
        re.DOTALL,
    ),
}
_METADATA_SERVICE = re.compile(
    r"://(?:169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal|metadata)[:/]"
)
"""Where a client asks for credentials when it found none elsewhere."""
_ANSWER = re.compile(r" in [0-9.]+.{1,2} - (.*)", re.DOTALL)
_PAST_END = re.compile(r"InvalidRange|RangeNotSatisfiable|StartTooLarge|out of range")
_TEXT_LIMIT = 400


def classify(error: BaseException) -> Failure:
    """Tell what the error means."""
    text = str(error).partition("Debug source:")[0]
    answer = _answer_in(text)
    recognised = _BY_CLASS.get(type(error).__name__)
    for failure, pattern in _BY_TEXT.items():
        if pattern.search(answer):
            recognised = failure
    if recognised is None and _METADATA_SERVICE.search(text):
        recognised = Failure.NO_CREDENTIALS
    return recognised or _classify_answer(answer)


def _answer_in(text: str) -> str:
    """Return what the store said: before it stands the key, which may hold any words."""
    found = _ANSWER.search(text)
    return found[1] if found else text


def _classify_answer(text: str) -> Failure:
    if _PAST_END.search(text):
        return Failure.PAST_END
    status = _status(text)
    if status is None or status >= 500:  # noqa: PLR2004 - server errors
        return _BY_STATUS.get(status or 0, Failure.LOST)
    return _BY_STATUS.get(status, Failure.REJECTED)


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1] or found[2]) if found else None


def translate(error: BaseException, action: str, place: str) -> IcestreamError:
    """Return the error to raise for a failed `action` at `place`."""
    failure = classify(error)
    match failure:
        case Failure.NOT_FOUND:
            return NotFoundError(f"there is no object {place}", kind=ErrorKind.OBJECT_NOT_FOUND)
        case Failure.EXISTS:
            return AlreadyExistsError(f"{place} exists already")
        case Failure.PRECONDITION:
            return ConflictError(
                f"{place} was replaced by another writer", kind=ErrorKind.PRECONDITION_FAILED
            )
        case Failure.INVALID:
            return InvalidInputError(
                f"cannot {action} {place}: {safe_text(error)}", kind=ErrorKind.INVALID_PATH
            )
        case _:
            return _storage_error(failure, error, action, place)


_STORAGE_KINDS = {
    Failure.NO_BUCKET: (
        ErrorKind.STORAGE_CONFIG,
        "the bucket or container does not exist: create it, or correct its name",
    ),
    Failure.DENIED: (
        ErrorKind.PERMISSION_DENIED,
        "permission denied: check that the credentials are right and allow this",
    ),
    Failure.UNAUTHENTICATED: (
        ErrorKind.INVALID_CREDENTIALS,
        "the store does not accept who asks: credentials are missing, wrong or have ended",
    ),
    Failure.EXPIRED: (
        ErrorKind.CREDENTIALS_EXPIRED,
        "the credentials have ended: renew them, or give a function that does",
    ),
    Failure.NO_CREDENTIALS: (
        ErrorKind.INVALID_CREDENTIALS,
        "the environment has no credentials: give some, or anonymous ones for public data",
    ),
    Failure.WRONG_REGION: (
        ErrorKind.WRONG_REGION,
        "the bucket is in another region: set the region that it is in",
    ),
    Failure.THROTTLED: (
        ErrorKind.THROTTLED,
        "the store is overloaded: try later, or send fewer requests at a time",
    ),
    Failure.PAST_END: (ErrorKind.INVALID_OBJECT_SIZE, "the object ends before that range"),
    Failure.UNSUPPORTED: (ErrorKind.STORAGE_CONFIG, "this kind of store cannot do that"),
}


def _storage_error(failure: Failure, error: BaseException, action: str, place: str) -> StorageError:
    kind, reason = _STORAGE_KINDS.get(failure, (ErrorKind.OBJECT_STORE, "the request failed"))
    return StorageError(
        f"cannot {action} {place}: {reason} ({safe_text(error)})",
        kind=kind,
        retryable=failure in PASSING,
    )


_QUERY = re.compile(r"(https?://[^\s?\"']+)\?[^\s\"'<>)]*")
_USER_INFO = re.compile(r"//[^/\s@\"]+@")
_BODY = re.compile(r"<[?!A-Za-z]")
_XML_PART = re.compile(r"<(Code|Message)>([^<]*)</\1>")
_NOISE = re.compile(r"<[?!A-Za-z].*|Debug source:.*", re.DOTALL)
"""Bodies of answers: S3 repeats the token that has ended, web servers send whole pages."""


def safe_text(error: BaseException) -> str:
    """Return the text of the error on one line, without what may be a secret.

    Signatures and tokens travel in the query part of URLs, passwords before the host.
    """
    full = str(error)
    details = ": ".join(text for _, text in _XML_PART.findall(full))
    text = " ".join(f"{_NOISE.sub('', full)} {details}".split())
    text = _USER_INFO.sub("//", _QUERY.sub(r"\1", text))
    return text if len(text) <= _TEXT_LIMIT else text[:_TEXT_LIMIT] + "..."


def shown_cause(error: BaseException) -> BaseException | None:
    """Return the error to chain, or nothing if its text may hold a secret."""
    text = str(error)
    secretive = (_QUERY, _USER_INFO, _BODY)
    return None if any(pattern.search(text) for pattern in secretive) else error
