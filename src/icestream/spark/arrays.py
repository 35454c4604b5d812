"""Cells of arrays as DataFrames, from a repository that is open already."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from icestream.repository.repository import Repository
from icestream.spark.arrow_types import spark_schema
from icestream.spark.cells.blocks import Block, Positions, projected
from icestream.spark.cells.grids import CellQuery
from icestream.spark.cells.plans import ROWS_PER_BLOCK, CellPlan, plan_cells
from icestream.spark.cells.selections import Selection
from icestream.spark.data_source import Batches, CellRows
from icestream.spark.pinned import PinnedRepository, VersionName
from icestream.spark.task_environments import TaskEnvironment


def read_array(
    spark: SparkSession,
    repo: Repository,
    cells: str | CellQuery,
    *,
    version: VersionName | None = None,
    sel: Selection | None = None,
) -> DataFrame:
    """Return cells as rows: a column per coordinate, and one per variable.

    Args:
        spark: The session.
        repo: Tasks take it along with its credentials, which appear in no setting of Spark. Its
            storage must be one that executors reach.
        cells: The path of an array; or a query, for several variables of one grid, or for stored
            values that are not decoded.
        version: A branch, tag, snapshot or moment; by default the newest of `main`.
        sel: Which cells, by the values of coordinates: `{"lat": slice(40, 60), "lon": [3, 4],
            "time": "2024-05"}`. Only the chunks that hold them are read.

    Raises:
        NotFoundError: There is no such array, group or version.
        InvalidInputError: The variables are not on one grid, the selection does not fit, or Spark
            has no type for the values.
    """
    query = CellQuery(array=cells) if isinstance(cells, str) else cells
    session = (version or VersionName()).session(repo)
    plan = plan_cells(session.store, query, sel)
    return _frame(spark, PinnedRepository.of(repo, session), plan, plan.blocks())


def read_boxes(
    spark: SparkSession,
    repo: Repository,
    query: CellQuery,
    boxes: Iterable[Mapping[str, Positions]],
    *,
    version: VersionName,
) -> DataFrame:
    """Return the cells of boxes as rows, as `read_array` does.

    Args:
        spark: The session.
        repo: Where executors reach it.
        query: Variables of one grid.
        boxes: Ascending positions by the names of dimensions; of other dimensions all. Without
            any cell in two of them.
        version: Of the repository.

    Raises:
        NotFoundError: There is no such group or version.
        InvalidInputError: The variables are not on one grid, or Spark has no type for the values.
    """
    session = version.session(repo)
    plan = plan_cells(session.store, query)
    own = projected(boxes, plan.grid.dimensions)
    blocks = [block for box in own for block in plan.within(box).blocks()]
    return _frame(spark, PinnedRepository.of(repo, session), plan, blocks)


def _frame(
    spark: SparkSession, pinned: PinnedRepository, plan: CellPlan, blocks: list[Block]
) -> DataFrame:
    rows = CellRows(pinned, plan, ROWS_PER_BLOCK)
    schema = spark_schema(rows.schema)
    if not blocks:
        return spark.createDataFrame(rows.schema.empty_table(), schema)
    numbers = spark.range(0, len(blocks), 1, len(blocks))
    work = TaskEnvironment.of_driver().around(_Reading(rows, blocks).cells)
    return numbers.mapInArrow(work, schema)


@dataclass(frozen=True, slots=True)
class _Reading:
    rows: CellRows
    blocks: list[Block]

    def cells(self, numbers: Batches) -> Batches:
        """Yield the cells of the blocks with these numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self.rows.read(self.blocks[number])
