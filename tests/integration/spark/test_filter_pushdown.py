"""Why the data source has no `pushFilters`: PySpark 4.3 applies one query's filters to the next."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from icestream.spark.data_source import IcestreamReader

PARTS, ROWS = 4, 1_000


class PruningSource(DataSource):
    """Four parts of a thousand rows, of which a filter on `part` leaves one."""

    @classmethod
    def name(cls) -> str:
        return "pruning"

    def schema(self) -> str:
        return "part int, number int"

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema

        # inside, so that it travels with the class and needs no module in Spark's processes
        class PruningReader(DataSourceReader):
            def __init__(self) -> None:
                self.parts = list(range(PARTS))

            def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's
                for one in filters:
                    if isinstance(one, EqualTo) and one.attribute == ("part",):
                        self.parts = [one.value]
                    else:
                        yield one

            def partitions(self) -> list[InputPartition]:
                return [InputPartition(part) for part in self.parts]

            def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
                part = pa.array([partition.value] * ROWS, pa.int32())
                numbers = pa.array(range(ROWS), pa.int32())
                yield pa.RecordBatch.from_arrays([part, numbers], ["part", "number"])

        return PruningReader()


@pytest.fixture
def pruning(spark: SparkSession) -> SparkSession:
    sibling = spark.newSession()
    sibling.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    sibling.dataSource.register(PruningSource)
    return sibling


def test_spark_still_loses_rows_after_a_filter_was_pushed_down(pruning: SparkSession) -> None:
    frame = pruning.read.format("pruning").load()

    filtered = frame.where("part = 1").count()
    everything = frame.count()

    assert filtered == ROWS
    assert everything == ROWS, (
        f"it counts {everything}: Spark has mended what made filters of one query stay for the "
        "next, so conditions may be pushed down to the data source now"
    )


def test_the_data_source_takes_no_filters() -> None:
    assert IcestreamReader.pushFilters is DataSourceReader.pushFilters
