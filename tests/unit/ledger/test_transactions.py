"""Transactions of derivative datasets, also those that produce nothing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from tests.ledger_events import SCHEMA, SQL, save_slice
from tests.unit.ledger.test_dataset_faults import FUTURE, DeadlyStorage, Killed

from icestream.errors import ChainRuleError, ConflictError, InvalidInputError
from icestream.ledger import (
    AddData,
    Dataset,
    DatasetAlias,
    DatasetKind,
    ExecuteTransform,
    SetTransform,
    TransformPlan,
    UpToDate,
)
from icestream.ledger.blocks.snapshots import DatasetSnapshot
from icestream.ledger.blocks.transforms import TransformInput
from icestream.ledger.chain.layout import SUMMARY, checkpoint_key
from icestream.ledger.transactions import (
    TransformOutput,
    prepare_transform,
    prepared_blocks,
    write_transform,
)
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import CountingStorage

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
TIME = pa.timestamp("ms", "UTC")


def root(*, rows: int = 0) -> Dataset:
    dataset = Dataset.create(InMemoryStorage(), "readings")
    if rows:
        dataset.add_data(readings(rows))
    return dataset


def readings(count: int) -> pa.Table:
    return pa.table(
        {"value": pa.array(range(count), pa.int64()), "event_time": pa.array([NOON] * count, TIME)}
    )


def derivative(*inputs: Dataset, storage: Storage | None = None) -> Dataset:
    transform = SetTransform(
        inputs=tuple(
            TransformInput(dataset_ref=str(given.dataset_id), alias=f"input{i}")
            for i, given in enumerate(inputs)
        ),
        transform=SQL,
    )
    snapshot = DatasetSnapshot(
        name=DatasetAlias.parse("derived"), kind=DatasetKind.DERIVATIVE, metadata=(transform,)
    )
    return Dataset.create(storage or InMemoryStorage(), snapshot)


def plan(derived: Dataset, *inputs: Dataset) -> TransformPlan:
    found = derived.plan_transform(inputs)
    assert isinstance(found, TransformPlan), found
    return found


def output(count: int = 0, **options: bytes) -> TransformOutput:
    return TransformOutput(rows=readings(count), **options)


def last_event(dataset: Dataset) -> ExecuteTransform:
    event = dataset.state.data_event
    assert isinstance(event, ExecuteTransform)
    return event


def test_a_filter_without_output_and_watermark_is_recorded_all_the_same() -> None:
    source = Dataset.create(InMemoryStorage(), "plain")
    derived = derivative(source)

    source.append(SCHEMA, AddData(new_data=save_slice(source.storage, 0, 1)))
    write_transform(derived.chain, plan(derived, source), output())
    source.append(AddData(prev_offset=1, new_data=save_slice(source.storage, 2, 2)))
    write_transform(derived.chain, plan(derived, source), output())

    event = last_event(derived)
    (entry,) = event.query_inputs
    assert (entry.prev_offset, entry.new_offset) == (1, 2)
    assert event.new_watermark is None
    assert event.new_data is None
    assert event.prev_offset is None
    assert event.new_checkpoint is not None
    assert derived.storage.get(checkpoint_key(event.new_checkpoint.physical_hash))
    assert isinstance(derived.plan_transform([source]), UpToDate)


def test_offsets_are_carried_through_transactions_without_output() -> None:
    source = root(rows=1)
    derived = derivative(source)
    write_transform(derived.chain, plan(derived, source), output(1))
    assert last_event(derived).prev_offset is None
    for _ in range(3):
        source.add_data(readings(1))
        write_transform(derived.chain, plan(derived, source), output())

    event = last_event(derived)
    assert event.prev_offset == 0
    assert derived.last_offset == 0
    source.add_data(readings(2))
    added = write_transform(derived.chain, plan(derived, source), output(2))
    assert added.data_slice is not None
    assert (added.data_slice.offset_interval.start, added.data_slice.offset_interval.end) == (1, 2)


@pytest.mark.parametrize("raises_watermark", [False, True])
def test_a_transaction_without_output_takes_four_requests_at_most(
    *, raises_watermark: bool
) -> None:
    source = root(rows=1)
    storage = CountingStorage(InMemoryStorage())
    derived = derivative(source, storage=storage)
    derived.write_transform(plan(derived, source), output(1))
    later = NOON + timedelta(hours=1) if raises_watermark else None
    source.add_data(readings(1), watermark=later)
    planned = plan(derived, source)

    storage.reset()
    derived.write_transform(planned, output())

    assert len([path for _, path in storage.log if path != SUMMARY]) == (
        4 if raises_watermark else 2
    )


@pytest.mark.parametrize("after", [False, True])
def test_a_killed_transaction_leaves_the_dataset_as_before_or_complete(*, after: bool) -> None:
    source, number = root(rows=2), 0
    while True:
        number += 1
        storage = InMemoryStorage()
        derivative(source, storage=storage)
        try:
            deadly = Dataset.open(DeadlyStorage(storage, number, after=after))
            deadly.write_transform(plan(deadly, source), output(2))
        except Killed:
            derived = Dataset.open(storage)
            assert derived.last_offset in {None, 1}
            assert (derived.schema is None) is (derived.last_offset is None)
            derived.collect_garbage(FUTURE)
            assert derived.verify(inputs=[source]).is_valid
            if derived.last_offset is None:
                derived.write_transform(plan(derived, source), output(2))
            assert derived.to_arrow().column("value").to_pylist() == [0, 1]
        else:
            break

    assert number == 7  # slice, checkpoint, two blocks, head and summary


def test_the_schema_and_the_first_transaction_become_visible_together() -> None:
    source = root(rows=2)
    derived = derivative(source)

    write_transform(derived.chain, plan(derived, source), output(2))

    assert derived.history().column("event").to_pylist()[:2] == [
        "ExecuteTransform",
        "SetDataSchema",
    ]
    assert derived.to_arrow().column("value").to_pylist() == [0, 1]
    assert derived.verify(inputs=[source]).is_valid


def test_a_slow_input_keeps_its_place_beside_a_fast_one() -> None:
    fast, slow = root(rows=1), root(rows=1)
    storage = CountingStorage(InMemoryStorage())
    derived = derivative(fast, slow, storage=storage)
    write_transform(derived.chain, plan(derived, fast, slow), output(1))
    slow_block, reads = slow.head, set()
    for _ in range(20):
        fast.add_data(readings(1))
        storage.reset()
        planned = plan(Dataset.open(storage), fast, slow)
        reads.add(len(storage.log))
        write_transform(derived.chain, planned, output())
        derived.refresh()

    _, entry = last_event(derived).query_inputs
    assert (entry.prev_block_hash, entry.new_block_hash) == (slow_block, None)
    assert (entry.prev_offset, entry.new_offset) == (0, None)
    assert len(reads) == 1


def test_the_state_of_an_engine_is_kept_as_it_is() -> None:
    source = root(rows=1)
    derived = derivative(source)
    write_transform(derived.chain, plan(derived, source), output(state=b"windows"))
    source.add_data(readings(1))

    planned = plan(derived, source)

    assert planned.prev_checkpoint is not None
    assert derived.storage.get(checkpoint_key(planned.prev_checkpoint)) == b"windows"


def test_a_plan_that_is_too_old_is_refused() -> None:
    source = root(rows=1)
    derived = derivative(source)
    stale = plan(derived, source)
    write_transform(derived.chain, stale, output(1))

    with pytest.raises(InvalidInputError, match="plan again"):
        write_transform(derived.chain, stale, output(1))


def test_of_two_writers_one_wins_and_nothing_of_the_other_is_visible() -> None:
    source = root(rows=1)
    derived = derivative(source)
    other = Dataset.open(derived.storage)
    first, second = plan(derived, source), plan(other, source)
    write_transform(derived.chain, first, output(1))

    with pytest.raises(ConflictError):
        write_transform(other.chain, second, output(1))

    assert Dataset.open(derived.storage).last_offset == 0


def test_an_output_without_event_time_is_refused() -> None:
    source = root(rows=1)
    derived = derivative(source)
    head = derived.head

    with pytest.raises(InvalidInputError, match="'event_time'"):
        write_transform(
            derived.chain, plan(derived, source), TransformOutput(rows=pa.table({"value": [1]}))
        )

    assert Dataset.open(derived.storage).head == head


def test_an_output_of_another_type_is_refused() -> None:
    source = root(rows=1)
    derived = derivative(source)
    write_transform(derived.chain, plan(derived, source), output(1))
    source.add_data(readings(1))
    rows = pa.table({"value": ["a"], "event_time": pa.array([NOON], TIME)})

    with pytest.raises(InvalidInputError, match="value"):
        write_transform(derived.chain, plan(derived, source), TransformOutput(rows=rows))


# -- in two steps -------------------------------------------------------------------------------


def test_a_prepared_transaction_is_invisible_until_it_is_appended() -> None:
    source = root(rows=1)
    derived = derivative(source)
    head = derived.head

    prepared = prepare_transform(derived.chain, plan(derived, source), output(1))

    assert prepared is not None
    assert Dataset.open(derived.storage).head == head
    derived.chain.append_blocks(prepared.blocks)
    assert derived.head == prepared.block_hash
    assert derived.verify(inputs=[source]).is_valid


def test_a_prepared_transaction_can_be_finished_by_somebody_else() -> None:
    source = root(rows=1)
    derived = derivative(source)
    prepared = prepare_transform(derived.chain, plan(derived, source), output(1))
    assert prepared is not None
    other = Dataset.open(derived.storage)

    other.chain.append_blocks(prepared_blocks(other.chain, prepared.block_hash))

    assert other.head == prepared.block_hash
    assert prepared_blocks(other.chain, prepared.block_hash) == ()


def test_a_prepared_transaction_whose_place_is_taken_cannot_be_finished() -> None:
    source = root(rows=1)
    derived = derivative(source)
    prepared = prepare_transform(derived.chain, plan(derived, source), output(1))
    assert prepared is not None
    write_transform(derived.chain, plan(derived, source), output())

    with pytest.raises(ConflictError, match="took its place"):
        prepared_blocks(derived.chain, prepared.block_hash)


def test_what_an_event_says_about_its_inputs_is_checked_where_they_are_at_hand() -> None:
    source = root(rows=1)
    derived = derivative(source)
    write_transform(derived.chain, plan(derived, source), output(1))
    source.add_data(readings(1))
    prepared = prepare_transform(derived.chain, plan(derived, source), output())
    assert prepared is not None
    event = prepared.blocks[-1].event
    assert isinstance(event, ExecuteTransform)
    (entry,) = event.query_inputs
    lie = replace(event, query_inputs=(replace(entry, new_offset=7),))

    with pytest.raises(ChainRuleError, match=str(source.dataset_id)):
        derived.append(lie, inputs=[source])

    derived.append(event, inputs=[source])
    assert derived.head != prepared.old_head
