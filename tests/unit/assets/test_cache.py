"""A cache with limits, in which each value is loaded once however many ask."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream.assets.cache import WeightedCache


def cache_of(*limits: int) -> WeightedCache[str, str]:
    return WeightedCache[str, str](*limits)


def test_the_values_that_were_not_used_for_longest_make_room():
    cache = cache_of(3)
    for key in "abc":
        cache.put(key, key, (1,))
    assert cache.find("a") == "a"

    cache.put("d", "d", (1,))

    assert [cache.find(key) for key in "abcd"] == ["a", None, "c", "d"]
    assert cache.weights == (3,)


@pytest.mark.parametrize(
    ("weights", "kept"), [((10, 100), True), ((11, 1), False), ((1, 101), False), ((0, 0), True)]
)
def test_a_value_beyond_any_limit_is_not_kept_and_pushes_nothing_out(
    weights: tuple[int, int],
    kept: bool,  # noqa: FBT001  a parameter of the test
):
    cache = cache_of(10, 100)
    cache.put("before", "before", (0, 0))

    assert cache.get("a", lambda: "a", lambda _: weights) == "a"

    assert (cache.find("a") is not None) is kept
    assert cache.find("before") == "before"


def test_each_limit_makes_room_on_its_own():
    cache = cache_of(10, 100)
    cache.put("many", "many", (9, 1))
    cache.put("large", "large", (1, 98))

    cache.put("third", "third", (0, 2))

    assert cache.find("many") is None
    assert cache.weights == (1, 100)


def test_a_value_that_is_put_again_counts_once():
    cache = cache_of(10)
    cache.put("a", "first", (6,))
    cache.put("a", "second", (7,))

    assert cache.find("a") == "second"
    assert cache.weights == (7,)
    cache.put("a", "too heavy", (11,))
    assert cache.find("a") is None
    assert cache.weights == (0,)


def test_fifty_readers_cause_one_load():
    cache = cache_of(10)
    everybody = threading.Barrier(50, timeout=10)
    loads = []

    def load() -> str:
        loads.append(1)
        return "value"

    def read() -> str:
        everybody.wait()
        return cache.get("a", load, lambda _: (1,))

    with ThreadPoolExecutor(50) as pool:
        found = [reader.result(timeout=10) for reader in [pool.submit(read) for _ in range(50)]]

    assert found == ["value"] * 50
    assert len(loads) == 1


def test_a_failure_is_shared_by_those_who_wait_and_not_remembered():
    cache = cache_of(10)
    loading, waiting = threading.Event(), threading.Event()

    def fail() -> str:
        loading.set()
        assert waiting.wait(10)
        raise OSError("lost")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "a", fail, lambda _: (1,))
        assert loading.wait(10)
        second = pool.submit(cache.get, "a", lambda: "never loaded", lambda _: (1,))
        while not second.running():
            pass
        waiting.set()
        errors = [first.exception(timeout=10), second.exception(timeout=10)]

    assert isinstance(errors[0], OSError)
    # the second may have come after the first was over, and then it loads
    assert errors[1] is errors[0] or second.result() == "never loaded"
    assert cache.get("b", lambda: "b", lambda _: (1,)) == "b"


def test_a_failure_of_weighing_leaves_nobody_waiting():
    cache = cache_of(10)

    def refuse(_value: str) -> tuple[int, ...]:
        raise ValueError("no weight")

    with pytest.raises(ValueError, match="no weight"):
        cache.get("a", lambda: "a", refuse)

    assert cache.get("a", lambda: "b", lambda _: (1,)) == "b"


def test_what_is_loaded_while_the_cache_is_cleared_is_not_kept():
    cache = cache_of(10)

    def load() -> str:
        cache.clear()
        return "of a file that was deleted"

    assert cache.get("a", load, lambda _: (1,)) == "of a file that was deleted"
    assert cache.find("a") is None
    assert cache.weights == (0,)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12), st.integers(0, 120)), max_size=60))
def test_the_total_is_the_sum_of_what_is_kept_and_within_every_limit(puts):
    cache = WeightedCache[int, int](10, 100)
    last: dict[int, tuple[int, int]] = {}

    for key, count, size in puts:
        cache.put(key, key, (count, size))
        last[key] = (count, size)
        kept = [weights for key, weights in last.items() if cache.find(key) is not None]
        assert cache.weights == (sum(w[0] for w in kept), sum(w[1] for w in kept))
        assert cache.weights[0] <= 10
        assert cache.weights[1] <= 100


def test_fifty_threads_never_bring_it_beyond_its_limits():
    cache = WeightedCache[int, int](40, 400)
    seen: list[tuple[int, ...]] = []
    in_flight, most_in_flight = Counter[int](), Counter[int]()
    lock = threading.Lock()

    def load(key: int) -> int:
        with lock:
            in_flight[key] += 1
            most_in_flight[key] = max(most_in_flight[key], in_flight[key])
        seen.append(cache.weights)
        with lock:
            in_flight[key] -= 1
        return key + 1

    def work(seed: int) -> None:
        chosen = random.Random(seed)
        for _ in range(100):
            key = chosen.randrange(30)
            assert cache.get(key, partial(load, key), lambda v: (v, 11 * v)) == key + 1
            seen.append(cache.weights)

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(work, range(50)))

    assert all(count <= 40 and size <= 400 for count, size in seen)
    assert any(count > 20 for count, _ in seen)
    assert set(most_in_flight.values()) == {1}
