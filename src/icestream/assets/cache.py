"""A cache bounded by weight, in which each value is loaded once however many ask."""

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future

type Weights = tuple[int, ...]
"""How heavy a value is in each respect that the cache has a limit for."""


class WeightedCache[K: Hashable, V]:
    """Least recently used values up to total weights; thread-safe, empty after a fork.

    Locks and futures of the standard library, not of asyncio: the loops of zarr and of the user
    and plain threads all meet here.
    """

    def __init__(self, *limits: int) -> None:
        self.limits = limits
        self._reset()
        _ALL_CACHES.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[K, tuple[V, Weights]] = OrderedDict()
        self._loading: dict[K, Future[V]] = {}
        self._weights: Weights = (0,) * len(self.limits)

    @property
    def weights(self) -> Weights:
        """Weights of everything kept."""
        return self._weights

    def find(self, key: K) -> V | None:
        """Return a value that is there already."""
        with self._lock:
            return self._touch(key)

    def get(self, key: K, load: Callable[[], V], weigh: Callable[[V], Weights]) -> V:
        """Return the value of `key`; one caller loads it, the others wait for that caller."""
        with self._lock:
            value = self._touch(key)
            if value is not None:
                return value
            pending = self._loading.get(key)
            if pending is None:
                self._loading[key] = mine = Future[V]()
        if pending is not None:
            return pending.result()
        return self._load(key, mine, load, weigh)

    def put(self, key: K, value: V, weights: Weights) -> None:
        """Keep a value, if it is not heavier than the whole cache."""
        with self._lock:
            self._keep(key, value, weights)

    def clear(self) -> None:
        """Forget everything, and what is being loaded as soon as its readers have it."""
        with self._lock:
            self._values.clear()
            self._loading.clear()
            self._weights = (0,) * len(self.limits)

    def _load(
        self, key: K, mine: Future[V], load: Callable[[], V], weigh: Callable[[V], Weights]
    ) -> V:
        try:
            value = load()
            weights = weigh(value)
        except BaseException as error:
            with self._lock:
                self._ends(key, mine)
            mine.set_exception(error)
            raise
        with self._lock:
            if self._ends(key, mine):
                self._keep(key, value, weights)
        mine.set_result(value)
        return value

    def _ends(self, key: K, mine: Future[V]) -> bool:
        """Take note that a load is over; tell whether the cache was not cleared meanwhile."""
        if self._loading.get(key) is not mine:
            return False
        del self._loading[key]
        return True

    def _touch(self, key: K) -> V | None:
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def _keep(self, key: K, value: V, weights: Weights) -> None:
        if key in self._values:
            self._subtract(self._values.pop(key)[1])
        if self._exceeds(weights):
            return
        # room is made first: the total is never beyond a limit, not even for a moment
        while self._exceeds(_sums(self._weights, weights)):
            self._subtract(self._values.popitem(last=False)[1][1])
        self._values[key] = (value, weights)
        self._weights = _sums(self._weights, weights)

    def _subtract(self, weights: Weights) -> None:
        pairs = zip(self._weights, weights, strict=True)
        self._weights = tuple(total - weight for total, weight in pairs)

    def _exceeds(self, weights: Weights) -> bool:
        return any(weight > limit for weight, limit in zip(weights, self.limits, strict=True))


def _sums(left: Weights, right: Weights) -> Weights:
    return tuple(a + b for a, b in zip(left, right, strict=True))


_ALL_CACHES: "weakref.WeakSet[WeightedCache[object, object]]" = weakref.WeakSet()


def _reset_all() -> None:
    """Start afresh in a forked child: a lock may be held by a thread that does not exist there."""
    for cache in list(_ALL_CACHES):
        cache._reset()  # noqa: SLF001  the cache's own module


os.register_at_fork(after_in_child=_reset_all)
