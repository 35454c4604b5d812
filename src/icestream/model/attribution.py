"""Labels for the requests of a repository, for the access logs of the store's owner."""

import re
from dataclasses import dataclass, fields

from icestream.errors import ErrorKind, InvalidInputError

MAX_LABEL_BYTES = 128

_WORD = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # RFC 9110, section 5.6.2
_CLIENT = re.compile(rf"{_WORD}(/{_WORD})?")
_FORBIDDEN = re.compile(r'[^\x20-\x7e]|[()\\;="]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Which software makes the requests, what for, and on whose behalf.

    Raises:
        InvalidInputError: A label is too long or has characters that a header cannot carry.
    """

    client: str | None = None
    """Product token of the application: `name` or `name/version`."""
    workload: str | None = None
    """The job, pipeline or deployment."""
    principal: str | None = None
    """The user, service account or tenant."""

    def __post_init__(self) -> None:
        for label in fields(self):
            text = getattr(self, label.name)
            if text is not None:
                _check_label(label.name, text)


def _check_label(name: str, text: str) -> None:
    if len(text.encode(errors="replace")) > MAX_LABEL_BYTES:
        raise _invalid(f"attribution {name} is longer than {MAX_LABEL_BYTES} bytes")
    if name == "client":
        if _CLIENT.fullmatch(text) is None:
            raise _invalid(
                f"attribution client {text!r} is not `name` or `name/version` in token characters"
            )
    elif found := _FORBIDDEN.search(text):
        raise _invalid(f"attribution {name} {text!r} has the forbidden character {found[0]!r}")


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_CONFIG)
