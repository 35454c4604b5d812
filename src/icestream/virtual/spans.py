"""A bounded store of byte ranges of objects that are loaded, or being loaded."""

import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

type ObjectKey = tuple[str, str | None, int]
"""Location and recorded checksum: references that disagree about an object share no bytes."""

_KEEP_S = 10.0
"""Bytes that are older are fetched again: the object may have changed."""
_CONSUMED_SHARE = 4
"""The part of the cache, as a divisor, for what was asked for already: another may follow."""


class Span:
    """Bytes `[start, end)` of an object; `future` holds them once they are there."""

    __slots__ = ("born", "end", "future", "key", "left", "on_use", "start")

    def __init__(self, key: ObjectKey, start: int, end: int) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.future: Future[bytes] = Future()
        self.future.set_running_or_notify_cancel()  # so that no waiter can cancel it for others
        self.left = 0
        """References in it that nobody has asked for yet."""
        self.on_use: Callable[[], None] | None = None
        """Called when the first of them is asked for."""
        self.born = time.monotonic()

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.end - self.start

    def cut(self, start: int, end: int) -> bytes:
        """Return a part of the bytes, when they are there.

        Raises:
            IcestreamError: They could not be loaded.
        """
        return self.future.result()[start - self.start : end - self.start]


class SpanStore:
    """Spans by object and position, up to a total size. Not thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._by_object: dict[ObjectKey, list[Span]] = {}
        self._all: OrderedDict[Span, None] = OrderedDict()
        self._consumed: OrderedDict[Span, None] = OrderedDict()
        self._bytes = 0
        self._consumed_bytes = 0

    @property
    def size(self) -> int:
        """Bytes that are kept, or will be."""
        return self._bytes

    def __contains__(self, span: Span) -> bool:
        return span in self._all

    def find(self, key: ObjectKey, start: int, end: int) -> Span | None:
        """Return the span that holds a range."""
        spans = self._by_object.get(key)
        if spans is None:
            return None
        position = bisect_right(spans, start, key=_start_of) - 1
        span = spans[position] if position >= 0 else None
        if span is None or span.end < end:
            return None
        if time.monotonic() - span.born > _KEEP_S:
            self.remove(span)
            return None
        return span

    def holds(self, key: ObjectKey, starts: Int64, ends: Int64) -> npt.NDArray[np.bool_]:
        """Tell which of many ranges are in a span."""
        held = np.zeros(len(starts), bool)
        for span in self._by_object.get(key, ()):
            held |= (span.start <= starts) & (ends <= span.end)
        return held

    def consume(self, span: Span) -> None:
        """Note that one reference of a span was asked for; after all of them it may go."""
        span.left -= 1
        if span.left or span not in self._all:
            return
        self._consumed[span] = None
        self._consumed_bytes += span.size
        while self._consumed_bytes > self._max_bytes // _CONSUMED_SHARE:
            self.remove(next(iter(self._consumed)))

    def make_room(self, size: int) -> bool:
        """Drop old bytes for new ones; False if there is no room even so."""
        while self._bytes + size > self._max_bytes:
            oldest = next(iter(self._consumed), None) or next(
                (span for span in self._all if span.future.done()), None
            )
            if oldest is None:
                return False
            self.remove(oldest)
        return True

    def add(self, span: Span) -> None:
        """Keep a span."""
        spans = self._by_object.setdefault(span.key, [])
        spans.insert(bisect_right(spans, span.start, key=_start_of), span)
        self._all[span] = None
        self._bytes += span.size

    def remove(self, span: Span) -> None:
        """Forget a span, if it is kept; who holds it may still use it."""
        if span not in self._all:
            return
        span.on_use = None  # it holds the other spans of its window
        del self._all[span]
        self._bytes -= span.size
        if span in self._consumed:
            del self._consumed[span]
            self._consumed_bytes -= span.size
        spans = self._by_object[span.key]
        spans.remove(span)
        if not spans:
            del self._by_object[span.key]


def _start_of(span: Span) -> int:
    return span.start
