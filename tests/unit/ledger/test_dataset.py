"""A dataset: created, filled, read at any block, looked after."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.ledger_events import SQL, dataset_id, moment

from icestream.errors import (
    AlreadyExistsError,
    ChainRuleError,
    DivergedInputError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
)
from icestream.ledger import (
    AddData,
    AddPushSource,
    CompactionLimits,
    Dataset,
    DatasetAlias,
    DatasetKind,
    DatasetSnapshot,
    DataSlice,
    ExecuteTransform,
    OffsetInterval,
    SetInfo,
    SetTransform,
    SetVocab,
    TransformPlan,
    UpToDate,
    logical_hash,
)
from icestream.ledger.blocks.hashes import sha3_256
from icestream.ledger.blocks.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStepCsv,
)
from icestream.ledger.blocks.transforms import TransformInput
from icestream.ledger.chain.layout import SUMMARY, data_key
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import CountingStorage

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return InMemoryStorage() if request.param == "memory" else LocalStorage(tmp_path)


def cities(*names: str, **columns: list[object]) -> pa.Table:
    return pa.table({"city": list(names), **columns})


def push_source(name: str, merge: MergeStrategy) -> AddPushSource:
    return AddPushSource(source_name=name, read=ReadStepCsv(header=True), merge=merge)


def definition(*events: object, kind: DatasetKind = DatasetKind.ROOT) -> DatasetSnapshot:
    return DatasetSnapshot(name=DatasetAlias.parse("cities"), kind=kind, metadata=events)  # type: ignore[arg-type]  # events


def names(table: pa.Table) -> list[str]:
    return table.column("city").to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types


# -- creating and opening -------------------------------------------------------------------------


def test_a_dataset_is_created_by_name_and_opened(storage: Storage) -> None:
    created = Dataset.create(storage, "acme/cities")

    opened = Dataset.open(storage)

    assert opened.head == created.head
    assert (opened.alias, opened.kind) == ("acme/cities", DatasetKind.ROOT)
    assert (opened.last_offset, opened.watermark, opened.schema) == (None, None, None)
    assert [type(block.event).__name__ for block in opened.blocks()] == ["Seed"]


def test_a_dataset_starts_with_the_events_of_its_definition(storage: Storage) -> None:
    given = definition(SetInfo(description="x"), SetVocab(event_time_column="date"))

    dataset = Dataset.create(storage, given, dataset_id=dataset_id(7), system_time=moment(3))

    assert dataset.dataset_id == dataset_id(7)
    assert dataset.state.vocabulary.event_time_column == "date"
    assert {block.block.system_time for block in dataset.blocks()} == {moment(3)}


def test_there_is_one_dataset_at_a_place(storage: Storage) -> None:
    first = Dataset.create(storage, "cities")

    with pytest.raises(AlreadyExistsError, match="open it"):
        Dataset.create(storage, "towns")

    assert Dataset.open(storage).dataset_id == first.dataset_id
    assert Dataset.open(storage).alias == "cities"


def test_where_there_is_no_dataset_none_is_opened(storage: Storage) -> None:
    with pytest.raises(NotFoundError, match="no dataset"):
        Dataset.open(storage)


def test_a_definition_names_inputs_that_do_not_exist() -> None:
    transform = SetTransform(inputs=(TransformInput(dataset_ref="towns"),), transform=SQL)

    with pytest.raises(InvalidInputError, match="towns"):
        Dataset.create(InMemoryStorage(), definition(transform, kind=DatasetKind.DERIVATIVE))


# -- adding data ----------------------------------------------------------------------------------


def test_first_data_set_the_schema_with_one_move_of_the_head(storage: Storage) -> None:
    counting = CountingStorage(storage)
    dataset = Dataset.create(counting, "cities")
    counting.reset()

    added = dataset.add_data(cities("kyiv", "odesa"), event_time=NOON)

    assert (added.record_count, added.is_up_to_date) == (2, False)
    assert counting.requests["put_if_version"] == 1
    assert dataset.last_offset == 1
    assert dataset.watermark is not None
    assert dataset.watermark.to_datetime() == NOON
    events = [type(block.event).__name__ for block in dataset.blocks()]
    assert events == ["AddData", "SetDataSchema", "Seed"]
    assert dataset.verify().is_valid


def test_offsets_go_on_and_the_schema_is_set_once(storage: Storage) -> None:
    dataset = Dataset.create(storage, "cities")
    dataset.add_data(cities("kyiv"))
    dataset.add_data(cities("odesa"))

    table = Dataset.open(storage).to_arrow()

    assert table.column("offset").to_pylist() == [0, 1]
    assert [block.sequence_number for block in dataset.blocks()] == [3, 2, 1, 0]


def test_records_carry_the_system_time_of_their_block(storage: Storage) -> None:
    dataset = Dataset.create(storage, "cities", system_time=moment(0))

    dataset.add_data(cities("kyiv"), system_time=moment(5))

    (time,) = dataset.to_arrow().column("system_time").to_pylist()
    assert time == moment(5).to_datetime()
    assert next(dataset.blocks()).block.system_time == moment(5)


def test_a_slow_clock_does_not_stop_a_writer(storage: Storage) -> None:
    later = moment(10**9)
    dataset = Dataset.create(storage, "cities", system_time=later)

    dataset.add_data(cities("kyiv"))

    assert next(dataset.blocks()).block.system_time == later
    assert dataset.verify().is_valid


def test_nothing_new_is_no_block(storage: Storage) -> None:
    source = push_source("feed", MergeStrategyLedger(primary_key=("city",)))
    dataset = Dataset.create(storage, definition(source))
    dataset.add_data(cities("kyiv"), event_time=NOON)
    head, objects = dataset.head, {info.path for info in storage.list()}

    added = dataset.add_data(cities("kyiv"), event_time=NOON)

    assert added.is_up_to_date
    assert (added.new_head, added.record_count) == (head, 0)
    assert {info.path for info in storage.list()} == objects


def test_the_source_says_how_rows_are_merged(storage: Storage) -> None:
    snapshot = push_source("feed", MergeStrategySnapshot(primary_key=("city",)))
    dataset = Dataset.create(storage, definition(snapshot))
    dataset.add_data(cities("kyiv", "odesa", size=[1, 2]))
    dataset.add_data(cities("kyiv", "lviv", size=[9, 3]))

    table = dataset.to_arrow()

    found = list(zip(names(table), table.column("op").to_pylist(), strict=True))
    assert found[2:] == [("kyiv", 2), ("kyiv", 3), ("lviv", 0), ("odesa", 1)]


def test_of_several_sources_one_must_be_named(storage: Storage) -> None:
    dataset = Dataset.create(
        storage,
        definition(
            push_source("all", MergeStrategyAppend()),
            push_source("new", MergeStrategyLedger(primary_key=("city",))),
        ),
    )
    dataset.add_data(cities("kyiv"), source_name="all")

    with pytest.raises(InvalidInputError, match="all, new"):
        dataset.add_data(cities("kyiv"))
    with pytest.raises(NotFoundError, match="no push source 'old': name one of all, new"):
        dataset.add_data(cities("kyiv"), source_name="old")
    assert dataset.add_data(cities("kyiv"), source_name="new").is_up_to_date


def test_a_watermark_is_raised_without_data_and_never_lowered(storage: Storage) -> None:
    dataset = Dataset.create(storage, "cities")
    dataset.add_data(cities("kyiv"), event_time=NOON)

    raised = dataset.add_data(None, watermark=NOON + timedelta(days=1))
    lowered = dataset.add_data(None, watermark=NOON)

    assert (raised.is_up_to_date, lowered.is_up_to_date) == (False, True)
    event = next(dataset.blocks()).event
    assert isinstance(event, AddData)
    assert (event.new_data, event.prev_offset) == (None, 0)


def test_new_columns_extend_the_schema_on_demand(storage: Storage) -> None:
    dataset = Dataset.create(storage, "cities")
    dataset.add_data(cities("kyiv"))

    with pytest.raises(InvalidInputError, match="size"):
        dataset.add_data(cities("odesa", size=[1]))
    dataset.add_data(cities("odesa", size=[1]), evolves_schema=True)

    assert dataset.to_arrow().column("size").to_pylist() == [None, 1]
    assert dataset.verify().is_valid


def test_data_are_not_added_to_a_derivative_dataset() -> None:
    source = Dataset.create(InMemoryStorage(), "cities")
    dataset = Dataset.create(InMemoryStorage(), derived_from(source))

    with pytest.raises(InvalidInputError, match="derivative dataset"):
        dataset.add_data(cities("kyiv"))


def test_events_are_appended_under_the_rules(storage: Storage) -> None:
    dataset = Dataset.create(storage, "cities")

    with pytest.raises(ChainRuleError):
        dataset.append(AddData(prev_offset=5, new_watermark=moment(1)))
    head = dataset.append(SetInfo(description="x"))

    assert Dataset.open(storage).head == head


def test_an_event_without_data_takes_four_requests_at_most(storage: Storage) -> None:
    dataset = Dataset.create(storage, "cities")
    counting = CountingStorage(storage)
    opened = Dataset.open(counting)
    counting.reset()

    opened.append(AddData(new_watermark=moment(1)))

    assert len([path for _, path in counting.log if path != SUMMARY]) <= 4
    dataset.refresh()
    assert dataset.head == opened.head


# -- reading --------------------------------------------------------------------------------------


def filled(storage: Storage, slices: int = 4) -> Dataset:
    """Return a dataset of slices with two records each."""
    dataset = Dataset.create(storage, "cities")
    for number in range(slices):
        dataset.add_data(cities(f"a{number}", f"b{number}"))
    return dataset


def test_an_empty_dataset_has_no_records_but_columns(storage: Storage) -> None:
    dataset = Dataset.create(storage, definition(SetVocab(offset_column="number")))

    assert dataset.to_arrow().num_rows == 0
    assert dataset.tail(3).column_names == ["number", "op", "system_time", "event_time"]


def test_a_filter_on_offsets_leaves_files_out(storage: Storage) -> None:
    counting = CountingStorage(storage)
    dataset = filled(counting)
    counting.reset()

    found = dataset.to_dataset().to_table(filter=pc.field("offset") == 3)

    assert names(found) == ["b1"]
    assert len({path for _, path in counting.log if path.startswith("data/")}) == 1


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, []), (1, ["b3"]), (3, ["b2", "a3", "b3"]), (99, ["a0", "b0", "a1", "b1", "a2", "b2"])],
)
def test_the_tail_is_the_last_records(storage: Storage, count: int, expected: list[str]) -> None:
    filled(storage)

    found = names(Dataset.open(storage).tail(count))

    assert found[: len(expected)] == expected
    assert len(found) == min(count, 8)


def test_the_tail_reads_only_blocks_and_files_that_hold_it() -> None:
    counting = CountingStorage(InMemoryStorage())
    filled(counting, slices=20)
    dataset = Dataset.open(counting)
    counting.reset()

    dataset.tail(3)

    paths = [path for _, path in counting.log]
    assert len({path for path in paths if path.startswith("data/")}) == 2
    assert len([path for path in paths if path.startswith("blocks/")]) <= 2


def test_reading_again_walks_only_over_new_blocks() -> None:
    counting = CountingStorage(InMemoryStorage())
    dataset = filled(counting, slices=10)
    dataset.to_arrow()
    dataset.add_data(cities("new"))
    counting.reset()

    assert dataset.to_arrow().num_rows == 21
    assert len([path for _, path in counting.log if path.startswith("blocks/")]) <= 1


def test_a_dataset_is_read_as_of_any_block(storage: Storage) -> None:
    dataset = filled(storage)
    blocks = list(dataset.blocks())
    second = blocks[2].block_hash

    by_hash, by_text = dataset.as_of(second), dataset.as_of(second.to_base58())
    by_end, by_number = dataset.as_of(second.short), dataset.as_of(3)

    for version in (by_hash, by_text, by_end, by_number):
        assert version.block == second
        assert names(version.to_arrow()) == ["a0", "b0", "a1", "b1"]
        assert (version.last_offset, version.record_count) == (3, 4)
    assert dataset.as_of(0).to_arrow().num_rows == 0


def test_a_block_that_is_not_on_the_chain_is_not_found(storage: Storage) -> None:
    dataset = filled(storage, slices=20)
    other = Dataset.create(InMemoryStorage(), "other")

    for name in (other.head, 99, "0123456789", ""):
        with pytest.raises(NotFoundError, match="choose one from its log"):
            dataset.as_of(name)
    ends = [str(block.block_hash)[-1] for block in dataset.blocks()]
    with pytest.raises(InvalidInputError, match="write more"):
        dataset.as_of(max(ends, key=ends.count))


def test_the_history_is_a_table(storage: Storage) -> None:
    dataset = Dataset.create(storage, "cities")
    dataset.add_data(cities("kyiv", "odesa"), event_time=NOON)
    dataset.append(SetInfo(description="x"))

    rows = dataset.history().to_pylist()

    assert [row["event"] for row in rows] == ["SetInfo", "AddData", "SetDataSchema", "Seed"]
    data = rows[1]
    assert (data["first_offset"], data["last_offset"], data["records"]) == (0, 1, 2)
    assert (data["prev_offset"], data["watermark"]) == (None, pa.scalar(NOON).as_py())
    assert rows[0]["block_hash"] == str(dataset.head)
    assert rows[0]["records"] == 0


# -- derivation -----------------------------------------------------------------------------------


def derived_from(*inputs: Dataset) -> DatasetSnapshot:
    refs = tuple(TransformInput(dataset_ref=str(given.dataset_id), alias="a") for given in inputs)
    transform = SetTransform(inputs=refs, transform=SQL)
    return definition(transform, kind=DatasetKind.DERIVATIVE)


def test_a_transform_is_planned_from_what_was_consumed_last(storage: Storage) -> None:
    source = filled(InMemoryStorage(), slices=2)
    dataset = Dataset.create(storage, derived_from(source))

    plan = dataset.plan_transform([source])

    assert isinstance(plan, TransformPlan)
    assert [part.offset_interval.end for part in plan.inputs[0].slices] == [1, 3]
    assert plan.query_inputs[0].new_offset == 3


def test_a_transform_needs_its_inputs(storage: Storage) -> None:
    source = Dataset.create(InMemoryStorage(), "cities")
    dataset = Dataset.create(storage, derived_from(source))

    with pytest.raises(NotFoundError, match="inputs are missing"):
        dataset.plan_transform([])
    assert isinstance(dataset.plan_transform([source]), UpToDate)


def test_an_input_that_was_compacted_diverged_and_metadata_are_the_way_out(
    storage: Storage,
) -> None:
    source = filled(InMemoryStorage(), slices=2)
    dataset = Dataset.create(storage, derived_from(source))
    plan = dataset.plan_transform([source])
    assert isinstance(plan, TransformPlan)
    dataset.append(ExecuteTransform(query_inputs=plan.query_inputs, new_watermark=moment(1)))
    source.compact()

    with pytest.raises(DivergedInputError, match="keep_metadata_only"):
        dataset.plan_transform([source])
    dataset.keep_metadata_only()

    assert isinstance(dataset.plan_transform([source]), TransformPlan)


def test_what_a_transaction_says_of_its_inputs_is_verified(storage: Storage) -> None:
    source = filled(InMemoryStorage(), slices=2)
    dataset = Dataset.create(storage, derived_from(source))
    plan = dataset.plan_transform([source])
    assert isinstance(plan, TransformPlan)
    dataset.append(ExecuteTransform(query_inputs=plan.query_inputs, new_watermark=moment(1)))
    assert dataset.verify(inputs=[source]).is_valid

    source.reset(0)
    source.collect_garbage(datetime.now(UTC) + timedelta(hours=1))

    assert dataset.verify().is_valid
    first = dataset.verify(inputs=[source]).first
    assert first is not None
    assert first.rule == "consumed-blocks-exist"


# -- care -----------------------------------------------------------------------------------------


def test_damage_to_a_slice_is_found_and_named(storage: Storage) -> None:
    dataset = filled(storage)
    key = data_key(dataset.current.slices()[1].physical_hash)
    storage.put(key, storage.get(key)[:-1] + b"?")

    report = dataset.verify()

    assert report.first is not None
    assert (report.first.object_key, report.first.sequence_number) == (key, 3)
    assert (report.slices, report.blocks) == (4, 6)


def test_a_slice_with_other_records_is_found_by_its_content_alone(storage: Storage) -> None:
    dataset = Dataset.create(storage, "cities")
    dataset.add_data(cities("kyiv"))
    other = Dataset.create(InMemoryStorage(), "cities")
    facts = other.add_data(cities("odesa"), system_time=moment(10**9)).data_slice
    assert facts is not None
    lying = OffsetInterval(start=1, end=1)
    key = data_key(facts.physical_hash)
    storage.put(key, other.storage.get(key))

    dataset.append(
        AddData(
            prev_offset=0,
            new_data=replace(facts, offset_interval=lying),
            new_watermark=dataset.watermark,
        )
    )

    assert dataset.verify(checks_content=False).is_valid
    first = dataset.verify().first
    assert first is not None
    assert first.rule == "slice-holds-its-records"
    assert key in first.message


def test_reading_a_damaged_slice_is_an_error_of_its_own(storage: Storage) -> None:
    dataset = Dataset.create(storage, "numbers")
    (data_slice,) = (dataset.add_data(pa.table({"x": range(999)})).data_slice,)
    assert data_slice is not None
    key = data_key(data_slice.physical_hash)
    whole = storage.get(key)

    storage.put(key, whole[:50] + bytes(100) + whole[150:])
    with pytest.raises(IntegrityError, match=f"{key}.*physical hash.*verify the dataset"):
        dataset.to_arrow()
    storage.delete_many([key])
    with pytest.raises(IntegrityError, match=f"{key} is missing") as caught:
        dataset.tail()
    assert caught.value.rule == "objects-exist"


def test_records_with_a_gap_are_not_read(storage: Storage) -> None:
    source = Dataset.create(InMemoryStorage(), "cities")
    source.add_data(cities("a", "b", "c"))
    dataset = Dataset.create(storage, "cities")
    assert source.state.schema is not None
    spoilt = lying_slice(storage, source.to_arrow().take([0, 2]), 0, 2)
    dataset.append(source.state.schema, AddData(new_data=spoilt))

    for read in (dataset.to_arrow, dataset.tail):
        with pytest.raises(IntegrityError, match="without gaps") as caught:
            read()
        assert data_key(spoilt.physical_hash) in str(caught.value)
        assert caught.value.rule == "slice-holds-its-records"


def lying_slice(storage: Storage, table: pa.Table, first: int, last: int) -> DataSlice:
    """Write records as they are, and say what should be in them."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data = sink.getvalue().to_pybytes()
    storage.put(data_key(sha3_256(data)), data)
    return DataSlice(
        logical_hash=logical_hash(table),
        physical_hash=sha3_256(data),
        offset_interval=OffsetInterval(start=first, end=last),
        size=len(data),
    )


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda table: table.drop_columns(["city"]), "missing column 'city'"),
        (lambda table: table.drop_columns(["op"]), "must have all system columns: missing op"),
        (lambda table: table.take([0, 2]), "without gaps"),
        (lambda table: table.slice(1), "offsets must be those of the block"),
    ],
)
def test_a_slice_that_breaks_a_rule_is_named_with_it(
    storage: Storage, spoil: Callable[[pa.Table], pa.Table], problem: str
) -> None:
    source = Dataset.create(InMemoryStorage(), "cities")
    source.add_data(cities("a", "b", "c"))
    dataset = Dataset.create(storage, "cities")
    assert source.state.schema is not None
    spoilt = lying_slice(storage, spoil(source.to_arrow()), 0, 2)
    dataset.append(source.state.schema, AddData(new_data=spoilt))

    first = dataset.verify().first

    assert first is not None
    assert first.rule == "slice-holds-its-records"
    assert data_key(spoilt.physical_hash) in first.message
    assert problem in first.message


def test_the_head_is_moved_back(storage: Storage) -> None:
    dataset = filled(storage)

    result = dataset.reset(2)

    assert (result.old_blocks, result.new_blocks) == (6, 3)
    assert names(dataset.to_arrow()) == ["a0", "b0"]
    dataset.add_data(cities("again"))
    assert names(Dataset.open(storage).to_arrow()) == ["a0", "b0", "again"]
    assert dataset.verify().is_valid


def test_compaction_keeps_records_and_offsets(storage: Storage) -> None:
    dataset = filled(storage)
    dataset.append(SetInfo(description="x"))
    dataset.add_data(cities("last"))
    before = dataset.to_arrow()

    result = dataset.compact()

    assert result.is_changed
    assert len(dataset.current.slices()) == 2
    assert dataset.to_arrow() == before
    assert Dataset.open(storage).to_arrow() == before
    assert dataset.verify().is_valid
    assert not dataset.compact().is_changed


def test_compaction_respects_limits(storage: Storage) -> None:
    dataset = filled(storage)
    before = dataset.to_arrow()

    dataset.compact(CompactionLimits(max_slice_records=4))

    assert [part.offset_interval.count for part in dataset.current.slices()] == [4, 4]
    assert dataset.to_arrow() == before


def test_what_was_taken_back_is_garbage(storage: Storage) -> None:
    dataset = filled(storage)
    dataset.compact()
    future = datetime.now(UTC) + timedelta(hours=1)

    found = dataset.find_garbage(future)
    deleted = dataset.collect_garbage(future)

    assert deleted.deleted == len(found.objects) == 8
    assert dataset.find_garbage(future).objects == ()
    assert dataset.find_garbage(datetime.now(UTC) - timedelta(hours=1)).objects == ()
    assert dataset.verify().is_valid


def test_handles_show_where_they_are(storage: Storage) -> None:
    dataset = filled(storage, slices=1)

    assert str(dataset.head) in repr(dataset)
    assert str(dataset.head) in repr(dataset.current)
