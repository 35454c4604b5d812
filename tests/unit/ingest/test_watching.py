"""Runs on an interval, and what a failure changes."""

import pytest

from icestream.errors import InternalError, StorageError
from icestream.ingest.watching import pause_after, watch


class Clock:
    """Time passes only where somebody waits or works; the end comes after so many seconds."""

    def __init__(self, end: float = float("inf")) -> None:
        self.time = 0.0
        self.end = end

    def now(self) -> float:
        return self.time

    def is_set(self) -> bool:
        return self.time >= self.end

    def wait(self, timeout: float) -> bool:
        self.time = min(self.time + timeout, self.end)
        return self.is_set()


def worker(clock: Clock, outcomes: list[str], seconds: float = 0):
    """Return a run that takes time, notes when it began, and fails where it shall."""
    begun: list[float] = []

    def run() -> float:
        begun.append(clock.time)
        clock.time += seconds
        outcome = outcomes[len(begun) - 1] if len(begun) <= len(outcomes) else "ok"
        if outcome == "fail":
            raise StorageError("the store is away")
        return clock.time

    return run, begun


def test_runs_begin_at_an_interval_however_long_they_take():
    clock = Clock()
    run, begun = worker(clock, [], seconds=20)
    attempts = list(watch(run, interval=60, stop=clock, max_runs=3, now=clock.now))
    assert begun == [0, 60, 120]
    assert [attempt.pause for attempt in attempts] == [40, 40, None]
    assert [attempt.report for attempt in attempts] == [20, 80, 140]


def test_a_run_that_takes_longer_than_the_interval_is_followed_at_once():
    clock = Clock()
    run, begun = worker(clock, [], seconds=90)
    list(watch(run, interval=60, stop=clock, max_runs=2, now=clock.now))
    assert begun == [0, 90]


def test_failures_in_a_row_wait_longer_and_a_success_ends_the_row():
    clock = Clock()
    run, begun = worker(clock, ["fail", "fail", "ok", "fail"])
    attempts = list(watch(run, interval=3600, stop=clock, max_runs=5, now=clock.now))
    assert begun == [0, 10, 30, 3630, 3640]
    assert [attempt.error is not None for attempt in attempts] == [True, True, False, True, False]
    assert [attempt.number for attempt in attempts] == [1, 2, 3, 4, 5]


def test_a_signal_to_stop_during_a_run_ends_after_it():
    clock = Clock(end=130)
    run, begun = worker(clock, [], seconds=20)
    attempts = list(watch(run, interval=60, stop=clock, now=clock.now))
    assert begun == [0, 60, 120]
    assert attempts[-1].pause is None


def test_a_signal_to_stop_during_a_pause_ends_at_once():
    clock = Clock(end=100)
    run, begun = worker(clock, [], seconds=20)
    list(watch(run, interval=60, stop=clock, now=clock.now))
    assert begun == [0, 60]
    assert clock.time == 100


def test_what_only_a_new_process_could_mend_ends_it():
    clock = Clock()

    def run() -> None:
        raise InternalError("Spark is gone")

    with pytest.raises(InternalError):
        list(watch(run, interval=1, stop=clock, now=clock.now))


def test_other_errors_are_not_hidden():
    clock = Clock()
    with pytest.raises(ZeroDivisionError):
        list(watch(lambda: 1 // 0, interval=1, stop=clock, now=clock.now))


@pytest.mark.parametrize(
    ("failures", "interval", "pause"),
    [(1, 5, 10), (2, 5, 20), (7, 5, 600), (1000, 5, 600), (9, 3600, 2560), (12, 3600, 3600)],
)
def test_pauses_double_up_to_a_limit(failures, interval, pause):
    assert pause_after(failures, interval) == pause
