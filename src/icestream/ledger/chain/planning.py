"""Plans the next transaction of a derivative dataset from its last one (RFC-014).

What was consumed stands in the last ExecuteTransform, also if that consumed or produced nothing. So
the plan is made without walking the derivative's chain, and walks each input's only back to the
block that was consumed last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icestream.errors import InvalidInputError, NotFoundError
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import (
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    OffsetInterval,
    SetDataSchema,
    SetTransform,
    SetVocab,
)
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.blocks.transforms import TransformInput
from icestream.ledger.chain.input_intervals import blocks_between, check_consumed, data_events
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.rules.transactions import progress
from icestream.ledger.chain.rules.transforms import input_id
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitWatermark:
    """A watermark that an input announced, and when."""

    system_time: Timestamp
    event_time: Timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPlan:
    """What a transaction reads of one input."""

    entry: ExecuteTransformInput
    """The half-open intervals to record in the event."""
    alias: str
    """The name by which queries know the input."""
    slices: tuple[DataSlice, ...]
    """Files with the new records, oldest first; they hold no other records."""
    watermarks: tuple[ExplicitWatermark, ...]
    """What the new blocks announce, oldest first."""
    watermark: Timestamp | None
    """The input's watermark at the block that is consumed."""
    schema: SetDataSchema | None
    vocabulary: SetVocab
    new_blocks: int
    """How many blocks are considered."""

    @property
    def dataset_id(self) -> DatasetId:
        """Who the input is."""
        return self.entry.dataset_id

    @property
    def offset_interval(self) -> OffsetInterval | None:
        """The new records as the closed interval that engines take; None if there are none."""
        end = self.entry.new_offset
        if end is None:
            return None
        previous = self.entry.prev_offset
        return OffsetInterval(start=0 if previous is None else previous + 1, end=end)

    @property
    def has_news(self) -> bool:
        """Whether there are records or watermarks to react to."""
        return bool(self.slices or self.watermarks)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformPlan:
    """The next transaction: what to read, and what the event carries on."""

    head: Multihash
    """The block of the derivative dataset that the transaction follows."""
    transform: SetTransform
    inputs: tuple[InputPlan, ...]
    prev_offset: int | None
    prev_checkpoint: Multihash | None
    next_offset: int
    """The offset of the first record to be written."""
    watermark: Timestamp | None
    """The watermark of the output, once the inputs are consumed."""

    @property
    def query_inputs(self) -> tuple[ExecuteTransformInput, ...]:
        """The inputs as the event records them."""
        return tuple(plan.entry for plan in self.inputs)


@dataclass(frozen=True, slots=True)
class UpToDate:
    """There is nothing to do."""

    reason: str


def plan_transform(
    derivative: MetadataChain,
    inputs: Mapping[DatasetId, MetadataChain],
    *,
    needs_news: bool = True,
) -> TransformPlan | UpToDate:
    """Return the next transaction of a derivative dataset, or why there is none.

    Args:
        derivative: As it is to be continued.
        inputs: Its inputs, by id; each is consumed up to the head that its handle knows.
        needs_news: Whether there is only a transaction if an input has something new; an engine
            may have reasons of its own.

    Raises:
        InvalidInputError: The dataset has no transform, or reads itself.
        NotFoundError: An input is not among those given.
        DivergedInputError: An input does not have the block any more that was consumed last.
    """
    state = derivative.state
    if state.transform is None:
        raise InvalidInputError(f"{derivative!r} has no SetTransform: it is no derivative dataset")
    _refuse_self(state.transform, state.dataset_id)
    chains = _matched(state.transform, inputs)
    for entry, chain in chains:
        if chain.state.schema is None:
            return UpToDate(
                f"input {_alias_of(entry)} has no schema yet, which its first records bring: add"
                " data to it, or pull it first (`icestream dataset pull W NAME --recursive`)"
            )
    last = progress(state)
    plans = tuple(_plan_input(entry, chain, last) for entry, chain in chains)
    if needs_news and state.schema is not None and not any(plan.has_news for plan in plans):
        return UpToDate("no input has new records or watermarks")
    return TransformPlan(
        head=derivative.head,
        transform=state.transform,
        inputs=plans,
        prev_offset=state.last_offset,
        prev_checkpoint=state.checkpoint,
        next_offset=state.next_offset,
        watermark=output_watermark(state.watermark, [plan.watermark for plan in plans]),
    )


def check_inputs(event: ExecuteTransform, inputs: Mapping[DatasetId, MetadataChain]) -> None:
    """Make sure that what a transaction says about its inputs is true there.

    A chain alone cannot tell, so this is no part of appending; inputs that are not given are not
    looked at.

    Raises:
        ChainRuleError: It is not; the input and the rule are named.
    """
    for entry in event.query_inputs:
        if chain := inputs.get(entry.dataset_id):
            check_consumed(chain.store, entry)


def output_watermark(
    previous: Timestamp | None, inputs: Sequence[Timestamp | None]
) -> Timestamp | None:
    """Return the watermark of an output: the lowest of its inputs', but never a lower one.

    It follows from metadata alone, so that whoever replays the transaction finds the same.
    """
    known = [watermark for watermark in inputs if watermark is not None]
    if not known or len(known) < len(inputs):
        return previous
    return min(known) if previous is None else max(previous, min(known))


def _refuse_self(transform: SetTransform, dataset_id: DatasetId) -> None:
    own = [_alias_of(entry) for entry in transform.inputs if input_id(entry) == dataset_id]
    if own:
        raise InvalidInputError(
            f"the dataset reads itself, as input {', '.join(own)}, so there will never be anything"
            " to read: update its definition with another input (`icestream dataset update`)"
        )


def _matched(
    transform: SetTransform, inputs: Mapping[DatasetId, MetadataChain]
) -> list[tuple[TransformInput, MetadataChain]]:
    found = [(entry, inputs.get(_id_of(entry))) for entry in transform.inputs]
    absent = [
        f"{_alias_of(entry)} ({entry.dataset_ref})" for entry, chain in found if chain is None
    ]
    if absent:
        raise NotFoundError(
            f"inputs are missing: {', '.join(absent)}; create them again and update the definition"
            " (`icestream dataset create`, `icestream dataset update`), or pull where they are; in"
            " Python, open them and pass them too"
        )
    return [(entry, chain) for entry, chain in found if chain is not None]


def _plan_input(
    declared: TransformInput,
    chain: MetadataChain,
    last: Mapping[DatasetId, ExecuteTransformInput],
) -> InputPlan:
    dataset_id, state = _id_of(declared), chain.state
    before = last.get(dataset_id) or ExecuteTransformInput(dataset_id=dataset_id)
    consumed, offset = before.last_block_hash, before.last_offset
    alias = _alias_of(declared)
    blocks = blocks_between(chain.store, dataset_id, consumed, state.head, alias=alias)
    # an input without any data event has nothing to say about offsets
    newest = offset if state.data_event is None else state.last_offset
    entry = ExecuteTransformInput(
        dataset_id=dataset_id,
        prev_block_hash=consumed,
        new_block_hash=chain.head if chain.head != consumed else None,
        prev_offset=offset,
        new_offset=newest if newest != offset else None,
    )
    return input_plan(entry, alias, state, blocks)


def input_plan(
    entry: ExecuteTransformInput, alias: str, state: ChainState, blocks: Sequence[StoredBlock]
) -> InputPlan:
    """Return what a transaction reads of one input.

    Args:
        entry: The intervals that the event records.
        alias: The name by which queries know the input.
        state: Of the input at the block that is consumed.
        blocks: Those that are considered.
    """
    events = data_events(blocks)
    return InputPlan(
        entry=entry,
        alias=alias,
        slices=tuple(event.new_data for _, event in events if event.new_data is not None),
        watermarks=tuple(
            ExplicitWatermark(system_time=block.block.system_time, event_time=event.new_watermark)
            for block, event in events
            if event.new_watermark is not None
        ),
        watermark=state.watermark,
        schema=state.schema,
        vocabulary=state.vocabulary,
        new_blocks=len(blocks),
    )


def _alias_of(declared: TransformInput) -> str:
    return declared.alias or declared.dataset_ref


def _id_of(declared: TransformInput) -> DatasetId:
    if dataset_id := input_id(declared):
        return dataset_id
    raise InvalidInputError(f"input {declared.dataset_ref!r} of the transform is no dataset id")
