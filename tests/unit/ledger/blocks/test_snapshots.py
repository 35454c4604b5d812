"""From the definition of a dataset to the events that it starts with."""

import pytest
from tests.ledger_strategies import seeded_dataset_id

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataEvent,
    Seed,
    SetInfo,
    SetPollingSource,
    SetTransform,
)
from icestream.ledger.blocks.names import DatasetAlias
from icestream.ledger.blocks.snapshots import (
    DatasetSnapshot,
    creation_events,
    normalise_transform,
)
from icestream.ledger.blocks.sources import FetchStepUrl, MergeStrategyAppend, ReadStepCsv
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformInput, TransformSql

OUR_ID = seeded_dataset_id("ours")
KNOWN = {DatasetAlias.parse("net.example"): seeded_dataset_id("net.example")}
QUERY = TransformSql(engine="spark", query="select 1")
STEPS = TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),))
POLLING = SetPollingSource(
    fetch=FetchStepUrl(url="https://example.org"), read=ReadStepCsv(), merge=MergeStrategyAppend()
)
PUSH = AddPushSource(source_name="a", read=ReadStepCsv(), merge=MergeStrategyAppend())


def resolve(alias: DatasetAlias) -> DatasetId | None:
    return KNOWN.get(alias)


def events_of(kind: DatasetKind, *events: MetadataEvent) -> tuple[MetadataEvent, ...]:
    snapshot = DatasetSnapshot(name=DatasetAlias.parse("ours"), kind=kind, metadata=events)
    return creation_events(snapshot, OUR_ID, resolve)


@pytest.mark.parametrize("kind", DatasetKind)
def test_a_dataset_starts_with_its_seed(kind: DatasetKind):
    assert events_of(kind, SetInfo()) == (
        Seed(dataset_id=OUR_ID, dataset_kind=kind),
        SetInfo(),
    )


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        *[
            (kind, event)
            for kind in DatasetKind
            for event in (
                Seed(dataset_id=OUR_ID, dataset_kind=kind),
                AddData(),
                ExecuteTransform(query_inputs=()),
                DisablePollingSource(),
                DisablePushSource(source_name="a"),
            )
        ],
        (DatasetKind.ROOT, SetTransform(inputs=(), transform=STEPS)),
        (DatasetKind.DERIVATIVE, POLLING),
        (DatasetKind.DERIVATIVE, PUSH),
    ],
)
def test_events_that_do_not_belong_there_are_refused(kind: DatasetKind, event: MetadataEvent):
    with pytest.raises(
        InvalidInputError, match=rf"^snapshot of ours: metadata\[1\]: {type(event).__name__} cannot"
    ):
        events_of(kind, SetInfo(), event)


def test_inputs_become_ids_with_an_alias():
    inputs = (
        TransformInput(dataset_ref="Net.Example"),
        TransformInput(dataset_ref=str(OUR_ID), alias="us"),
    )

    _, event = events_of(DatasetKind.DERIVATIVE, SetTransform(inputs=inputs, transform=QUERY))

    assert event == SetTransform(
        inputs=(
            TransformInput(dataset_ref=str(seeded_dataset_id("net.example")), alias="Net.Example"),
            TransformInput(dataset_ref=str(OUR_ID), alias="us"),
        ),
        transform=STEPS,
    )


def test_all_missing_inputs_are_named():
    inputs = tuple(TransformInput(dataset_ref=ref) for ref in ("a", "net.example", "b.c"))

    with pytest.raises(InvalidInputError, match=r"do not exist: a, b\.c; create them first"):
        events_of(DatasetKind.DERIVATIVE, SetTransform(inputs=inputs, transform=QUERY))


@pytest.mark.parametrize("source", [POLLING, PUSH])
def test_preprocessing_is_normalised_too(source: SetPollingSource | AddPushSource):
    event = type(source)(
        **{name: getattr(source, name) for name in source.__dataclass_fields__}
        | {"preprocess": QUERY}
    )

    _, found = events_of(DatasetKind.ROOT, event)

    assert isinstance(found, SetPollingSource | AddPushSource)
    assert found.preprocess == STEPS


def test_steps_in_chain_form_stay():
    steps = TransformSql(
        engine="spark",
        version="4.0",
        queries=(SqlQueryStep(alias="a", query="select 1"), SqlQueryStep(query="select 2")),
    )

    assert normalise_transform(steps) == steps


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (TransformSql(engine="spark"), "of 0 queries"),
        (TransformSql(engine="spark", queries=()), "of 0 queries"),
        (TransformSql(engine="spark", query="a", queries=()), "both query and queries"),
        (
            TransformSql(engine="spark", queries=(SqlQueryStep(alias="a", query="b"),)),
            "of 1 queries, 0 have no alias",
        ),
        (
            TransformSql(
                engine="spark", queries=(SqlQueryStep(query="a"), SqlQueryStep(query="b"))
            ),
            "of 2 queries, 2 have no alias",
        ),
        (
            TransformSql(
                engine="spark",
                queries=(SqlQueryStep(query="a"), SqlQueryStep(alias="b", query="b")),
            ),
            "of 2 queries, 1 have no alias",
        ),
    ],
)
def test_ambiguous_transforms_are_refused(transform: TransformSql, reason: str):
    with pytest.raises(InvalidInputError, match=reason):
        normalise_transform(transform)
