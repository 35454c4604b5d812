"""A few threads for work that nobody has to wait for.

The threads of `concurrent.futures` are joined when the interpreter exits: a fetch from a store that
does not answer would hold it up. These are daemons, and so few that sessions cannot pile them up.
"""

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

_LOGGER = logging.getLogger(__name__)

type Work = Callable[[], object]


class BackgroundThreads:
    """Runs pieces of work in order, a few at a time; what they raise is logged and forgotten."""

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
        self.reset()

    def reset(self) -> None:
        """Forget threads and work: a forked child has neither."""
        self._lock = threading.Lock()
        self._queue: SimpleQueue[tuple[Work, Future[None]]] = SimpleQueue()
        self._threads = 0
        self._unfinished = 0

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return self._threads

    def submit(self, work: Work) -> Future[None]:
        """Run a piece of work some time soon; the result only says when it has ended."""
        end = Future[None]()
        with self._lock:
            self._unfinished += 1
            needs_thread = self._threads < min(self._unfinished, self._max_threads)
            self._threads += needs_thread
        self._queue.put((work, end))
        if needs_thread:
            self._start_thread()
        return end

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._run, name="icestream-background", daemon=True).start()
        except RuntimeError:
            # the interpreter is on its way out, or the system has no more threads
            _LOGGER.debug("no thread for background work", exc_info=True)
            with self._lock:
                self._threads -= 1
            if not self._threads:
                self._give_up()

    def _give_up(self) -> None:
        while not self._queue.empty():
            self._queue.get()[1].set_result(None)

    def _run(self) -> None:
        while True:
            work, end = self._queue.get()
            try:
                work()
            except Exception:  # the outermost frame: nobody is there to be told
                _LOGGER.debug("background work failed", exc_info=True)
            with self._lock:
                self._unfinished -= 1
            # waiting for more must keep nothing alive that the work held
            del work
            end.set_result(None)
            del end


BACKGROUND = BackgroundThreads(4)
"""Shared by all repositories of the process."""

os.register_at_fork(after_in_child=BACKGROUND.reset)
