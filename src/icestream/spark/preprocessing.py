"""The queries of a source, run on its rows before they are merged."""

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.snapshots import normalise_transform
from icestream.ledger.blocks.transforms import Transform
from icestream.ledger.ingestion import Preprocess
from icestream.spark.arrow_types import in_spark_types
from icestream.spark.sessions import RESULT_SETTINGS

_INPUT = "input"
_ENGINE = "spark"


def sql_preprocess(spark: SparkSession) -> Preprocess:
    """Return what runs the queries of a source, for `IngestSettings(preprocess=...)`.

    The rows pass through this process: sources are files that fit into memory.

    Args:
        spark: The session; views of queries do not become visible in it.
    """

    def preprocess(table: pa.Table, transform: Transform) -> pa.Table:
        if transform.engine.lower() != _ENGINE:
            raise InvalidInputError(
                f"the source preprocesses its data with {transform.engine}, and only {_ENGINE}"
                " is supported: rewrite its query for Spark SQL"
            )
        own = spark.newSession()  # has the settings that Spark was started with
        for name, value in RESULT_SETTINGS.items():
            own.conf.set(name, value)
        rows = own.createDataFrame(table.cast(in_spark_types(table.schema)))
        try:
            rows.createOrReplaceTempView(_INPUT)
            for step in normalise_transform(transform).queries or ():
                rows = own.sql(step.query)
                if step.alias is not None:
                    rows.createOrReplaceTempView(step.alias)
            return rows.toArrow()
        except PySparkException as error:
            raise InvalidInputError(f"the query of the source fails: {error}") from error

    return preprocess
