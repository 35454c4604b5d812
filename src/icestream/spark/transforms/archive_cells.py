"""Arrays of archives for queries: the cells that a repository had when files were recorded.

An input that tells of the files of an archive, under the alias `files`, brings along views of the
repository at the snapshot whose metadata name the block that is consumed:

    files_cells            all cells
    files_new_cells        the cells of the files that the transaction consumes
    files_cells_sst        all cells of the array sst alone, whatever grid others are on
    files_new_cells_sst    its cells of these files

So a query sees the array as it was after exactly the files that it has read.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from icestream.errors import ErrorKind, InvalidInputError, NotFoundError
from icestream.ingest.archive_states import decode_state
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.declaration.documents import decode_archive
from icestream.ingest.placed_files import Box, FilePositions, positions_of
from icestream.ingest.publishing.checkpoints import load_checkpoint
from icestream.ingest.publishing.ledger_side import CELLS_SUFFIX, INGEST_ENGINE, NEW_CELLS_SUFFIX
from icestream.ingest.publishing.rows import FileStatus
from icestream.ingest.publishing.run_snapshots import RunSnapshot, run_snapshots
from icestream.ingest.run_plans import placed_before
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.planning import InputPlan, TransformPlan
from icestream.ledger.data.reading import open_slices
from icestream.ledger.dataset import Dataset
from icestream.model.paths import absolute
from icestream.repository.repository import Repository
from icestream.spark.arrays import read_array, read_boxes
from icestream.spark.cells.grids import CellQuery
from icestream.spark.pinned import VersionName
from icestream.spark.transforms.archive_places import ArchivePlaces
from icestream.spark.transforms.inputs import InputRecords

_BRINGING = (FileStatus.INGESTED.value, FileStatus.UPDATED.value)
_NAME = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `((?:[^`]|``)+)` | (\w+)""",
    re.DOTALL | re.VERBOSE,
)
"""A name in SQL, with or without backticks; also what names are not looked for in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCells:
    """Cells of one group of a repository, or of one array, at one snapshot."""

    view: str
    """What queries call the cells of the group."""
    repository: Repository
    snapshot_id: str
    group: str
    array: str | None = None
    """The path of one array; None are all variables of the group."""
    boxes: tuple[Box, ...] | None = None
    """Where they are; None are all."""

    def rows(self, session: SparkSession) -> DataFrame:
        """Return a row per cell; executors read them when they are needed.

        Raises:
            InvalidInputError: The variables of the group are no one table.
        """
        try:
            return self._rows(session)
        except InvalidInputError as error:
            if self.array is not None:
                raise
            raise InvalidInputError(
                f"{self.view}: {error}. A transform has a view for each array in place of options:"
                f" {self.view}_<array>, with _ for / in its path",
                kind=ErrorKind.INVALID_ARGUMENT,
            ) from error

    def _rows(self, session: SparkSession) -> DataFrame:
        query = CellQuery(array=self.array, group=self.group)
        version = VersionName(snapshot=self.snapshot_id)
        if self.boxes is None:
            return read_array(session, self.repository, query, version=version)
        return read_boxes(session, self.repository, query, self.boxes, version=version)

    def arrays(self) -> Iterator[str]:
        """Yield the paths of the arrays in the group and below it."""
        for node in self.repository.inspect_snapshot(self.snapshot_id)["nodes"]:
            if node["node_type"] == "array" and node["path"].startswith(self._prefix):
                yield node["path"]

    def view_of(self, array: str) -> str:
        """Return what queries call the cells of one array."""
        return f"{self.view}_{array.removeprefix(self._prefix).replace('/', '_')}"

    @property
    def _prefix(self) -> str:
        return f"{absolute(self.group).rstrip('/')}/"


def cells_of(
    plan: TransformPlan,
    inputs: Sequence[Dataset],
    places: ArchivePlaces | None = None,
) -> dict[str, ArchiveCells]:
    """Return the cells that the queries of a transaction read, by the names of their views.

    Args:
        plan: The transaction.
        inputs: What it reads.
        places: How the repositories of archives are reached, if not by their addresses alone.

    Raises:
        NotFoundError: A repository has no snapshot for what is consumed.
        InvalidInputError: New cells are asked for, and the archive makes several groups; or two
            arrays would have views of one name.
    """
    names = _names_in(step.query for step in plan.transform.transform.queries or ())
    datasets = {given.dataset_id: given for given in inputs}
    found: dict[str, ArchiveCells] = {}
    for given in plan.inputs:
        dataset, archive = datasets[given.dataset_id], _archive_of(datasets[given.dataset_id])
        views = (given.alias + CELLS_SUFFIX, given.alias + NEW_CELLS_SUFFIX)
        wanted = [view for view in views if _mentioned(view, names)]
        if archive is None or not wanted:
            continue
        repository = (places or ArchivePlaces()).open(given.dataset_id, archive)
        run = _last_run(repository, archive, dataset.chain.store, given)
        for view in wanted:
            cells = ArchiveCells(
                view=view,
                repository=repository,
                snapshot_id=run.snapshot_id,
                group=archive.target.group,
            )
            if view.endswith(NEW_CELLS_SUFFIX):
                new = _new_positions(archive, dataset, given, run)
                cells = replace(cells, group=new.group, boxes=new.boxes)
            found |= _views(cells, names)
    return found


def _names_in(queries: Iterable[str]) -> frozenset[str]:
    """Return the names that queries use, as Spark compares them: in small letters."""
    names = (found[1] or found[2] for text in queries for found in _NAME.finditer(text))
    return frozenset(name.replace("``", "`").lower() for name in names if name)


def _mentioned(view: str, names: AbstractSet[str]) -> bool:
    """Tell whether names may be those of the view of a group, or of an array in it."""
    own = view.lower()
    return own in names or any(name.startswith(f"{own}_") for name in names)


def _views(cells: ArchiveCells, names: AbstractSet[str]) -> dict[str, ArchiveCells]:
    """Return the cells of a group, and of single arrays in it, as far as they are named."""
    own = cells.view.lower()
    found = {own: cells} if own in names else {}
    if not any(name.startswith(f"{own}_") for name in names):
        return found
    for array in cells.arrays():
        name = cells.view_of(array).lower()
        if name in found:
            raise InvalidInputError(
                f"the view {name} would be of two arrays, {found[name].array} and {array}: their"
                " names differ in nothing that a view can show; rename one",
                kind=ErrorKind.INVALID_ARGUMENT,
            )
        if name in names:
            found[name] = replace(cells, array=array)
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
    placement = placed_before(decode_state(checkpoint.state), archive)
    return positions_of(placement, set(brought["url"].to_pylist()), archive)


def _archive_of(dataset: Dataset) -> Archive | None:
    declared = dataset.state.transform
    if declared is None or declared.transform.engine != INGEST_ENGINE:
        return None
    queries = declared.transform.queries or ()
    return decode_archive(queries[-1].query.encode(), name=dataset.alias or "archive")


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
