"""Storages that behave like any other, and count, delay or lose requests on top."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from icestream.errors import CommitUnknownError, ErrorKind, StorageError
from icestream.storage.protocol import (
    ByteRange,
    DeleteResult,
    ObjectInfo,
    Storage,
    Version,
)
from icestream.storage.retries import RetryPolicy

READ_VERBS = frozenset({"get", "get_versioned", "get_if_unchanged", "get_ranges", "head", "list"})
WRITE_VERBS = frozenset({"put", "put_if_absent", "put_if_version", "delete_many"})


class WrappedStorage(Storage):
    """Passes every verb on; subclasses say what happens `around` each call.

    The asynchronous twins count as the verbs themselves: `get_async` as `get`.
    """

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self.reads_inline = inner.reads_inline
        self.read_only = inner.read_only

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def around[T](self, verb: str, path: str, call: Callable[[], T]) -> T:
        """Do the call."""
        del verb, path
        return call()

    def get(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Return the object, or `byte_range` of it."""
        return self.around("get", path, lambda: self.inner.get(path, byte_range))

    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        """Return the whole object and its version."""
        return self.around("get_versioned", path, lambda: self.inner.get_versioned(path))

    def get_if_unchanged(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Return the object, or `byte_range` of it, if it is still as it was."""
        return self.around(
            "get_if_unchanged",
            path,
            lambda: self.inner.get_if_unchanged(path, byte_range, etag=etag, not_after=not_after),
        )

    def get_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return many ranges of one object."""
        return self.around("get_ranges", path, lambda: self.inner.get_ranges(path, byte_ranges))

    def head(self, path: str) -> ObjectInfo:
        """Return size, time and version of the object."""
        return self.around("head", path, lambda: self.inner.head(path))

    def put(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Write the object."""
        return self.around(
            "put", path, lambda: self.inner.put(path, data, content_type=content_type)
        )

    def put_if_absent(self, path: str, data: bytes, *, content_type: str | None = None) -> Version:
        """Create the object."""
        return self.around(
            "put_if_absent",
            path,
            lambda: self.inner.put_if_absent(path, data, content_type=content_type),
        )

    def put_if_version(
        self, path: str, data: bytes, version: Version, *, content_type: str | None = None
    ) -> Version:
        """Replace the object if it is still at `version`."""
        return self.around(
            "put_if_version",
            path,
            lambda: self.inner.put_if_version(path, data, version, content_type=content_type),
        )

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield every object whose path starts with `prefix`; one call counts once."""
        return self.around("list", prefix, lambda: self.inner.list(prefix))

    def delete_many(self, paths: Iterable[str]) -> DeleteResult:
        """Delete objects; one call counts once."""
        wanted = tuple(paths)
        first = wanted[0] if wanted else ""
        return self.around("delete_many", first, lambda: self.inner.delete_many(wanted))

    def check_conditional_writes(self) -> None:
        """Ask the wrapped storage, uncounted."""
        self.inner.check_conditional_writes()

    @property
    def backend(self) -> Storage:
        """The storage that does the work."""
        return self.inner.backend

    def with_retries(self, retry: RetryPolicy) -> Storage:
        """Change the wrapped storage and keep this one: somebody looks at its counts."""
        self.inner = self.inner.with_retries(retry)
        return self

    async def get_async(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        """Return `get`; a thread only where the wrapped storage needs one."""
        if self.reads_inline:
            return self.get(path, byte_range)
        return await asyncio.to_thread(self.get, path, byte_range)

    async def get_if_unchanged_async(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        """Return `get_if_unchanged`; a thread only where the wrapped storage needs one."""
        if self.reads_inline:
            return self.get_if_unchanged(path, byte_range, etag=etag, not_after=not_after)
        return await super().get_if_unchanged_async(
            path, byte_range, etag=etag, not_after=not_after
        )

    async def put_async(self, path: str, data: bytes) -> Version:
        """Return `put`; a thread only where the wrapped storage needs one."""
        if self.reads_inline:
            return self.put(path, data)
        return await asyncio.to_thread(self.put, path, data)


class CountingStorage(WrappedStorage):
    """Counts calls per verb in `requests`, and keeps them in order in `log`."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.requests: Counter[str] = Counter()
        self.log: list[tuple[str, str]] = []

    def around[T](self, verb: str, path: str, call: Callable[[], T]) -> T:
        """Count the call, then do it."""
        self.log.append((verb, path))  # appending is atomic, adding is not
        self.requests[verb] += 1
        return call()

    def reset(self) -> None:
        """Forget what was counted."""
        self.requests.clear()
        self.log.clear()

    @property
    def reads(self) -> int:
        """Number of requests that read."""
        return sum(self.requests[verb] for verb in READ_VERBS)

    @property
    def writes(self) -> int:
        """Number of requests that write."""
        return sum(self.requests[verb] for verb in WRITE_VERBS)


class LatentStorage(WrappedStorage):
    """Waits before each call, as long as a remote store would take."""

    def __init__(
        self, inner: Storage, *, write_latency_ms: float = 0, read_latency_ms: float = 0
    ) -> None:
        super().__init__(inner)
        self.reads_inline = False
        self.write_latency_ms = write_latency_ms
        self.read_latency_ms = read_latency_ms

    def around[T](self, verb: str, path: str, call: Callable[[], T]) -> T:
        """Wait, then do the call."""
        del path
        latency_ms = self.read_latency_ms if verb in READ_VERBS else self.write_latency_ms
        time.sleep(latency_ms / 1000)
        return call()


class Loss(Enum):
    """How a call goes wrong."""

    FAIL_BEFORE = auto()
    """Nothing is done; the caller gets a StorageError."""
    LOSE_ANSWER = auto()
    """It is done; the caller gets a CommitUnknownError for a conditional write, as from a remote
    store that does not answer any more, and a StorageError for other verbs."""


@dataclass(frozen=True, slots=True)
class LossRule:
    """The calls of `verb` number `first` to `last` go wrong; counted from 1, from the rule on."""

    verb: str
    loss: Loss
    first: int = 1
    last: int = 1
    path_prefix: str = ""


class LossyStorage(WrappedStorage):
    """Loses the calls that its rule names.

    `rule` may be changed at any time, which starts its count again; None loses nothing.
    """

    def __init__(self, inner: Storage, rule: LossRule | None = None) -> None:
        super().__init__(inner)
        self.rule = rule

    @property
    def rule(self) -> LossRule | None:
        """The rule in force."""
        return self._rule

    @rule.setter
    def rule(self, rule: LossRule | None) -> None:
        self._rule = rule
        self._met = 0

    @property
    def met(self) -> int:
        """How many calls the rule looked at: 0 means that it never mattered."""
        return self._met

    def around[T](self, verb: str, path: str, call: Callable[[], T]) -> T:
        """Do the call, unless the rule says otherwise."""
        rule = self._rule
        if rule is None or verb != rule.verb or not path.startswith(rule.path_prefix):
            return call()
        self._met += 1
        if not rule.first <= self._met <= rule.last:
            return call()
        if rule.loss is Loss.FAIL_BEFORE:
            raise StorageError(
                f"{verb} {path} was made to fail", kind=ErrorKind.OBJECT_STORE, retryable=True
            )
        call()
        message = f"the answer to {verb} {path} was lost"
        if verb in {"put_if_absent", "put_if_version"}:
            raise CommitUnknownError(message)
        raise StorageError(message, kind=ErrorKind.OBJECT_STORE, retryable=True)
