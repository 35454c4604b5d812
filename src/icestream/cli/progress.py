"""How far a run has come, on the terminal; silent where there is none."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from icestream.ingest.progress import SILENT, Stage
from icestream.ingest.progress import Progress as Listener

_TITLES: Mapping[Stage, str] = {
    "list": "files listed",
    "scan": "files scanned",
    "place": "files placed",
    "write": "manifests written",
    "commit": "commit",
}


@contextmanager
def shown_progress(console: Console | None = None) -> Iterator[Listener]:
    """Yield a listener that shows progress on standard error, or none if nobody would see it."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield SILENT
        return
    with TerminalProgress(console) as progress:
        yield progress


class TerminalProgress:
    """One line per stage: what is done, how fast, and the time that is left."""

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._task: TaskID | None = None
        self._started = 0.0
        self._references = 0
        self._set_aside = 0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is None:
            self._end()
        self._bars.stop()

    def stage(self, name: Stage, total: int | None = None) -> None:
        """End the line of the stage before, and begin one."""
        self._end()
        self._started, self._references, self._set_aside = self._now(), 0, 0
        self._task = self._bars.add_task(_TITLES.get(name, name), total=total, told="")

    def advance(self, count: int = 1, *, references: int = 0, set_aside: int = 0) -> None:
        """Count what is done."""
        if self._task is None:
            return
        self._references += references
        self._set_aside += set_aside
        self._bars.update(self._task, advance=count, told=self._told())

    def note(self, text: str) -> None:
        """Print a line above the others."""
        self._bars.console.print(escape(text), highlight=False, soft_wrap=True)

    def _end(self) -> None:
        """Stop the clock of a stage, of which nobody may have known how much there is."""
        if self._task is not None:
            task = self._bars.tasks[self._task]
            done = max(task.total or 0, task.completed, 1)
            self._bars.update(self._task, total=done, completed=done)
            self._bars.stop_task(self._task)

    def _told(self) -> str:
        parts = []
        if self._set_aside:
            parts.append(f"[yellow]{self._set_aside:,} set aside[/]")
        if self._references:
            seconds = max(self._now() - self._started, 1e-3)
            rate = self._references / seconds
            parts.append(f"{self._references:,} references, {rate:,.0f}/s")
        return ", ".join(parts)
