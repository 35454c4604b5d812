"""A cache bounded by weight, in which each value is loaded once however many ask."""

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future


class WeightedCache[K: Hashable, V]:
    """Least recently used values up to a total weight; thread-safe, empty after a fork.

    Locks and futures of the standard library, not of asyncio: the loops of zarr and of the user
    and plain threads all meet here.
    """

    def __init__(self, max_weight: int) -> None:
        self.max_weight = max_weight
        self._reset()
        _ALL_CACHES.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._loading: dict[K, Future[V]] = {}
        self._weight = 0

    @property
    def weight(self) -> int:
        """Weight of everything kept."""
        return self._weight

    def find(self, key: K) -> V | None:
        """Return a value that is there already."""
        with self._lock:
            return self._touch(key)

    def get(self, key: K, load: Callable[[], V], weigh: Callable[[V], int]) -> V:
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

    def put(self, key: K, value: V, weight: int) -> None:
        """Keep a value, if it is not heavier than the whole cache."""
        with self._lock:
            self._keep(key, value, weight)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._weight = 0

    def _load(self, key: K, mine: Future[V], load: Callable[[], V], weigh: Callable[[V], int]) -> V:
        try:
            value = load()
        except BaseException as error:
            with self._lock:
                self._loading.pop(key, None)
            mine.set_exception(error)
            raise
        with self._lock:
            self._keep(key, value, weigh(value))
            self._loading.pop(key, None)
        mine.set_result(value)
        return value

    def _touch(self, key: K) -> V | None:
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def _keep(self, key: K, value: V, weight: int) -> None:
        if key in self._values:
            self._weight -= self._values.pop(key)[1]
        if weight > self.max_weight:
            return
        self._values[key] = (value, weight)
        self._weight += weight
        while self._weight > self.max_weight:
            _, (_, dropped) = self._values.popitem(last=False)
            self._weight -= dropped


_ALL_CACHES: "weakref.WeakSet[WeightedCache[object, object]]" = weakref.WeakSet()


def _reset_all() -> None:
    """Start afresh in a forked child: a lock may be held by a thread that does not exist there."""
    for cache in list(_ALL_CACHES):
        cache._reset()  # noqa: SLF001  the cache's own module


os.register_at_fork(after_in_child=_reset_all)
