"""Every rule is broken by a block that complies with all others, and kept by its neighbour."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from tests.ledger_events import (
    SCHEMA,
    SQL,
    checkpoint,
    data_slice,
    dataset_id,
    moment,
    polling_source,
    push_source,
    schema_with,
    seed,
    transform,
)

from icestream.errors import ChainRuleError
from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.data_types import (
    DataField,
    DataType,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTimestamp,
    TimeUnit,
)
from icestream.ledger.blocks.events import (
    AddData,
    AttachmentsEmbedded,
    Checkpoint,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataEvent,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetTransform,
    SetVocab,
    SourceState,
)
from icestream.ledger.blocks.hashes import sha3_256
from icestream.ledger.blocks.sources import FetchStepEthereumLogs, ReadStepCsv
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformInput, TransformSql
from icestream.ledger.chain.appending import judged, linked
from icestream.ledger.chain.rules import structure
from icestream.ledger.chain.rules.judgement import EVENT_RULES, judge
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock

A, B, C = (sha3_256(letter) for letter in (b"a", b"b", b"c"))
ETAG = SourceState(source_name="default", kind="odf/etag", value="1")
DERIVATIVE = seed(DatasetKind.DERIVATIVE, 9)
READ_TWICE = ReadStepCsv(ddl_schema=("city STRING",), schema=SCHEMA.schema)
FIRST_DATA = AddData(
    new_data=data_slice(0, 9),
    new_checkpoint=checkpoint("one"),
    new_watermark=moment(10),
    new_source_state=ETAG,
)
NEXT_DATA = AddData(
    prev_offset=9,
    prev_checkpoint=checkpoint("one").physical_hash,
    new_data=data_slice(10, 19),
    new_checkpoint=checkpoint("one"),
    new_watermark=moment(10),
    new_source_state=ETAG,
)
FIRST_INPUT = ExecuteTransformInput(dataset_id=dataset_id(1), new_block_hash=A, new_offset=4)
NEXT_INPUT = ExecuteTransformInput(
    dataset_id=dataset_id(1), prev_block_hash=A, prev_offset=4, new_block_hash=B, new_offset=5
)
FIRST_RUN = ExecuteTransform(query_inputs=(FIRST_INPUT,), new_checkpoint=checkpoint("one"))
NEXT_RUN = ExecuteTransform(
    query_inputs=(NEXT_INPUT,),
    prev_checkpoint=checkpoint("one").physical_hash,
    new_checkpoint=checkpoint("one"),
)
ROOT = (seed(), SCHEMA)
ROOT_WITH_DATA = (*ROOT, FIRST_DATA)
TRANSFORMED = (DERIVATIVE, SCHEMA, transform(1), FIRST_RUN)


def state_of(*events: MetadataEvent) -> ChainState:
    return judged(None, linked(None, events, moment(0)))


def next_run(**changes: Any) -> ExecuteTransform:
    """Return the second transaction with another progress of its input."""
    return replace(NEXT_RUN, query_inputs=(replace(NEXT_INPUT, **changes),))


@dataclass(frozen=True, slots=True)
class Case:
    """Events to be followed by one that breaks a rule, or by one that does not."""

    rule: str
    before: Sequence[MetadataEvent]
    wrong: MetadataEvent
    right: MetadataEvent


CASES = [
    # data events
    Case("event-is-not-empty", ROOT, AddData(), AddData(new_source_state=ETAG)),
    Case("event-is-not-empty", ROOT, AddData(), AddData(new_watermark=moment(1))),
    Case(
        "event-is-not-empty",
        (DERIVATIVE, transform(1)),
        ExecuteTransform(query_inputs=(FIRST_INPUT,)),
        FIRST_RUN,
    ),
    Case(
        "prev-offset-is-carried",
        ROOT_WITH_DATA,
        replace(NEXT_DATA, prev_offset=8, new_data=data_slice(9, 19)),
        NEXT_DATA,
    ),
    Case(
        "prev-offset-is-carried",
        ROOT_WITH_DATA,
        replace(NEXT_DATA, prev_offset=None, new_data=data_slice(0, 19)),
        NEXT_DATA,
    ),
    Case(  # the first data event has nothing to carry
        "prev-offset-is-carried",
        ROOT,
        replace(FIRST_DATA, prev_offset=5, new_data=data_slice(6, 9)),
        FIRST_DATA,
    ),
    Case(  # offset 0 is a record, not the absence of one
        "prev-offset-is-carried",
        (*ROOT, replace(FIRST_DATA, new_data=data_slice(0, 0))),
        replace(NEXT_DATA, prev_offset=None, new_data=data_slice(0, 1)),
        replace(NEXT_DATA, prev_offset=0, new_data=data_slice(1, 1)),
    ),
    Case(  # carried through an event without data
        "prev-offset-is-carried",
        (*ROOT_WITH_DATA, replace(NEXT_DATA, new_data=None, new_watermark=moment(11))),
        replace(NEXT_DATA, prev_offset=None, new_data=None, new_watermark=moment(12)),
        replace(NEXT_DATA, new_watermark=moment(12)),
    ),
    Case(
        "offsets-are-sequential",
        ROOT_WITH_DATA,
        replace(NEXT_DATA, new_data=data_slice(11, 19)),
        NEXT_DATA,
    ),
    Case(
        "offsets-are-sequential", ROOT, replace(FIRST_DATA, new_data=data_slice(1, 9)), FIRST_DATA
    ),
    Case(
        "offset-interval-is-not-reversed",
        ROOT_WITH_DATA,
        replace(NEXT_DATA, new_data=data_slice(10, 9)),
        replace(NEXT_DATA, new_data=data_slice(10, 10)),
    ),
    Case(
        "slice-is-well-formed",
        ROOT,
        replace(FIRST_DATA, new_data=replace(data_slice(0, 9), size=0)),
        replace(FIRST_DATA, new_data=replace(data_slice(0, 9), size=1)),
    ),
    Case(
        "slice-is-well-formed",
        ROOT,
        replace(FIRST_DATA, new_data=replace(data_slice(0, 9), logical_hash=A)),
        FIRST_DATA,
    ),
    Case(
        "slice-is-well-formed",
        ROOT,
        replace(
            FIRST_DATA,
            new_data=replace(data_slice(0, 9), physical_hash=data_slice(0, 9).logical_hash),
        ),
        FIRST_DATA,
    ),
    Case(
        "checkpoint-is-well-formed",
        ROOT,
        replace(
            FIRST_DATA,
            new_checkpoint=Checkpoint(physical_hash=data_slice(0, 9).logical_hash, size=1),
        ),
        FIRST_DATA,
    ),
    Case(
        "watermark-never-goes-back",
        ROOT_WITH_DATA,
        replace(NEXT_DATA, new_watermark=None),
        replace(NEXT_DATA, new_watermark=moment(10)),
    ),
    Case(
        "watermark-never-goes-back",
        ROOT_WITH_DATA,
        replace(NEXT_DATA, new_watermark=moment(9)),
        replace(NEXT_DATA, new_watermark=moment(11)),
    ),
    Case("data-need-a-schema", (seed(),), FIRST_DATA, replace(FIRST_DATA, new_data=None)),
    Case(
        "prev-checkpoint-is-carried",
        ROOT_WITH_DATA,
        replace(NEXT_DATA, prev_checkpoint=None),
        NEXT_DATA,
    ),
    Case("prev-checkpoint-is-carried", ROOT, replace(FIRST_DATA, prev_checkpoint=A), FIRST_DATA),
    Case(  # a checkpoint that was not repeated is forgotten
        "prev-checkpoint-is-carried",
        (*ROOT_WITH_DATA, replace(NEXT_DATA, new_checkpoint=None)),
        replace(NEXT_DATA, prev_offset=19, new_data=None, new_source_state=None),
        replace(
            NEXT_DATA, prev_offset=19, new_data=None, new_source_state=None, prev_checkpoint=None
        ),
    ),
    Case(
        "add-data-changes-something",
        ROOT_WITH_DATA,
        replace(NEXT_DATA, new_data=None),
        replace(NEXT_DATA, new_data=None, new_checkpoint=checkpoint("two")),
    ),
    Case(  # a source state that disappears is a change
        "add-data-changes-something",
        ROOT_WITH_DATA,
        replace(NEXT_DATA, new_data=None),
        replace(NEXT_DATA, new_data=None, new_source_state=None),
    ),
    # transactions
    Case("inputs-are-those-of-the-transform", (DERIVATIVE, SCHEMA), FIRST_RUN, transform(1)),
    Case(
        "inputs-are-those-of-the-transform",
        TRANSFORMED,
        replace(NEXT_RUN, query_inputs=(), new_checkpoint=checkpoint("two")),
        NEXT_RUN,
    ),
    Case(
        "inputs-are-those-of-the-transform",
        (DERIVATIVE, transform(1, 2)),
        replace(
            FIRST_RUN,
            query_inputs=(ExecuteTransformInput(dataset_id=dataset_id(2)), FIRST_INPUT),
        ),
        replace(
            FIRST_RUN,
            query_inputs=(FIRST_INPUT, ExecuteTransformInput(dataset_id=dataset_id(2))),
        ),
    ),
    Case("input-progress-is-carried", TRANSFORMED, next_run(prev_block_hash=C), NEXT_RUN),
    Case("input-progress-is-carried", TRANSFORMED, next_run(prev_block_hash=None), NEXT_RUN),
    Case("input-progress-is-carried", TRANSFORMED, next_run(prev_offset=3), NEXT_RUN),
    Case("input-progress-is-carried", TRANSFORMED, next_run(prev_offset=None), NEXT_RUN),
    Case(  # the first transaction has consumed nothing before
        "input-progress-is-carried",
        (DERIVATIVE, transform(1)),
        replace(FIRST_RUN, query_inputs=(replace(FIRST_INPUT, prev_block_hash=C),)),
        FIRST_RUN,
    ),
    Case(
        "input-progress-is-carried",
        (DERIVATIVE, transform(1)),
        replace(FIRST_RUN, query_inputs=(replace(FIRST_INPUT, prev_offset=3),)),
        FIRST_RUN,
    ),
    Case(  # a new input is put before the one that was there: found by id, not by place
        "input-progress-is-carried",
        (*TRANSFORMED, transform(2, 1)),
        replace(
            NEXT_RUN,
            query_inputs=(
                replace(NEXT_INPUT, dataset_id=dataset_id(2)),
                replace(FIRST_INPUT, new_block_hash=B),
            ),
        ),
        replace(
            NEXT_RUN,
            query_inputs=(replace(FIRST_INPUT, dataset_id=dataset_id(2)), NEXT_INPUT),
        ),
    ),
    Case(
        "new-block-differs-from-the-previous",
        TRANSFORMED,
        next_run(new_block_hash=A),
        NEXT_RUN,
    ),
    Case("new-offset-lies-after-the-previous", TRANSFORMED, next_run(new_offset=4), NEXT_RUN),
    Case("new-offset-lies-after-the-previous", TRANSFORMED, next_run(new_offset=3), NEXT_RUN),
    Case(
        "new-records-come-in-new-blocks",
        TRANSFORMED,
        replace(next_run(new_block_hash=None), new_checkpoint=checkpoint("two")),
        next_run(new_offset=None),
    ),
    Case(  # already in the first transaction
        "new-records-come-in-new-blocks",
        (DERIVATIVE, transform(1)),
        replace(FIRST_RUN, query_inputs=(replace(FIRST_INPUT, new_block_hash=None),)),
        replace(FIRST_RUN, query_inputs=(replace(FIRST_INPUT, new_offset=0),)),
    ),
    Case(
        "transaction-changes-something",
        TRANSFORMED,
        next_run(new_block_hash=None, new_offset=None),
        replace(next_run(new_block_hash=None, new_offset=None), new_checkpoint=checkpoint("two")),
    ),
    Case(
        "transaction-changes-something",
        TRANSFORMED,
        next_run(new_block_hash=None, new_offset=None),
        next_run(new_offset=None),
    ),
    # transforms
    Case(
        "transform-has-inputs",
        (DERIVATIVE,),
        SetTransform(inputs=(), transform=SQL),
        transform(1),
    ),
    Case(
        "inputs-are-resolved",
        (DERIVATIVE,),
        SetTransform(inputs=(TransformInput(dataset_ref="foo", alias="foo"),), transform=SQL),
        transform(1),
    ),
    Case(
        "inputs-are-resolved",
        (DERIVATIVE,),
        SetTransform(inputs=(TransformInput(dataset_ref=str(dataset_id(1))),), transform=SQL),
        transform(1),
    ),
    Case("inputs-are-distinct", (DERIVATIVE,), transform(1, 1), transform(1, 2)),
    Case(
        "queries-are-normalised",
        (DERIVATIVE,),
        replace(transform(1), transform=TransformSql(engine="spark", query="select 1")),
        transform(1),
    ),
    Case(
        "queries-are-normalised",
        (DERIVATIVE,),
        replace(transform(1), transform=TransformSql(engine="spark", queries=())),
        transform(1),
    ),
    Case(
        "queries-are-normalised",
        (DERIVATIVE,),
        replace(
            transform(1),
            transform=replace(SQL, queries=(SqlQueryStep(alias="out", query="select 1"),)),
        ),
        replace(
            transform(1),
            transform=replace(
                SQL,
                queries=(SqlQueryStep(alias="v", query="select 1"), SqlQueryStep(query="from v")),
            ),
        ),
    ),
    Case(
        "queries-are-normalised",
        (DERIVATIVE,),
        replace(
            transform(1),
            transform=replace(
                SQL, queries=(SqlQueryStep(query="select 1"), SqlQueryStep(query="from v"))
            ),
        ),
        transform(1),
    ),
    # sources
    Case("source-has-one-schema", (seed(),), push_source(read=READ_TWICE), push_source()),
    Case(
        "source-has-one-schema",
        (seed(),),
        replace(polling_source(), read=READ_TWICE),
        replace(polling_source(), read=replace(READ_TWICE, ddl_schema=None)),
    ),
    Case(
        "preprocessing-is-normalised",
        (seed(),),
        replace(push_source(), preprocess=TransformSql(engine="spark", query="select 1")),
        replace(push_source(), preprocess=SQL),
    ),
    Case(
        "ethereum-source-names-its-chain",
        (seed(),),
        replace(polling_source(), fetch=FetchStepEthereumLogs(filter="x")),
        replace(polling_source(), fetch=FetchStepEthereumLogs(chain_id=0)),
    ),
    Case(
        "polling-source-is-without-push-sources",
        (seed(), push_source()),
        polling_source(),
        push_source("other"),
    ),
    Case(
        "push-source-is-without-polling-source",
        (seed(), polling_source()),
        push_source(),
        polling_source(),
    ),
    Case(
        "push-source-comes-before-any-disabling",
        (seed(), push_source(), push_source("b"), DisablePushSource(source_name="b")),
        push_source("c"),
        DisablePushSource(source_name="default"),
    ),
    Case(
        "push-source-changes-something",
        (seed(), push_source()),
        push_source(),
        push_source(read=ReadStepCsv(header=False)),
    ),
    Case(
        "disabled-push-source-is-active",
        (seed(), push_source()),
        DisablePushSource(source_name="other"),
        DisablePushSource(source_name="default"),
    ),
    Case(
        "disabled-polling-source-is-active",
        (seed(), polling_source(), DisablePollingSource()),
        DisablePollingSource(),
        polling_source(),
    ),
    # schemas
    Case("schema-is-given", (seed(),), SetDataSchema(), SCHEMA),
    Case(
        "column-names-are-unique",
        (seed(),),
        SetDataSchema(schema=DataSchema(fields=(DataField(name="a", type=DataTypeInt64()),) * 2)),
        SCHEMA,
    ),
    Case(
        "column-names-are-unique",
        (seed(),),
        schema_with(
            a=DataTypeOption(
                inner=DataTypeList(
                    item_type=DataTypeStruct(
                        fields=(DataField(name="x", type=DataTypeString()),) * 2
                    )
                )
            )
        ),
        schema_with(
            x=DataTypeStruct(fields=(DataField(name="x", type=DataTypeString()),)),
        ),
    ),
    Case(
        "schema-only-grows",
        (seed(), schema_with(a=DataTypeInt64(), b=DataTypeInt64())),
        schema_with(a=DataTypeInt64(), b=DataTypeInt64()),
        schema_with(b=DataTypeInt64(), a=DataTypeInt64()),
    ),
    Case(
        "schema-only-grows",
        (seed(), schema_with(a=DataTypeInt64())),
        schema_with(a=DataTypeInt64(), b=DataTypeInt64()),
        schema_with(a=DataTypeInt64(), b=DataTypeOption(inner=DataTypeInt64())),
    ),
    Case(
        "schema-only-grows",
        (seed(), schema_with(a=DataTypeInt64())),
        schema_with(a=DataTypeInt32()),
        schema_with(a=DataTypeInt64(), b=DataTypeOption(inner=DataTypeInt64())),
    ),
    Case(
        "schema-only-grows",
        (seed(), schema_with(a=DataTypeTimestamp())),
        schema_with(a=DataTypeTimestamp(unit=TimeUnit.MILLISECOND, timezone="UTC")),
        schema_with(
            a=DataTypeTimestamp(unit=TimeUnit.MILLISECOND, timezone="UTC"),
            b=DataTypeOption(inner=DataTypeInt64()),
        ),
    ),
    # kinds of datasets
    Case("event-fits-the-dataset-kind", (DERIVATIVE, SCHEMA), FIRST_DATA, transform(1)),
    Case("event-fits-the-dataset-kind", (seed(),), transform(1), push_source()),
    Case("event-fits-the-dataset-kind", (DERIVATIVE,), push_source(), transform(1)),
    Case("event-fits-the-dataset-kind", (DERIVATIVE,), polling_source(), transform(1)),
    # structure
    Case("seed-is-the-first-block-and-no-other", (seed(),), seed(), SetInfo(description="x")),
]


IDS = [f"{case.rule}-{number}" for number, case in enumerate(CASES)]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_wrong_event_is_refused_and_its_neighbour_admitted(case: Case) -> None:
    state = state_of(*case.before)
    (wrong,), (right,) = (linked(state, [event], moment(1)) for event in (case.wrong, case.right))

    judge(state, right.block)
    with pytest.raises(ChainRuleError, match=f"rule {case.rule}") as caught:
        judge(state, wrong.block)
    assert caught.value.rule == case.rule


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_wrong_event_breaks_exactly_its_rule(case: Case) -> None:
    state = state_of(*case.before)
    (wrong,) = linked(state, [case.wrong], moment(1))

    broken = [rule.__name__ for rule in structure.RULES if rule(state, wrong.block)]
    broken += [
        rule.__name__ for rule in EVENT_RULES.get(type(case.wrong), ()) if rule(state, case.wrong)
    ]

    assert [name.replace("_", "-") for name in broken] == [case.rule]


def test_every_rule_has_a_case() -> None:
    named = {case.rule for case in CASES}
    rules = {rule for rules in EVENT_RULES.values() for rule in rules}

    assert {rule.__name__.replace("_", "-") for rule in rules} - named == set()


class TestStructure:
    """Blocks whose links are wrong; their events are fine."""

    state = state_of(seed(), SCHEMA)

    def block(self, **changes: Any) -> StoredBlock:
        (block,) = linked(self.state, [SetInfo(description="x")], moment(5))
        return StoredBlock.of(replace(block.block, **changes))

    def broken_rule(self, state: ChainState | None, block: StoredBlock) -> str:
        with pytest.raises(ChainRuleError) as caught:
            judge(state, block.block)
        return caught.value.rule

    def test_an_unchanged_block_is_admitted(self) -> None:
        judge(self.state, self.block().block)

    def test_the_first_block_must_be_a_seed(self) -> None:
        (block,) = linked(None, [FIRST_DATA], moment(0))

        assert self.broken_rule(None, block) == "seed-is-the-first-block-and-no-other"

    def test_a_seed_has_no_previous_block(self) -> None:
        block = StoredBlock.of(replace(self.block().block, event=seed(), sequence_number=0))

        assert self.broken_rule(None, block) == "seed-is-the-first-block-and-no-other"

    def test_other_blocks_have_a_previous_block(self) -> None:
        rule = self.broken_rule(self.state, self.block(prev_block_hash=None))

        assert rule == "seed-is-the-first-block-and-no-other"

    def test_the_previous_block_is_the_last_of_the_chain(self) -> None:
        rule = self.broken_rule(self.state, self.block(prev_block_hash=A))

        assert rule == "previous-block-is-the-head"

    @pytest.mark.parametrize("number", [0, 1, 3])
    def test_the_sequence_number_is_the_next(self, number: int) -> None:
        rule = self.broken_rule(self.state, self.block(sequence_number=number))

        assert rule == "sequence-number-is-the-next"

    def test_the_sequence_starts_with_0(self) -> None:
        (block,) = linked(None, [seed()], moment(0))
        block = StoredBlock.of(replace(block.block, sequence_number=1))

        assert self.broken_rule(None, block) == "sequence-number-is-the-next"

    def test_the_system_time_does_not_go_back(self) -> None:
        rule = self.broken_rule(self.state, self.block(system_time=moment(-1)))

        assert rule == "system-time-never-goes-back"

    def test_equal_system_times_are_fine(self) -> None:
        judge(self.state, self.block(system_time=moment(0)).block)


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        (DatasetKind.ROOT, FIRST_RUN),
        (DatasetKind.DERIVATIVE, DisablePushSource(source_name="a")),
        (DatasetKind.DERIVATIVE, DisablePollingSource()),
    ],
)
def test_what_the_other_kind_of_dataset_may_do_is_named_first(
    kind: DatasetKind, event: MetadataEvent
) -> None:
    """These break a second rule too: what they need cannot be in such a dataset."""
    state = state_of(seed(kind))
    (block,) = linked(state, [event], moment(1))

    with pytest.raises(ChainRuleError, match="rule event-fits-the-dataset-kind"):
        judge(state, block.block)


def test_a_checkpoint_alone_needs_no_schema_but_data_do() -> None:
    state = state_of(DERIVATIVE, transform(1), FIRST_RUN)
    with_data = replace(NEXT_RUN, new_data=data_slice(0, 9))
    (refused,) = linked(state, [with_data], moment(1))

    with pytest.raises(ChainRuleError, match="data-need-a-schema"):
        judge(state, refused.block)
    judged(state, linked(state, [SCHEMA, with_data], moment(1)))


def raw_schema(*fields: pa.Field) -> SetDataSchema:
    """Return a legacy event: the bare flatbuffer, cut out of an IPC message."""
    message = pa.schema(list(fields)).serialize().to_pybytes()[8:]
    return SetDataSchema(raw_arrow_schema=schema_table(message))


def schema_table(message: bytes) -> bytes:
    """Return a flatbuffer whose root is the table that is the header of an Arrow message."""
    (root,) = struct.unpack_from("<I", message)
    (back,) = struct.unpack_from("<i", message, root)
    (slot,) = struct.unpack_from("<H", message, root - back + 8)
    place = root + slot
    (header,) = struct.unpack_from("<I", message, place)
    # eight bytes in front keep what is inside aligned
    return struct.pack("<II", place + header + 8, 0) + message


LEGACY = raw_schema(
    pa.field("event_time", pa.timestamp("ms", "UTC")),
    pa.field("city", pa.string()),
    pa.field("population", pa.int64()),
)
CITIES: dict[str, DataType] = {
    "event_time": DataTypeTimestamp(),
    "city": DataTypeString(),
    "population": DataTypeInt64(),
}


class TestLegacySchemas:
    """A raw Arrow schema may be followed by the same in the form of today."""

    def test_renamed_columns_are_refused(self) -> None:
        renamed: dict[str, DataType] = {"event_time": CITIES["event_time"], "town": CITIES["city"]}

        with pytest.raises(ChainRuleError, match="city is removed"):
            state_of(seed(), LEGACY, schema_with(**renamed))

    def test_optionality_is_ignored_once(self) -> None:
        state = state_of(seed(), LEGACY, schema_with(**CITIES))
        optional = CITIES | {"city": DataTypeOption(inner=DataTypeString())}

        assert state.schema == schema_with(**CITIES)
        with pytest.raises(ChainRuleError, match="city becomes optional"):
            judged(state, linked(state, [schema_with(**optional)], moment(1)))

    def test_the_same_columns_are_no_repetition(self) -> None:
        same: dict[str, DataType] = {
            name: DataTypeOption(inner=kind) for name, kind in CITIES.items()
        }

        assert state_of(seed(), LEGACY, schema_with(**same)).schema == schema_with(**same)

    def test_a_legacy_schema_is_not_judged_itself(self) -> None:
        assert state_of(seed(), SCHEMA, LEGACY, LEGACY).schema == LEGACY

    def test_one_that_cannot_be_read_cannot_be_followed(self) -> None:
        with pytest.raises(ChainRuleError, match="cannot be read"):
            state_of(seed(), SetDataSchema(raw_arrow_schema=b"?" * 64), SCHEMA)


def test_descriptions_may_be_repeated() -> None:
    events: list[MetadataEvent] = [
        SetInfo(description="x"),
        SetVocab(offset_column="o"),
        SetLicense(short_name="x", name="x", website_url="https://example.org"),
        SetAttachments(attachments=AttachmentsEmbedded(items=())),
    ]

    state = state_of(seed(), *events, *events)

    assert state.head.sequence_number == 8


def test_disabled_sources_are_no_longer_active_and_the_others_are() -> None:
    state = state_of(seed(), push_source("a"), push_source("b"), DisablePushSource(source_name="a"))

    assert list(state.push_sources) == ["b"]
    assert state.polling_source is None


def test_a_chain_of_others_may_disable_what_it_never_had() -> None:
    events: list[MetadataEvent] = [
        seed(),
        DisablePushSource(source_name="a"),
        DisablePollingSource(),
    ]

    state = ChainState.fold(linked(None, events, moment(0)))

    assert state.polling_source is None
    assert state.push_sources == {}
    assert state.had_source_disabled
