"""Transactions of derivative datasets, on Spark in local mode.

    python -m benchmarks.transform_operations [transactions of the year]

A transaction without records, one with records and one with a window are run in a warm session; a
hundred datasets with nothing to do are planned. Then a sensor is read every minute of a year, in
so many batches, and aggregated by month: of as many transactions twelve have output. Prints a
Markdown table of wall time in seconds, each the median of several runs.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from icestream.ledger import (
    Dataset,
    DatasetAlias,
    DatasetKind,
    DatasetSnapshot,
    SetTransform,
    Workspace,
)
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformInput, TransformSql
from icestream.spark import session
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.lazy_engine import LazySqlEngine
from icestream.spark.transforms.pulling import Pulling
from icestream.spark.transforms.transactions import transform
from icestream.storage import local_filesystem_storage

FILTERED = "select event_time, value from readings where value > 1e6"
MONTHLY = """
select min(event_time) as event_time, date_trunc('MONTH', window.start) as month,
  count(*) as readings, sum(value) as total
from readings group by window(event_time, '1 day'), date_trunc('MONTH', window.start)
"""
YEAR_MINUTES = 366 * 24 * 60
EMPTY_LIMIT_S, PLANNING_LIMIT_S = 1.0, 5.0

_START = datetime(2024, 1, 1, tzinfo=UTC)
_REPEAT = 7
_DATASETS = 100


@dataclass(frozen=True, slots=True)
class Example:
    """Readings, and a dataset that is derived from them."""

    source: Dataset
    derived: Dataset

    def add(self, minutes: range) -> None:
        """Add a reading for each of these minutes of the year."""
        self.source.add_data(readings(minutes))

    def transform(self, engine: SqlEngine) -> int:
        """Run a transaction; return how many records came out."""
        outcome = transform(self.derived, [self.source], engine)
        return getattr(outcome, "record_count", 0)
