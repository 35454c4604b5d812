"""How Spark finds the format `icestream` without being told: by the name of this package."""

from icestream.spark.data_source import IcestreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
