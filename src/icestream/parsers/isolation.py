"""Scans in child processes: a parser that hangs, crashes or devours memory costs its file only."""

import atexit
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

from icestream.errors import ErrorKind, IcestreamError, InvalidInputError, SourceError
from icestream.parsers.file_contents import Loading
from icestream.parsers.scanned_files import ScannedFile
from icestream.parsers.scanning import AUTO, AnyParser, scan_file
from icestream.parsers.source_files import ChecksumChoice, FindObject
from icestream.storage.environments import store_variables

_FILES_PER_WORKER = 1000
"""After so many files a worker is replaced: libraries leak."""
_GIGABYTE = 1 << 30
_LAST_WORDS = 2000
_SECONDS_TO_END = 5


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """What the scan of one file may cost."""

    seconds: float = 300.0
    memory_bytes: int | None = 4 * _GIGABYTE
    """Of data in the child process; not enforced on macOS. None is no limit."""


def scan_file_isolated(
    url: str,
    *,
    parser: AnyParser = AUTO,
    find_object: FindObject | None = None,
    loading: Loading | None = None,
    checksums: ChecksumChoice = "auto",
    limits: ScanLimits | None = None,
) -> ScannedFile:
    """Scan a file as `scan_file` does, in a child process that is kept for the next one.

    What is given must be picklable. As with all child processes of Python, the program's main
    module is imported there: guard what it does with `if __name__ == "__main__"`.

    Raises:
        SourceError: The file cannot be scanned, took too long, or ended its process.
        StorageError: Its store fails.
    """
    settings = {
        "parser": parser,
        "find_object": find_object,
        "loading": loading,
        "checksums": checksums,
    }
    return _workers.scan(url, settings, limits or ScanLimits())


class ScanWorkers:
    """Child processes that scan one file at a time; threads may share them."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def scan(self, url: str, settings: Mapping[str, Any], limits: ScanLimits) -> ScannedFile:
        """Scan a file in an idle process, or in a new one."""
        worker = self._take(limits.memory_bytes)
        try:
            answer = worker.ask(url, settings, limits.seconds)
        except BaseException:
            worker.kill()
            raise
        if worker.files < _FILES_PER_WORKER:
            self._give_back(worker)
        else:
            worker.kill()
        if isinstance(answer, IcestreamError):
            raise answer
        return answer

    def close(self) -> None:
        """End all idle processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        if self._process == os.getpid():  # those of a parent are not ours to end
            for worker in idle:
                worker.kill()

    def _take(self, memory_bytes: int | None) -> "_Worker":
        with self._lock:
            if self._process != os.getpid():
                self._process, self._idle = os.getpid(), []
            # credentials of the environment are those of when a process was started
            current = store_variables(os.environ)
            outdated = [worker for worker in self._idle if worker.environment != current]
            self._idle = [worker for worker in self._idle if worker not in outdated]
            found = next((each for each in self._idle if each.memory_bytes == memory_bytes), None)
            if found is not None:
                self._idle.remove(found)
        for worker in outdated:
            worker.kill()
        return found or _Worker.start(memory_bytes, current)

    def _give_back(self, worker: "_Worker") -> None:
        with self._lock:
            self._idle.append(worker)


@dataclass(slots=True, eq=False)
class _Worker:
    """One child process."""

    process: Any
    connection: Connection
    last_words: Path
    """Where it writes what it would say on the terminal."""
    memory_bytes: int | None
    environment: Mapping[str, str] = field(repr=False)
    files: int = field(default=0)
    settings: Mapping[str, Any] | None = None
    """Those that it has: sent once, so that its clients and connections last for many files."""

    @classmethod
    def start(cls, memory_bytes: int | None, environment: Mapping[str, str]) -> Self:
        """Start a process; nothing is forked from this one, whose threads may hold locks."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        handle, words = tempfile.mkstemp(prefix="icestream-scan-")
        os.close(handle)
        process = context.Process(target=_serve, args=(theirs, words, memory_bytes), daemon=True)
        process.start()
        theirs.close()
        worker = cls(process, ours, Path(words), memory_bytes, environment)
        worker.await_start()
        return worker

    def await_start(self) -> None:
        """Wait until files can be asked for: none is to blame for a process that never starts.

        Raises:
            InvalidInputError: The process ended before that.
        """
        try:
            self.connection.recv()
        except (EOFError, OSError) as error:
            self.kill()
            raise InvalidInputError(
                f"the process that scans files ended at its start (exit code "
                f"{self.process.exitcode}). It imports the main module of the program, which has "
                'to do its work below `if __name__ == "__main__":`'
            ) from error

    def ask(
        self, url: str, settings: Mapping[str, Any], seconds: float
    ) -> ScannedFile | IcestreamError:
        """Have a file scanned, and wait for the answer."""
        self.files += 1
        try:
            self._send(url, settings)
            if not self.connection.poll(seconds):
                raise SourceError(
                    f"{url} was not scanned within {seconds:g} seconds; set it aside, or allow more"
                )
            answer: ScannedFile | IcestreamError = self.connection.recv()
        except (EOFError, OSError) as error:
            self.process.join(_SECONDS_TO_END)
            raise SourceError(
                f"the parser ended its process (exit code {self.process.exitcode}) at {url}"
                f"{self._said()}",
                kind=ErrorKind.SOURCE,
            ) from error
        return answer

    def _send(self, url: str, settings: Mapping[str, Any]) -> None:
        try:
            self.connection.send((url, None if settings == self.settings else settings))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InvalidInputError(
                f"what to scan {url} with cannot be sent to a process ({error}); use "
                "functions and classes of modules"
            ) from error
        self.settings = settings

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self.connection.close()
        self.process.kill()
        self.process.join()
        self.last_words.unlink(missing_ok=True)

    def _said(self) -> str:
        lines = self.last_words.read_text(errors="replace")[-_LAST_WORDS:].strip().splitlines()
        return f": {lines[-1]}" if lines else ""


def _serve(connection: Connection, last_words: str, memory_bytes: int | None) -> None:
    """Scan files until nobody asks any more.

    Ctrl-C reaches all processes of a terminal, and the end of a service all of its processes:
    whether to stop is for the one that asks to decide, and no file is to blame for it.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with Path(last_words).open("a") as words:
        os.dup2(words.fileno(), sys.stderr.fileno())
        os.dup2(words.fileno(), sys.stdout.fileno())
    if memory_bytes is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard))
    known: Mapping[str, Any] = {}
    connection.send(None)
    while True:
        try:
            url, settings = connection.recv()
        except EOFError:
            return
        known = known if settings is None else settings
        connection.send(_answer(url, known))


def _answer(url: str, settings: Mapping[str, Any]) -> ScannedFile | IcestreamError:
    try:
        return scan_file(url, **settings)
    except IcestreamError as error:
        return error


_workers = ScanWorkers()
atexit.register(_workers.close)
