"""An engine that starts Spark when there is something to run, and not before."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from icestream.ledger.transactions import TransformOutput
from icestream.spark.transforms.engine import SqlEngine
from icestream.spark.transforms.runs import TransformRun


class LazySqlEngine:
    """Spark SQL, started for the first transaction: most pulls find nothing to do."""

    def __init__(self, start: Callable[[], SparkSession], state_folder: str | None = None) -> None:
        """Take note of how to start.

        Args:
            start: Starts Spark, or finds the one that runs.
            state_folder: As of `SqlEngine`.
        """
        self._start = start
        self._state_folder = state_folder
        self._engine: SqlEngine | None = None

    def run(self, run: TransformRun) -> TransformOutput:
        """Run the queries of a transaction, as `SqlEngine.run` does."""
        if self._engine is None:
            self._engine = SqlEngine(self._start(), state_folder=self._state_folder)
        return self._engine.run(run)
