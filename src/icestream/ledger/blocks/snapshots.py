"""Dataset snapshots: definitions that people write, from which datasets are created."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.dataset_ids import PREFIX, DatasetId
from icestream.ledger.blocks.events import (
    AddPushSource,
    DatasetKind,
    MetadataEvent,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
)
from icestream.ledger.blocks.names import DatasetAlias
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformInput, TransformSql

type ResolveId = Callable[[DatasetAlias], DatasetId | None]
"""Returns the id of the dataset of a name, None where there is none."""

_FOR_ALL = (SetVocab, SetAttachments, SetInfo, SetLicense, SetDataSchema)
_FOR_KIND = {
    DatasetKind.ROOT: (SetPollingSource, AddPushSource),
    DatasetKind.DERIVATIVE: (SetTransform,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSnapshot:
    """What a new dataset is called and starts with."""

    name: DatasetAlias
    kind: DatasetKind
    metadata: tuple[MetadataEvent, ...] = ()


def creation_events(
    snapshot: DatasetSnapshot, dataset_id: DatasetId, resolve: ResolveId
) -> tuple[MetadataEvent, ...]:
    """Return the events of a new dataset: its seed, then those of the snapshot in chain form.

    Raises:
        InvalidInputError: An event does not belong into a snapshot, a transform is ambiguous, or
            inputs are unknown; all unknown inputs are named.
    """
    check_snapshot(snapshot)
    seed = Seed(dataset_id=dataset_id, dataset_kind=snapshot.kind)
    return seed, *(normalise_event(event, resolve) for event in snapshot.metadata)


def check_snapshot(snapshot: DatasetSnapshot) -> None:
    """Refuse events that do not belong into a snapshot, or not for its kind of dataset.

    Raises:
        InvalidInputError: There is such an event.
    """
    kinds_allowed = _FOR_ALL + _FOR_KIND[snapshot.kind]
    for index, event in enumerate(snapshot.metadata):
        if not isinstance(event, kinds_allowed):
            raise InvalidInputError(
                f"snapshot of {snapshot.name}: metadata[{index}]: {type(event).__name__} cannot"
                f" be part of the definition of a {snapshot.kind} dataset"
            )


def normalise_event(event: MetadataEvent, resolve: ResolveId) -> MetadataEvent:
    """Return an event as chains hold it: queries as steps, inputs as ids with an alias.

    Raises:
        InvalidInputError: A transform is ambiguous, or inputs are unknown.
    """
    match event:
        case SetTransform(inputs=inputs, transform=transform):
            return SetTransform(
                inputs=_resolve_inputs(inputs, resolve), transform=normalise_transform(transform)
            )
        case SetPollingSource() | AddPushSource() if event.preprocess is not None:
            return replace(event, preprocess=normalise_transform(event.preprocess))
        case _:
            return event


def normalise_transform(transform: TransformSql) -> TransformSql:
    """Return a transform whose queries are steps, the last of which is the output.

    >>> normalise_transform(TransformSql(engine="spark", query="select 1")).queries
    (SqlQueryStep(alias=None, query='select 1'),)

    Raises:
        InvalidInputError: There is no query, both forms are given, or it is not clear which step
            is the output.
    """
    steps = transform.queries or ()
    if transform.query is not None:
        if transform.queries is not None:
            raise InvalidInputError("a transform has both query and queries: give one of them")
        steps = (SqlQueryStep(query=transform.query),)
    outputs = [index for index, step in enumerate(steps) if step.alias is None]
    if outputs != [len(steps) - 1]:
        raise InvalidInputError(
            "the last query of a transform, and no other, must be without an alias: it is the"
            f" output (of {len(steps)} queries, {len(outputs)} have no alias)"
        )
    return replace(transform, query=None, queries=steps)


def _resolve_inputs(
    inputs: tuple[TransformInput, ...], resolve: ResolveId
) -> tuple[TransformInput, ...]:
    found = {given.dataset_ref: _resolve_ref(given.dataset_ref, resolve) for given in inputs}
    missing = [ref for ref, dataset_id in found.items() if dataset_id is None]
    if missing:
        raise InvalidInputError(
            f"inputs of a transform do not exist: {', '.join(missing)}; create them first, or put"
            " their definitions into the same file"
        )
    return tuple(
        TransformInput(
            dataset_ref=str(found[given.dataset_ref]),
            alias=given.dataset_ref if given.alias is None else given.alias,
        )
        for given in inputs
    )


def _resolve_ref(ref: str, resolve: ResolveId) -> DatasetId | None:
    return DatasetId.parse(ref) if ref.startswith(PREFIX) else resolve(DatasetAlias.parse(ref))
