"""Runs of archives for the command line: once, or again and again."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from icestream.cli.archive_reports import attempted, stopped
from icestream.cli.declarations import read_declaration
from icestream.cli.ingest_engines import engine_for
from icestream.cli.progress import shown_progress
from icestream.cli.results import Document
from icestream.cli.stopping import stop_on_signals
from icestream.ingest.engines.protocol import Engine
from icestream.ingest.previews import preview_run
from icestream.ingest.run_reports import RunReport
from icestream.ingest.runs import run_archive
from icestream.ingest.undoing import undo_run
from icestream.ingest.watching import watch


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What the command line says about runs."""

    master: str | None = None
    serial: bool = False
    wait_seconds: float = 0.0
    include_undone: bool = False


def run_once(declaration: Path, settings: RunSettings) -> RunReport:
    """Run the archive that a file declares, and show how far it is."""
    archive = read_declaration(declaration)
    with shown_progress() as progress:
        engine: Engine = engine_for(settings.master, serial=settings.serial, progress=progress)
        return run_archive(
            archive,
            engine=engine,
            progress=progress,
            wait_seconds=settings.wait_seconds,
            include_undone=settings.include_undone,
        )


def undo_once(declaration: Path, run: str, settings: RunSettings, *, dry_run: bool) -> RunReport:
    """Take back a run of the archive that a file declares."""
    archive = read_declaration(declaration)
    with shown_progress() as progress:
        engine: Engine = engine_for(settings.master, serial=settings.serial, progress=progress)
        return undo_run(
            archive,
            run,
            dry_run=dry_run,
            engine=engine,
            progress=progress,
            wait_seconds=settings.wait_seconds,
        )


def preview(declaration: Path, settings: RunSettings) -> Document:
    """Return what a run would find to do."""
    archive = read_declaration(declaration)
    with shown_progress() as progress:
        found = preview_run(archive, include_undone=settings.include_undone, progress=progress)
    return Document(found.text(), found.tree())


def run_again_and_again(
    declaration: Path, settings: RunSettings, *, interval: float, max_runs: int | None
) -> Iterator[Document]:
    """Yield what each run did, until a signal says stop or there were enough of them.

    The file is read anew for each run: it may be edited meanwhile.
    """
    with stop_on_signals() as stop:
        runs = watch(
            lambda: run_once(declaration, settings),
            interval=interval,
            stop=stop,
            max_runs=max_runs,
        )
        for attempt in runs:
            yield attempted(attempt, datetime.now(UTC))
        if stop.is_set():
            yield stopped(datetime.now(UTC))
