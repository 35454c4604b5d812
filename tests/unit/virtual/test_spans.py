"""Byte ranges in memory: found by position, bounded in size, forgotten in time."""

import numpy as np
import pytest

from icestream.virtual import spans as module
from icestream.virtual.spans import ObjectKey, Span, SpanStore

KEY: ObjectKey = ("s3://bucket/x", None, 0)


def loaded(start: int, end: int, *, left: int = 1, key: ObjectKey = KEY) -> Span:
    span = Span(key, start, end)
    span.left = left
    span.future.set_result(bytes(range(start, end)))
    return span


def test_a_range_is_found_in_the_span_that_holds_it() -> None:
    store = SpanStore(1000)
    spans = [loaded(0, 10), loaded(20, 30), loaded(10, 20)]
    for span in spans:
        store.add(span)

    assert store.find(KEY, 12, 20) is spans[2]
    assert store.find(KEY, 20, 30) is spans[1]
    assert store.find(KEY, 8, 12) is None
    assert store.find(KEY, 28, 31) is None
    assert store.find(("s3://bucket/x", "etag", 0), 12, 20) is None
    held = store.holds(KEY, np.array([0, 5, 12, 25]), np.array([10, 15, 20, 31]))
    assert held.tolist() == [True, False, True, False]
    assert spans[2].cut(12, 15) == bytes([12, 13, 14])


def test_room_is_made_by_dropping_what_was_used_and_then_what_is_old() -> None:
    store = SpanStore(40)
    old, used, young = loaded(0, 10, left=2), loaded(10, 20), loaded(20, 30, left=2)
    for span in (old, used, young):
        store.add(span)
    store.consume(used)

    assert store.make_room(20)
    assert [span in store for span in (old, used, young)] == [True, False, True]
    assert store.make_room(30)
    assert [span in store for span in (old, young)] == [False, True]
    assert store.size == 10


def test_what_is_still_being_loaded_is_not_dropped() -> None:
    store = SpanStore(40)
    loading = Span(KEY, 0, 30)
    loading.left = 1
    store.add(loading)

    assert not store.make_room(20)
    assert loading in store


def test_what_was_used_up_stays_only_in_a_part_of_the_cache() -> None:
    store = SpanStore(40)
    spans = [loaded(start, start + 5) for start in range(0, 40, 5)]
    for span in spans:
        store.add(span)
        store.consume(span)

    assert store.size == 10
    assert store.find(KEY, 35, 40) is spans[-1]


def test_what_is_old_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SpanStore(1000)
    store.add(loaded(0, 10))
    monkeypatch.setattr(module, "_KEEP_S", -1.0)

    assert store.find(KEY, 0, 10) is None
    assert store.size == 0


def test_no_waiter_can_cancel_what_others_wait_for() -> None:
    span = Span(KEY, 0, 10)

    assert not span.future.cancel()
