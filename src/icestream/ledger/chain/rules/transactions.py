"""Rules for ExecuteTransform: how far each input was read is carried from event to event."""

from collections.abc import Callable, Iterable

from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import ExecuteTransform, ExecuteTransformInput
from icestream.ledger.chain.rules.data_events import is_unchanged
from icestream.ledger.chain.rules.transforms import input_id
from icestream.ledger.chain.states import ChainState


def inputs_are_those_of_the_transform(state: ChainState, event: ExecuteTransform) -> str | None:
    """Every input of the latest SetTransform is listed, in its order, and no other."""
    if state.transform is None:
        return "there is no SetTransform before it"
    declared = [input_id(entry) for entry in state.transform.inputs]
    listed = [entry.dataset_id for entry in event.query_inputs]
    if declared != listed:
        return f"the inputs are {_names(listed)}, but those of SetTransform {_names(declared)}"
    return None


def input_progress_is_carried(state: ChainState, event: ExecuteTransform) -> str | None:
    """`prevBlockHash` and `prevOffset` of an input are where the event before left it.

    Inputs are found by id, so that a SetTransform may drop some and add others. One that the
    event before does not know starts with nothing.
    """
    last = progress(state)

    def check(entry: ExecuteTransformInput) -> str | None:
        before = last.get(entry.dataset_id) or ExecuteTransformInput(dataset_id=entry.dataset_id)
        if entry.prev_block_hash != before.last_block_hash:
            return f"prevBlockHash is {entry.prev_block_hash}, not {before.last_block_hash}"
        if entry.prev_offset != before.last_offset:
            return f"prevOffset is {entry.prev_offset}, not {before.last_offset}"
        return None

    return _first_wrong(event, check)


def new_block_differs_from_the_previous(state: ChainState, event: ExecuteTransform) -> str | None:
    """`newBlockHash` is absent where an input did not move."""
    del state
    return _first_wrong(
        event,
        lambda entry: (
            "newBlockHash equals prevBlockHash: leave it out"
            if entry.new_block_hash is not None and entry.new_block_hash == entry.prev_block_hash
            else None
        ),
    )


def new_offset_lies_after_the_previous(state: ChainState, event: ExecuteTransform) -> str | None:
    """`newOffset` is absent where an input has no new records, and never goes back."""
    del state

    def check(entry: ExecuteTransformInput) -> str | None:
        if entry.new_offset is None or entry.prev_offset is None:
            return None
        if entry.new_offset <= entry.prev_offset:
            return f"newOffset {entry.new_offset} does not lie after prevOffset {entry.prev_offset}"
        return None

    return _first_wrong(event, check)


def new_records_come_in_new_blocks(state: ChainState, event: ExecuteTransform) -> str | None:
    """`newOffset` comes with the `newBlockHash` of the block that brought the record."""
    del state
    return _first_wrong(
        event,
        lambda entry: (
            f"newOffset is {entry.new_offset}, but newBlockHash is absent"
            if entry.new_offset is not None and entry.new_block_hash is None
            else None
        ),
    )


def transaction_changes_something(state: ChainState, event: ExecuteTransform) -> str | None:
    """Without data, the checkpoint, the watermark or an input moved."""
    if is_unchanged(state, event) and all(
        entry.new_block_hash is None for entry in event.query_inputs
    ):
        return "neither the inputs nor the output moved: do not append it"
    return None


def progress(state: ChainState) -> dict[DatasetId, ExecuteTransformInput]:
    """Return how far the inputs of the latest ExecuteTransform were read, by id."""
    event = state.data_event
    if not isinstance(event, ExecuteTransform):
        return {}
    return {entry.dataset_id: entry for entry in event.query_inputs}


def _names(ids: Iterable[DatasetId | None]) -> str:
    return ", ".join(map(str, ids)) or "none"


def _first_wrong(
    event: ExecuteTransform, check: Callable[[ExecuteTransformInput], str | None]
) -> str | None:
    for entry in event.query_inputs:
        if problem := check(entry):
            return f"input {entry.dataset_id}: {problem}"
    return None


RULES = (
    inputs_are_those_of_the_transform,
    input_progress_is_carried,
    new_block_differs_from_the_previous,
    new_offset_lies_after_the_previous,
    new_records_come_in_new_blocks,
    transaction_changes_something,
)
