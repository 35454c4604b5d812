"""Replays the transactions of a derivative dataset, and compares what comes out.

Every transaction runs with the transform, the schema and the names that were in force then, over
the records that it says it consumed. The state that it goes on from is the one that the replay
itself arrived at, so that nothing in a dataset has to be believed but its inputs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from icestream.errors import IcestreamError, IntegrityError
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import ExecuteTransform
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.layout import block_key
from icestream.ledger.chain.planning import TransformPlan
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.chain.verification import Problem
from icestream.ledger.data.system_columns import SystemColumns
from icestream.ledger.dataset import Dataset
from icestream.ledger.slice_files import find_damage
from icestream.ledger.transactions import TransformOutput, transform_event
from icestream.spark.transforms.archive_cells import cells_of
from icestream.spark.transforms.archive_places import ArchivePlaces
from icestream.spark.transforms.checkpoints import read_facts
from icestream.spark.transforms.queries import ENGINE
from icestream.spark.transforms.recorded_plans import InputHistory, recorded_plan
from icestream.spark.transforms.runs import Engine, TransformRun
from icestream.spark.transforms.transactions import load_state

_RULE = "transaction-is-reproducible"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """What was replayed, and what came out differently."""

    replayed: int
    """How many transactions were run again."""
    skipped: int
    """How many are of engines that run no queries."""
    problems: tuple[Problem, ...]
    """In the order of the chain."""


def replay(
    dataset: Dataset,
    inputs: Sequence[Dataset],
    engine: Engine,
    *,
    since: Multihash | None = None,
    places: ArchivePlaces | None = None,
) -> ReplayReport:
    """Run all transactions of a derivative dataset again, and compare them with their blocks.

    Logical hashes, offsets, watermarks and input intervals have to agree; files and checkpoints
    may have other bytes.

    Args:
        dataset: The derivative dataset; nothing is written to it.
        inputs: All datasets that it has ever read, as far as they are at hand.
        engine: Runs the queries.
        since: Transactions up to this block are taken as verified.
        places: As of `transform`.

    Raises:
        NotFoundError: `since` is not on the chain.
        IntegrityError: A chain cannot be read.
    """
    verified = -1 if since is None else dataset.find_block(str(since)).sequence_number
    transactions = list(_transactions(dataset, verified))
    queries = [each for each in transactions if each.runs_queries]
    replaying = _Replaying(dataset, inputs, engine, places)
    problems = [problem for each in queries for problem in replaying.problems(each)]
    return ReplayReport(
        replayed=len(queries),
        skipped=len(transactions) - len(queries),
        problems=tuple(problems),
    )


def consumed_ids(dataset: Dataset) -> list[DatasetId]:
    """Return all datasets that a derivative dataset has ever read."""
    events = (block.event for block in dataset.blocks())
    entries = (
        entry
        for event in events
        if isinstance(event, ExecuteTransform)
        for entry in event.query_inputs
    )
    return list(dict.fromkeys(entry.dataset_id for entry in entries))


@dataclass(frozen=True, slots=True)
class _Transaction:
    block: StoredBlock
    event: ExecuteTransform
    before: ChainState
    """What the chain said before the block."""

    @property
    def runs_queries(self) -> bool:
        declared = self.before.transform
        return declared is not None and declared.transform.engine.lower() == ENGINE

    def problem(self, message: str, rule: str = _RULE) -> Problem:
        key = block_key(self.block.block_hash)
        return Problem(
            object_key=key,
            rule=rule or _RULE,
            message=f"{key}: {message}",
            sequence_number=self.block.sequence_number,
        )


def _transactions(dataset: Dataset, verified: int) -> Iterator[_Transaction]:
    first, *rest = list(dataset.blocks())[::-1]
    state = ChainState.walked([first])
    for block in rest:
        event = block.event
        if isinstance(event, ExecuteTransform) and block.sequence_number > verified:
            yield _Transaction(block, event, state)
        state = state.after([block])


class _Replaying:
    """Goes through the transactions of one dataset, oldest first."""

    def __init__(
        self,
        dataset: Dataset,
        inputs: Sequence[Dataset],
        engine: Engine,
        places: ArchivePlaces | None,
    ) -> None:
        self._storage = dataset.storage
        self._inputs = inputs
        self._places = places
        self._engine = engine
        self._storages = {given.dataset_id: given.storage for given in inputs}
        self._histories: Mapping[DatasetId, InputHistory] = {
            given.dataset_id: InputHistory(given.chain.store, given.state.head) for given in inputs
        }
        self._reached: Multihash | None = None
        """The transaction whose outcome was the recorded one, and after which `_state` is."""
        self._state: bytes | None = None

    def problems(self, transaction: _Transaction) -> Iterator[Problem]:
        """Yield why a transaction is not what its inputs and its queries make of it."""
        try:
            plan = recorded_plan(transaction.before, transaction.event, self._histories)
            self._require_undamaged(plan)
            run = self._run_of(transaction.before, plan)
            output = self._engine.run(run)
            found = transform_event(
                transaction.before, plan, output, system_time=transaction.block.block.system_time
            )
        except IcestreamError as error:
            yield transaction.problem(f"it cannot be replayed: {error}", getattr(error, "rule", ""))
            return
        differences = list(_differences(transaction.event, found))
        if differences:
            told = "; ".join(differences) + self._versions(transaction.event, output)
            yield transaction.problem(f"the transaction comes out differently: {told}")
            return
        checkpoint = transaction.event.new_checkpoint
        self._reached = None if checkpoint is None else checkpoint.physical_hash
        self._state = output.state

    def _run_of(self, before: ChainState, plan: TransformPlan) -> TransformRun:
        is_known = self._reached is not None and self._reached == plan.prev_checkpoint
        return TransformRun(
            plan=plan,
            storages=self._storages,
            columns=SystemColumns.of(before.vocabulary),
            state=self._state if is_known else load_state(self._storage, plan.prev_checkpoint),
            cells=cells_of(plan, self._inputs, self._places),
        )

    def _require_undamaged(self, plan: TransformPlan) -> None:
        for given in plan.inputs:
            columns = SystemColumns.of(given.vocabulary)
            storage = self._storages[given.dataset_id]
            if damage := find_damage(storage, given.slices, columns):
                message = f"input {given.alias}: {damage}"
                raise IntegrityError(message, rule=damage.rule or "slice-holds-its-records")

    def _versions(self, event: ExecuteTransform, output: TransformOutput) -> str:
        """Return which versions of the engine differ, if they do."""
        checkpoint = event.new_checkpoint
        if checkpoint is None or output.state is None:
            return ""
        try:
            recorded = load_state(self._storage, checkpoint.physical_hash)
            then = read_facts(recorded or b"").version
        except IcestreamError:
            return ""
        now = read_facts(output.state).version
        return f" (it was made by {ENGINE} {then}, this is {now})" if then != now else ""


def _differences(recorded: ExecuteTransform, found: ExecuteTransform) -> Iterator[str]:
    """Yield what two events do not agree on; bytes of files are not compared."""
    data, new_data = recorded.new_data, found.new_data
    counts = [0 if each is None else each.offset_interval.count for each in (data, new_data)]
    if counts[0] != counts[1]:
        yield f"it has {counts[0]} records, and {counts[1]} when it is replayed"
    elif data is not None and new_data is not None and data.logical_hash != new_data.logical_hash:
        yield f"its records have the hash {data.logical_hash}, replayed {new_data.logical_hash}"
    if recorded.new_watermark != found.new_watermark:
        yield f"its watermark is {recorded.new_watermark}, replayed {found.new_watermark}"
    same = replace(
        found,
        new_data=recorded.new_data,
        new_checkpoint=recorded.new_checkpoint,
        new_watermark=recorded.new_watermark,
    )
    if same != recorded:
        yield f"the event is {recorded}, replayed {same}"
