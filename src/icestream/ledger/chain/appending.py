"""Appends blocks: linked to the head, judged by the rules, saved, and made visible at once."""

from collections.abc import Iterable, Iterator, Sequence

from icestream.errors import CommitUnknownError, InvalidInputError
from icestream.ledger.blocks.events import (
    AddData,
    ExecuteTransform,
    MetadataBlock,
    MetadataEvent,
)
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.hashed_objects import missing_objects
from icestream.ledger.chain.heads import Head, find_head, move_head
from icestream.ledger.chain.layout import checkpoint_key, data_key
from icestream.ledger.chain.rules.judgement import broken, judge
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.storage.protocol import Storage


def linked(
    state: ChainState | None, events: Sequence[MetadataEvent], system_time: Timestamp | None = None
) -> list[StoredBlock]:
    """Return the blocks of events that follow a state.

    A clock that is behind that of the writer before does not stop this one: without a given time,
    blocks are never older than those before them.
    """
    previous = None if state is None else state.head
    if system_time is None:
        system_time = Timestamp.now()
        if previous is not None:
            system_time = max(system_time, previous.block.system_time)
    return relinked(previous, ((event, system_time) for event in events))


def relinked(
    previous: StoredBlock | None, events: Iterable[tuple[MetadataEvent, Timestamp]]
) -> list[StoredBlock]:
    """Return the blocks of events, each with a time of its own, that follow a block."""
    blocks: list[StoredBlock] = []
    for event, system_time in events:
        previous = StoredBlock.of(
            MetadataBlock(
                system_time=system_time,
                prev_block_hash=None if previous is None else previous.block_hash,
                sequence_number=0 if previous is None else previous.sequence_number + 1,
                event=event,
            )
        )
        blocks.append(previous)
    return blocks


def judged(state: ChainState | None, blocks: Sequence[StoredBlock]) -> ChainState:
    """Return the state after blocks that comply with all rules.

    Raises:
        ChainRuleError: A block breaks a rule.
        InvalidInputError: There are no blocks.
    """
    for block in blocks:
        judge(state, block.block)
        state = ChainState.walked([block]) if state is None else state.after([block])
    if state is None or not blocks:
        raise InvalidInputError("there is nothing to append: give at least one event")
    return state


def publish(
    storage: Storage, head: Head | None, blocks: Sequence[StoredBlock], target: Multihash
) -> Head:
    """Save judged blocks, then let the head name `target`: the last of them, if there are any.

    Raises:
        ChainRuleError: A slice or checkpoint that a block names is missing.
        ConflictError: Somebody else moved the head.
        CommitUnknownError: The answer was lost, and the head does not tell.
    """
    _require_objects(storage, blocks)
    BlockStore(storage).save(blocks)
    try:
        return move_head(storage, head, target)
    except CommitUnknownError:
        now = find_head(storage)
        if now is None or now.block_hash != target:
            raise
        return now


def _require_objects(storage: Storage, blocks: Sequence[StoredBlock]) -> None:
    needed = {key: block for block in blocks for key in _new_objects(block.event)}
    for key in missing_objects(storage, list(needed)):
        block = needed[key]
        problem = f"{key} is missing: save it before the block that names it"
        raise broken("objects-exist", problem, block.block, str(block.block_hash))


def _new_objects(event: MetadataEvent) -> Iterator[str]:
    """Yield the keys of the objects that an event adds; a checkpoint repeated is none of them."""
    if not isinstance(event, AddData | ExecuteTransform):
        return
    if event.new_data is not None:
        yield data_key(event.new_data.physical_hash)
    checkpoint = event.new_checkpoint
    if checkpoint is not None and checkpoint.physical_hash != event.prev_checkpoint:
        yield checkpoint_key(checkpoint.physical_hash)
