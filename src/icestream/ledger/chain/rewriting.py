"""Rewrites chains: back to an earlier block, to fewer and larger slices, or to metadata alone.

The blocks that drop out stay in the store until leftovers are collected. Derivative datasets that
consumed them find that their input diverged, and have to start over.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.events import (
    AddData,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    MetadataEvent,
    OffsetInterval,
)
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.appending import relinked
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock

type SliceMerger = Callable[[Sequence[DataSlice]], DataSlice]
"""Stores the records of consecutive slices as one file, and returns what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLimits:
    """How large merged slices may become; those that are larger already stay as they are."""

    max_slice_bytes: int = 300_000_000
    max_slice_records: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteResult:
    """What became of a chain."""

    old_head: Multihash
    new_head: Multihash
    old_blocks: int
    new_blocks: int

    @property
    def is_changed(self) -> bool:
        """Whether the chain has another head."""
        return self.old_head != self.new_head


def reset(chain: MetadataChain, target: Multihash) -> RewriteResult:
    """Move the head back to an earlier block.

    Raises:
        InvalidInputError: The block is not on the chain.
        ConflictError: Somebody else appended meanwhile.
    """
    if not any(block.block_hash == target for block in chain.blocks()):
        raise InvalidInputError(f"block {target} is not on the chain: choose one from its log")
    return _rewrite(chain, ChainState.walked(chain.store.walk(target)), [])


def keep_metadata_only(chain: MetadataChain) -> RewriteResult:
    """Take all data events out of a chain.

    For a derivative dataset this is the way out when an input diverged: its transform then starts
    from the beginning.

    Raises:
        ConflictError: Somebody else appended meanwhile.
    """
    blocks = _oldest_first(chain)
    kept = [[block] for block in blocks if not isinstance(block.event, AddData | ExecuteTransform)]
    return _regroup(chain, blocks, kept, _unmergeable)


def compact(
    chain: MetadataChain, merge: SliceMerger, limits: CompactionLimits | None = None
) -> RewriteResult:
    """Merge consecutive slices of a root dataset; offsets stay as they are.

    Data events are merged up to the next event of another kind, so that every record stays under
    the schema and vocabulary that it was written with.

    Raises:
        InvalidInputError: The dataset is derivative, or `merge` returned other records.
        ConflictError: Somebody else appended meanwhile.
    """
    if chain.state.dataset_kind is DatasetKind.DERIVATIVE:
        raise InvalidInputError(
            "a derivative dataset is not compacted, but made anew: use keep_metadata_only"
        )
    blocks = _oldest_first(chain)
    groups = list(_mergeable_groups(blocks, limits or CompactionLimits()))
    return _regroup(chain, blocks, groups, merge)


def _oldest_first(chain: MetadataChain) -> list[StoredBlock]:
    return list(chain.blocks())[::-1]


def _regroup(
    chain: MetadataChain,
    blocks: Sequence[StoredBlock],
    groups: Sequence[Sequence[StoredBlock]],
    merge: SliceMerger,
) -> RewriteResult:
    """Rewrite a chain from the first block on that does not stand alone where it stood."""
    same = 0
    for block, group in zip(blocks, groups, strict=False):
        if len(group) > 1 or group[0] is not block:
            break
        same += 1
    events = (_merged(group, merge) for group in groups[same:])
    return _rewrite(chain, ChainState.fold(blocks[:same]), relinked(blocks[same - 1], events))


def _rewrite(
    chain: MetadataChain, base: ChainState, blocks: Sequence[StoredBlock]
) -> RewriteResult:
    before = chain.state.head
    last = blocks[-1] if blocks else base.head
    if last.block_hash != before.block_hash:
        chain.rewrite(base, blocks)
    return RewriteResult(
        old_head=before.block_hash,
        new_head=chain.head,
        old_blocks=before.sequence_number + 1,
        new_blocks=last.sequence_number + 1,
    )


def _mergeable_groups(
    blocks: Iterable[StoredBlock], limits: CompactionLimits
) -> Iterator[list[StoredBlock]]:
    group: list[StoredBlock] = []
    for block in blocks:
        if group and not _fits(group, block, limits):
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _fits(group: Sequence[StoredBlock], block: StoredBlock, limits: CompactionLimits) -> bool:
    first, event = group[0].event, block.event
    if not (isinstance(first, AddData) and isinstance(event, AddData)):
        return False
    if first.extra != event.extra:  # attributes speak of the slice, and have no common sum
        return False
    slices = list(_slices([*group, block]))
    return (
        sum(part.size for part in slices) <= limits.max_slice_bytes
        and sum(part.offset_interval.count for part in slices) <= limits.max_slice_records
    )


def _slices(group: Iterable[StoredBlock]) -> Iterator[DataSlice]:
    for block in group:
        if isinstance(block.event, AddData) and block.event.new_data is not None:
            yield block.event.new_data


def _merged(group: Sequence[StoredBlock], merge: SliceMerger) -> tuple[MetadataEvent, Timestamp]:
    """Return the one event that stands for a group, and its time."""
    first, last = group[0].event, group[-1].event
    if isinstance(first, AddData) and isinstance(last, AddData) and len(group) > 1:
        last = replace(
            last,
            prev_offset=first.prev_offset,
            prev_checkpoint=first.prev_checkpoint,
            new_data=_merged_slice(list(_slices(group)), merge),
        )
    return last, group[-1].block.system_time


def _merged_slice(slices: Sequence[DataSlice], merge: SliceMerger) -> DataSlice | None:
    if len(slices) <= 1:
        return slices[0] if slices else None
    merged = merge(slices)
    expected = OffsetInterval(
        start=slices[0].offset_interval.start, end=slices[-1].offset_interval.end
    )
    if merged.offset_interval != expected:
        raise InvalidInputError(f"merging {expected} gave the records {merged.offset_interval}")
    return merged


def _unmergeable(slices: Sequence[DataSlice]) -> DataSlice:
    raise InvalidInputError(f"{len(slices)} slices were to be merged, though none are kept")
