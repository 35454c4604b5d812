"""Cells of an array through Spark's data source, beside a source that reads nothing.

    python -m benchmarks.array_source [megabytes]

An array of 32-bit numbers with three coordinates is scanned into Spark's noop sink: once from a
repository on the local disk, once from a source that has the same columns, partitions and batch
sizes, and yields one batch that it made before again and again. Prints a Markdown table with cells
per second, and which part of the bytes a selection of a hundredth of the chunks reads.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from icestream.repository.repository import Repository
from icestream.spark import CellQuery, session
from icestream.spark.arrow_types import spark_schema
from icestream.spark.cells.blocks import Block, box_shape, boxes
from icestream.spark.cells.plans import ROWS_PER_BATCH, CellPlan, plan_cells
from icestream.spark.data_source import rows_of
from icestream.spark.options import parse_options
from icestream.storage import Storage, local_filesystem_storage
from icestream.testing.doubles import WrappedStorage

MEGABYTE = 1_000_000
GOAL = 0.6

_SIDE, _CHUNK_SIDE, _CHUNK_DAYS = 500, 250, 2
_DAYS_PER_MEGABYTE = MEGABYTE / (4 * _SIDE * _SIDE)
_REPEAT = 5


def build_array(megabytes: int, storage: Storage) -> Repository:
    """Write days of a square map; a chunk is half a megabyte."""
    repo = Repository.create(storage)
    session_ = repo.writable_session("main")
    root = zarr.group(session_.store)
    days = max(_CHUNK_DAYS, round(megabytes * _DAYS_PER_MEGABYTE))
    for name, size in (("time", days), ("lat", _SIDE), ("lon", _SIDE)):
        root.create_array(
            name,
            data=np.arange(size, dtype="f8"),
            chunks=(size,),
            dimension_names=[name],
            attributes={"units": "hours since 2024-01-01"} if name == "time" else {},
        )
    cube = root.create_array(
        "temperature",
        shape=(days, _SIDE, _SIDE),
        chunks=(_CHUNK_DAYS, _CHUNK_SIDE, _CHUNK_SIDE),
        dtype="f4",
        dimension_names=["time", "lat", "lon"],
    )
    field = np.random.default_rng(1).normal(15, 5, (_SIDE, _SIDE)).round(1).astype("f4")
    for start in range(0, days, _CHUNK_DAYS):
        count = min(_CHUNK_DAYS, days - start)
        cube[start : start + count] = field + np.arange(start, start + count)[:, None, None]
    session_.commit("temperatures")
    return repo


class UnreadSource(DataSource):
    """What the format `icestream` is compared with."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._rows: Any = rows_of(parse_options(self.options))

    @classmethod
    def name(cls) -> str:
        return "unread"

    def schema(self) -> StructType:
        return spark_schema(self._rows.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return UnreadReader(self._rows.plan, self._rows.parts())


class UnreadReader(DataSourceReader):
    """Yields batches of the right sizes without any reading."""

    def __init__(self, plan: CellPlan, blocks: Sequence[Block]) -> None:
        self._plan, self._blocks = plan, blocks

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(block) for block in self._blocks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = self._plan.schema
        numbers = pa.array(np.arange(ROWS_PER_BATCH))
        batch = pa.RecordBatch.from_arrays([numbers.cast(f.type) for f in schema], schema=schema)
        for box in boxes(tuple(map(len, partition.value)), ROWS_PER_BATCH):
            yield batch.slice(0, int(np.prod(box_shape(box))))


def register_unread(spark: SparkSession) -> None:
    """Make the format `unread` known; Spark's processes have no path to this module."""
    module = sys.modules[UnreadSource.__module__]
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # of pyspark
    spark.dataSource.register(UnreadSource)


def scan(frame: DataFrame) -> None:
    """Read all rows and keep none."""
    frame.write.format("noop").mode("overwrite").save()


class MeasuredStorage(WrappedStorage):
    """Counts the bytes of chunks that are read."""

    chunk_bytes = 0

    def around[T](self, verb: str, path: str, call: Callable[[], T]) -> T:
        del verb
        found = call()
        if path.startswith("chunks/") and isinstance(found, bytes):
            self.chunk_bytes += len(found)
        return found


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of an array a selection has, and reads."""

    cells: float
    bytes_read: float


def selected_share(storage: Storage) -> Share:
    """Select a hundredth of the chunks, and read them in this process."""
    measured = MeasuredStorage(storage)
    store = Repository.open(measured).readonly_session("main").store
    query = CellQuery(array="temperature")
    everything = plan_cells(store, query)
    days = everything.grid.shape[0] // _CHUNK_DAYS
    last = _CHUNK_DAYS * max(1, round(days * 4 / 100)) - 1
    area = {"to": _CHUNK_SIDE - 1}
    hours = {
        "time": {"to": f"2024-01-{1 + last // 24:02}T{last % 24:02}"},
        "lat": area,
        "lon": area,
    }
    whole = _bytes_of(everything, store, measured)
    few = _bytes_of(plan_cells(store, query, hours), store, measured)
    chosen = plan_cells(store, query, hours).num_rows / everything.num_rows
    return Share(chosen, few / whole)


def _bytes_of(plan: CellPlan, store: Any, measured: MeasuredStorage) -> int:
    measured.chunk_bytes = 0
    for block in plan.blocks():
        for _ in plan.batches(store, block):
            pass
    return measured.chunk_bytes


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.array_source")
    parser.add_argument("megabytes", nargs="?", type=int, default=1_000)
    megabytes = parser.parse_args(arguments).megabytes
    with tempfile.TemporaryDirectory(prefix="icestream-bench-") as folder:
        place = str(Path(folder) / "array")
        storage = local_filesystem_storage(place)
        build_array(megabytes, storage)
        share = selected_share(storage)
        spark = session("array source", config={"spark.ui.enabled": "false"})
        register_unread(spark)
        frames = {name: spark.read.format(name).load(place) for name in ("unread", "icestream")}
        # both are warm before they are timed: workers start, and the JVM compiles
        cells = {frame.count() for frame in frames.values()}.pop()
        seconds: dict[str, list[float]] = {name: [] for name in frames}
        for _ in range(_REPEAT):  # in turns: other work on the machine hits both alike
            for name, frame in frames.items():
                seconds[name].append(_timed(frame))
        spark.stop()
    rates = {name: cells / statistics.median(times) for name, times in seconds.items()}
    print("| source | cells/s | seconds of each scan |\n|---|--:|---|")
    for name, rate in rates.items():
        print(f"| {name} | {rate:,.0f} | {' '.join(f'{s:.1f}' for s in seconds[name])} |")
    ratio = rates["icestream"] / rates["unread"]
    print(f"\n{cells:,} cells, {ratio:.0%} of the rate without reading (goal {GOAL:.0%})")
    print(f"a selection of {share.cells:.1%} of the cells read {share.bytes_read:.1%} of the bytes")


def _timed(frame: DataFrame) -> float:
    start = time.perf_counter()
    scan(frame)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
