"""DataFrames merged into datasets, beside the same as Arrow tables."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.ledger_events import moment

from icestream.errors import ConflictError, InvalidInputError
from icestream.ledger import (
    AddPushSource,
    Dataset,
    DatasetAlias,
    DatasetKind,
    DatasetSnapshot,
    SetTransform,
    new_dataset_id,
)
from icestream.ledger.blocks.sources import (
    MergeStrategy,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepParquet,
)
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformInput, TransformSql
from icestream.spark import add_data
from icestream.storage import local_filesystem_storage

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
KEY = ("city",)
INPUTS = (
    pa.table({"city": ["kyiv", "odesa"], "size": [3, 1]}),
    pa.table({"size": [4, 2], "city": ["kyiv", "lviv"]}),
    pa.table({"city": ["kyiv", "lviv"], "size": [4, 2]}),
)


def dataset_with(merge: MergeStrategy | None, folder: Path) -> Dataset:
    read = ReadStepParquet()
    events = () if merge is None else (AddPushSource(source_name="a", read=read, merge=merge),)
    definition = DatasetSnapshot(
        name=DatasetAlias.parse("cities"), kind=DatasetKind.ROOT, metadata=events
    )
    storage = local_filesystem_storage(str(folder))
    return Dataset.create(storage, definition, system_time=moment(0))


@pytest.mark.parametrize(
    "merge",
    [
        None,
        MergeStrategyLedger(primary_key=KEY),
        MergeStrategySnapshot(primary_key=KEY),
        MergeStrategyUpsertStream(primary_key=KEY),
    ],
)
def test_a_dataframe_and_a_table_add_the_same_records(
    spark: SparkSession, tmp_path: Path, merge: MergeStrategy | None
) -> None:
    ours = dataset_with(merge, tmp_path / "spark")
    theirs = dataset_with(merge, tmp_path / "arrow")

    for number, table in enumerate(INPUTS):
        time, system_time = NOON, moment(number)
        on_spark = add_data(
            ours, spark.createDataFrame(table), event_time=time, system_time=system_time
        )
        on_arrow = theirs.add_data(table, event_time=time, system_time=system_time)
        assert on_spark.record_count == on_arrow.record_count
        assert on_spark.is_up_to_date == on_arrow.is_up_to_date

    hashes, expected = (
        [part.logical_hash for part in each.current.slices()] for each in (ours, theirs)
    )
    assert hashes == expected
    assert (ours.schema, ours.watermark) == (theirs.schema, theirs.watermark)
    assert ours.verify().is_valid


def test_a_watermark_is_raised_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    dataset = dataset_with(None, tmp_path)
    empty = spark.createDataFrame([], "city string")

    first = add_data(dataset, empty)
    raised = add_data(dataset, empty, watermark=NOON)
    again = add_data(dataset, empty, watermark=NOON)

    assert (first.is_up_to_date, raised.is_up_to_date, again.is_up_to_date) == (False, False, True)
    events = [type(block.event).__name__ for block in dataset.blocks()]
    assert events == ["AddData", "SetDataSchema", "Seed"]


def test_of_two_writers_one_wins(spark: SparkSession, tmp_path: Path) -> None:
    dataset = dataset_with(None, tmp_path)
    rival = Dataset.open(dataset.storage)
    rival.add_data(INPUTS[0])

    with pytest.raises(ConflictError):
        add_data(dataset, spark.createDataFrame(INPUTS[0]))

    assert Dataset.open(dataset.storage).head == rival.head


def test_rows_that_do_not_fit_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    dataset = dataset_with(None, tmp_path)
    dataset.add_data(INPUTS[0])
    head = dataset.head

    with pytest.raises(InvalidInputError, match="missing columns 'city', 'size'"):
        add_data(dataset, spark.createDataFrame([("kyiv",)], ["name"]))

    assert dataset.head == head


def test_a_derivative_dataset_takes_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    transform = SetTransform(
        inputs=(TransformInput(dataset_ref=str(new_dataset_id()), alias="a"),),
        transform=TransformSql(engine="spark", queries=(SqlQueryStep(query="select * from a"),)),
    )
    definition = DatasetSnapshot(
        name=DatasetAlias.parse("cities"), kind=DatasetKind.DERIVATIVE, metadata=(transform,)
    )
    dataset = Dataset.create(local_filesystem_storage(str(tmp_path)), definition)

    with pytest.raises(InvalidInputError, match="derivative"):
        add_data(dataset, spark.createDataFrame(INPUTS[0]))
