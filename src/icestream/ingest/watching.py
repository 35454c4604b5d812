"""The same run again and again: on an interval, with longer and longer pauses where it fails."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from icestream.errors import IcestreamError, InternalError

FIRST_PAUSE = 10.0
"""Seconds after a first failure; each further one doubles them."""
LONGEST_PAUSE = 600.0
"""Seconds, unless the interval is longer."""


class Stop(Protocol):
    """Says when to end; an event of `threading` is one."""

    def is_set(self) -> bool:
        """Tell whether it is time to end."""

    def wait(self, timeout: float) -> bool:
        """Wait, and tell whether it is time to end."""


@dataclass(frozen=True, slots=True)
class Attempt[R]:
    """One run: what it returned, or why it failed."""

    number: int
    report: R | None = None
    error: IcestreamError | None = None
    pause: float | None = None
    """Seconds until the next one; None if this was the last."""


def watch[R](
    run: Callable[[], R],
    *,
    interval: float,
    stop: Stop,
    max_runs: int | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Attempt[R]]:
    """Run, and run again, until it is time to stop; a failure ends nothing.

    Nothing is remembered between runs: what was done is in the ledger, so that a process that
    takes the place of this one goes on where it was.

    Args:
        run: Does one run.
        interval: Seconds from the start of a run to that of the next.
        stop: Says when to end; a run that is under way is finished first.
        max_runs: How many runs there are at most, failed ones too.
        now: The clock.

    Raises:
        InternalError: A run failed in a way that another one would fail in too.
    """
    failures = 0
    for number in count(1):
        started = now()
        report, error = _attempt(run)
        failures = failures + 1 if error else 0
        is_last = number == max_runs or stop.is_set()
        rest = max(interval - (now() - started), 0.0)
        pause = None if is_last else pause_after(failures, interval) if failures else rest
        yield Attempt(number, report, error, pause)
        if pause is None or stop.wait(pause):
            return


def pause_after(failures: int, interval: float) -> float:
    """Return how long to wait after some failures in a row."""
    doublings = min(failures - 1, 32)
    return min(FIRST_PAUSE * 2.0**doublings, max(interval, LONGEST_PAUSE))


def _attempt[R](run: Callable[[], R]) -> tuple[R | None, IcestreamError | None]:
    try:
        return run(), None
    except InternalError:
        raise  # a bug, or a Spark that is gone: a new process has a chance, this one has not
    except IcestreamError as error:
        return None, error
