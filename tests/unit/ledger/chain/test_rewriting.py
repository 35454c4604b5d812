"""Chains are moved back, compacted, or reduced to their metadata."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.ledger_events import (
    SCHEMA,
    content,
    data_slice,
    dataset_id,
    moment,
    save_checkpoint,
    save_slice,
    seed,
    transform,
)

from icestream.errors import ConflictError, DivergedInputError, InvalidInputError
from icestream.ledger.blocks.attributes import ExtraAttributes
from icestream.ledger.blocks.events import (
    AddData,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    SetInfo,
)
from icestream.ledger.blocks.hashes import sha3_256
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.planning import TransformPlan, plan_transform
from icestream.ledger.chain.rewriting import CompactionLimits, compact, keep_metadata_only, reset
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.verification import verify_chain
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage


@pytest.fixture
def storage() -> Storage:
    return InMemoryStorage()


def create(storage: Storage, *intervals: tuple[int, int]) -> MetadataChain:
    chain = MetadataChain.create(storage, [seed(), SCHEMA], system_time=moment(0))
    for start, end in intervals:
        add(chain, start, end)
    return chain


def add(chain: MetadataChain, start: int, end: int, **changes: ExtraAttributes) -> None:
    event = AddData(
        prev_offset=chain.state.last_offset,
        prev_checkpoint=chain.state.checkpoint,
        new_data=save_slice(chain.storage, start, end),
        new_checkpoint=save_checkpoint(chain.storage, f"up to {end}"),
        new_watermark=moment(end),
        extra=changes.get("extra"),
    )
    chain.append(event, system_time=moment(end))


def merger(storage: Storage):
    def merge(slices: Sequence[DataSlice]) -> DataSlice:
        assert all(
            before.offset_interval.end + 1 == after.offset_interval.start
            for before, after in pairwise(slices)
        )
        return save_slice(storage, slices[0].offset_interval.start, slices[-1].offset_interval.end)

    return merge


def intervals(chain: MetadataChain) -> list[tuple[int, int]]:
    slices = [
        block.event.new_data.offset_interval
        for block in chain.blocks()
        if isinstance(block.event, AddData) and block.event.new_data
    ]
    return [(interval.start, interval.end) for interval in reversed(slices)]


class TestReset:
    def test_the_head_moves_back_and_the_chain_goes_on_from_there(self, storage: Storage) -> None:
        chain = create(storage, (0, 9))
        target = chain.head
        add(chain, 10, 19)

        result = reset(chain, target)

        assert (result.old_blocks, result.new_blocks) == (4, 3)
        assert chain.head == target == MetadataChain.open(storage).head
        assert chain.state == ChainState.walked(chain.blocks())
        add(chain, 10, 14)
        assert verify_chain(storage).is_valid

    def test_only_blocks_of_the_chain_are_targets(self, storage: Storage) -> None:
        chain = create(storage, (0, 9))

        with pytest.raises(InvalidInputError, match="not on the chain"):
            reset(chain, sha3_256(b"?"))

    def test_a_reset_to_the_head_changes_nothing(self, storage: Storage) -> None:
        chain = create(storage, (0, 9))

        assert not reset(chain, chain.head).is_changed

    def test_a_reset_conflicts_with_an_append(self, storage: Storage) -> None:
        chain = create(storage, (0, 9))
        stale = MetadataChain.open(storage)
        (_, *_, first) = [block.block_hash for block in chain.blocks()]
        add(chain, 10, 19)

        with pytest.raises(ConflictError):
            reset(stale, first)
        assert MetadataChain.open(storage).head == chain.head


class TestCompaction:
    def test_consecutive_slices_become_one_and_offsets_stay(self, storage: Storage) -> None:
        chain = create(storage, (0, 9), (10, 19), (20, 29))
        before = chain.state

        result = compact(chain, merger(storage))

        assert (result.old_blocks, result.new_blocks) == (5, 3)
        assert intervals(chain) == [(0, 29)]
        assert chain.state.last_offset == 29
        assert chain.state.watermark == before.watermark
        assert chain.state.checkpoint == before.checkpoint
        assert chain.state.head.block.system_time == before.head.block.system_time
        assert verify_chain(storage).is_valid

    def test_limits_are_kept(self, storage: Storage) -> None:
        chain = create(storage, (0, 9), (10, 19), (20, 29), (30, 39), (40, 40))

        compact(chain, merger(storage), CompactionLimits(max_slice_records=20))

        assert intervals(chain) == [(0, 19), (20, 39), (40, 40)]
        size = len(content(0, 19)) + len(content(20, 39))
        compact(chain, merger(storage), CompactionLimits(max_slice_bytes=size))
        assert intervals(chain) == [(0, 39), (40, 40)]

    def test_other_events_keep_their_places_and_bytes_before_the_first_merge(
        self, storage: Storage
    ) -> None:
        chain = create(storage, (0, 9))
        chain.append(SetInfo(description="between"), system_time=moment(9))
        unchanged = chain.head
        add(chain, 10, 19)
        add(chain, 20, 29)
        chain.append(SetInfo(description="after"), system_time=moment(30))

        compact(chain, merger(storage))

        events = [type(block.event).__name__ for block in chain.blocks()]
        assert events == ["SetInfo", "AddData", "SetInfo", "AddData", "SetDataSchema", "Seed"]
        assert unchanged in {block.block_hash for block in chain.blocks()}
        assert intervals(chain) == [(0, 9), (10, 29)]
        assert verify_chain(storage).is_valid

    def test_events_without_data_are_taken_in(self, storage: Storage) -> None:
        chain = create(storage, (0, 9))
        event = AddData(
            prev_offset=9, prev_checkpoint=chain.state.checkpoint, new_watermark=moment(50)
        )
        chain.append(event, replace(event, prev_checkpoint=None, new_watermark=moment(60)))

        compact(chain, merger(storage))

        assert intervals(chain) == [(0, 9)]
        assert chain.state.watermark == moment(60)
        assert chain.state.head.sequence_number == 2
        assert verify_chain(storage).is_valid

    def test_events_with_other_attributes_are_not_merged(self, storage: Storage) -> None:
        chain = create(storage, (0, 9))
        add(chain, 10, 19, extra=ExtraAttributes.of({"example.org/x": 1}))

        assert not compact(chain, merger(storage)).is_changed

    def test_other_records_are_refused(self, storage: Storage) -> None:
        chain = create(storage, (0, 9), (10, 19))
        head = chain.head

        with pytest.raises(InvalidInputError, match="gave the records"):
            compact(chain, lambda _: data_slice(0, 18))
        assert MetadataChain.open(storage).head == head

    def test_a_compacted_chain_is_not_compacted_again(self, storage: Storage) -> None:
        chain = create(storage, (0, 9), (10, 19))
        compact(chain, merger(storage))

        assert not compact(chain, merger(storage)).is_changed


def test_a_derivative_of_a_compacted_dataset_starts_over(storage: Storage) -> None:
    source, derivative = create(storage, (0, 9), (10, 19)), InMemoryStorage()
    chain = MetadataChain.create(
        derivative, [seed(DatasetKind.DERIVATIVE, 9), transform(1), SCHEMA]
    )
    inputs = {dataset_id(1): source}
    plan = plan_transform(chain, inputs)
    assert isinstance(plan, TransformPlan)
    run = ExecuteTransform(query_inputs=plan.query_inputs, new_data=save_slice(derivative, 0, 3))
    chain.append(run)
    chain.append(SetInfo(description="kept"))
    compact(source, merger(storage))

    with pytest.raises(DivergedInputError):
        plan_transform(chain, inputs)
    with pytest.raises(InvalidInputError, match="keep_metadata_only"):
        compact(chain, merger(derivative))
    result = keep_metadata_only(chain)

    assert (result.old_blocks, result.new_blocks) == (5, 4)
    assert chain.state.data_event is None
    assert chain.state.info == SetInfo(description="kept")
    again = plan_transform(chain, inputs)
    assert isinstance(again, TransformPlan)
    assert again.query_inputs[0].prev_block_hash is None
    assert again.next_offset == 0
    assert verify_chain(derivative).is_valid
    assert not keep_metadata_only(chain).is_changed
