"""What the ledger tells of the runs of an archive."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from icestream.ingest.publishing.recovery import RunTarget
from icestream.ingest.publishing.run_snapshots import run_snapshots
from icestream.ledger.blocks.events import ExecuteTransform
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.dataset import Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run that is published."""

    number: int
    block: Multihash
    system_time: datetime
    counts: Mapping[str, int]
    """How many files it looked at, by their status."""
    references: int
    """How many references these files have."""
    snapshot_id: str | None = None
    """None if it had nothing to commit, or its snapshot has expired."""


def run_history(target: RunTarget) -> list[RunRecord]:
    """Return the runs that the ledger of an archive knows, newest first."""
    snapshots = {
        found.block: found.snapshot_id
        for found in run_snapshots(target.repository, target.branch, target.ledger.name)
    }
    ingest = target.ledger.ingest
    runs = list(_runs(ingest))[::-1]
    tallies = _tallies(ingest, [event for _, event in runs])
    records = [
        RunRecord(
            number=number,
            block=block.block_hash,
            system_time=block.block.system_time.to_datetime(),
            counts=counts,
            references=references,
            snapshot_id=snapshots.get(block.block_hash),
        )
        for number, ((block, _), (counts, references)) in enumerate(
            zip(runs, tallies, strict=True), start=1
        )
    ]
    return records[::-1]


def rows_of_run(ingest: Dataset, block: Multihash) -> pa.Table:
    """Return the records of the run of a block, one per file; none if it looked at no files.

    Raises:
        NotFoundError: The block is not on the chain.
    """
    event = ingest.find_block(block).event
    records = (
        ingest.as_of(block).tail(_size(event)) if isinstance(event, ExecuteTransform) else None
    )
    return ingest.to_arrow().slice(0, 0) if records is None else records


def last_statuses(ingest: Dataset) -> dict[str, str]:
    """Return by URL what the last run that looked at a file says of it."""
    rows = ingest.to_dataset().to_table(columns=["url", "status"])
    last = rows.group_by("url", use_threads=False).aggregate([("status", "last")])
    return dict(zip(last["url"].to_pylist(), last["status_last"].to_pylist(), strict=True))


def _runs(ingest: Dataset) -> Iterator[tuple[StoredBlock, ExecuteTransform]]:
    """Yield the blocks of runs, newest first."""
    for block in ingest.blocks():
        if isinstance(block.event, ExecuteTransform):
            yield block, block.event


def _size(event: ExecuteTransform) -> int:
    return 0 if event.new_data is None else event.new_data.offset_interval.count


def _tallies(
    ingest: Dataset, events: Sequence[ExecuteTransform]
) -> list[tuple[dict[str, int], int]]:
    """Return for each run how many files have which status, and how many references."""
    if ingest.last_offset is None:
        return [({}, 0) for _ in events]
    table = ingest.to_dataset().to_table(columns=["status", "references"])
    statuses = table.column("status").combine_chunks().dictionary_encode()
    names = statuses.dictionary.to_pylist()
    runs = np.repeat(np.arange(len(events)), [_size(event) for event in events])
    codes = runs * len(names) + statuses.indices.to_numpy()
    counts = np.bincount(codes, minlength=len(events) * len(names)).reshape(len(events), -1)
    references = np.zeros(len(events), np.int64)
    np.add.at(references, runs, table.column("references").to_numpy())
    return [
        ({name: int(n) for name, n in zip(names, row, strict=True) if n}, int(total))
        for row, total in zip(counts, references, strict=True)
    ]
