"""Jobs on Spark: DataFrames in, commits out. The only folder that imports pyspark."""

from icestream.spark.sessions import session

__all__ = ["session"]
