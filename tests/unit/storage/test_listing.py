"""A listing that breaks off goes on, without gaps or repetitions, or says that it cannot."""

from collections.abc import Iterator
from typing import Any

import pytest

from icestream.storage.listing import METAS, resumed_pages
from icestream.storage.retries import RetryPolicy

QUICK = RetryPolicy(max_tries=3, initial_backoff_s=0.001)
KEYS = [f"{number:02}" for number in range(10)]


class Store:
    """Lists its keys in pages of three, and breaks the connection before some pages."""

    def __init__(self, keys: list[str], breaks: list[int], *, ignores_offset: bool = False) -> None:
        self.keys = keys
        self.breaks = breaks
        self.ignores_offset = ignores_offset
        self.offsets: list[str | None] = []

    def pages(self, offset: str | None) -> Iterator[list[dict[str, Any]]]:
        self.offsets.append(offset)
        skip = self.ignores_offset or offset is None
        keys = self.keys if skip else [key for key in self.keys if key > offset]  # type: ignore[operator] # checked above
        for start in range(0, len(keys), 3):
            if self.breaks and len(self.keys) - len(keys) + start >= self.breaks[0]:
                self.breaks.pop(0)
                raise OSError("error decoding response body")
            yield [{"path": key} for key in keys[start : start + 3]]


def _keys(store: Store) -> list[str]:
    return [meta["path"] for page in resumed_pages(store.pages, QUICK, METAS) for meta in page]


def test_goes_on_behind_the_last_key() -> None:
    store = Store(KEYS, breaks=[6])

    assert _keys(store) == KEYS
    assert store.offsets == [None, "05"]


def test_starts_again_when_nothing_was_seen() -> None:
    store = Store(KEYS, breaks=[0, 0])

    assert _keys(store) == KEYS
    assert store.offsets == [None, None, None]


def test_repeats_nothing_where_the_offset_is_ignored() -> None:
    assert _keys(Store(KEYS, breaks=[3], ignores_offset=True)) == KEYS


def test_gives_up_when_it_breaks_too_often() -> None:
    with pytest.raises(OSError, match="response body"):
        _keys(Store(KEYS, breaks=[3, 3, 3]))


def test_a_listing_out_of_order_cannot_go_on() -> None:
    shuffled = KEYS[5:] + KEYS[:5]

    assert _keys(Store(shuffled, breaks=[])) == shuffled
    with pytest.raises(OSError, match="response body"):
        _keys(Store(shuffled, breaks=[8], ignores_offset=True))


def _refuse() -> list[Any]:
    raise OSError("Server returned non-2xx status code: 403 Forbidden")


def test_a_refusal_is_not_repeated() -> None:
    store = Store(KEYS, breaks=[])

    def denied(offset: str | None) -> Iterator[list[Any]]:
        store.offsets.append(offset)
        yield from (_refuse() for _ in range(1))

    with pytest.raises(OSError, match="403"):
        list(resumed_pages(denied, QUICK, METAS))
    assert store.offsets == [None]
