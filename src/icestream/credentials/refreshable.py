"""Credentials that end, and the function of the user that renews them."""

import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol, Self

from icestream.errors import ErrorKind, InvalidInputError, StorageError

_REFRESH_MARGIN = timedelta(minutes=5)
"""The object-store clients ask again this long before the end; so does the cache here."""


class _Expiring(Protocol):
    @property
    def expires_after(self) -> datetime | None: ...


class Refreshable[C: _Expiring]:
    """Credentials from a function of the user, called when there are none or they run out.

    The function is kept pickled, so that a mistake shows where it is made and not on a worker.
    `current` are the first credentials; they travel in pickles, later ones do not.
    """

    def __init__(self, pickled_function: bytes, current: C | None = None) -> None:
        self.pickled_function = pickled_function
        self.current = current
        self._cached = current
        self._lock = threading.Lock()

    @classmethod
    def from_function(cls, get_credentials: Callable[[], C], *, scatter_initial: bool) -> Self:
        """Keep the function; call it at once if its first result shall travel to all copies."""
        try:
            pickled = pickle.dumps(get_credentials)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InvalidInputError(
                "get_credentials cannot be pickled; give a function defined at the top of a module",
                kind=ErrorKind.INVALID_CREDENTIALS,
            ) from error
        return cls(pickled, get_credentials() if scatter_initial else None)

    def fresh(self) -> C:
        """Return credentials that are valid for some minutes, asking the function if needed."""
        with self._lock:
            if self._cached is None or _ends_soon(self._cached.expires_after):
                self._cached = self._ask()
            return self._cached

    @property
    def last(self) -> C | None:
        """The credentials that were presented last, if there were any."""
        return self._cached

    def _ask(self) -> C:
        # the function was pickled by its owner, in this process or in the one that sent it here
        function = pickle.loads(self.pickled_function)  # noqa: S301
        result = function()
        if not hasattr(result, "expires_after"):
            raise StorageError(
                f"get_credentials returned {type(result).__name__}, which is no credential",
                kind=ErrorKind.INVALID_CREDENTIALS,
            )
        credentials: C = result
        return credentials

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.pickled_function, self.current)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Refreshable):
            return NotImplemented
        return (type(self), self.pickled_function, self.current) == (
            type(other),
            other.pickled_function,
            other.current,
        )

    def __hash__(self) -> int:
        return hash((type(self), self.pickled_function))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}(...)"


def _ends_soon(expires_after: datetime | None) -> bool:
    if expires_after is None:
        return False
    return aware(expires_after) - datetime.now(UTC) < _REFRESH_MARGIN


def aware(moment: datetime) -> datetime:
    """Return the time with a zone; one without is taken as UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
