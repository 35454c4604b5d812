"""The plans of transactions that are recorded, made again from their blocks."""

from collections.abc import Mapping, Sequence

from icestream.errors import ChainRuleError, IntegrityError
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import ExecuteTransform, ExecuteTransformInput, SetTransform
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.planning import (
    InputPlan,
    TransformPlan,
    input_plan,
    output_watermark,
)
from icestream.ledger.chain.prefetching import walk_ahead
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock


class InputHistory:
    """The chain of an input, gone through once, from its start on."""

    def __init__(self, store: BlockStore, head: StoredBlock) -> None:
        """Read the chain.

        Args:
            store: The blocks of the input.
            head: Its last block.
        """
        self._blocks = list(walk_ahead(store, head, head.sequence_number + 1))[::-1]
        self._places = {block.block_hash: place for place, block in enumerate(self._blocks)}
        self._reached = 0
        self._state = ChainState.walked(self._blocks[:1])

    def between(self, previous: Multihash | None, last: Multihash) -> list[StoredBlock]:
        """Return the blocks `(previous, last]`, oldest first.

        Raises:
            ChainRuleError: The chain does not have them, in this order.
        """
        first = -1 if previous is None else self._place(previous)
        place = self._place(last)
        if place <= first:
            raise _not_consumable(f"block {last} does not follow {previous}")
        return self._blocks[first + 1 : place + 1]

    def state_at(self, block: Multihash) -> ChainState:
        """Return what the chain said at a block.

        Raises:
            ChainRuleError: The chain does not have it.
        """
        place = self._place(block)
        if place < self._reached:
            return ChainState.walked(self._blocks[place::-1])
        self._state = self._state.after(self._blocks[self._reached + 1 : place + 1])
        self._reached = place
        return self._state

    def _place(self, block: Multihash) -> int:
        if block not in self._places:
            raise _not_consumable(f"block {block} is not on the chain any more")
        return self._places[block]


def recorded_plan(
    before: ChainState, event: ExecuteTransform, histories: Mapping[DatasetId, InputHistory]
) -> TransformPlan:
    """Return the plan that a transaction must have followed.

    Args:
        before: What the derivative chain said before the transaction.
        event: The transaction.
        histories: The chains of the inputs.

    Raises:
        IntegrityError: An input is not at hand, or there is no transform.
        ChainRuleError: An input does not have what was consumed.
    """
    declared = before.transform
    if declared is None:
        raise IntegrityError("there is no SetTransform before the transaction")
    entries = list(zip(event.query_inputs, _aliases(declared), strict=True))
    for entry, alias in entries:
        if entry.dataset_id not in histories:
            raise IntegrityError(
                f"input {alias} ({entry.dataset_id}) is not at hand, so nothing is replayed"
            )
    inputs = tuple(
        _input_plan(entry, alias, histories[entry.dataset_id]) for entry, alias in entries
    )
    return TransformPlan(
        head=before.head.block_hash,
        transform=declared,
        inputs=inputs,
        prev_offset=before.last_offset,
        prev_checkpoint=before.checkpoint,
        next_offset=before.next_offset,
        watermark=output_watermark(before.watermark, [plan.watermark for plan in inputs]),
    )


def _aliases(declared: SetTransform) -> Sequence[str]:
    return [given.alias or given.dataset_ref for given in declared.inputs]


def _input_plan(entry: ExecuteTransformInput, alias: str, history: InputHistory) -> InputPlan:
    consumed = entry.last_block_hash
    if consumed is None:
        raise _not_consumable(f"nothing of input {alias} was ever consumed")
    try:
        state = history.state_at(consumed)
        blocks = (
            []
            if entry.new_block_hash is None
            else history.between(entry.prev_block_hash, entry.new_block_hash)
        )
    except ChainRuleError as error:
        raise ChainRuleError(f"input {alias}: {error}", rule=error.rule) from error
    return input_plan(entry, alias, state, blocks)


def _not_consumable(problem: str) -> ChainRuleError:
    return ChainRuleError(
        f"{problem}: the input diverged since (rule consumed-blocks-exist)",
        rule="consumed-blocks-exist",
    )
