"""A run is staged, and staged again if others moved the branch, until it is committed."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from icestream.errors import InternalError
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.engines.protocol import Engine
from icestream.ingest.progress import Progress
from icestream.ingest.run_plans import RunPlan
from icestream.ingest.staging.staging import stage_updates
from icestream.ingest.staging.workbenches import StagedRun, Workbench
from icestream.repository.flush import run_here
from icestream.repository.repository import Repository
from icestream.repository.staged.commits import RunLog
from icestream.repository.staged.publishing import publish_staged, split_into_commits

_LONG_LOG = 1_000_000
"""Changed chunks from which on an executor writes the transaction log."""


@dataclass(slots=True, eq=False, kw_only=True)
class StagedCommit:
    """One commit in the making."""

    repository: Repository
    archive: Archive
    plan: RunPlan
    engine: Engine
    progress: Progress
    message: str
    check_basis: Callable[[], None]
    """Raises a ConflictError if another run was published: updates do not fit its version."""
    run: StagedRun | None = None
    """What was staged last."""
    num_manifests: int = 0
    """Those that are new since the commit."""

    def stage(self) -> None:
        """Write everything that can be written before the commit, on the newest version.

        Raises:
            ConflictError: Another run was published, or an array of earlier runs is gone.
            InvalidInputError: There is an array of somebody else where one is to be made.
            SourceError: A file that has to be copied cannot be.
        """
        session = self.repository.writable_session(self.archive.target.branch)
        self.check_basis()
        bench = Workbench(
            session=session,
            urls=self.plan.files.urls,
            scans=self.plan.scans,
            engine=self.engine,
            progress=self.progress,
            known=self.plan.known,
        )
        self.run = stage_updates(self.plan.updates, bench)

    def commit(self, metadata: dict[str, Any]) -> str:
        """Make what was staged visible; return the id of the snapshot.

        Raises:
            ConflictError: The branch moved; stage again.
        """
        if self.run is None:
            raise InternalError("a run is committed before it is staged")
        before = self.run.manifest_ids
        snapshot_id = publish_staged(
            self.run.session,
            split_into_commits(self.run.cells),
            self.message,
            metadata,
            run_log=_log_runner(self.run, self.engine),
            name=staging_name(self.archive),
        )
        self.num_manifests = len(self.run.manifest_ids - before)
        return snapshot_id


def staging_name(archive: Archive) -> str:
    """Return what the branch is called on which a large run is put together.

    Names of branches may have characters that not all versions of the format take, and one may
    begin with another: a digest has neither.
    """
    told = f"{archive.name}/{archive.target.branch}"
    return f"{archive.name.lower()}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def _log_runner(run: StagedRun, engine: Engine) -> RunLog:
    """Return what writes the log: this process if it is short, as a job takes a while to start."""
    num_changed = sum(len(cell.changed) for _, cells in run.cells.values() for cell in cells)
    return run_here if num_changed < _LONG_LOG else partial(_run_on, engine)


def _run_on(engine: Engine, task: Any) -> None:
    engine.map(_call, [task])


def _call(task: Any) -> None:
    task()
