"""Files are scanned and placed until it is known what a run has to write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from icestream.errors import ErrorKind, InvalidInputError, SourceError, StorageError
from icestream.ingest.archive_states import ArchiveState, scan_digest
from icestream.ingest.declaration.archives import Archive, OnBroken
from icestream.ingest.declaration.documents import decode_archive, encode_archive
from icestream.ingest.engines.protocol import Engine
from icestream.ingest.engines.scanning import ScanFailure
from icestream.ingest.file_columns import FileColumns, gather
from icestream.ingest.file_merging import merge_columns, without_files
from icestream.ingest.placement.outcomes import PlacementOutcome, outcome_of
from icestream.ingest.placement.placing import Placement, plan_placement
from icestream.ingest.placement.problems import raise_problems
from icestream.ingest.progress import Progress
from icestream.ingest.publishing.steps import RunStep
from icestream.ingest.reports import told_fault
from icestream.ingest.run_options import RunOptions
from icestream.ingest.staging.workbenches import Scans
from icestream.ingest.updates.planning import Updates, plan_updates
from icestream.ingest.work_plans import Work
from icestream.model.chunk_tables import ChunkTable

_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RunPlan:
    """What a run has to write, and what it knows of files then."""

    files: FileColumns
    """All that were scanned and are there, or kept."""
    outcome: PlacementOutcome
    """Of the placement of `files`."""
    updates: Updates
    scans: Scans
    scanned: FileColumns
    """Those that were looked at now, and can be read."""
    failures: Mapping[str, ScanFailure] = field(default_factory=dict)
    """Files that cannot be read, by URL."""
    known: Mapping[str, Sequence[ChunkTable]] = field(default_factory=dict)
    """References that no scan brings, at their places, by path of the array."""


def placed_before(state: ArchiveState, archive: Archive) -> Placement:
    """Return where files are in the repository, by the declaration that placed them there.

    Raises:
        InvalidInputError: That declaration had another target.
    """
    placed_by = _placed_by(state, archive)
    return plan_placement(state.files, placed_by, known_groups=state.outcome.groups)


def _placed_by(state: ArchiveState, archive: Archive) -> Archive:
    """Return the declaration that placed files where they are."""
    before = decode_archive(state.declaration.encode()) if state.declaration else archive
    for key in ("branch", "group"):
        old, new = getattr(before.target, key), getattr(archive.target, key)
        if old != new:
            raise InvalidInputError(
                f"the {key} of the archive {archive.name} was {old}, and now it is {new}: an "
                "archive does not move; declare one of another name for the new place",
                kind=ErrorKind.INVALID_CONFIG,
            )
    return before


def plan_run(state: ArchiveState, work: Work, scans: Scans, options: RunOptions) -> RunPlan:
    """Scan what there is to scan, and place it among what is there.

    Where neither files nor the declaration are others than before, nothing is placed. What was
    ingested of files whose store fails now stays, and they are among the failures.

    Args:
        state: What the last run left.
        work: Which files to look at, and which to leave out.
        scans: None yet, but how they are done.
        options: Who does them, and who is told.

    Raises:
        InvalidInputError: Files do not make one dataset; all problems are named.
        SourceError: Files cannot be read, and the policy is to fail then.
        StorageError: Files that have to be scanned again cannot be reached.
    """
    archive = scans.job.archive
    _placed_by(state, archive)  # another target is told before files are scanned
    scan = Scanner(scans, options.engine, options.progress)
    scan.look_at(work.to_scan)
    options.after_step(RunStep.SCANNED)
    known = without_files(state.files, ({*work.to_scan} - _kept(state, scan)) | work.removed)
    has_other_files = len(scan.files) > 0 or len(known) < len(state.files)
    if has_other_files or encode_archive(archive).decode() != state.declaration:
        plan = _placed(state, known, scan, options)
    else:
        plan = _plan(scan, state.files, state.outcome, Updates())
    options.after_step(RunStep.PLACED)
    return plan


def _placed(
    state: ArchiveState, known: FileColumns, scan: "Scanner", options: RunOptions
) -> RunPlan:
    """Place files, and scan more of them where that takes it."""
    archive = scan.scans.job.archive
    options.progress.stage("place", len(known) + len(scan.files))
    before = placed_before(state, archive)
    while True:
        files = merge_columns([known, scan.files])
        placement = plan_placement(files, archive, known_groups=state.outcome.groups)
        raise_problems(placement.problems, archive=archive.name)
        updates = plan_updates(before, placement, {*scan.files.urls}, group=archive.target.group)
        if not updates.rescan:
            return _plan(scan, files, outcome_of(placement, archive), updates)
        # their references cannot be had from the repository, for example of another group
        scan.look_at(updates.rescan)
        _require_reached(scan.unreachable & {*updates.rescan})
        known = without_files(known, updates.rescan)


def _kept(state: ArchiveState, scan: "Scanner") -> frozenset[str]:
    """Return files with a place that cannot be reached: no failure of a store removes data."""
    kept = scan.unreachable & {*state.files.urls}
    if scan_digest(scan.scans.job.archive) != state.declaration_digest:
        _require_reached(kept)
    for url in kept:
        failure = scan.failures[url]
        reason = f"{failure.reason}; what was ingested of it stays"
        scan.failures[url] = replace(failure, reason=reason)
    return kept


def _require_reached(urls: frozenset[str]) -> None:
    if urls:
        raise StorageError(
            f"{len(urls)} files were ingested, have to be scanned again, and cannot be reached "
            f"({', '.join(sorted(urls)[:_SHOWN])}); nothing was changed: run again when their "
            "store answers, or exclude them",
            retryable=True,
        )


def _plan(
    scan: "Scanner", files: FileColumns, outcome: PlacementOutcome, updates: Updates
) -> RunPlan:
    return RunPlan(
        files=files,
        outcome=outcome,
        updates=updates,
        scans=scan.scans,
        scanned=scan.files,
        failures=scan.failures,
    )


class Scanner:
    """Scans files, again where it must, and remembers what came out."""

    def __init__(self, scans: Scans, engine: Engine, progress: Progress) -> None:
        self.scans = scans
        self.files = gather(())
        self.failures: dict[str, ScanFailure] = {}
        self._engine = engine
        self._progress = progress

    @property
    def unreachable(self) -> frozenset[str]:
        """URLs of files whose store failed."""
        return frozenset(url for url, one in self.failures.items() if one.is_unreachable)

    def look_at(self, urls: Sequence[str]) -> None:
        """Scan some more files."""
        if not urls:
            return
        self._progress.stage("scan", len(urls))
        first = self.scans.num_ordinals
        result = self._engine.scan(urls, self.scans.job, self._progress, first_ordinal=first)
        self.scans = replace(
            self.scans,
            ordinals={**self.scans.ordinals, **{url: first + i for i, url in enumerate(urls)}},
            references=(*self.scans.references, result.references),
        )
        self.files = merge_columns([without_files(self.files, urls), result.files])
        looked_at = {*urls}
        before = {url: one for url, one in self.failures.items() if url not in looked_at}
        self.failures = before | {failure.url: failure for failure in result.failures}
        self._check_policy()

    def _check_policy(self) -> None:
        if self.failures and self.scans.job.archive.policies.on_broken is OnBroken.FAIL:
            told = "\n  ".join(
                told_fault(url, failure.reason)
                for url, failure in [*self.failures.items()][:_SHOWN]
            )
            raise SourceError(
                f"{len(self.failures)} files cannot be ingested, and the policy on-broken is to "
                f"fail:\n  {told}",
                kind=ErrorKind.NOT_ALLOWED,
            )
