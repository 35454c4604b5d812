"""Datasets of the ledger as DataFrames."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from icestream.ledger.dataset import Dataset
from icestream.ledger.dataset_versions import DatasetVersion
from icestream.spark.slices import read_slices


def read_dataset(
    spark: SparkSession,
    dataset: Dataset | DatasetVersion,
    *,
    select: Sequence[str] | None = None,
) -> DataFrame:
    """Return the records of a dataset; executors read them when they are needed.

    Args:
        spark: The session.
        dataset: As of its head, or as of any block (`dataset.as_of(block)`); its storage must be
            one that executors reach.
        select: The columns that are read, all by default.

    Raises:
        InvalidInputError: Spark has no type for a column, or a selected column does not exist.
    """
    version = dataset.current if isinstance(dataset, Dataset) else dataset
    return read_slices(
        spark,
        version.storage,
        version.slices(),
        version.record_schema,
        columns=version.system_columns,
        select=select,
    )
