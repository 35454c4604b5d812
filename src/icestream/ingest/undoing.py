"""One run of an archive is taken back, in the repository and in the ledger together.

Nothing is rewritten: a new commit makes the arrays what they would be without the run, and a new
block of the ledger tells of it. Files that later runs touched again stay as these left them.
References that the run replaced are those of the version before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import (
    ErrorKind,
    IntegrityError,
    NotFoundError,
    SessionStateError,
    SourceError,
)
from icestream.ingest.archive_states import ArchiveState, decode_state, encode_state
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.declaration.documents import decode_archive
from icestream.ingest.file_columns import FileColumns
from icestream.ingest.held_references import (
    Holdings,
    Wanted,
    at_their_places,
    needed_files,
    with_held_copies,
)
from icestream.ingest.inventory import known_files
from icestream.ingest.opened_archives import OpenedArchive, Places, find_archive
from icestream.ingest.placement.outcomes import outcome_of
from icestream.ingest.placement.placing import plan_placement
from icestream.ingest.placement.problems import raise_problems
from icestream.ingest.publishing.checkpoints import RunCheckpoint, last_checkpoint, load_checkpoint
from icestream.ingest.publishing.ledger_side import plan_run as plan_transaction
from icestream.ingest.publishing.publish import Published, RunOutput
from icestream.ingest.publishing.recovery import RunBasis
from icestream.ingest.publishing.rows import FileStatus
from icestream.ingest.publishing.run_history import RunRecord, rows_of_run, run_history
from icestream.ingest.publishing.run_snapshots import run_snapshots
from icestream.ingest.publishing.steps import RunStep
from icestream.ingest.run_options import RunKeywords, RunOptions
from icestream.ingest.run_plans import RunPlan, Scanner, placed_before
from icestream.ingest.run_reports import RunReport
from icestream.ingest.run_rows import FileRow, rows_of
from icestream.ingest.runs import (
    Stopwatch,
    leased,
    published_run,
    recovered,
    scan_job,
    staged_commit,
    state_of,
    target_of,
)
from icestream.ingest.staged_commits import StagedCommit
from icestream.ingest.staging.workbenches import Scans
from icestream.ingest.undo_plans import (
    Undo,
    UndoInput,
    files_without,
    groups_without,
    identities,
    plan_undo,
    state_without,
    with_vanished,
)
from icestream.ingest.updates.planning import Updates, plan_updates
from icestream.ledger.chain.planning import TransformPlan
from icestream.repository.session import Session

_SHOWN = 3


def undo_run(
    archive: Archive,
    run: int | str,
    *,
    places: Places | None = None,
    dry_run: bool = False,
    **options: Unpack[RunKeywords],
) -> RunReport:
    """Take one run back, whichever it is: the last, or one that others followed.

    Files that it brought lose their place, and those that it changed or removed become what they
    were. Further runs leave them so, until they change or `include_undone` is asked for.

    Args:
        archive: The declaration.
        run: Its number, or its snapshot, or its block.
        places: Where things are, and credentials, if the declaration and the environment do not
            say it.
        dry_run: Only tell what would be done.
        **options: As for `run_archive`.

    Raises:
        NotFoundError: There is no such run, or the version before it is needed and gone.
        SessionStateError: Nothing of the run is left, or it is one that took another back.
        ConflictError: A run is going on, or was published meanwhile.
        InvalidInputError: Files do not make one dataset without the run.
    """
    chosen = RunOptions(**options)
    opened = find_archive(archive, places)
    if dry_run:
        target = target_of(opened)
        basis = RunBasis(
            newest=target.newest_run(), checkpoint=last_checkpoint(opened.ledger.ingest)
        )
        undoing = _planned(opened, basis, run, chosen)
        undoing.close()
        return undoing.report(None, None, Stopwatch())
    with leased(opened, chosen):
        return _undo(opened, recovered(opened, chosen), run, chosen)


def _undo(opened: OpenedArchive, basis: RunBasis, run: int | str, options: RunOptions) -> RunReport:
    watch = Stopwatch()
    with watch.timed("plan"):
        undoing = _planned(opened, basis, run, options)
    try:
        with watch.timed("write"):
            staged = staged_commit(opened, undoing.plan, undoing.message, options, basis=basis)
        with watch.timed("commit"):
            transaction = _without_news(opened)
            output = undoing.output(staged)
            published = published_run(opened, basis, transaction, output, options=options)
    finally:
        undoing.close()
    return undoing.report(published, staged, watch)


def _without_news(opened: OpenedArchive) -> TransformPlan:
    """Return a transaction that consumes no listing: what is new there is for the next run."""
    plan = plan_transaction(opened.ledger)
    inputs = tuple(
        replace(
            one,
            entry=replace(one.entry, new_block_hash=None, new_offset=None),
            slices=(),
            watermarks=(),
            new_blocks=0,
        )
        for one in plan.inputs
    )
    return replace(plan, inputs=inputs, watermark=opened.ledger.ingest.watermark)


# -- what is to be done ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Undoing:
    """All that is known before anything is written."""

    archive: Archive
    given: UndoInput
    undo: Undo
    plan: RunPlan

    @property
    def message(self) -> str:
        """Of the commit."""
        return f"{self.archive.name}: run {self.given.number} undone"

    def output(self, staged: StagedCommit | None) -> RunOutput:
        """Return what the ledger is told."""
        rows = (
            FileRow(url, FileStatus.UNDONE, self.given.reason) for url in sorted(self.undo.files)
        )
        state = state_without(self.given, self.undo, self.plan.files, self.plan.outcome)
        state = with_vanished(state, self.given, self.undo, self.archive.policies.on_vanished)
        return RunOutput(
            rows=rows_of(rows, self.given.now.files, self.plan.files),
            state=encode_state(state),
            commit=None if staged is None else staged.commit,
            rebase=None if staged is None else staged.stage,
        )

    def report(
        self, published: Published | None, staged: StagedCommit | None, watch: Stopwatch
    ) -> RunReport:
        """Return what was done, or would be."""
        run = None if staged is None else staged.run
        return RunReport(
            archive=self.archive.name,
            run=None if published is None else published.number,
            block=None if published is None else str(published.block),
            snapshot=None if published is None else published.snapshot_id,
            num_scanned=len(self.plan.scanned),
            num_references=0 if run is None else run.num_references,
            num_manifests=0 if staged is None else staged.num_manifests,
            gaps=self.plan.outcome.gaps,
            undoes=self.given.number,
            num_undone=len(self.undo.files),
            is_preview=published is None,
            notes=tuple(self._notes()),
            seconds=watch.seconds,
        )

    def close(self) -> None:
        """Let go of references."""
        for references in self.plan.scans.references:
            references.close()

    def _notes(self) -> Iterator[str]:
        told = {
            "left out": self.undo.left_out,
            "back to what they were": self.undo.restored,
            "touched again by later runs, which stay as they are": self.undo.kept,
        }
        for what, urls in told.items():
            if urls:
                yield f"{len(urls)} files {what}: {_named(urls)}"


def _planned(
    opened: OpenedArchive, basis: RunBasis, run: int | str, options: RunOptions
) -> _Undoing:
    records = run_history(target_of(opened))
    record = _find(opened.archive, records, run)
    given = _given(opened, basis, record, records)
    undo = plan_undo(given)
    if not undo.files:
        raise _nothing_left(opened, given, undo)
    plan = _Planner(opened, given, undo, options).plan()
    options.after_step(RunStep.PLACED)
    return _Undoing(archive=opened.archive, given=given, undo=undo, plan=plan)


def _find(archive: Archive, records: Sequence[RunRecord], run: int | str) -> RunRecord:
    wanted = str(run).strip()
    for record in records:
        if wanted in (str(record.number), str(record.block), record.snapshot_id):
            return _require_ingest(archive, record)
    told = f"there are runs 1 to {len(records)}" if records else "there are none yet"
    raise NotFoundError(f"the archive {archive.name} has no run {run}: {told}")


def _require_ingest(archive: Archive, record: RunRecord) -> RunRecord:
    if {*record.counts} == {FileStatus.UNDONE}:
        raise SessionStateError(
            f"run {record.number} of {archive.name} took another one back, and is not undone "
            "itself: `icestream archive run --include-undone` takes its files in again",
            kind=ErrorKind.NOT_ALLOWED,
        )
    return record


def _given(
    opened: OpenedArchive, basis: RunBasis, record: RunRecord, records: Sequence[RunRecord]
) -> UndoInput:
    before = [_checkpoint(opened, one) for one in records if one.number == record.number - 1]
    later = [one for one in records if one.number > record.number]
    return UndoInput(
        number=record.number,
        before=decode_state(before[0].state) if before else ArchiveState(),
        commit_before=before[0].last_commit if before else None,
        after=decode_state(_checkpoint(opened, record).state),
        now=state_of(basis),
        present=frozenset(known_files(opened.ledger.inventory).column("url").to_pylist()),
        ingested_since=frozenset(
            url for one in later for url in _urls_of(opened, one, FileStatus.INGESTED)
        ),
    )


def _checkpoint(opened: OpenedArchive, record: RunRecord) -> RunCheckpoint:
    checkpoint = load_checkpoint(opened.ledger.ingest, record.block)
    if checkpoint is None:
        raise IntegrityError(
            f"run {record.number} of {opened.archive.name} has no checkpoint in block "
            f"{record.block}: it was not made by icestream, and cannot be undone"
        )
    return checkpoint


def _urls_of(opened: OpenedArchive, record: RunRecord, status: FileStatus) -> list[str]:
    if not record.counts.get(status):
        return []
    rows = rows_of_run(opened.ledger.ingest, record.block)
    found = rows.filter(pc.equal(rows.column("status"), pa.scalar(status.value)))
    urls: list[str] = found.column("url").to_pylist()
    return urls


def _nothing_left(opened: OpenedArchive, given: UndoInput, undo: Undo) -> SessionStateError:
    if any(file.reason == given.reason for file in given.now.aside):
        reason = "it is already undone"
    elif undo.kept:
        reason = f"later runs have touched all its files again ({_named(undo.kept)})"
    else:
        reason = "its files are gone, or it brought, changed and removed none"
    return SessionStateError(
        f"nothing is left to undo of run {given.number} of {opened.archive.name}: {reason}",
        kind=ErrorKind.NOT_ALLOWED,
    )


def _named(urls: frozenset[str]) -> str:
    return ", ".join(sorted(urls)[:_SHOWN]) + (" ..." if len(urls) > _SHOWN else "")


# -- arrays without the run -----------------------------------------------------------------------


class _Planner:
    """Finds places and references for the files of an archive without a run."""

    def __init__(
        self, opened: OpenedArchive, given: UndoInput, undo: Undo, options: RunOptions
    ) -> None:
        self._opened = opened
        self._given = given
        self._undo = undo
        self._options = options
        self._old: Holdings | None = None

    def plan(self) -> RunPlan:
        """Return what has to be written."""
        archive, given = self._opened.archive, self._given
        before = placed_before(given.now, archive)
        files = files_without(given, self._undo)
        # what was edited since in the declaration is for the next run
        placing = decode_archive(given.now.declaration.encode())
        known_groups = groups_without(given, self._undo)
        placement = plan_placement(files, placing, known_groups=known_groups)
        raise_problems(placement.problems, archive=archive.name)
        group = archive.target.group
        updates = plan_updates(before, placement, self._undo.restored, group=group)
        session = self._opened.repository.readonly_session(archive.target.branch)
        held, lacking = self._held(updates, placement.urls, Holdings(session, before, group))
        scanner = self._scanned(lacking, files)
        arrays = {
            path: with_held_copies(update, placement.urls, held[path])
            for path, update in updates.arrays.items()
        }
        tables = {path: at_their_places(found.values()) for path, found in held.items()}
        return RunPlan(
            files=files,
            outcome=outcome_of(placement, placing),
            updates=replace(updates, arrays=arrays),
            scans=scanner.scans,
            scanned=scanner.files,
            known={path: [table] for path, table in tables.items() if table is not None},
        )

    def _held(
        self, updates: Updates, urls: Sequence[str], current: Holdings
    ) -> tuple[dict[str, dict[str, Wanted]], frozenset[str]]:
        """Return the references that versions hold by array and file, and files to scan."""
        held: dict[str, dict[str, Wanted]] = {path: {} for path in updates.arrays}
        lacking: set[str] = set()
        for path, update in updates.arrays.items():
            for url, offset, is_copy in needed_files(update, urls):
                holdings = self._old_holdings() if url in self._undo.restored else current
                file = holdings.find(url, update.path)
                if file is not None and file.fits(update, is_copy=is_copy):
                    held[path][url] = Wanted(holdings, file, offset, update.num_new)
                    continue
                self._require_source(url, path)
                lacking.add(url)
        scanned = {
            path: {url: one for url, one in found.items() if url not in lacking}
            for path, found in held.items()
        }
        return scanned, frozenset(lacking)

    def _old_holdings(self) -> Holdings:
        if self._old is None:
            archive, before = self._opened.archive, self._given.before
            placement = placed_before(before, archive)
            self._old = Holdings(self._old_session(), placement, archive.target.group)
        return self._old

    def _old_session(self) -> Session:
        """Return a session on the version before the run.

        Raises:
            NotFoundError: It is gone.
        """
        archive, repository = self._opened.archive, self._opened.repository
        snapshots = run_snapshots(repository, archive.target.branch, archive.name)
        found = next((one for one in snapshots if one.run == self._given.commit_before), None)
        told = "the snapshot" if found is None else f"snapshot {found.snapshot_id}"
        try:
            if found is not None:
                return repository.readonly_session(snapshot_id=found.snapshot_id)
        except NotFoundError as error:
            raise self._gone(told) from error
        raise self._gone(told)

    def _gone(self, snapshot: str) -> NotFoundError:
        return NotFoundError(
            f"{snapshot} of the last run before run {self._given.number} has expired or was "
            f"collected, and it had the references of {len(self._undo.restored)} files that this "
            f"run changed or removed ({_named(self._undo.restored)}): the run cannot be undone",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )

    def _require_source(self, url: str, path: str) -> None:
        if url in self._undo.restored:
            raise SourceError(
                f"the version before run {self._given.number} has no references of {url} that "
                f"{path} could use now, because other files have come or gone since, and the file "
                "is not what it was: undo later runs first"
            )

    def _scanned(self, urls: frozenset[str], files: FileColumns) -> Scanner:
        """Scan files that stay, and bring what no version holds, such as an array of all files."""
        options = self._options
        scanner = Scanner(Scans(job=scan_job(self._opened)), options.engine, options.progress)
        scanner.look_at(sorted(urls))
        known, found = identities(files), identities(scanner.files)
        changed = frozenset(url for url in urls if found.get(url) != known.get(url))
        if changed:
            raise SourceError(
                f"{len(changed)} files have changed or cannot be read since they were ingested, "
                f"and are needed to undo the run ({_named(changed)}): run the archive first"
            )
        return scanner
