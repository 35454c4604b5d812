"""Repositories on web servers: read only, at a fixed URL or behind a redirect."""

import http.client
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NoReturn
from urllib.parse import SplitResult, urljoin, urlsplit

from icestream.errors import ErrorKind, ReadOnlyError, StorageError
from icestream.storage.addresses import HttpAddress, Purpose
from icestream.storage.object_store import ObjectStorage
from icestream.storage.protocol import (
    ByteRange,
    DeleteResult,
    ObjectInfo,
    Storage,
    Version,
)
from icestream.storage.retries import RetryPolicy

_MAX_REDIRECTS = 10
_TIMEOUT_S = 30


class HttpStorage(ObjectStorage):
    """Objects below a URL, read only."""

    def __init__(
        self, address: HttpAddress, *, retry: RetryPolicy | None = None, read_only: bool = True
    ) -> None:
        del read_only
        self._http_address = address
        super().__init__(address, retry=retry, read_only=True)

    def _start_fresh(self) -> None:
        super()._start_fresh()
        self._client_headers: dict[str, str] | None = None

    def __getstate__(self) -> dict[str, object]:
        state = super().__getstate__()
        del state["_client_headers"]  # made anew from the address
        return state

    def _client(self, purpose: Purpose) -> Any:
        """Return the client; a new one when the credentials were renewed.

        obstore takes the headers of a web server when it makes a client, not with each request.
        """
        headers = self._http_address.request_headers()
        if headers != self._client_headers:
            with self._lock:
                self._clients = {}
                self._client_headers = headers
        return super()._client(purpose)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Refuse: HTTP has no listing, and an empty one would be a lie."""
        raise StorageError(
            f"cannot list {prefix!r} at {self.address.url}: web servers have no listings",
            kind=ErrorKind.STORAGE_CONFIG,
        )


class RedirectStorage(Storage):
    """The storage that a URL redirects to, found at the first use; read only."""

    read_only = True

    def __init__(
        self,
        url: str,
        open_target: Callable[[SplitResult], Storage],
        retry: RetryPolicy | None = None,
    ) -> None:
        self._url = url
        self._open_target = open_target
        self._retry = retry
        self._found: Storage | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"RedirectStorage({self._url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._url, self._open_target, self._retry)

    @property
    def target(self) -> Storage:
        """The storage behind the redirect."""
        if self._found is None:
            with self._lock:
                if self._found is None:
                    self._found = self._open()
        return self._found

    def _open(self) -> Storage:
        target = self._open_target(_follow(self._url))
        return target if self._retry is None else target.with_retries(self._retry)

    @property
    def backend(self) -> Storage:
        """The storage behind the redirect, and behind whatever wraps that."""
        return self.target.backend

    def with_retries(self, retry: RetryPolicy) -> "RedirectStorage":
        """Return the same storage with another patience."""
        return type(self)(self._url, self._open_target, retry)

    def get(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Return the object, or `byte_range` of it."""
        return self.target.get(path, byte_range)

    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        """Return the whole object and its version."""
        return self.target.get_versioned(path)

    def get_if_unchanged(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Return the object, or `byte_range` of it, if it is still as it was."""
        return self.target.get_if_unchanged(path, byte_range, etag=etag, not_after=not_after)

    def get_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return many ranges of one object."""
        return self.target.get_ranges(path, byte_ranges)

    def head(self, path: str) -> ObjectInfo:
        """Return size, time and version of the object."""
        return self.target.head(path)

    async def get_async(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Await the object, or `byte_range` of it."""
        return await self.target.get_async(path, byte_range)

    async def get_if_unchanged_async(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Await the object, or `byte_range` of it, if it is still as it was."""
        return await self.target.get_if_unchanged_async(
            path, byte_range, etag=etag, not_after=not_after
        )

    def put(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Refuse."""
        del path, data, content_type
        self._refuse()

    def put_if_absent(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Refuse."""
        del path, data, content_type
        self._refuse()

    def put_if_version(
        self, path: str, data: bytes, version: Version, *, content_type: str | None = None
    ) -> Version:
        """Refuse."""
        del path, data, version, content_type
        self._refuse()

    def delete_many(self, paths: Iterable[str]) -> DeleteResult:
        """Refuse."""
        del paths
        self._refuse()

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield every object whose path starts with `prefix`."""
        return self.target.list(prefix)

    def _refuse(self) -> NoReturn:
        raise ReadOnlyError(f"{self._url} can only be read", kind=ErrorKind.READ_ONLY_STORAGE)


def _follow(url: str) -> SplitResult:
    """Ask until the answer leads out of HTTP: to the address of a storage."""
    for _ in range(_MAX_REDIRECTS + 1):
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"}:
            return parts
        url = urljoin(url, _location_behind(parts))
    raise _bad_redirect(url, f"more than {_MAX_REDIRECTS} redirects")


def _location_behind(parts: SplitResult) -> str:
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.netloc.rpartition("@")[2], timeout=_TIMEOUT_S)
    target = parts.path or "/"
    try:
        connection.request("GET", f"{target}?{parts.query}" if parts.query else target)
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        raise _bad_redirect(parts.geturl(), str(error)) from error
    finally:
        connection.close()
    location = answer.getheader("Location")
    if not 300 <= answer.status < 400 or location is None:  # noqa: PLR2004 - redirects
        raise _bad_redirect(parts.geturl(), f"status {answer.status} is no redirect")
    return location


def _bad_redirect(url: str, reason: str) -> StorageError:
    shown = url.partition("?")[0]
    return StorageError(
        f"{shown} does not redirect to a storage: {reason}", kind=ErrorKind.BAD_REDIRECT
    )
