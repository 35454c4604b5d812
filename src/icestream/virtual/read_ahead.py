"""Bytes of neighbouring references, fetched together, and before anybody asks for them.

zarr asks for chunks one by one, a few at a time. Requests of the same moment are merged, which
saves requests. When the chunks of an object are read in order, the references that follow in the
manifest are fetched in windows that grow, each started when the one before it is first used, which
saves time.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from icestream.model.chunk_tables import ChunkTable
from icestream.virtual.coalesce import FetchPlan, Int64, plan_ranges
from icestream.virtual.read_settings import ReadSettings
from icestream.virtual.sequences import Cursor, RowHint, Rows, SequenceDetector, sound_rows
from icestream.virtual.spans import ObjectKey, Span, SpanStore

_THREADS = 16
_MAX_WINDOW_REQUESTS = 32
"""Requests for one window: where references are far apart, fewer of them are fetched ahead."""

type Load = Callable[[int, int], bytes]
"""Fetches a range of one object."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A range of an object that somebody waits for."""

    start: int
    end: int
    hint: RowHint | None = None
    """Where its reference is, if all of the chunk is wanted."""


@dataclass(frozen=True, slots=True, eq=False)
class _Ahead:
    """References to fetch before they are asked for."""

    cursor: Cursor
    table: ChunkTable
    rows: Rows

    @property
    def offsets(self) -> Int64:
        """Where they begin in the object."""
        return self.table.byte_offset[self.rows].astype(np.int64)

    @property
    def lengths(self) -> Int64:
        """How many bytes they are."""
        return self.table.length[self.rows].astype(np.int64)

    @property
    def last(self) -> RowHint:
        """The last reference."""
        return RowHint(self.table, int(self.rows[-1]))


@dataclass(frozen=True, slots=True)
class _Work:
    """What is wanted of one object, and how to get it."""

    key: ObjectKey
    load: Load
    wanted: Sequence[Wanted] = ()


class ReadAhead:
    """Merges and anticipates requests of all threads and event loops of a reader.

    Requests that several wait for run on threads of its own: they end whatever becomes of the
    event loop, thread or task that was the first to ask.
    """

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._spans = SpanStore(settings.cache_bytes)
        self._detector = SequenceDetector()
        self._threads: ThreadPoolExecutor | None = None

    @property
    def cached_bytes(self) -> int:
        """Bytes that are kept, or being fetched to be kept."""
        return self._spans.size

    def find(self, key: ObjectKey, start: int, end: int) -> Span | None:
        """Return the span that holds a range, loaded or not."""
        with self._lock:
            return self._take(key, start, end)

    def plan(self, key: ObjectKey, load: Load, wanted: Sequence[Wanted]) -> list[Span | None]:
        """Start to fetch ranges of an object that `find` did not find.

        Returns:
            For each range the span that will hold it, or None if it is best fetched by itself.
        """
        with self._lock:
            # others may have been quicker since
            found = {i: self._take(key, one.start, one.end) for i, one in enumerate(wanted)}
            missing = [i for i, span in found.items() if span is None]
            if missing:
                started = self._start_all(_Work(key, load, [wanted[i] for i in missing]))
                found.update(zip(missing, started, strict=True))
        return list(found.values())

    def _take(self, key: ObjectKey, start: int, end: int) -> Span | None:
        span = self._spans.find(key, start, end)
        if span is not None:
            self._spans.consume(span)
            if span.on_use is not None:
                span.on_use()
        return span

    def _start_all(self, work: _Work) -> list[Span | None]:
        """Fetch what is wanted: for readers who go in order with what follows, else as it is."""
        found: dict[int, Span | None] = {}
        rest = dict(enumerate(work.wanted))
        for ahead, positions in self._anticipate(work):
            ours = replace(work, wanted=[rest.pop(position) for position in positions])
            found.update(zip(positions, self._start(ours, ahead), strict=True))
        if rest:
            others = replace(work, wanted=list(rest.values()))
            found.update(zip(rest, self._start(others, None), strict=True))
        return [found[position] for position in range(len(work.wanted))]

    def _anticipate(self, work: _Work) -> Iterator[tuple[_Ahead, list[int]]]:
        """Yield what to fetch ahead for readers who go in order, and what they ask for now."""
        if not self._settings.read_ahead_refs:
            return
        hints = [one.hint for one in work.wanted]
        for cursor, positions in self._detector.observe(hints):
            hint = hints[positions[0]]
            if hint is not None:
                ahead = self._next_window(work.key, cursor, RowHint(hint.table, cursor.row))
                if ahead is not None:
                    yield ahead, positions

    def _next_window(self, key: ObjectKey, cursor: Cursor, last: RowHint) -> _Ahead | None:
        settings = self._settings
        rows = last.following(cursor.widen(settings.read_ahead_refs))
        # one window is used while the next is fetched
        max_bytes = min(settings.read_ahead_bytes, settings.cache_bytes // 2)
        ahead = _Ahead(cursor, last.table, sound_rows(last.table, rows, max_bytes))
        # another reader may be a little further on
        held = self._spans.holds(key, ahead.offsets, ahead.offsets + ahead.lengths)
        ahead = replace(ahead, rows=ahead.rows[~held]) if held.any() else ahead
        return ahead if len(ahead.rows) else None

    def _advance(self, work: _Work, ahead: _Ahead, window: list[Span]) -> None:
        """Fetch the window after one that has come into use."""
        for span in window:
            span.on_use = None
        following = self._next_window(work.key, ahead.cursor, ahead.last)
        if following is not None:
            self._start(replace(work, wanted=()), following)

    # -- requests -------------------------------------------------------------------------------

    def _start(self, work: _Work, ahead: _Ahead | None) -> list[Span | None]:
        plan, ahead = self._merged_within_limits(work, ahead)
        count = len(work.wanted)
        num_wanted = np.bincount(plan.fetch_of[:count], minlength=len(plan)).tolist()
        num_ahead = np.bincount(plan.fetch_of[count:], minlength=len(plan)).tolist()
        spans = [
            None if num_wanted[i] == 1 and not num_ahead[i] else Span(work.key, *plan[i])
            for i in range(len(plan))
        ]
        for span, left in zip(spans, num_ahead, strict=True):
            if span is not None:
                span.left = left
                self._submit(span, work.load)
        if ahead is not None:
            self._keep(work, ahead, [span for span in spans if span is not None and span.left])
        return [spans[i] for i in plan.fetch_of[:count]]

    def _keep(self, work: _Work, ahead: _Ahead, window: list[Span]) -> None:
        """Let others find a window; its first use starts the next one."""
        ahead.cursor.row = ahead.last.row
        for span in window:
            span.on_use = partial(self._advance, work, ahead, window)
            self._spans.add(span)

    def _merged_within_limits(
        self, work: _Work, ahead: _Ahead | None
    ) -> tuple[FetchPlan, _Ahead | None]:
        """Plan requests, with a window that is cut if they are many, and left out without room."""
        plan = self._merged(work, ahead)
        if ahead is None:
            return plan, None
        fetches, firsts = np.unique(plan.fetch_of[len(work.wanted) :], return_index=True)
        if len(fetches) > _MAX_WINDOW_REQUESTS:
            fitting = ahead.rows[: int(np.sort(firsts)[_MAX_WINDOW_REQUESTS])]
            return self._merged_within_limits(work, replace(ahead, rows=fitting))
        if not self._spans.make_room(int((plan.ends - plan.starts)[fetches].sum())):
            return self._merged(work, None), None
        return plan, ahead

    def _merged(self, work: _Work, ahead: _Ahead | None) -> FetchPlan:
        starts = np.array([one.start for one in work.wanted], np.int64)
        lengths = np.array([one.end - one.start for one in work.wanted], np.int64)
        if ahead is not None:
            starts = np.concatenate([starts, ahead.offsets])
            lengths = np.concatenate([lengths, ahead.lengths])
        settings = self._settings
        return plan_ranges(
            starts, lengths, max_gap=settings.max_gap_bytes, max_size=settings.max_request_bytes
        )

    def _submit(self, span: Span, load: Load) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="icestream-virtual")
        self._threads.submit(self._fill, span, load)

    def _fill(self, span: Span, load: Load) -> None:
        try:
            data = load(span.start, span.end)
        except BaseException as error:
            with self._lock:
                self._spans.remove(span)
            span.future.set_exception(error)
            raise
        span.future.set_result(data)
