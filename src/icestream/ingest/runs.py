"""A run makes the repository of an archive follow its files: once, and only what is new.

What is there if it ends after any of its steps is told in `icestream.ingest.publishing`; what the
next run has to know is in the checkpoint of the last block.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Unpack

from icestream.ingest.archive_states import ArchiveState, decode_state, encode_state
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.engines.scanning import ScanJob
from icestream.ingest.inventory import changes_since, record_listing
from icestream.ingest.listing import FileListing, list_sources
from icestream.ingest.opened_archives import OpenedArchive, Places, open_archive
from icestream.ingest.publishing.leases import Lease, LeaseTerms
from icestream.ingest.publishing.ledger_side import follow_declaration
from icestream.ingest.publishing.ledger_side import plan_run as plan_transaction
from icestream.ingest.publishing.publish import (
    Published,
    RunOutput,
    publish,
    require_newest,
)
from icestream.ingest.publishing.recovery import RunBasis, RunTarget, recover
from icestream.ingest.publishing.steps import RunStep
from icestream.ingest.run_options import RunKeywords, RunOptions
from icestream.ingest.run_outcomes import RunInput, file_rows, set_aside, state_after
from icestream.ingest.run_plans import RunPlan, plan_run
from icestream.ingest.run_reports import RunReport
from icestream.ingest.run_rows import rows_of
from icestream.ingest.staged_commits import StagedCommit, staging_name
from icestream.ingest.staging.workbenches import Scans
from icestream.ingest.work_plans import SourceChanges, plan_work
from icestream.ledger.chain.planning import TransformPlan
from icestream.repository.repository import Repository
from icestream.repository.staged.publishing import STAGING_PREFIX, drop_staging_branches

_NETWORK_THREADS = 4
"""Files that one executor asks a distant store for at a time."""


def run_archive(
    archive: Archive, *, places: Places | None = None, **options: Unpack[RunKeywords]
) -> RunReport:
    """Make the repository follow the files of an archive.

    Files that are new or changed are scanned, and nothing else is. A run that finds nothing new
    writes nothing.

    Args:
        archive: The declaration.
        places: Where things are, and credentials, if the declaration and the environment do not
            say it.
        **options: See `RunOptions`: `engine`, `progress`, `wait_seconds`, `include_undone`,
            `after_step`.

    Raises:
        ConflictError: Another run is going on, or was published meanwhile.
        InvalidInputError: Files do not make one dataset; all problems are named.
        SourceError: A policy of the archive is to fail for what was found.
        StorageError: A store fails; if it is that of a source, also where what it holds was
            ingested, would have to be scanned again, and cannot stay as it is.
    """
    chosen = RunOptions(**options)
    opened = open_archive(archive, places)
    with leased(opened, chosen):
        if opened.awaited is not None and Repository.exists(opened.awaited):
            opened = open_archive(archive, places)  # the run that had the lease has created it
        return _run(opened, recovered(opened, chosen), chosen)


@contextmanager
def leased(opened: OpenedArchive, options: RunOptions) -> Iterator[None]:
    """Hold the lease of an archive."""
    terms = LeaseTerms(wait_s=options.wait_seconds)
    with Lease.take(opened.ledger.ingest.storage, opened.archive.name, terms):
        opened.ledger.refresh()
        options.after_step(RunStep.LEASED)
        yield
    options.after_step(RunStep.RELEASED)


def recovered(opened: OpenedArchive, options: RunOptions) -> RunBasis:
    """Finish what an earlier run left unfinished, and return what the next one builds on."""
    basis = recover(target_of(opened))
    leftover = STAGING_PREFIX + staging_name(opened.archive)
    drop_staging_branches(opened.repository, leftover)
    options.after_step(RunStep.RECOVERED)
    return basis


def target_of(opened: OpenedArchive) -> RunTarget:
    """Return where the runs of an archive go."""
    return RunTarget(opened.ledger, opened.repository, opened.archive.target.branch)


def state_of(basis: RunBasis) -> ArchiveState:
    """Return what the last run left."""
    return ArchiveState() if basis.checkpoint is None else decode_state(basis.checkpoint.state)


# -- the stages ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Stopwatch:
    """Seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add what is done inside to a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent


def _run(opened: OpenedArchive, basis: RunBasis, options: RunOptions) -> RunReport:
    watch = Stopwatch()
    with watch.timed("list"):
        listing = _listed(opened, options)
        transaction, changes = _changes(opened, listing)
        state = state_of(basis)
    archive = opened.archive
    work = plan_work(state, changes, archive, include_undone=options.include_undone)
    given = RunInput(archive=archive, state=state, changes=changes, work=work)
    with watch.timed("scan and place"):
        plan = _planned(opened, given, options)
    try:
        with watch.timed("write"):
            opened = opened.established()
            staged = staged_commit(opened, plan, message_of(given, plan), options, basis=basis)
        with watch.timed("commit"):
            output = _output(given, plan, staged)
            published = published_run(opened, basis, transaction, output, options=options)
    finally:
        for references in plan.scans.references:
            references.close()
    return _report(given, plan, listing, published, staged=staged, watch=watch)


def _listed(opened: OpenedArchive, options: RunOptions) -> FileListing:
    options.progress.stage("list")
    listing = list_sources(opened.archive, opened.access)
    options.progress.advance(len(listing.table))
    options.after_step(RunStep.LISTED)
    record_listing(opened.ledger.inventory, listing)
    follow_declaration(opened.ledger, opened.archive)
    options.after_step(RunStep.INVENTORIED)
    return listing


def _changes(opened: OpenedArchive, listing: FileListing) -> tuple[TransformPlan, SourceChanges]:
    """Return the transaction to be made, and what became of files since the last one."""
    transaction = plan_transaction(opened.ledger)
    found = changes_since(opened.ledger.inventory, transaction.inputs[0].entry.prev_offset)
    return transaction, SourceChanges(
        present=listing.table.column("url").to_pylist(),
        added=found.added.column("url").to_pylist(),
        changed=found.changed.column("url").to_pylist(),
        vanished=found.vanished.column("url").to_pylist(),
    )


def _planned(opened: OpenedArchive, given: RunInput, options: RunOptions) -> RunPlan:
    return plan_run(given.state, given.work, Scans(job=scan_job(opened)), options)


def scan_job(opened: OpenedArchive) -> ScanJob:
    """Return how the files of an archive are scanned."""
    return ScanJob(
        archive=opened.archive,
        containers=opened.containers,
        find_object=opened.access.find_object,
        threads=1 if opened.is_local else _NETWORK_THREADS,
    )


def staged_commit(
    opened: OpenedArchive, plan: RunPlan, message: str, options: RunOptions, *, basis: RunBasis
) -> StagedCommit | None:
    """Write what can be written before the commit; None if no array changes."""
    if plan.updates.is_empty:
        return None
    staged = StagedCommit(
        repository=opened.repository,
        archive=opened.archive,
        plan=plan,
        engine=options.engine,
        progress=options.progress,
        message=message,
        check_basis=partial(require_newest, target_of(opened), basis),
    )
    staged.stage()
    options.after_step(RunStep.CELLS_WRITTEN)
    return staged


def _output(given: RunInput, plan: RunPlan, staged: StagedCommit | None) -> RunOutput:
    return RunOutput(
        rows=rows_of(file_rows(given, plan), given.state.files, plan.files),
        state=encode_state(state_after(given, plan)),
        commit=None if staged is None else staged.commit,
        rebase=None if staged is None else staged.stage,
    )


def published_run(
    opened: OpenedArchive,
    basis: RunBasis,
    transaction: TransformPlan,
    output: RunOutput,
    *,
    options: RunOptions,
) -> Published | None:
    """Publish a run in the repository and in the ledger."""
    options.progress.stage("commit")
    return publish(target_of(opened), basis, transaction, output, after_step=options.after_step)


# -- telling ---------------------------------------------------------------------------------------


def message_of(given: RunInput, plan: RunPlan) -> str:
    """Return the message of the commit."""
    work = given.work
    counts = {
        "new": work.num_new,
        "changed": work.num_changed,
        "removed": len(work.removed),
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{given.archive.name}: {told or f'{len(plan.scanned)} scanned again'}"


def _report(
    given: RunInput,
    plan: RunPlan,
    listing: FileListing,
    published: Published | None,
    *,
    staged: StagedCommit | None,
    watch: Stopwatch,
) -> RunReport:
    run = None if staged is None else staged.run
    left_out = set_aside(given, plan)
    return RunReport(
        archive=given.archive.name,
        run=None if published is None else published.number,
        block=None if published is None else str(published.block),
        snapshot=None if published is None else published.snapshot_id,
        num_listed=len(listing.table),
        num_requests=listing.num_requests,
        num_new=given.work.num_new,
        num_changed=given.work.num_changed,
        num_vanished=given.work.num_vanished,
        num_scanned=len(plan.scanned) + len(plan.failures),
        num_set_aside=len(left_out),
        num_references=0 if run is None else run.num_references,
        num_manifests=0 if staged is None else staged.num_manifests,
        gaps=plan.outcome.gaps,
        set_aside=tuple(sorted(left_out.items())),
        notes=(*given.work.notes, *plan.outcome.notes),
        seconds=watch.seconds,
    )
