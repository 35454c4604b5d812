"""The measured operations of the ledger; icechunk has none of them."""

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks import ledger_operations, logical_hash
from benchmarks.ledger_operations import Example, Measured
from benchmarks.measuring import measured
from benchmarks.runs import Metrics, Run
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage


def append_without_output(run: Run) -> Metrics:
    """Append a transaction without output on an open handle; the summary is not counted."""
    return _measured(run, ledger_operations.append_empty)


def plan_transaction(run: Run) -> Metrics:
    """Open a derivative dataset and its input after so many transactions, and plan the next."""
    return _measured(run, ledger_operations.prepare_next)


def scan_chain_deeply(run: Run) -> Metrics:
    """Find out by walking over all blocks what the last of them carries on."""
    return _measured(run, ledger_operations.scan_deeply)


def verify_blocks_on_disk(run: Run) -> Metrics:
    """Verify a chain of so many blocks on the local disk."""
    with tempfile.TemporaryDirectory(dir=run.work) as folder:
        example = ledger_operations.build_example(
            run.case.references, lambda name: LocalStorage(Path(folder) / name, sync="never")
        )
        with measured() as cost:
            found = ledger_operations.verify_source(example)
    return asdict(cost) | {"storage_requests": found.objects_read}


def hash_numbers(run: Run) -> Metrics:
    """Hash a column of so many numbers logically."""
    return _hashed(run, "int64")


def hash_texts(run: Run) -> Metrics:
    """Hash a column of texts logically."""
    return _hashed(run, "strings of 42 bytes")


def merge_snapshot_on_spark(run: Run) -> Metrics:
    """Merge a snapshot of so many rows into as many records, on Spark in local mode."""
    from benchmarks import spark_operations  # loads pyspark
    from icestream.spark import session

    with tempfile.TemporaryDirectory(dir=run.work) as folder:
        example = spark_operations.build_example(run.case.references, Path(folder))
        spark = session()
        with measured() as cost:
            spark_operations.merge_on_spark(example, spark)
    return asdict(cost)


def _measured(run: Run, step: Callable[[Example], Measured]) -> Metrics:
    example = ledger_operations.build_example(run.case.references, lambda _: InMemoryStorage())
    if step is not ledger_operations.append_empty:
        step(example)  # imports and first calls are no part of it
    with measured() as cost:
        found = step(example)
    return asdict(cost) | {"wall_s": found.seconds, "storage_requests": found.objects_read}


def _hashed(run: Run, title: str) -> Metrics:
    with measured() as cost:
        (speed,) = (
            each for each in logical_hash.speeds(run.case.references) if each.title == title
        )
    return asdict(cost) | {"mb_per_s": speed.megabytes_per_s}


OPERATIONS: tuple[Callable[[Run], Metrics], ...] = (
    append_without_output,
    plan_transaction,
    scan_chain_deeply,
    verify_blocks_on_disk,
    hash_numbers,
    hash_texts,
    merge_snapshot_on_spark,
)
