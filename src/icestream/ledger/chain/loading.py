"""Finds out what a chain says at its head, reading no more blocks than it must."""

from collections.abc import Iterator
from itertools import chain as concatenated

from icestream.errors import ChainRuleError
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.rules.judgement import judge
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.chain.summaries import find_summary, save_summary

_TOLERATED_WALK = 16
"""Blocks that may be read beyond a summary before it is written anew."""


def load_state(store: BlockStore, head: Multihash, known: ChainState | None = None) -> ChainState:
    """Return the state at the head of a chain.

    Args:
        store: The blocks of the chain.
        head: The hash of its last block.
        known: A state that the caller has from before; the stored summary if None.

    Raises:
        IntegrityError: A block that is needed is missing or damaged.
    """
    # read even if the summary has it: a head that points nowhere must not go unnoticed
    last = store.load(head)
    known = known or find_summary(store.storage)
    newer = [last]
    state = None if known is None else _resume(store, newer, known)
    if state is None:
        state = ChainState.walked(concatenated(newer, _before(store, newer[-1])))
    if state.head.sequence_number - _number(known) > _TOLERATED_WALK:
        save_summary(store.storage, state)
    return state


def _resume(store: BlockStore, newer: list[StoredBlock], known: ChainState) -> ChainState | None:
    """Return the state at `newer[0]` from one further back; None if that is of no use.

    Blocks that are read on the way are added to `newer`.
    """
    while newer[-1].sequence_number > known.head.sequence_number:
        previous = newer[-1].block.prev_block_hash
        if previous is None:
            return None
        if previous == known.head.block_hash:
            return _followed(known, newer)
        newer.append(store.load(previous))
    return known if newer[0].block_hash == known.head.block_hash else None


def _followed(known: ChainState, newer: list[StoredBlock]) -> ChainState | None:
    """Return the state after blocks, newest first; None if they do not fit, so it is wrong."""
    state = known
    try:
        for block in reversed(newer):
            judge(state, block.block)
            state = state.after([block])
    except ChainRuleError:
        return None
    return state


def _before(store: BlockStore, block: StoredBlock) -> Iterator[StoredBlock]:
    walk = store.walk(block)
    next(walk)
    return walk


def _number(known: ChainState | None) -> int:
    return -1 if known is None else known.head.sequence_number
