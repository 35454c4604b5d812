"""Credentials for web servers: headers that are sent with every request.

icechunk has none; these are additions. A web server may redirect to another host: `Authorization`
and `Cookie` are then left behind, other headers are not.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from icestream.credentials.arguments import bad_arguments
from icestream.credentials.refreshable import Refreshable

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x20-\x7e\t]*")


@dataclass(frozen=True, slots=True)
class HttpHeaders:
    """Headers that let a reader in; also what a function for `HttpCredentials.Refreshable` returns.

    Names may be seen, values may not.
    """

    headers: Mapping[str, str] = field(repr=False)
    expires_after: datetime | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            _check_header(name, value)
        object.__setattr__(self, "headers", dict(self.headers))

    def __hash__(self) -> int:
        return hash((frozenset(self.headers.items()), self.expires_after))


class HttpCredentials:
    """Ways to authenticate to a web server."""

    @dataclass(frozen=True, slots=True)
    class Static:
        """Send these headers."""

        credentials: HttpHeaders

        def fresh(self) -> HttpHeaders:
            """Return the headers."""
            return self.credentials

    class Refreshable(Refreshable[HttpHeaders]):
        """Send headers that a function supplies."""


AnyHttpCredential = HttpCredentials.Static | HttpCredentials.Refreshable


def http_bearer_headers(token: str, *, expires_after: datetime | None = None) -> HttpHeaders:
    """Return the headers that present a bearer token, for a function that renews it."""
    if not token:
        raise bad_arguments("the bearer token is empty")
    return HttpHeaders({"Authorization": f"Bearer {token}"}, expires_after=expires_after)


def http_bearer_credentials(token: str) -> HttpCredentials.Static:
    """Return credentials that present a bearer token."""
    return HttpCredentials.Static(http_bearer_headers(token))


def http_header_credentials(headers: Mapping[str, str]) -> HttpCredentials.Static:
    """Return credentials that send these headers."""
    return HttpCredentials.Static(HttpHeaders(headers))


def http_refreshable_credentials(
    get_credentials: Callable[[], HttpHeaders], *, scatter_initial_credentials: bool = False
) -> HttpCredentials.Refreshable:
    """Return credentials that the function supplies; it must be picklable."""
    return HttpCredentials.Refreshable.from_function(
        get_credentials, scatter_initial=scatter_initial_credentials
    )


def _check_header(name: object, value: object) -> None:
    """Refuse what would break out of a header; the value may be a secret and is not shown."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise bad_arguments(f"{name!r} is no name of an HTTP header")
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise bad_arguments(f"the value of the header {name} is no line of ASCII text")
