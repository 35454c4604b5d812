"""A transaction of a derivative dataset: slice, checkpoint, one or two blocks, one head move."""

import json
from dataclasses import dataclass
from itertools import takewhile

import pyarrow as pa

from icestream.errors import ConflictError, ErrorKind, InvalidInputError
from icestream.ledger.blocks.events import (
    Checkpoint,
    DataSlice,
    ExecuteTransform,
    SetDataSchema,
)
from icestream.ledger.blocks.hashes import Multihash, sha3_256
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.appending import linked
from icestream.ledger.chain.hashed_objects import save_object
from icestream.ledger.chain.layout import checkpoint_key
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.planning import TransformPlan
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.data.arrow_schemas import from_arrow_schema, schema_of_event
from icestream.ledger.data.schema_checks import conformed
from icestream.ledger.data.slices import EncodedSlice, encode_slice
from icestream.ledger.data.system_columns import (
    OPERATION_TYPE,
    Operation,
    SystemColumns,
    plain_columns,
    require_no_reserved_columns,
    with_system_columns,
)
from icestream.ledger.data_writing import AddedData, next_system_time
from icestream.ledger.slice_files import save_slice


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformOutput:
    """What a query made of the new records of its inputs."""

    rows: pa.Table
    """In their final order, with an event time and, unless all are appended, an operation.

    Without rows it still tells the columns."""
    state: bytes | None = None
    """What the engine wants back with the next transaction; opaque."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTransform:
    """A transaction whose files are all written, but which nothing refers to yet."""

    old_head: Multihash
    blocks: tuple[StoredBlock, ...]
    data_slice: DataSlice | None = None

    @property
    def block_hash(self) -> Multihash:
        """The hash of the block that will be the head."""
        return self.blocks[-1].block_hash


def write_transform(
    chain: MetadataChain,
    plan: TransformPlan,
    output: TransformOutput,
    *,
    system_time: Timestamp | None = None,
) -> AddedData:
    """Append a transaction, also if it consumed or produced nothing.

    Args:
        chain: Of the derivative dataset, at the block that the plan was made for.
        plan: What the transaction consumes and carries on.
        output: What came out.
        system_time: Of the blocks and the records; the time of the clock, if None.

    Raises:
        InvalidInputError: The output has no event time or does not fit the schema, or the plan is
            for another block.
        ConflictError: Somebody else appended first; nothing of the transaction is visible.
    """
    prepared = _with_files_saved(chain, plan, output, system_time)
    if prepared is None:
        return AddedData(old_head=chain.head, new_head=chain.head)
    chain.append_blocks(prepared.blocks)
    return AddedData(
        old_head=prepared.old_head, new_head=chain.head, data_slice=prepared.data_slice
    )


def prepare_transform(
    chain: MetadataChain,
    plan: TransformPlan,
    output: TransformOutput,
    *,
    system_time: Timestamp | None = None,
) -> PreparedTransform | None:
    """Write all files of a transaction without making it visible; None if there is nothing to say.

    Its hash is known then, and can be put into what must become visible together with it;
    `chain.append_blocks(prepared.blocks)` makes it part of the dataset. Arguments and errors are
    those of `write_transform`.
    """
    prepared = _with_files_saved(chain, plan, output, system_time)
    if prepared is not None:
        chain.store.save(prepared.blocks)
    return prepared


def transform_event(
    state: ChainState, plan: TransformPlan, output: TransformOutput, *, system_time: Timestamp
) -> ExecuteTransform:
    """Return the event that a transaction is recorded as, and write nothing.

    Args:
        state: What the chain says before the event.
        plan: What the transaction consumes and carries on.
        output: What came out.
        system_time: Of the block and the records.

    Raises:
        InvalidInputError: The output has no event time or does not fit the schema.
    """
    records = _records(state, plan, output.rows, system_time)
    data_slice = encode_slice(records, SystemColumns.of(state.vocabulary)) if len(records) else None
    return _event(plan, data_slice, _checkpoint(plan, output))


def _checkpoint(plan: TransformPlan, output: TransformOutput) -> bytes:
    return output.state if output.state is not None else input_watermarks(plan)


def _with_files_saved(
    chain: MetadataChain, plan: TransformPlan, output: TransformOutput, moment: Timestamp | None
) -> PreparedTransform | None:
    """Return a transaction whose slice and checkpoint are saved, but not its blocks."""
    if plan.head != chain.head:
        raise InvalidInputError(
            f"the plan is for block {plan.head}, the dataset is at {chain.head}: plan again",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    state = chain.state
    moment = moment or next_system_time(state)
    records = _records(state, plan, output.rows, moment)
    data_slice = encode_slice(records, SystemColumns.of(state.vocabulary)) if len(records) else None
    checkpoint = _checkpoint(plan, output)
    events = _events(state, records.schema, _event(plan, data_slice, checkpoint))
    if not events:
        return None
    if data_slice is not None:
        save_slice(chain.storage, data_slice)
    if (name := sha3_256(checkpoint)) != plan.prev_checkpoint:  # else it is there
        save_object(chain.storage, checkpoint_key(name), checkpoint)
    return PreparedTransform(
        old_head=chain.head,
        blocks=tuple(linked(state, events, moment)),
        data_slice=None if data_slice is None else data_slice.facts,
    )


def prepared_blocks(chain: MetadataChain, block_hash: Multihash) -> tuple[StoredBlock, ...]:
    """Return the blocks from behind the head up to one that was prepared, oldest first.

    None of them are there if the head has passed it.

    Raises:
        IntegrityError: A block on the way is missing.
        ConflictError: It does not follow the head: another transaction took its place.
    """
    head, target = chain.state.head, chain.store.load(block_hash)
    newer, older = (
        (head, target) if head.sequence_number >= target.sequence_number else (target, head)
    )
    way = [
        *takewhile(
            lambda block: block.sequence_number > older.sequence_number, chain.store.walk(newer)
        )
    ]
    meets = way[-1].block.prev_block_hash if way else newer.block_hash
    if meets == older.block_hash:
        return tuple(reversed(way)) if newer is target else ()
    raise ConflictError(
        f"block {block_hash} does not follow {chain.head}, the head of the dataset: another"
        " transaction took its place",
        kind=ErrorKind.COMMIT_CONFLICT,
    )


def input_watermarks(plan: TransformPlan) -> bytes:
    """Return the checkpoint of a query without state: where the inputs' event times stand.

    There is always a checkpoint. A transaction that only consumed must bring a watermark or a
    checkpoint to be recorded, and a filter over inputs without event times has no watermark.
    """
    watermarks = {
        str(read.dataset_id): None if read.watermark is None else str(read.watermark)
        for read in plan.inputs
    }
    return json.dumps({"watermarks": watermarks}, separators=(",", ":"), sort_keys=True).encode()


def _records(
    state: ChainState, plan: TransformPlan, rows: pa.Table, system_time: Timestamp
) -> pa.Table:
    """Return the rows as records of the dataset."""
    columns = SystemColumns.of(state.vocabulary)
    require_no_reserved_columns(rows, columns, allows_op=True)
    rows = plain_columns(rows)
    if columns.event_time not in rows.column_names:
        raise InvalidInputError(
            f"the output of the transform has no column {columns.event_time!r}: select one, or name"
            " another with SetVocab",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    if columns.op not in rows.column_names:
        operations = pa.repeat(pa.scalar(Operation.APPEND, OPERATION_TYPE), len(rows))
        rows = rows.append_column(columns.op, operations)
    records = with_system_columns(
        rows, columns, first_offset=plan.next_offset, system_time=system_time
    )
    if state.schema is None:
        return records
    schema = schema_of_event(state.schema, name="of the schema")
    return conformed(records, schema, name="the output of the transform")


def _event(
    plan: TransformPlan, data_slice: EncodedSlice | None, checkpoint: bytes
) -> ExecuteTransform:
    return ExecuteTransform(
        query_inputs=plan.query_inputs,
        prev_checkpoint=plan.prev_checkpoint,
        prev_offset=plan.prev_offset,
        new_data=None if data_slice is None else data_slice.facts,
        new_checkpoint=Checkpoint(physical_hash=sha3_256(checkpoint), size=len(checkpoint)),
        new_watermark=plan.watermark,
    )


def _events(
    state: ChainState, schema: pa.Schema, event: ExecuteTransform
) -> list[SetDataSchema | ExecuteTransform]:
    """Return what to append: the schema before the first transaction, and the event unless idle."""
    events: list[SetDataSchema | ExecuteTransform] = []
    if state.schema is None:
        events.append(SetDataSchema(schema=from_arrow_schema(schema)))
    if not _is_idle(state, event):
        events.append(event)
    return events


def _is_idle(state: ChainState, event: ExecuteTransform) -> bool:
    """Tell whether a transaction neither consumed nor produced anything."""
    return (
        event.new_data is None
        and event.new_checkpoint is not None
        and event.new_checkpoint.physical_hash == event.prev_checkpoint
        and event.new_watermark == state.watermark
        and not any(entry.new_block_hash for entry in event.query_inputs)
    )
