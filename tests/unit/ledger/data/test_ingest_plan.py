"""Planning what an input adds to a root dataset."""

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icestream.errors import InvalidInputError
from icestream.ledger.blocks import data_types as odf
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.events import (
    AddData,
    Checkpoint,
    OffsetInterval,
    SetDataSchema,
    SourceState,
)
from icestream.ledger.blocks.hashes import sha3_256
from icestream.ledger.blocks.sources import (
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
)
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.data.ingest_plan import (
    IngestInput,
    IngestPlan,
    IngestState,
    needs_records,
    plan_ingest,
)
from icestream.ledger.data.slices import read_slice
from icestream.ledger.data.system_columns import SystemColumns

_MAY = Timestamp.parse("2024-05-01T00:00:00.123456Z")
_JUNE = Timestamp.parse("2024-06-01T00:00:00Z")
_STATE = SourceState(source_name="default", kind="odf/etag", value="v1")
_CITIES = pa.table({"city": ["a", "b"], "population": [1, 2]})
_SNAPSHOT = MergeStrategySnapshot(primary_key=("city",))


def _records(plan: IngestPlan, columns: SystemColumns | None = None) -> pa.Table:
    assert plan.data_slice is not None
    return read_slice(plan.data_slice.data, plan.data_slice.facts, columns=columns)


def _after(plan: IngestPlan, state: IngestState | None = None) -> IngestState:
    """Return the state of a dataset to which a plan was applied."""
    state = state or IngestState()
    records = None if plan.data_slice is None else _records(plan)
    parts = [part for part in (state.previous, records) if part is not None]
    return replace(
        state,
        schema=state.schema if plan.set_schema is None else plan.set_schema.schema,
        last=plan.add_data or state.last,
        previous=pa.concat_tables(parts, promote_options="default") if parts else None,
    )


def _plan(state: IngestState | None = None, time: Timestamp = _MAY, **given: Any) -> IngestPlan:
    return plan_ingest(IngestInput(**given), state or IngestState(), system_time=time)


def test_the_first_data_come_after_their_schema():
    plan = _plan(table=_CITIES)

    assert [type(event) for event in plan.events] == [SetDataSchema, AddData]
    assert plan.add_data is not None
    assert plan.add_data.prev_offset is None
    assert plan.add_data.new_data is not None
    assert plan.add_data.new_data.offset_interval == OffsetInterval(start=0, end=1)
    assert plan.set_schema is not None
    assert plan.set_schema.schema is not None
    assert [field.name for field in plan.set_schema.schema.fields] == [
        "offset",
        "op",
        "system_time",
        "event_time",
        "city",
        "population",
    ]


def test_an_empty_first_input_sets_the_schema_alone():
    plan = _plan(table=_CITIES.slice(0, 0))

    assert [type(event) for event in plan.events] == [SetDataSchema]
    assert plan.data_slice is None


def test_offsets_go_on_where_they_ended_and_the_schema_is_not_set_again():
    state = _after(_plan(table=_CITIES))

    plan = _plan(state, time=_JUNE, table=_CITIES)

    assert plan.set_schema is None
    assert plan.add_data is not None
    assert plan.add_data.prev_offset == 1
    assert _records(plan).column("offset").to_pylist() == [2, 3]


def test_rows_without_event_time_get_that_of_the_source_or_the_system_time():
    moment = dt.datetime(2024, 6, 1, tzinfo=dt.UTC)

    of_source = _records(_plan(table=_CITIES, event_time=_JUNE))
    of_system = _records(_plan(table=_CITIES))

    assert of_source.column("event_time").to_pylist() == [moment, moment]
    assert of_system.column("event_time") == of_system.column("system_time")


def test_the_watermark_is_the_latest_event_time_and_never_goes_down():
    late = _after(_plan(table=_CITIES, event_time=_JUNE))

    plan = _plan(late, table=_CITIES, event_time=_MAY)

    assert late.last is not None
    assert late.last.new_watermark == _JUNE
    assert plan.add_data is not None
    assert plan.add_data.new_watermark == _JUNE


def test_a_watermark_by_hand_is_an_event_without_data_that_carries_the_source_state():
    state = _after(_plan(table=_CITIES, source_state=_STATE))

    plan = _plan(state, watermark=_JUNE)

    assert plan.add_data is not None
    assert plan.add_data == AddData(prev_offset=1, new_watermark=_JUNE, new_source_state=_STATE)


def test_a_lower_watermark_by_hand_changes_nothing():
    state = _after(_plan(table=_CITIES, event_time=_JUNE))

    assert _plan(state, watermark=_MAY).is_up_to_date


def test_a_checkpoint_is_repeated():
    checkpoint = Checkpoint(physical_hash=sha3_256(b"state"), size=5)
    state = IngestState(last=AddData(new_checkpoint=checkpoint, new_watermark=_MAY))

    plan = _plan(state, table=_CITIES)

    assert plan.add_data is not None
    assert plan.add_data.prev_checkpoint == checkpoint.physical_hash
    assert plan.add_data.new_checkpoint == checkpoint


def test_a_new_source_state_alone_is_an_event():
    state = _after(_plan(table=_CITIES, strategy=_SNAPSHOT, source_state=_STATE))
    newer = replace(_STATE, value="v2")

    plan = _plan(state, table=_CITIES, strategy=_SNAPSHOT, source_state=newer)

    assert plan.data_slice is None
    assert plan.add_data is not None
    assert plan.add_data.new_source_state == newer
    assert plan.add_data.new_watermark == _MAY.truncated_ms()


def test_an_unchanged_snapshot_with_the_same_source_state_is_up_to_date():
    state = _after(_plan(table=_CITIES, strategy=_SNAPSHOT, source_state=_STATE))

    assert _plan(state, table=_CITIES, strategy=_SNAPSHOT, source_state=_STATE).is_up_to_date
    assert _plan(state, time=_JUNE, table=_CITIES, strategy=_SNAPSHOT).is_up_to_date


def test_nothing_at_all_is_up_to_date():
    assert _plan().is_up_to_date
    assert _plan(_after(_plan(table=_CITIES))).is_up_to_date


def test_corrections_keep_the_old_event_time_and_get_a_new_one():
    state = _after(_plan(table=_CITIES, strategy=_SNAPSHOT, event_time=_MAY))
    changed = pa.table({"city": ["a", "b"], "population": [1, 7]})

    plan = _plan(state, time=_JUNE, table=changed, strategy=_SNAPSHOT, event_time=_JUNE)

    records = _records(plan)
    times = [_MAY.truncated_ms().to_datetime(), _JUNE.to_datetime()]
    assert records.column("op").to_pylist() == [2, 3]
    assert records.column("event_time").to_pylist() == times
    assert records.column("population").to_pylist() == [2, 7]


def test_columns_may_come_in_another_order():
    state = _after(_plan(table=_CITIES))

    plan = _plan(state, table=_CITIES.select(["population", "city"]))

    assert _records(plan).column_names[4:] == ["city", "population"]


def test_columns_of_untyped_nulls_get_the_type_of_the_dataset():
    state = _after(_plan(table=_CITIES))

    plan = _plan(state, table=pa.table({"city": ["c"], "population": [None]}))

    assert _records(plan).column("population").type == pa.int64()


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (_CITIES.drop_columns(["city"]), "missing column 'city'"),
        (_CITIES.append_column("mayor", pa.array(["x", "y"])), "unknown column 'mayor'"),
        (_CITIES.set_column(1, "population", pa.array(["1", "2"])), "column 'population' has type"),
    ],
)
def test_data_that_break_the_schema_are_refused(table, problem):
    state = _after(_plan(table=_CITIES))

    with pytest.raises(InvalidInputError, match=problem):
        _plan(state, table=table)


def test_nulls_in_required_columns_are_refused():
    required = pa.schema([pa.field("city", pa.string(), nullable=False)])
    state = _after(_plan(table=pa.table({"city": ["a"]}, required)))

    with pytest.raises(InvalidInputError, match="column 'city' has 1 nulls"):
        _plan(state, table=pa.table({"city": pa.array([None], pa.string())}))


@pytest.mark.parametrize("name", ["offset", "op", "system_time"])
def test_reserved_columns_are_refused(name):
    with pytest.raises(InvalidInputError, match=name):
        _plan(table=pa.table({name: [1], "city": ["a"]}))


def test_reserved_columns_are_renamed_where_data_are_made_to_fit():
    table = pa.table({"offset": [1], "event_time": [0]})

    records = _records(_plan(table=table, fits_columns=True))

    assert records.column_names[4:] == ["_offset"]
    assert records.column("event_time").to_pylist() == [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]


def test_a_changelog_brings_its_operations():
    strategy = MergeStrategyChangelogStream(primary_key=("city",))
    table = pa.table({"op": [3, 2], "city": ["a", "a"], "population": [2, 1]})

    assert _records(_plan(table=table, strategy=strategy)).column("op").to_pylist() == [2, 3]


def test_new_optional_columns_extend_the_schema_when_asked():
    state = _after(_plan(table=_CITIES, strategy=_SNAPSHOT))
    wider = _CITIES.append_column("mayor", pa.array(["x", None]))

    plan = _plan(state, table=wider, strategy=_SNAPSHOT, evolves_schema=True)

    assert plan.set_schema is not None
    assert plan.set_schema.schema is not None
    assert plan.set_schema.schema.fields[-1].name == "mayor"
    assert _records(plan).column("op").to_pylist() == [2, 3]
    assert _records(plan).column("mayor").to_pylist() == [None, "x"]


def test_new_required_columns_do_not_extend_the_schema():
    state = _after(_plan(table=_CITIES))
    field = pa.field("mayor", pa.string(), nullable=False)
    wider = _CITIES.append_column(field, pa.array(["x", "y"]))

    with pytest.raises(InvalidInputError, match="mayor is added, but it is not optional"):
        _plan(state, table=wider, evolves_schema=True)


def test_datasets_with_the_unsigned_columns_of_the_specification_go_on_with_them():
    kinds: dict[str, odf.DataType] = {"offset": odf.DataTypeUInt64(), "op": odf.DataTypeUInt8()}
    first = _after(_plan(table=_CITIES))
    assert first.schema is not None
    fields = tuple(
        replace(field, type=kinds.get(field.name, field.type)) for field in first.schema.fields
    )
    state = replace(first, schema=DataSchema(fields=fields), previous=None)

    records = _records(_plan(state, table=_CITIES))

    assert [records.schema.field(index).type for index in (0, 1)] == [pa.uint64(), pa.uint8()]


def test_system_columns_have_the_names_of_the_vocabulary():
    columns = SystemColumns(offset="n", event_time="day")
    table = pa.table({"day": pa.array([1], pa.date32()), "city": ["a"]})

    plan = _plan(IngestState(columns=columns), table=table)

    assert _records(plan, columns).column_names == ["n", "op", "system_time", "day", "city"]
    assert plan.add_data is not None
    assert plan.add_data.new_watermark == Timestamp.parse("1970-01-02T00:00:00Z")


def test_only_some_strategies_look_at_records():
    assert needs_records(_SNAPSHOT)
    assert needs_records(MergeStrategyLedger(primary_key=("a",)))
    assert not needs_records(MergeStrategyAppend())


def test_two_rounds_of_a_snapshot_source_give_the_published_records():
    vector = json.loads((Path(__file__).parents[3] / "vectors/odf/ingest_rounds.json").read_text())
    state = IngestState()
    for part in vector["rounds"]:
        table = pa.table({"city": part["city"], "population": part["population"]})
        time, event_time = (Timestamp.parse(part[name]) for name in ("system_time", "event_time"))
        plan = _plan(state, time=time, table=table, strategy=_SNAPSHOT, event_time=event_time)
        rows = [
            [
                row["offset"],
                row["op"],
                str(Timestamp.from_datetime(row["event_time"])),
                row["city"],
                row["population"],
            ]
            for row in _records(plan).to_pylist()
        ]
        assert rows == part["records"]
        state = _after(plan, state)
