"""Datasets as DataFrames, and sources whose rows pass through SQL."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from icestream.errors import InvalidInputError
from icestream.ledger import (
    AddPushSource,
    Dataset,
    DatasetAlias,
    DatasetKind,
    DatasetSnapshot,
    IngestSettings,
)
from icestream.ledger.blocks.sources import MergeStrategyAppend, ReadStepNdJson
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformSql
from icestream.spark import read_dataset, sql_preprocess
from icestream.storage import Storage, local_filesystem_storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return local_filesystem_storage(str(tmp_path / "dataset"))


def test_a_dataset_is_read_as_of_any_block(spark: SparkSession, storage: Storage) -> None:
    dataset = Dataset.create(storage, "cities")
    assert read_dataset(spark, dataset).columns == ["offset", "op", "system_time", "event_time"]
    first = dataset.add_data(pa.table({"city": ["kyiv", "odesa"], "size": [3, 1]})).new_head
    dataset.add_data(pa.table({"city": ["lviv"], "size": [2]}))

    now = read_dataset(spark, dataset)
    then = read_dataset(spark, dataset.as_of(first), select=["city"])

    rows = now.orderBy("offset").select("offset", "city", "size").collect()
    assert [tuple(row) for row in rows] == [(0, "kyiv", 3), (1, "odesa", 1), (2, "lviv", 2)]
    assert now.schema["offset"].nullable is False
    assert sorted(row.city for row in then.collect()) == ["kyiv", "odesa"]


def source(*queries: SqlQueryStep, engine: str = "spark") -> DatasetSnapshot:
    push = AddPushSource(
        source_name="feed",
        read=ReadStepNdJson(),
        preprocess=TransformSql(engine=engine, queries=queries),
        merge=MergeStrategyAppend(),
    )
    name = DatasetAlias.parse("cities")
    return DatasetSnapshot(name=name, kind=DatasetKind.ROOT, metadata=(push,))


def test_rows_pass_through_the_queries_of_their_source(
    spark: SparkSession, storage: Storage
) -> None:
    dataset = Dataset.create(
        storage,
        source(
            SqlQueryStep(alias="large", query="select * from input where size > 1"),
            SqlQueryStep(
                query="select timestamp'2024-05-01' as event_time, upper(city) as city from large"
            ),
        ),
    )
    settings = IngestSettings(preprocess=sql_preprocess(spark))

    dataset.ingest_file(b'{"city": "kyiv", "size": 3}\n{"city": "x", "size": 1}', settings=settings)

    (row,) = dataset.to_arrow().to_pylist()
    assert (row["city"], str(row["event_time"])) == ("KYIV", "2024-05-01 00:00:00+00:00")
    assert dataset.verify().is_valid
    assert not spark.catalog.tableExists("large")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (source(SqlQueryStep(query="select nonsense from input")), "nonsense"),
        (source(SqlQueryStep(query="select * from input"), engine="flink"), "only spark"),
    ],
)
def test_a_query_that_fails_is_told(
    spark: SparkSession, storage: Storage, given: DatasetSnapshot, problem: str
) -> None:
    dataset = Dataset.create(storage, given)
    settings = IngestSettings(preprocess=sql_preprocess(spark))

    with pytest.raises(InvalidInputError, match=problem):
        dataset.ingest_file(b'{"city": "kyiv"}', settings=settings)
