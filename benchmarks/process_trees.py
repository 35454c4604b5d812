"""The memory and the processor time of this process and of all that it started."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measuring import MEGABYTE

_PROCESSES = Path("/proc")
_PERIOD_S = 0.5


@dataclass(slots=True)
class TreeMemory:
    """The largest resident memory that was seen, in megabytes; nothing where there is no /proc."""

    own_mb: float = 0.0
    """Of this process."""
    peaks: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Of processes below it: the name of the program, and its memory."""

    def largest_mb(self, program: str) -> float:
        """Return the memory of the largest process that runs a program."""
        return max((size for name, size in self.peaks.values() if program in name), default=0.0)

    def sample(self) -> None:
        """Look at all processes once."""
        self.own_mb = max(self.own_mb, _resident_mb(os.getpid()))
        for process in _descendants(os.getpid()):
            size = _resident_mb(process)
            name, before = self.peaks.get(process, (_program(process), 0.0))
            self.peaks[process] = (name, max(before, size))


@contextmanager
def watched_memory() -> Iterator[TreeMemory]:
    """Sample the memory of this process and those below it while the block runs."""
    memory, done = TreeMemory(), threading.Event()

    def watch() -> None:
        while not done.wait(_PERIOD_S):
            memory.sample()

    watcher = threading.Thread(target=watch, daemon=True)
    memory.sample()
    watcher.start()
    try:
        yield memory
    finally:
        done.set()
        watcher.join()
        memory.sample()


def tree_cpu_seconds() -> float:
    """Return the processor time of this process, of all below it and of all of them that ended."""
    ticks = sum(map(_cpu_ticks, (os.getpid(), *_descendants(os.getpid()))))
    return ticks / os.sysconf("SC_CLK_TCK")


def _cpu_ticks(process: int) -> int:
    """Return user and system time, with that of children that were waited for."""
    status = _text(_PROCESSES / str(process) / "stat")
    return sum(map(int, status.rpartition(")")[2].split()[11:15]))


def _descendants(process: int) -> Iterator[int]:
    for child in _children(process):
        yield child
        yield from _descendants(child)


def _children(process: int) -> list[int]:
    return [
        int(child)
        for path in _PROCESSES.glob(f"{process}/task/*/children")
        for child in _text(path).split()
    ]


def _resident_mb(process: int) -> float:
    fields = _text(_PROCESSES / str(process) / "statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE if fields else 0.0


def _program(process: int) -> str:
    return _text(_PROCESSES / str(process) / "comm").strip()


def _text(path: Path) -> str:
    """Return what a file says; nothing if its process has ended meanwhile."""
    try:
        return path.read_text()
    except OSError:
        return ""
