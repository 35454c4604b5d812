"""The next transaction follows from the last one, at a cost that does not grow with the chain."""

from dataclasses import replace

import pytest
from tests.ledger_events import (
    SCHEMA,
    checkpoint,
    data_slice,
    dataset_id,
    moment,
    save_checkpoint,
    save_slice,
    seed,
    transform,
)

from icestream.errors import (
    ChainRuleError,
    DivergedInputError,
    InvalidInputError,
    NotFoundError,
)
from icestream.ledger.blocks.events import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataEvent,
    OffsetInterval,
    SetInfo,
)
from icestream.ledger.blocks.hashes import Multihash, sha3_256
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.layout import HEAD
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.planning import (
    TransformPlan,
    UpToDate,
    check_inputs,
    output_watermark,
    plan_transform,
)
from icestream.storage.memory import InMemoryStorage
from icestream.testing.doubles import CountingStorage
from icestream.testing.ledger_chains import (
    BlockTemplate,
    LongChain,
    placeholder_hash,
    placeholder_number,
)


def root(number: int, *events: MetadataEvent) -> MetadataChain:
    storage = InMemoryStorage()
    return MetadataChain.create(storage, [seed(number=number), *events], system_time=moment(0))


def derivative(*inputs: int, has_schema: bool = True) -> MetadataChain:
    events: list[MetadataEvent] = [seed(DatasetKind.DERIVATIVE, 9), transform(*inputs)]
    if has_schema:
        events.append(SCHEMA)
    return MetadataChain.create(InMemoryStorage(), events, system_time=moment(0))


def add(chain: MetadataChain, records: int = 0, watermark: Timestamp | None = None) -> Multihash:
    """Append records, or a watermark only."""
    start = chain.state.next_offset
    return chain.append(
        AddData(
            prev_offset=chain.state.last_offset,
            new_data=save_slice(chain.storage, start, start + records - 1) if records else None,
            new_watermark=watermark or chain.state.watermark,
        ),
        system_time=moment(chain.state.head.sequence_number),
    )


def planned(chain: MetadataChain, *inputs: MetadataChain) -> TransformPlan:
    plan = plan_transform(chain, {entry.state.dataset_id: entry for entry in inputs})
    assert isinstance(plan, TransformPlan)
    return plan


def run(chain: MetadataChain, *inputs: MetadataChain, records: int = 0) -> ExecuteTransform:
    """Do what is planned: write so many records, and commit."""
    plan = planned(chain, *inputs)
    end = plan.next_offset + records - 1
    event = ExecuteTransform(
        query_inputs=plan.query_inputs,
        prev_offset=plan.prev_offset,
        prev_checkpoint=plan.prev_checkpoint,
        new_data=save_slice(chain.storage, plan.next_offset, end) if records else None,
        new_checkpoint=save_checkpoint(chain.storage, "watermarks"),
        new_watermark=plan.watermark,
    )
    check_inputs(event, {entry.state.dataset_id: entry for entry in inputs})
    chain.append(event)
    return event


def reads(*chains: MetadataChain) -> int:
    """Return how many objects are read to open chains and plan the first from the others."""
    counting = [CountingStorage(chain.storage) for chain in chains]
    first, *others = [MetadataChain.open(storage) for storage in counting]
    plan_transform(first, {entry.state.dataset_id: entry for entry in others})
    return sum(storage.reads for storage in counting)


def test_the_first_run_starts_with_nothing_and_takes_all() -> None:
    source = root(1, SCHEMA)
    add(source, 10)
    last = add(source, 5, moment(7))

    plan = planned(derivative(1), source)

    (entry,) = plan.inputs
    assert entry.entry == ExecuteTransformInput(
        dataset_id=dataset_id(1), new_block_hash=last, new_offset=14
    )
    assert entry.slices == (data_slice(0, 9), data_slice(10, 14))
    assert entry.offset_interval == OffsetInterval(start=0, end=14)
    assert [mark.event_time for mark in entry.watermarks] == [moment(7)]
    assert [mark.system_time for mark in entry.watermarks] == [moment(2)]
    assert (plan.prev_offset, plan.prev_checkpoint, plan.next_offset) == (None, None, 0)
    assert plan.watermark == moment(7)


def test_the_next_run_continues_where_the_last_one_stopped() -> None:
    source, chain = root(1, SCHEMA), derivative(1)
    first = add(source, 10)
    run(chain, source, records=3)
    second = add(source, 1)

    plan = planned(chain, source)

    assert plan.query_inputs == (
        ExecuteTransformInput(
            dataset_id=dataset_id(1),
            prev_block_hash=first,
            new_block_hash=second,
            prev_offset=9,
            new_offset=10,
        ),
    )
    assert plan.inputs[0].slices == (data_slice(10, 10),)
    assert plan.inputs[0].offset_interval == OffsetInterval(start=10, end=10)
    assert (plan.prev_offset, plan.next_offset) == (2, 3)
    assert plan.prev_checkpoint == checkpoint("watermarks").physical_hash


def test_offset_0_is_a_record_on_both_sides() -> None:
    source, chain = root(1, SCHEMA), derivative(1)
    add(source, 1)
    event = run(chain, source, records=1)
    assert event.query_inputs[0].new_offset == 0
    add(source, 1)

    plan = planned(chain, source)

    assert (plan.prev_offset, plan.next_offset) == (0, 1)
    assert plan.query_inputs[0].prev_offset == 0
    assert plan.query_inputs[0].new_offset == 1


def test_a_filter_without_output_and_watermark_still_records_its_progress() -> None:
    source, chain = root(1, SCHEMA), derivative(1)
    for _ in range(3):
        add(source, 2)
        event = run(chain, source)
        assert event.new_data is None
        assert event.new_watermark is None

    assert event.query_inputs[0].prev_offset == 3
    assert event.query_inputs[0].new_offset == 5
    assert event.prev_offset is None


def test_a_watermark_alone_is_news_without_records() -> None:
    source, chain = root(1, SCHEMA), derivative(1)
    add(source, 10, moment(5))
    run(chain, source)
    add(source, 0, moment(6))

    plan = planned(chain, source)

    assert plan.query_inputs[0].new_block_hash == source.head
    assert plan.query_inputs[0].new_offset is None
    assert plan.inputs[0].offset_interval is None
    assert plan.inputs[0].slices == ()
    assert plan.watermark == moment(6)
    event = run(chain, source, records=4)
    assert event.new_data == data_slice(0, 3)


def test_an_input_that_did_not_move_carries_its_values() -> None:
    fast, slow, chain = root(1, SCHEMA), root(2, SCHEMA), derivative(1, 2)
    add(fast, 1)
    slow_block = add(slow, 1)
    run(chain, fast, slow)
    for _ in range(3):
        add(fast, 1)
        event = run(chain, fast, slow)

    assert event.query_inputs[1] == ExecuteTransformInput(
        dataset_id=dataset_id(2), prev_block_hash=slow_block, prev_offset=0
    )
    assert event.query_inputs[0].new_offset == 3


def test_there_is_nothing_to_do_without_news() -> None:
    source, chain = root(1, SCHEMA), derivative(1)
    add(source, 10)
    run(chain, source)

    assert isinstance(plan_transform(chain, {dataset_id(1): source}), UpToDate)
    source.append(SetInfo(description="only the head moved"), system_time=moment(2))
    assert isinstance(plan_transform(chain, {dataset_id(1): source}), UpToDate)
    moved = add(source, 1)
    entry = planned(chain, source).inputs[0]
    assert entry.new_blocks == 2
    assert entry.entry.new_block_hash == moved


def test_there_is_nothing_to_do_with_a_schema_and_no_data() -> None:
    plan = plan_transform(derivative(1), {dataset_id(1): root(1, SCHEMA)})

    assert plan == UpToDate("no input has new records or watermarks")


def test_there_is_nothing_to_do_while_an_input_has_no_schema() -> None:
    ready, waiting = root(1, SCHEMA), root(2)
    add(ready, 10)

    plan = plan_transform(derivative(1, 2), {dataset_id(1): ready, dataset_id(2): waiting})

    assert isinstance(plan, UpToDate)
    assert plan.reason.startswith("input input2 has no schema yet")
    assert "dataset pull" in plan.reason


def test_a_derivative_without_a_schema_runs_once_without_records_to_learn_it() -> None:
    plan = planned(derivative(1, has_schema=False), root(1, SCHEMA))

    assert plan.inputs[0].slices == ()
    assert plan.query_inputs[0].new_offset is None


def test_inputs_that_are_not_given_are_named() -> None:
    with pytest.raises(NotFoundError, match=rf"input2 \({dataset_id(2)}\).*dataset create"):
        plan_transform(derivative(1, 2), {dataset_id(1): root(1, SCHEMA)})


def test_a_dataset_that_reads_itself_is_told_so() -> None:
    chain = derivative(1, 9)

    with pytest.raises(InvalidInputError, match=r"reads itself, as input input9.*dataset update"):
        plan_transform(chain, {dataset_id(1): root(1, SCHEMA), dataset_id(9): chain})


def test_a_root_dataset_has_no_transaction() -> None:
    with pytest.raises(InvalidInputError, match="no SetTransform"):
        plan_transform(root(1, SCHEMA), {})


@pytest.mark.parametrize("is_collected", [False, True])
def test_a_diverged_input_is_named_with_the_way_out(*, is_collected: bool) -> None:
    source, chain = root(1, SCHEMA), derivative(1)
    start = source.storage.get(HEAD)
    gone = add(source, 10)
    run(chain, source)
    source.storage.put(HEAD, start)
    source = MetadataChain.open(source.storage)
    for _ in range(20):
        add(source, 7)
    if is_collected:
        source.storage.delete_many([f"blocks/{gone}"])

    way_out = (
        "input input1 diverged.*dataset compact W NAME --keep-metadata-only.*keep_metadata_only"
    )
    with pytest.raises(DivergedInputError, match=way_out) as caught:
        planned(chain, source)

    assert caught.value.dataset_id == str(dataset_id(1))
    assert caught.value.block == str(gone)


def test_a_changed_transform_keeps_the_progress_of_inputs_that_stay() -> None:
    first, second, chain = root(1, SCHEMA), root(2, SCHEMA), derivative(1)
    block = add(first, 10)
    add(second, 5)
    run(chain, first)
    chain.append(transform(2, 1))

    plan = planned(chain, first, second)

    assert plan.query_inputs == (
        ExecuteTransformInput(dataset_id=dataset_id(2), new_block_hash=second.head, new_offset=4),
        ExecuteTransformInput(dataset_id=dataset_id(1), prev_block_hash=block, prev_offset=9),
    )
    run(chain, first, second)


@pytest.mark.parametrize(
    ("previous", "inputs", "expected"),
    [
        (None, [None], None),
        (None, [3], 3),
        (None, [3, 2], 2),
        (None, [3, None], None),
        (2, [None, None], 2),
        (2, [3, None], 2),
        (2, [3, 5], 3),
        (4, [3, 5], 4),
    ],
)
def test_the_output_has_the_lowest_watermark_of_its_inputs_but_never_a_lower_one(
    previous: int | None, inputs: list[int | None], expected: int | None
) -> None:
    def at(second: int | None) -> Timestamp | None:
        return None if second is None else moment(second)

    assert output_watermark(at(previous), [at(mark) for mark in inputs]) == at(expected)


class TestWhatATransactionSaysAboutItsInputs:
    """Only true intervals are recorded."""

    def check(self, rule: str, **changes: object) -> None:
        source, chain = root(1, SCHEMA), derivative(1)
        add(source, 5)
        event = run(chain, source)
        add(source, 5)
        plan = planned(chain, source)
        event = replace(event, query_inputs=plan.query_inputs)
        check_inputs(event, {dataset_id(1): source})
        wrong = replace(plan.query_inputs[0], **changes)  # type: ignore[arg-type]  # by name

        with pytest.raises(ChainRuleError) as caught:
            check_inputs(replace(event, query_inputs=(wrong,)), {dataset_id(1): source})
        assert caught.value.rule == rule

    def test_the_new_block_exists(self) -> None:
        self.check("consumed-blocks-exist", new_block_hash=sha3_256(b"?"))

    def test_the_new_block_descends_from_the_previous(self) -> None:
        self.check("consumed-blocks-descend", prev_block_hash=sha3_256(b"?"))

    def test_the_new_offset_is_the_last_at_the_new_block(self) -> None:
        self.check("consumed-records-exist", new_offset=8)

    def test_the_new_offset_is_not_left_out(self) -> None:
        self.check("consumed-records-exist", new_offset=None)


# -- costs ----------------------------------------------------------------------------------------


def test_a_plan_reads_as_much_after_1000_infos_as_after_none() -> None:
    source, chain = root(1, SCHEMA), derivative(1)
    add(source, 5)
    run(chain, source, records=5)
    add(source, 5)
    before = reads(chain, source)

    for number in range(1000):
        chain.append(SetInfo(description=str(number)))

    assert reads(chain, source) == before == 6


def test_two_inputs_with_10000_updates_against_1_cost_the_same() -> None:
    short, long = (reads(*two_speeds(updates)) for updates in (10, 10_000))

    assert short == long
    assert short <= 12


def two_speeds(updates: int) -> tuple[MetadataChain, MetadataChain, MetadataChain]:
    """Return a derivative that consumed all but the last of so many updates of one input."""
    now = moment(0)
    slow = root(2, SCHEMA)
    add(slow, 1)
    fast = LongChain.start(InMemoryStorage(), seed(number=1), SCHEMA, system_time=now)
    template = BlockTemplate.of(
        AddData(
            prev_offset=placeholder_number("prev off"),
            new_data=replace(
                data_slice(0, 0),
                offset_interval=OffsetInterval(
                    start=placeholder_number("start"), end=placeholder_number("end")
                ),
            ),
        ),
        now,
        "prev off",
        "start",
        "end",
    )
    fast.add(AddData(new_data=data_slice(0, 0)), now)
    for offset in range(1, updates):
        number = offset.to_bytes(8, "little")
        before = (offset - 1).to_bytes(8, "little")
        fast.stamp(template, {"prev off": before, "start": number, "end": number})
    return long_derivative(fast, slow, updates), fast.finish(), slow


def long_derivative(fast: LongChain, slow: MetadataChain, updates: int) -> MetadataChain:
    now = moment(0)
    chain = LongChain.start(
        InMemoryStorage(),
        seed(DatasetKind.DERIVATIVE, 9),
        transform(1, 2),
        SCHEMA,
        system_time=now,
    )
    first = ExecuteTransform(
        query_inputs=(
            ExecuteTransformInput(
                dataset_id=dataset_id(1), new_block_hash=fast.hashes[2], new_offset=0
            ),
            ExecuteTransformInput(dataset_id=dataset_id(2), new_block_hash=slow.head, new_offset=0),
        ),
        new_checkpoint=checkpoint("x"),
    )
    chain.add(first, now)
    template = BlockTemplate.of(
        ExecuteTransform(
            query_inputs=(
                ExecuteTransformInput(
                    dataset_id=dataset_id(1),
                    prev_block_hash=placeholder_hash("prev input"),
                    new_block_hash=placeholder_hash("new input"),
                    prev_offset=placeholder_number("prev off"),
                    new_offset=placeholder_number("new offs"),
                ),
                ExecuteTransformInput(
                    dataset_id=dataset_id(2), prev_block_hash=slow.head, prev_offset=0
                ),
            ),
            prev_checkpoint=checkpoint("x").physical_hash,
            new_checkpoint=checkpoint("x"),
        ),
        now,
        "prev input",
        "new input",
        "prev off",
        "new offs",
    )
    for offset in range(1, updates - 1):
        chain.stamp(
            template,
            {
                "prev input": fast.hashes[offset + 1].digest,
                "new input": fast.hashes[offset + 2].digest,
                "prev off": (offset - 1).to_bytes(8, "little"),
                "new offs": offset.to_bytes(8, "little"),
            },
        )
    return chain.finish()


def test_the_plan_of_a_long_chain_is_right() -> None:
    chain, fast, slow = two_speeds(100)

    plan = planned(chain, fast, slow)

    assert plan.query_inputs[0].prev_offset == 98
    assert plan.query_inputs[0].new_offset == 99
    assert plan.inputs[0].new_blocks == 1
    assert plan.query_inputs[1] == ExecuteTransformInput(
        dataset_id=dataset_id(2), prev_block_hash=slow.head, prev_offset=0
    )
