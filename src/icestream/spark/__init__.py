"""Jobs on Spark: DataFrames in, commits out. The only folder that imports pyspark."""

from icestream.ingest.array_derivation.declarations import ArrayDerivation, ArrayPlace, Period
from icestream.ingest.array_derivation.ledger_side import create_derived_array
from icestream.spark.arrays import read_array
from icestream.spark.cells.grids import CellQuery
from icestream.spark.data_writing import add_data
from icestream.spark.datasets import read_dataset
from icestream.spark.derived_arrays.places import ArrayPlaces
from icestream.spark.derived_arrays.pulling import pull_derived_array
from icestream.spark.derived_arrays.replays import verify_derived_array
from icestream.spark.ingest_engine import SparkEngine
from icestream.spark.pinned import VersionName
from icestream.spark.preprocessing import sql_preprocess
from icestream.spark.sessions import session
from icestream.spark.transforms.archive_places import ArchivePlaces
from icestream.spark.writes.jobs import write_array, write_references
from icestream.spark.writes.targets import CommitWords

__all__ = [
    "ArchivePlaces",
    "ArrayDerivation",
    "ArrayPlace",
    "ArrayPlaces",
    "CellQuery",
    "CommitWords",
    "Period",
    "SparkEngine",
    "VersionName",
    "add_data",
    "create_derived_array",
    "pull_derived_array",
    "read_array",
    "read_dataset",
    "session",
    "sql_preprocess",
    "verify_derived_array",
    "write_array",
    "write_references",
]
