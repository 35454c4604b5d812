"""Makes ledger and repository agree again after a run that was cut off.

The repository decides. A run is published when a snapshot with its block is on the branch; if the
ledger does not lead to that block, it is brought there. Nothing else has to be known: the block and
all that it names were written before the snapshot, and the block does not name the snapshot.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from icestream.errors import ConflictError, ErrorKind, IcestreamError, IntegrityError
from icestream.ingest.publishing.checkpoints import RunCheckpoint, checkpoint_of, last_checkpoint
from icestream.ingest.publishing.ledger_side import ArchiveLedger
from icestream.ingest.publishing.run_snapshots import RunSnapshot, newest_run
from icestream.ledger.blocks.events import AddData, ExecuteTransform, SetDataSchema
from icestream.ledger.chain.appending import relinked
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.dataset import Dataset
from icestream.model.ops_log import ExpirationRan
from icestream.repository.repository import Repository

_TRIES = 3


@dataclass(frozen=True, slots=True)
class RunTarget:
    """Where the runs of an archive go."""

    ledger: ArchiveLedger
    repository: Repository
    branch: str

    def newest_run(self) -> RunSnapshot | None:
        """Return the newest snapshot of a run on the branch, as it is now."""
        return newest_run(self.repository, self.branch, self.ledger.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBasis:
    """What a run builds on: ledger and repository, at a moment when they agreed."""

    newest: RunSnapshot | None = None
    """The newest snapshot of a run on the branch."""
    checkpoint: RunCheckpoint | None = None
    """Of the last run in the ledger."""
    was_unfinished: bool = False
    """Whether the ledger had to be brought to what the repository says."""

    @property
    def next_number(self) -> int:
        """The number of the next run."""
        return 1 if self.checkpoint is None else self.checkpoint.number + 1

    @property
    def last_commit(self) -> int | None:
        """The number of the last run that committed to the repository."""
        return None if self.checkpoint is None else self.checkpoint.last_commit


def recover(target: RunTarget) -> RunBasis:
    """Finish what a run left unfinished, and return what the next one builds on.

    Raises:
        IntegrityError: The block of the newest run is missing.
        ConflictError: The branch lacks runs that the ledger knows: it was moved back.
    """
    for _ in range(_TRIES):
        target.ledger.ingest.refresh()
        newest, checkpoint = target.newest_run(), last_checkpoint(target.ledger.ingest)
        if _agree(target, newest, checkpoint):
            return RunBasis(newest=newest, checkpoint=checkpoint)
        if newest is None:
            raise _moved_back(target, None, checkpoint)
        try:
            is_finished = bring_to(target.ledger.ingest, newest)
        except ConflictError as error:
            if error.kind is not ErrorKind.COMMIT_CONFLICT:
                raise
            continue  # another run recovers at the same moment
        if not is_finished:
            raise _moved_back(target, newest, checkpoint)
        checkpoint = last_checkpoint(target.ledger.ingest)
        return RunBasis(newest=newest, checkpoint=checkpoint, was_unfinished=True)
    raise ConflictError(
        f"the ledger of {target.ledger.name} keeps changing: another run is going on; run again"
    )


def follow_branch(target: RunTarget) -> RunBasis:
    """Let the ledger forget runs that are no more on the branch, because it was moved back.

    Their files are ingested again by the next run.

    Raises:
        ConflictError: Another run is going on.
    """
    ingest = target.ledger.ingest
    ingest.refresh()
    newest = target.newest_run()
    if newest is None:
        ingest.keep_metadata_only()
    elif not bring_to(ingest, newest):
        ingest.reset(newest.block)
    return RunBasis(newest=newest, checkpoint=last_checkpoint(ingest))


def bring_to(ingest: Dataset, newest: RunSnapshot) -> bool:
    """Let a dataset lead to the block of a snapshot; tell whether it did not before.

    Runs without a commit that took the place of the block are dropped: what they knew of files is
    found out again. Events of other kinds are kept, behind the block.

    Raises:
        IntegrityError: The block is missing, or of another dataset.
        ConflictError: Somebody else appended meanwhile, or a run with a commit took its place.
    """
    chain = ingest.chain
    parting = _parting(chain, _load(chain, newest), newest)
    if not parting.missing:
        return False
    if not parting.dropped:
        chain.append_blocks(parting.missing)
        return True
    for block in parting.dropped:
        _require_no_commit(ingest, block, newest)
    base = ChainState.walked(chain.store.walk(parting.base))
    chain.rewrite(base, [*parting.missing, *_kept(parting)])
    return True


@dataclass(frozen=True, slots=True)
class _Parting:
    """Where two chains of one dataset part."""

    base: StoredBlock
    """The last block of both."""
    missing: Sequence[StoredBlock]
    """Behind it on the way to the block that is to be brought in, oldest first."""
    dropped: Sequence[StoredBlock]
    """Behind it on the way to the head, oldest first."""


def _parting(chain: MetadataChain, block: StoredBlock, newest: RunSnapshot) -> _Parting:
    here, there = chain.store.walk(chain.state.head), chain.store.walk(block)
    mine, other = next(here), next(there)
    dropped: list[StoredBlock] = []
    missing: list[StoredBlock] = []
    while mine.block_hash != other.block_hash:
        if mine.sequence_number == other.sequence_number == 0:
            raise IntegrityError(
                f"snapshot {newest.snapshot_id} is of a run that another ledger tells of: its"
                f" block {newest.block} is of another dataset; name that ledger in the declaration"
            )
        is_higher = mine.sequence_number >= other.sequence_number
        if other.sequence_number >= mine.sequence_number:
            missing.append(other)
            other = next(there)
        if is_higher:
            dropped.append(mine)
            mine = next(here)
    return _Parting(mine, missing[::-1], dropped[::-1])


def _load(chain: MetadataChain, newest: RunSnapshot) -> StoredBlock:
    try:
        return chain.store.load(newest.block)
    except IntegrityError as error:
        raise IntegrityError(
            f"snapshot {newest.snapshot_id} is of run {newest.run}, and its block {newest.block}"
            f" cannot be read in {chain.storage!r}: {error.message}. Either the ledger is not the"
            " one that the run was recorded in, so name that one in the declaration; or the block"
            " was deleted before the run was finished, so copy it from a replica, or move the"
            " branch back to the snapshot before",
            rule=error.rule,
        ) from error


def _kept(parting: _Parting) -> list[StoredBlock]:
    """Return the blocks of events that no run made, behind the block that is brought in."""
    last = parting.missing[-1]
    made_by_runs = AddData | ExecuteTransform | SetDataSchema
    events = [
        (block.event, max(block.block.system_time, last.block.system_time))
        for block in parting.dropped
        if not isinstance(block.event, made_by_runs)
    ]
    return relinked(last, events)


def _require_no_commit(ingest: Dataset, block: StoredBlock, newest: RunSnapshot) -> None:
    if not isinstance(block.event, ExecuteTransform):
        return
    checkpoint = checkpoint_of(ingest, block.event)
    if checkpoint is not None and checkpoint.has_commit:
        raise ConflictError(
            f"the ledger tells of run {checkpoint.number} in block {block.block_hash}, the branch"
            f" of run {newest.run} in block {newest.block}, and neither follows the other: the"
            " ledger or the branch was brought back from a copy; bring back both of one moment",
            kind=ErrorKind.NOT_ALLOWED,
        )


def _agree(target: RunTarget, newest: RunSnapshot | None, checkpoint: RunCheckpoint | None) -> bool:
    last_commit = None if checkpoint is None else checkpoint.last_commit
    if newest is None:
        return last_commit is None or _has_expired(target.repository)
    if newest.run != last_commit:
        return False
    chain = target.ledger.ingest.chain
    latest = chain.state.latest.get("data")
    is_last = latest is not None and latest.block_hash == newest.block
    # runs without a commit may have followed; that the block is there tells the ledger from others
    return is_last or chain.store.has(newest.block)


def _has_expired(repository: Repository) -> bool:
    """Tell whether snapshots of runs may be gone because they were old."""
    try:
        return any(isinstance(update.kind, ExpirationRan) for update in repository.ops_log())
    except IcestreamError:
        return False  # version 1 of the format has no log of it


def _moved_back(
    target: RunTarget, newest: RunSnapshot | None, checkpoint: RunCheckpoint | None
) -> ConflictError:
    ledger = target.ledger
    known = None if checkpoint is None else checkpoint.last_commit
    found = "no run" if newest is None else f"run {newest.run} (snapshot {newest.snapshot_id})"
    return ConflictError(
        f"the branch {target.branch} ends with {found} of the archive {ledger.name}, and the ledger"
        f" knows run {known}: the branch was moved back, or its newest commit was amended, or it is"
        f" another. Move it to the snapshot of run {known} again, and take runs back with"
        " `icestream archive undo`; or let the ledger forget them with `icestream archive recover"
        " --follow-branch`, and their files are ingested again",
        kind=ErrorKind.NOT_ALLOWED,
    )
