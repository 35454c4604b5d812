"""Snapshots of a repository that runs of an archive made, told by what their metadata say.

    {"icestream": {"archive": "sst", "block": "f1620...", "run": 3}}

The block is the one of the ingest dataset that tells of the same run. Other programs keep metadata
of snapshots as they are, also when they expire or rebase.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.hashes import Multihash
from icestream.repository.history import SnapshotInfo
from icestream.repository.repository import Repository

METADATA_KEY = "icestream"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSnapshot:
    """A snapshot of a run."""

    snapshot_id: str
    block: Multihash
    run: int


def run_metadata(archive: str, block: Multihash, run: int) -> dict[str, Any]:
    """Return what the snapshot of a run says of it."""
    return {METADATA_KEY: {"archive": archive, "block": str(block), "run": run}}


def run_snapshots(repository: Repository, branch: str, archive: str) -> Iterator[RunSnapshot]:
    """Yield the snapshots of runs of an archive that lead to a branch, newest first.

    Raises:
        RefNotFoundError: There is no such branch.
    """
    for info in repository.ancestry(branch=branch):
        found = _run_of(info, archive)
        if found is not None:
            yield found


def newest_run(repository: Repository, branch: str, archive: str) -> RunSnapshot | None:
    """Return the newest snapshot of a run of an archive on a branch; None if there is none."""
    return next(run_snapshots(repository, branch, archive), None)


def _run_of(info: SnapshotInfo, archive: str) -> RunSnapshot | None:
    noted = info.metadata.get(METADATA_KEY)
    if not isinstance(noted, Mapping) or noted.get("archive") != archive:
        return None
    block, run = noted.get("block"), noted.get("run")
    if not isinstance(block, str) or not isinstance(run, int):
        return None
    try:
        return RunSnapshot(snapshot_id=info.id, block=Multihash.parse(block), run=run)
    except InvalidInputError:
        return None
