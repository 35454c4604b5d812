"""Arrays of archives for queries: the cells that a repository had when files were recorded.

An input that tells of the files of an archive, under the alias `files`, brings along two views of
the repository at the snapshot whose metadata name the block that is consumed:

    files_cells        all cells
    files_new_cells    the cells of the files that the transaction consumes

So a query sees the array as it was after exactly the files that it has read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from icestream.errors import NotFoundError
from icestream.ingest.archive_states import decode_state
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.declaration.documents import decode_archive
from icestream.ingest.placed_files import Box, FilePositions, positions_of
from icestream.ingest.publishing.checkpoints import load_checkpoint
from icestream.ingest.publishing.ledger_side import CELLS_SUFFIX, INGEST_ENGINE, NEW_CELLS_SUFFIX
from icestream.ingest.publishing.rows import FileStatus
from icestream.ingest.publishing.run_snapshots import RunSnapshot, run_snapshots
from icestream.ingest.source_access import SourceAccess
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.planning import InputPlan, TransformPlan
from icestream.ledger.data.reading import open_slices
from icestream.ledger.dataset import Dataset
from icestream.repository.repository import Repository
from icestream.spark.arrays import read_array, read_boxes
from icestream.spark.cells.grids import CellQuery
from icestream.spark.pinned import VersionName
from icestream.spark.transforms.inputs import InputRecords
from icestream.storage.urls import StorageUrl

_BRINGING = (FileStatus.INGESTED.value, FileStatus.UPDATED.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCells:
    """Cells of one group of a repository, at one snapshot."""

    repository: Repository
    snapshot_id: str
    group: str
    boxes: tuple[Box, ...] | None = None
    """Where they are; None are all."""

    def rows(self, session: SparkSession) -> DataFrame:
        """Return a row per cell; executors read them when they are needed."""
        query = CellQuery(group=self.group)
        version = VersionName(snapshot=self.snapshot_id)
        if self.boxes is None:
            return read_array(session, self.repository, query, version=version)
        return read_boxes(session, self.repository, query, self.boxes, version=version)


def cells_of(
    plan: TransformPlan,
    inputs: Sequence[Dataset],
    repositories: Mapping[DatasetId, Repository] | None = None,
) -> dict[str, ArchiveCells]:
    """Return the cells that the queries of a transaction read, by the names of their views.

    Args:
        plan: The transaction.
        inputs: What it reads.
        repositories: Of archives, by the ids of the datasets that tell of their files; others are
            opened at the address that the archive declares, with the credentials of the
            environment.

    Raises:
        NotFoundError: A repository has no snapshot for what is consumed.
        InvalidInputError: New cells are asked for, and the archive makes several groups.
    """
    texts = [step.query for step in plan.transform.transform.queries or ()]
    datasets = {given.dataset_id: given for given in inputs}
    found: dict[str, ArchiveCells] = {}
    for given in plan.inputs:
        dataset, archive = datasets[given.dataset_id], _archive_of(datasets[given.dataset_id])
        views = [given.alias + suffix for suffix in (CELLS_SUFFIX, NEW_CELLS_SUFFIX)]
        wanted = [view for view in views if any(view in text for text in texts)]
        if archive is None or not wanted:
            continue
        repository = (repositories or {}).get(given.dataset_id) or _opened(archive)
        run = _last_run(repository, archive, dataset.chain.store, given)
        for view in wanted:
            cells = ArchiveCells(
                repository=repository, snapshot_id=run.snapshot_id, group=archive.target.group
            )
            if view.endswith(NEW_CELLS_SUFFIX):
                new = _new_positions(archive, dataset, given, run)
                cells = replace(cells, group=new.group, boxes=new.boxes)
            found[view] = cells
    return found


def _new_positions(
    archive: Archive, dataset: Dataset, given: InputPlan, run: RunSnapshot
) -> FilePositions:
    """Return where the files that a transaction consumes lie in the arrays of a run."""
    checkpoint = load_checkpoint(dataset, run.block)
    if checkpoint is None:
        raise NotFoundError(f"block {run.block} of {archive.name} is not one of a run")
    records = InputRecords.planned(given, {dataset.dataset_id: dataset.storage})
    rows = open_slices(
        records.storage, records.slices, records.schema, columns=records.columns
    ).to_table(columns=["url", "status"])
    brought = rows.filter(pc.is_in(rows["status"], pa.array(_BRINGING)))
    state = decode_state(checkpoint.state)
    return positions_of(state, set(brought["url"].to_pylist()), name=archive.name)


def _archive_of(dataset: Dataset) -> Archive | None:
    declared = dataset.state.transform
    if declared is None or declared.transform.engine != INGEST_ENGINE:
        return None
    queries = declared.transform.queries or ()
    return decode_archive(queries[-1].query.encode(), name=dataset.alias or "archive")


def _opened(archive: Archive) -> Repository:
    storage = StorageUrl(address=archive.target.repository).storage()
    consents = dict.fromkeys(SourceAccess.of(archive).prefixes)
    return Repository.open(storage, authorize_virtual_chunk_access=consents)


def _last_run(
    repository: Repository, archive: Archive, store: BlockStore, given: InputPlan
) -> RunSnapshot:
    """Return the newest snapshot of a run that is recorded up to the consumed block."""
    consumed = given.entry.last_block_hash
    last = -1 if consumed is None else store.load(consumed).sequence_number
    for run in run_snapshots(repository, archive.target.branch, archive.name):
        if _number_of(store, run.block) <= last:
            return run
    raise NotFoundError(
        f"the repository of {archive.name} has no snapshot for block {consumed} of input"
        f" {given.alias}: it was expired, or no run has committed yet"
    )


def _number_of(store: BlockStore, block: Multihash) -> float:
    """Return the place of a block; one that is not there, is ahead of all."""
    return store.load(block).sequence_number if store.has(block) else float("inf")
