"""What a step costs: processor time, wall time, memory and bytes on disk."""

import ctypes
import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

MEGABYTE = 1_000_000

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


@dataclass(slots=True)
class Cost:
    """What a step took; filled in when it ends."""

    cpu_s: float = 0.0
    """User and system time of all threads of the process."""
    wall_s: float = 0.0
    peak_mb: float = 0.0
    """The largest resident memory during the step, above that before it."""


@contextmanager
def measured() -> Iterator[Cost]:
    """Measure the block."""
    cost = Cost()
    _return_free_memory()
    before = _reset_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    yield cost
    cost.cpu_s, cost.wall_s = time.process_time() - cpu, time.perf_counter() - wall
    cost.peak_mb = (_memory("VmHWM") - before) / MEGABYTE


def resident_bytes() -> int:
    """Return the memory that the process holds, after it gave back what is free."""
    _return_free_memory()
    return _memory("VmRSS")


def folder_bytes(*folders: Path) -> int:
    """Return the size of all files below some folders."""
    return sum(
        file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file()
    )


def evict(folder: Path) -> None:
    """Ask the system to forget the contents of files, so that reading them touches the disk."""
    if not hasattr(os, "posix_fadvise"):
        return
    for file in folder.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            try:
                os.fsync(handle)  # what is not on disk yet cannot be forgotten
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


def _return_free_memory() -> None:
    """Give back what building the inputs left free, or the step would get it for nothing."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _reset_peak() -> int:
    if not _CLEAR_REFS.exists():
        return 0
    _CLEAR_REFS.write_text(_RESET_PEAK)
    return _memory("VmRSS")


def _memory(field: str) -> int:
    """Return a field of the process status in bytes; 0 where the system has none."""
    if not _STATUS.exists():
        return 0
    line = next(text for text in _STATUS.read_text().splitlines() if text.startswith(field))
    return int(line.split()[1]) * 1024
