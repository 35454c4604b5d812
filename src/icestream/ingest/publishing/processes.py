"""Which process on which machine: enough to tell later whether it is still there."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PROC = Path("/proc")
_ENDED = frozenset({"Z", "X", "x"})
"""States of processes that have ended, and whose parents have not noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process, among all that ever were."""

    host: str
    """Its name, for people."""
    machine: str
    """Where process ids mean the same; two that differ tell nothing about each other."""
    pid: int
    started: str | None = None
    """When, in the words of its system; tells it from a later one of the same id."""

    @classmethod
    def current(cls) -> Self:
        """Return this process."""
        pid = os.getpid()
        return cls(
            host=socket.gethostname(), machine=_machine(), pid=pid, started=_started(pid) or None
        )

    @property
    def is_gone(self) -> bool:
        """Whether it is known that the process has ended; False also where that is not known."""
        if self.machine != _machine():
            return False
        if _PROC.is_dir():
            return _started(self.pid) != self.started
        return not _exists(self.pid)


def _machine() -> str:
    """Return what all processes share that see each other's ids, since the machine was started."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = (_PROC / "self/ns/pid").readlink().name
    except OSError:
        return socket.gethostname()
    return f"{boot}/{namespace}"


def _started(pid: int) -> str | None:
    """Return when a process started, in ticks since the start of the machine; None if it ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # proc(5): the name may hold anything, also brackets; 3 is the state, 22 the start
    state, *rest = text.rpartition(")")[2].split()
    return None if state in _ENDED else rest[18]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
