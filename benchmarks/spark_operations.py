"""A snapshot merged into a dataset by Spark in local mode, beside the same on Arrow tables.

    python -m benchmarks.spark_operations [rows]

The dataset has so many records in one slice on the local disk, and the snapshot as many rows in a
Parquet file: a tenth of them changed, a twentieth is new, a twentieth is gone. Reading both,
merging and writing the new slice is measured; the slices are equal. Prints a Markdown table of
wall time in seconds.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.events import DataSlice
from icestream.ledger.blocks.sources import MergeStrategySnapshot
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.arrow_schemas import from_arrow_schema
from icestream.ledger.data.merging.strategies import merged
from icestream.ledger.data.reading import open_slices, read_records
from icestream.ledger.data.slices import EncodedSlice, encode_slice
from icestream.ledger.data.system_columns import SystemColumns, with_system_columns
from icestream.spark import session
from icestream.spark.merging import merge
from icestream.spark.slices import read_slices, write_slice
from icestream.storage import Storage, local_filesystem_storage

MILLION = 1_000_000

_STRATEGY = MergeStrategySnapshot(primary_key=("station", "sensor"))
_NOW = Timestamp.from_epoch_ms(1_700_000_000_000)
_SENSORS = 10
_COLUMNS = SystemColumns()


@dataclass(frozen=True, slots=True)
class Example:
    """A dataset of one slice, and a snapshot to be merged into it."""

    storage: Storage
    known: DataSlice
    schema: DataSchema
    snapshot: Path

    @property
    def next_offset(self) -> int:
        """The offset of the first new record."""
        return self.known.offset_interval.end + 1


def build_example(rows: int, folder: Path) -> Example:
    """Write the dataset and the snapshot."""
    storage = local_filesystem_storage(str(folder / "dataset"))
    records = _complete(merged(_STRATEGY, _measurements(range(rows))), 0)
    known = encode_slice(records)
    storage.put(f"data/{known.object_name}", known.data)
    moved = rows // 20
    snapshot = _measurements(range(moved, rows + moved), changed_each=10)
    pq.write_table(snapshot, folder / "snapshot.parquet")
    schema = from_arrow_schema(records.schema)
    return Example(storage, known.facts, schema, folder / "snapshot.parquet")


def _measurements(numbers: range, changed_each: int | None = None) -> pa.Table:
    key = np.arange(numbers.start, numbers.stop)
    value = key * 0.5
    if changed_each is not None:
        value[::changed_each] += 1
    return pa.table(
        {
            "station": pa.array([f"station-{number:07}" for number in key // _SENSORS]),
            "sensor": pa.array(key % _SENSORS, pa.int32()),
            "value": pa.array(value),
        }
    )


def _complete(table: pa.Table, first_offset: int) -> pa.Table:
    return with_system_columns(table, _COLUMNS, first_offset=first_offset, system_time=_NOW)


def merge_on_arrow(example: Example) -> DataSlice:
    """Read, merge and write in this process."""
    dataset = open_slices(example.storage, [example.known], example.schema)
    known = read_records(dataset, example.schema)
    added = merged(_STRATEGY, pq.read_table(example.snapshot), known)
    encoded: EncodedSlice = encode_slice(_complete(added, example.next_offset))
    example.storage.put(f"data/{encoded.object_name}", encoded.data)
    return encoded.facts


def merge_on_spark(example: Example, spark: SparkSession) -> DataSlice:
    """Read, merge and write on Spark."""
    known = read_slices(spark, example.storage, [example.known], example.schema)
    snapshot = spark.read.parquet(str(example.snapshot))
    added = merge(snapshot, known, _STRATEGY, first_offset=example.next_offset)
    written = write_slice(added, example.storage, example.schema, system_time=_NOW)
    assert written is not None
    return written.facts


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_operations")
    parser.add_argument("rows", nargs="?", type=int, default=MILLION)
    rows = parser.parse_args(arguments).rows
    with tempfile.TemporaryDirectory(prefix="icestream-bench-") as folder:
        example = build_example(rows, Path(folder))
        arrow_s, expected = _timed(lambda: merge_on_arrow(example))
        start_s, spark = _timed(session)
        first_s, first = _timed(lambda: merge_on_spark(example, spark))
        again_s, again = _timed(lambda: merge_on_spark(example, spark))
    assert first.logical_hash == again.logical_hash == expected.logical_hash
    added = expected.offset_interval.count
    print(f"snapshot of {rows:,} rows, dataset of {rows:,} records: {added:,} new records\n")
    print("| step | seconds |\n|---|---|")
    print(f"| merge on Arrow tables | {arrow_s:.1f} |")
    print(f"| start of Spark | {start_s:.1f} |")
    print(f"| merge on Spark, the first one | {first_s:.1f} |")
    print(f"| merge on Spark, again | {again_s:.1f} |")


def _timed[T](work: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


if __name__ == "__main__":
    main()
