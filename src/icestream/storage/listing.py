"""Listings that go on where they broke off; obstore gives up when the body of a page is cut."""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Protocol

from icestream.storage.obstore_library import failures
from icestream.storage.retries import RetryPolicy
from icestream.storage.translation import PASSING, classify


class PageKind[Page](Protocol):
    """What must be known of a page to go on behind it."""

    def keys(self, page: Page) -> list[str]:
        """Return the keys of a page."""

    def behind(self, page: Page, key: str) -> Page:
        """Return the part of a page with keys behind one."""


class Metas:
    """Pages as lists of what is known of each object."""

    def keys(self, page: list[Any]) -> list[str]:
        """Return the keys of a page."""
        return [meta["path"] for meta in page]

    def behind(self, page: list[Any], key: str) -> list[Any]:
        """Return the part of a page with keys behind one."""
        return [meta for meta in page if meta["path"] > key]


METAS = Metas()


def resumed_pages[Page](
    open_pages: Callable[[str | None], Iterator[Page]],
    retry: RetryPolicy,
    kind: PageKind[Page],
) -> Iterator[Page]:
    """Yield the pages of a listing, each key once.

    `open_pages` starts a listing behind a given key. Going on behind the last key seen is right
    only where keys come in order, as they do everywhere but in S3's directory buckets; a listing
    out of order that breaks is an error.
    """
    delays_s = retry.delays_s()
    next(delays_s)
    position = _Position(kind)
    pages = open_pages(None)
    while True:
        try:
            page = next(pages, None)
        except failures() as error:
            delay_s = next(delays_s, None)
            if classify(error) not in PASSING or delay_s is None or not position.in_order:
                raise
            time.sleep(delay_s)
            pages = open_pages(position.resume())
            continue
        if page is None:
            return
        yield position.pass_over(page)


class _Position[Page]:
    """How far a listing came."""

    def __init__(self, kind: PageKind[Page]) -> None:
        self.in_order = True
        self._kind = kind
        self._last: str | None = None
        self._resumed_behind: str | None = None

    def resume(self) -> str | None:
        self._resumed_behind = self._last
        return self._last

    def pass_over(self, page: Page) -> Page:
        """Return the page without what came before the listing was resumed; Azure repeats it."""
        behind = self._resumed_behind
        if behind is not None:
            page = self._kind.behind(page, behind)
        keys = self._kind.keys(page)
        if self._last is not None:
            keys.insert(0, self._last)
        self.in_order &= all(one < other for one, other in pairwise(keys))
        self._last = keys[-1] if keys else self._last
        return page
