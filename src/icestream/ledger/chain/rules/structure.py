"""Rules for every block, whatever it says: how it is linked to the block before it."""

from icestream.ledger.blocks.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataBlock,
    Seed,
    SetPollingSource,
    SetTransform,
)
from icestream.ledger.chain.states import ChainState

_ONLY_ROOT = (
    AddData,
    AddPushSource,
    SetPollingSource,
    DisablePollingSource,
    DisablePushSource,
)
_ONLY_DERIVATIVE = (ExecuteTransform, SetTransform)


def seed_is_the_first_block_and_no_other(
    state: ChainState | None, block: MetadataBlock
) -> str | None:
    """A chain starts with a seed, which has no previous block; all other blocks have one."""
    if not isinstance(block.event, Seed):
        if state is None:
            return f"{type(block.event).__name__} cannot be the first event: append a Seed first"
        if block.prev_block_hash is None:
            return "prevBlockHash is absent, which only the first block may do"
    elif state is not None or block.prev_block_hash is not None:
        return "a Seed cannot follow another block"
    return None


def previous_block_is_the_head(state: ChainState | None, block: MetadataBlock) -> str | None:
    """A block names the last block of the chain as its previous one."""
    head = None if state is None else state.head.block_hash
    if block.prev_block_hash != head:
        return f"prevBlockHash is {block.prev_block_hash}, but the chain ends with {head}"
    return None


def sequence_number_is_the_next(state: ChainState | None, block: MetadataBlock) -> str | None:
    """Blocks are numbered from 0, without gaps."""
    expected = 0 if state is None else state.head.sequence_number + 1
    if block.sequence_number != expected:
        return f"sequenceNumber is {block.sequence_number}, not {expected}"
    return None


def system_time_never_goes_back(state: ChainState | None, block: MetadataBlock) -> str | None:
    """A block is not older than the one before it; equal times are fine."""
    if state is not None and block.system_time < (last := state.head.block.system_time):
        return f"systemTime {block.system_time} is before {last}, that of the previous block"
    return None


def event_fits_the_dataset_kind(state: ChainState | None, block: MetadataBlock) -> str | None:
    """Data and sources are for root datasets, transforms for derivative ones."""
    if state is None:
        return None
    foreign = _ONLY_DERIVATIVE if state.dataset_kind is DatasetKind.ROOT else _ONLY_ROOT
    if isinstance(block.event, foreign):
        name = type(block.event).__name__
        return f"{name} does not belong into a {state.dataset_kind.value} dataset"
    return None


RULES = (
    seed_is_the_first_block_and_no_other,
    previous_block_is_the_head,
    sequence_number_is_the_next,
    system_time_never_goes_back,
    event_fits_the_dataset_kind,
)
"""In the order in which they are looked at: each may rely on those before it."""
