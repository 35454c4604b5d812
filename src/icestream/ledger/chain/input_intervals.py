"""The blocks of an input that lie between what was consumed and what is to be consumed."""

from collections.abc import Sequence

from icestream.errors import ChainRuleError, DivergedInputError, IntegrityError
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import (
    AddData,
    DataEvent,
    ExecuteTransform,
    ExecuteTransformInput,
)
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.stored_blocks import StoredBlock


def blocks_between(
    store: BlockStore,
    dataset_id: DatasetId,
    previous: Multihash | None,
    last: StoredBlock,
    *,
    alias: str | None = None,
) -> list[StoredBlock]:
    """Return the blocks `(previous, last]` of an input, oldest first.

    The number of reads grows with these blocks alone, also if the input diverged: where it is not
    met at once, `previous` is read to know how far down it would have to be.

    Args:
        store: The blocks of the input.
        dataset_id: Who the input is.
        previous: The block that was consumed last; None if there is none.
        last: The block to be consumed.
        alias: What queries call the input, for errors; its id, if None.

    Raises:
        DivergedInputError: `previous` is not on the chain that leads to `last`.
    """
    if last.block_hash == previous:
        return []
    diverged = _diverged(dataset_id, alias, previous)
    found = [last]
    lowest: int | None = None
    while (before := found[-1].block.prev_block_hash) != previous:
        if lowest is None:
            lowest = _number_of(store, previous, diverged)
        if before is None or found[-1].sequence_number <= lowest + 1:
            raise diverged
        found.append(store.load(before))
    return found[::-1]


def data_events(blocks: Sequence[StoredBlock]) -> list[tuple[StoredBlock, DataEvent]]:
    """Return the blocks that carry data or a watermark, with their events."""
    return [
        (block, block.event)
        for block in blocks
        if isinstance(block.event, AddData | ExecuteTransform)
    ]


def check_consumed(store: BlockStore, entry: ExecuteTransformInput) -> None:
    """Make sure that what a transaction says about an input is true there.

    Raises:
        ChainRuleError: `newBlockHash` does not exist there, does not descend from
            `prevBlockHash`, or the last record at that block is not `newOffset`.
    """
    if entry.new_block_hash is None:
        return
    try:
        last = store.load(entry.new_block_hash)
        blocks = blocks_between(store, entry.dataset_id, entry.prev_block_hash, last)
    except IntegrityError as error:
        raise _not_consumable("consumed-blocks-exist", entry, str(error)) from error
    except DivergedInputError as error:
        raise _not_consumable("consumed-blocks-descend", entry, str(error)) from error
    events = data_events(blocks)
    offset = events[-1][1].last_offset if events else entry.prev_offset
    if offset != entry.last_offset:
        problem = f"the last record at {entry.new_block_hash} is {offset}, not {entry.last_offset}"
        raise _not_consumable("consumed-records-exist", entry, problem)


def _number_of(store: BlockStore, previous: Multihash | None, diverged: DivergedInputError) -> int:
    if previous is None:
        return -1
    try:
        return store.load(previous).sequence_number
    except IntegrityError as error:
        raise diverged from error


def _diverged(
    dataset_id: DatasetId, alias: str | None, block: Multihash | None
) -> DivergedInputError:
    return DivergedInputError(
        f"input {alias or dataset_id} diverged: block {block}, up to which it was consumed, is not"
        " on its chain; it was compacted or reset since. Drop the data of the dataset that reads it"
        " (`icestream dataset compact W NAME --keep-metadata-only`, in Python keep_metadata_only)"
        " and pull from the start",
        dataset_id=str(dataset_id),
        block=str(block),
    )


def _not_consumable(rule: str, entry: ExecuteTransformInput, problem: str) -> ChainRuleError:
    return ChainRuleError(f"input {entry.dataset_id}: {problem} (rule {rule})", rule=rule)
