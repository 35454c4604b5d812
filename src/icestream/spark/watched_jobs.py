"""Jobs that tell how far they have come: executors count, and a thread passes it on."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext

from icestream.ingest.progress import Progress

_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True, slots=True)
class Tally:
    """What executors have done, counted as their tasks end. It travels to them."""

    done: Any
    references: Any
    set_aside: Any

    @classmethod
    def of(cls, context: SparkContext) -> "Tally":
        """Return a tally that stands at zero."""
        return cls(*(context.accumulator(0) for _ in range(3)))

    def add(self, done: int = 1, *, references: int = 0, set_aside: int = 0) -> None:
        """Count, on an executor."""
        self.done.add(done)
        self.references.add(references)
        self.set_aside.add(set_aside)

    def values(self) -> tuple[int, int, int]:
        """Return the counts, on the driver."""
        return self.done.value, self.references.value, self.set_aside.value


@contextmanager
def watched(
    context: SparkContext, description: str, tally: Tally, progress: Progress
) -> Iterator[None]:
    """Name the jobs that are started inside, and tell a listener how far they have come."""
    told = (0, 0, 0)
    is_over = threading.Event()

    def tell() -> None:
        nonlocal told
        now = tally.values()
        done, references, set_aside = (new - old for new, old in zip(now, told, strict=True))
        if done > 0:
            progress.advance(done, references=max(references, 0), set_aside=max(set_aside, 0))
            told = now

    def watch() -> None:
        while not is_over.wait(_SECONDS_BETWEEN_LOOKS):
            tell()

    watcher = threading.Thread(target=watch, name="icestream-progress", daemon=True)
    context.setJobDescription(f"icestream: {description}")
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
        context.setLocalProperty("spark.job.description", "")
        tell()
