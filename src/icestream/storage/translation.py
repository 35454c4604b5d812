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
    "UnauthenticatedError": Failure.DENIED,
    "NotSupportedError": Failure.UNSUPPORTED,
    "NotImplementedError": Failure.UNSUPPORTED,
    "InvalidPathError": Failure.INVALID,
    "UnknownConfigurationKeyError": Failure.INVALID,
    "ValueError": Failure.INVALID,
}
_BY_STATUS = {
    401: Failure.DENIED,
    403: Failure.DENIED,
    404: Failure.NOT_FOUND,
    409: Failure.THROTTLED,  # S3: another conditional write is under way
    412: Failure.PRECONDITION,
    416: Failure.PAST_END,
    429: Failure.THROTTLED,
    503: Failure.THROTTLED,
}
_STATUS = re.compile(r"status(?: code)?:? \(?(\d{3})\b|\b(\d{3}) [A-Z][A-Za-z ]+\b")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist", re.IGNORECASE)
_PAST_END = re.compile(r"InvalidRange|RangeNotSatisfiable|StartTooLarge|out of range")
_TEXT_LIMIT = 400


def classify(error: BaseException) -> Failure:
    """Tell what the error means."""
    text = str(error)
    if _NO_BUCKET.search(text):
        return Failure.NO_BUCKET
    by_class = _BY_CLASS.get(type(error).__name__)
    if by_class is not None:
        return by_class
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
_XML_PART = re.compile(r"<(Code|Message)>([^<]*)</\1>")
_NOISE = re.compile(r"<\?xml.*|Debug source:.*", re.DOTALL)


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
    return None if _QUERY.search(text) or _USER_INFO.search(text) else error
