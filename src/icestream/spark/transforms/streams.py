"""Runs a stream over what is there now, and stops."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from icestream.spark.arrow_types import arrow_schema

_SPARK = "org.apache.spark.sql.execution.streaming"
STREAM_SETTINGS: Mapping[str, str] = {
    # state is split by key; it has as many parts for ever, on machines of any size
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        f"{_SPARK}.state.HDFSBackedStateStoreProvider"
    ),
    # the newest state is all that is kept, and it is written before the stream ends
    "spark.sql.streaming.minBatchesToRetain": "1",
    "spark.sql.streaming.stateStore.unloadOnCommit": "true",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
    "spark.sql.streaming.asyncLogPurge.enabled": "false",
    # the directory is packed as one file with a hash of its own
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_SPARK}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # windows close when the lowest watermark of all inputs has passed them
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
_log = logging.getLogger(__name__)


def run_stream(rows: DataFrame, folder: Path) -> list[pa.Table]:
    """Return what a stream puts out for all that its sources have, in several tables.

    Args:
        rows: The stream.
        folder: Its checkpoint directory, which executors reach; the stream goes on from there.
    """
    schema = arrow_schema(rows.schema)
    tables = [schema.empty_table()]

    def collect(batch: DataFrame, _: int) -> None:
        tables.append(batch.toArrow())

    writer = rows.writeStream.outputMode("append").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder)).foreachBatch(collect).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    if late := _late_rows(query):
        _log.warning("%d rows came after the watermark had passed them, and were left out", late)
    return [table.cast(schema, safe=False) for table in tables]


def _late_rows(query: StreamingQuery) -> int:
    operators = (state for each in query.recentProgress for state in each["stateOperators"])
    return sum(state["numRowsDroppedByWatermark"] for state in operators)
