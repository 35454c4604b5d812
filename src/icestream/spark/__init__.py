"""Jobs on Spark: DataFrames in, commits out. The only folder that imports pyspark."""

from icestream.spark.arrays import read_array
from icestream.spark.cells.grids import CellQuery
from icestream.spark.data_writing import add_data
from icestream.spark.datasets import read_dataset
from icestream.spark.pinned import VersionName
from icestream.spark.preprocessing import sql_preprocess
from icestream.spark.sessions import session
from icestream.spark.writes.jobs import write_array, write_references
from icestream.spark.writes.targets import CommitWords

__all__ = [
    "CellQuery",
    "CommitWords",
    "VersionName",
    "add_data",
    "read_array",
    "read_dataset",
    "session",
    "sql_preprocess",
    "write_array",
    "write_references",
]
