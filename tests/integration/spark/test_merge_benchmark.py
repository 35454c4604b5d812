"""The benchmark of merging runs, and both ways give one result."""

from pathlib import Path

from benchmarks.spark_operations import build_example, merge_on_arrow, merge_on_spark
from pyspark.sql import SparkSession


def test_spark_and_arrow_merge_to_the_same_records(spark: SparkSession, tmp_path: Path) -> None:
    example = build_example(1_000, tmp_path)

    on_arrow, on_spark = merge_on_arrow(example), merge_on_spark(example, spark)

    assert on_spark.logical_hash == on_arrow.logical_hash
    assert on_spark.offset_interval == on_arrow.offset_interval
