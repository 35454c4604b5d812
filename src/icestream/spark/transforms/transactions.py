"""One transaction of a derivative dataset: new records in, one block out."""

from collections.abc import Sequence

from icestream.errors import ConflictError, IntegrityError, InvalidInputError
from icestream.ledger.blocks.hashes import Multihash, sha3_256
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.hashed_objects import load_object
from icestream.ledger.chain.layout import checkpoint_key
from icestream.ledger.chain.planning import TransformPlan, UpToDate
from icestream.ledger.data.system_columns import SystemColumns
from icestream.ledger.data_writing import AddedData
from icestream.ledger.dataset import Dataset
from icestream.ledger.transactions import TransformOutput
from icestream.spark.transforms.archive_cells import cells_of
from icestream.spark.transforms.archive_places import ArchivePlaces
from icestream.spark.transforms.runs import Engine, TransformRun
from icestream.storage.protocol import Storage

_ATTEMPTS = 3


def transform(
    dataset: Dataset,
    inputs: Sequence[Dataset],
    engine: Engine,
    *,
    places: ArchivePlaces | None = None,
    system_time: Timestamp | None = None,
) -> AddedData | UpToDate:
    """Run the queries of a derivative dataset over what its inputs have new, and record it.

    If somebody else records a transaction meanwhile, it starts again behind that one.

    Args:
        dataset: The derivative dataset.
        inputs: All datasets that it reads, at the heads up to which they are consumed.
        engine: Runs the queries.
        places: How the repositories of archives whose cells queries read are reached, if not by
            their addresses alone.
        system_time: Of the blocks and records; the time of the clock, if None.

    Returns:
        What was added, which may be a block without records; or why there is nothing to do.

    Raises:
        InvalidInputError: A query is wrong, or its output does not fit the dataset; nothing is
            written.
        DivergedInputError: An input was compacted or reset below what was consumed.
        SessionStateError: The queries are others than those that the state belongs to.
        IntegrityError: A slice of an input, or the checkpoint, is missing or damaged.
        ConflictError: Others were faster time and again.
    """
    for attempt in range(_ATTEMPTS):
        plan = dataset.plan_transform(inputs)
        if isinstance(plan, UpToDate):
            return plan
        run = TransformRun(
            plan=plan,
            storages={given.dataset_id: given.storage for given in inputs},
            columns=SystemColumns.of(dataset.state.vocabulary),
            state=load_state(dataset.storage, plan.prev_checkpoint),
            cells=cells_of(plan, inputs, places),
        )
        output = engine.run(run)
        try:
            return _written(dataset, plan, output, system_time)
        except ConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
            dataset.refresh()
    raise AssertionError  # the loop returns or raises


def load_state(storage: Storage, checkpoint: Multihash | None) -> bytes | None:
    """Return the bytes of a checkpoint; None if there is none.

    Raises:
        IntegrityError: It is missing, or has other bytes than those that were recorded.
    """
    if checkpoint is None:
        return None
    key = checkpoint_key(checkpoint)
    data = load_object(storage, key)
    if sha3_256(data) != checkpoint:
        raise IntegrityError(
            f"{key} has bytes of another hash (rule hash-matches-name); copy it from another"
            " replica of the dataset",
            rule="hash-matches-name",
        )
    return data


def _written(
    dataset: Dataset, plan: TransformPlan, output: TransformOutput, system_time: Timestamp | None
) -> AddedData:
    try:
        return dataset.write_transform(plan, output, system_time=system_time)
    except InvalidInputError as error:
        if dataset.schema is None:
            raise
        raise InvalidInputError(
            f"{error}. The output of a transform keeps the columns that the dataset has: change the"
            " query (`cast(... as ...)` for another type), or append a SetDataSchema that adds"
            " optional columns; to start over with other columns, reset the dataset to the block"
            " before its SetDataSchema (`icestream dataset reset`), update its definition again and"
            " pull"
        ) from error
