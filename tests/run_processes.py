"""Runs of an archive in processes of their own, which may be killed on their way."""

import multiprocessing
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.quick_runs import patch_large_arrays, patch_quick_scans
from tests.run_results import places_in

from icestream.ingest.declaration.archives import Archive
from icestream.ingest.publishing.steps import RunStep
from icestream.ingest.runs import run_archive
from icestream.repository import commits
from icestream.repository.staged import publishing

PART_COMMITTED = "part-committed"
"""Some of a large run is on the branch that is there meanwhile."""
STEPS = [*map(str, RunStep), PART_COMMITTED]

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def killed_run(archive: Archive, folder: Path, step: str) -> int:
    """Run an archive in a process that is killed after a step; return its id."""
    child = started_run(archive, folder, last=step)
    child.join()
    assert child.exitcode == -signal.SIGKILL, child.exitcode
    return int(child.pid)


def started_run(
    archive: Archive, folder: Path, *, last: str | None = None, wait_seconds: float = 0.0
) -> Any:
    """Start a process that runs an archive, up to a step or to the end."""
    child = _processes.Process(target=_run_up_to, args=(archive, folder, last, wait_seconds))
    child.start()
    return child


def _run_up_to(archive: Archive, folder: Path, last: str | None, wait_seconds: float) -> None:
    patch = pytest.MonkeyPatch()
    patch_quick_scans(patch)
    patch_large_arrays(patch)
    if last == PART_COMMITTED:
        patch.setattr(publishing, "commits", SimpleNamespace(commit=_commit_and_die))

    def die_after(step: RunStep) -> None:
        if step == last:
            _die()

    places = places_in(folder)
    run_archive(archive, places=places, after_step=die_after, wait_seconds=wait_seconds)


def _commit_and_die(*arguments: Any) -> None:
    commits.commit(*arguments)
    _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
