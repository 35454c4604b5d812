"""Runs the queries of one transaction: as a batch, or as a stream that goes on where it was."""

import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from icestream.errors import IcestreamError, IntegrityError, InvalidInputError, SessionStateError
from icestream.ledger.blocks.transforms import SqlQueryStep
from icestream.ledger.slice_files import find_damage
from icestream.ledger.transactions import TransformOutput
from icestream.spark.sessions import RESULT_SETTINGS
from icestream.spark.transforms.checkpoints import (
    EngineFacts,
    has_state,
    pack_state,
    read_facts,
    unpack_state,
)
from icestream.spark.transforms.failure_logs import told_once
from icestream.spark.transforms.inputs import InputRecords
from icestream.spark.transforms.output_columns import require_storable
from icestream.spark.transforms.queries import ENGINE, quoted, run_steps, steps_of
from icestream.spark.transforms.query_errors import (
    step_name,
    told_by_step,
    was_raised_by_task,
)
from icestream.spark.transforms.record_order import in_total_order
from icestream.spark.transforms.runs import TransformRun
from icestream.spark.transforms.statefulness import is_repeatable, keeps_order, needs_state
from icestream.spark.transforms.streams import STREAM_SETTINGS, run_stream

_SETTINGS: Mapping[str, str] = {
    **RESULT_SETTINGS,
    **STREAM_SETTINGS,
    # plans that change while they run are not the same every time
    "spark.sql.adaptive.enabled": "false",
    # queries read their inputs, not what else lies on this machine
    "spark.sql.runSQLOnFiles": "false",
}
_log = logging.getLogger(__name__)


class SqlEngine:
    """Spark SQL, in a session of its own whose settings are always the same."""

    def __init__(self, spark: SparkSession, *, state_folder: str | Path | None = None) -> None:
        """Make a session beside another one, on the same Spark.

        Args:
            spark: Any session.
            state_folder: Where streams keep their state while they run; executors must reach it.
                By default it is a temporary directory, which is right in local mode.
        """
        self._session = spark.newSession()  # has the settings that Spark was started with
        for name, value in _SETTINGS.items():
            self._session.conf.set(name, value)
        self._state_folder = state_folder

    def __repr__(self) -> str:
        return f"SqlEngine(version={self.version!r})"

    @property
    def version(self) -> str:
        """The version of Spark, which checkpoints record."""
        return self._session.version

    def run(self, run: TransformRun) -> TransformOutput:
        """Return what the queries of a transaction make of the new records of its inputs.

        Raises:
            InvalidInputError: A query is wrong or does not fit its data, or is for another engine
                or another version; names the step and the place.
            SessionStateError: The queries are others than those that the state belongs to.
            IntegrityError: A slice of an input is missing or damaged.
        """
        steps = steps_of(run.plan.transform)
        self._require_version(run.plan.transform.transform.version)
        inputs = [InputRecords.planned(given, run.storages) for given in run.plan.inputs]
        names = [*(given.alias for given in inputs), *(step.alias for step in steps if step.alias)]
        names += run.cells
        try:
            return self._run(run, inputs, steps)
        except IcestreamError as error:
            raise _damage(inputs, error) or error from error.__cause__
        finally:
            for name in names:
                self._session.catalog.dropTempView(quoted(name))

    def _run(
        self, run: TransformRun, inputs: Sequence[InputRecords], steps: Sequence[SqlQueryStep]
    ) -> TransformOutput:
        facts = EngineFacts.of_run(run.plan, engine=ENGINE, version=self.version)
        if _is_known_stateless(run, facts):
            return self._run_batch(run, inputs, steps, facts)
        clock = run.plan.watermark
        streams = {given.alias: given.stream(self._session, clock) for given in inputs}
        rows = self._output(run, streams, steps)
        if _has_state(run, facts) or _remembers(rows):
            return self._run_stream(run, rows, steps, facts)
        return self._run_batch(run, inputs, steps, facts)

    def _run_batch(
        self,
        run: TransformRun,
        inputs: Sequence[InputRecords],
        steps: Sequence[SqlQueryStep],
        facts: EngineFacts,
    ) -> TransformOutput:
        batches = {given.alias: given.batch(self._session) for given in inputs}
        rows = self._output(run, batches, steps)
        with told_by_step(steps), told_once(self._session):
            table = rows.toArrow()
        ordered = table if keeps_order(rows) else in_total_order(table, run.columns)
        return TransformOutput(rows=ordered, state=facts.encode())

    def _output(
        self, run: TransformRun, inputs: Mapping[str, DataFrame], steps: Sequence[SqlQueryStep]
    ) -> DataFrame:
        """Return what the queries are going to put out, which the dataset can have."""
        cells = {name: cells.rows(self._session) for name, cells in run.cells.items()}
        rows = run_steps(self._session, {**inputs, **cells}, steps)
        require_storable(rows.schema, run.columns, name=step_name(steps, len(steps) - 1))
        return rows

    def _run_stream(
        self,
        run: TransformRun,
        rows: DataFrame,
        steps: Sequence[SqlQueryStep],
        facts: EngineFacts,
    ) -> TransformOutput:
        with tempfile.TemporaryDirectory(prefix="icestream-", dir=self._state_folder) as name:
            folder = Path(name)
            if run.state is not None and has_state(run.state):
                unpack_state(run.state, folder)
            with told_by_step(steps), told_once(self._session):
                tables = run_stream(rows, folder)
            state = pack_state(folder, facts)
        table = in_total_order(pa.concat_tables(tables), run.columns)
        return TransformOutput(rows=table, state=state)

    def _require_version(self, wanted: str | None) -> None:
        if wanted and self.version != wanted and not self.version.startswith(f"{wanted}."):
            raise InvalidInputError(
                f"the transform is for {ENGINE} {wanted}, and this is {self.version}: install that"
                " version, or update the definition for this one"
            )


def _damage(inputs: Sequence[InputRecords], error: IcestreamError) -> IntegrityError | None:
    """Return what is wrong with a slice, if that is why a task failed."""
    if not was_raised_by_task(error):
        return None
    found = (find_damage(given.storage, given.slices, given.columns) for given in inputs)
    return next((damage for damage in found if damage), None)


def _remembers(rows: DataFrame) -> bool:
    """Tell whether queries that are run for the first time have to go on from a state."""
    if not is_repeatable(rows):
        _log.warning("the transform uses functions that give other results when it is replayed")
    return needs_state(rows)


def _is_known_stateless(run: TransformRun, facts: EngineFacts) -> bool:
    """Tell whether the transaction before ran the same queries, and left no state."""
    if run.state is None or has_state(run.state):
        return False
    return read_facts(run.state).queries == facts.queries


def _has_state(run: TransformRun, facts: EngineFacts) -> bool:
    """Tell whether there is state to go on from.

    Raises:
        SessionStateError: It is of other queries.
    """
    if run.state is None or not has_state(run.state):
        return False
    if read_facts(run.state).queries != facts.queries:
        raise SessionStateError(
            "the transform was changed while its state holds rows of the queries before (open"
            " windows, rows that wait for a match), which the new ones cannot read: set the old"
            " transform again, or drop the data (dataset compact --keep-metadata-only) and pull"
            " from the start"
        )
    return True
