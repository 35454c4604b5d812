"""Repository and ledger of an archive agree again, without a run."""

from dataclasses import asdict, dataclass
from typing import Any

from icestream.errors import ConflictError, ErrorKind
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.opened_archives import Places, find_archive
from icestream.ingest.publishing.leases import Lease, LeaseTerms
from icestream.ingest.publishing.recovery import RunBasis, RunTarget, follow_branch, recover
from icestream.ingest.runs import target_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What was done to make repository and ledger agree."""

    archive: str
    last_run: int | None
    """The number of the last run that both know of; None if there is none."""
    was_unfinished: bool = False
    """Whether the ledger had to be brought to what the repository says."""

    def tree(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return asdict(self)

    def text(self) -> str:
        """Return the report for people."""
        last = "no run" if self.last_run is None else f"run {self.last_run}"
        if self.was_unfinished:
            return f"{self.archive}: the ledger now follows the repository, up to {last}"
        return f"{self.archive}: repository and ledger agree, up to {last}; nothing to do"


def recover_archive(
    archive: Archive,
    *,
    places: Places | None = None,
    follows_branch: bool = False,
    wait_seconds: float = 0.0,
) -> RecoveryReport:
    """Finish what a run left unfinished; every run begins with that by itself.

    Args:
        archive: The declaration.
        places: Where things are, if the declaration does not say it.
        follows_branch: Let the ledger forget runs that are no more on the branch, because somebody
            moved it back. The next run ingests their files again.
        wait_seconds: How long to wait for a run to finish.

    Raises:
        NotFoundError: There was no run yet.
        ConflictError: A run is going on; or the branch was moved back, and is not to be followed.
    """
    opened = find_archive(archive, places)
    with Lease.take(opened.ledger.ingest.storage, archive.name, LeaseTerms(wait_s=wait_seconds)):
        opened.ledger.refresh()
        before = opened.ledger.ingest.head
        basis = _agreement(target_of(opened), follows_branch=follows_branch)
    return RecoveryReport(
        archive=archive.name,
        last_run=_last_run(basis),
        was_unfinished=opened.ledger.ingest.head != before,
    )


def _agreement(target: RunTarget, *, follows_branch: bool) -> RunBasis:
    try:
        return recover(target)
    except ConflictError as error:
        if not follows_branch or error.kind is not ErrorKind.NOT_ALLOWED:
            raise
        return follow_branch(target)


def _last_run(basis: RunBasis) -> int | None:
    return None if basis.checkpoint is None else basis.checkpoint.number
