"""Datasets that follow a changed definition: what it says anew is appended, the rest stays.

A definition is compared with what is in force, event by event. All definitions are judged before
anything is written.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from icestream.errors import InvalidInputError, NotFoundError
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import MetadataEvent, SetAttachments, SetTransform
from icestream.ledger.blocks.names import DatasetAlias
from icestream.ledger.blocks.snapshots import DatasetSnapshot, check_snapshot, normalise_event
from icestream.ledger.dataset import Dataset
from icestream.ledger.workspace import Workspace

type Inputs = Mapping[DatasetId, tuple[DatasetId, ...]]
"""Which datasets each dataset is going to read."""


@dataclass(frozen=True, slots=True)
class Redefinition:
    """A dataset, and what is to be appended to it."""

    dataset: Dataset
    events: tuple[MetadataEvent, ...]


def update_datasets(
    workspace: Workspace, definitions: Iterable[DatasetSnapshot]
) -> list[Redefinition]:
    """Append to datasets what their definitions say otherwise than before.

    Returns:
        What was done, in the order of the definitions; without events where nothing is new.

    Raises:
        NotFoundError: There is no dataset of a name.
        InvalidInputError: A definition is wrong, of another kind than the dataset, or lets
            datasets read each other in a circle; nothing is written.
        ChainRuleError: A dataset cannot follow; those before it in the order have.
        ConflictError: Somebody else appended to a dataset first; those before it have followed.
    """
    planned = [_plan(workspace, definition) for definition in definitions]
    _refuse_circles(workspace, planned)
    for each in planned:
        if each.events:
            each.dataset.append(*each.events)
    return planned


def _plan(workspace: Workspace, definition: DatasetSnapshot) -> Redefinition:
    check_snapshot(definition)
    dataset = workspace.open(definition.name)
    if dataset.kind is not definition.kind:
        raise InvalidInputError(
            f"{definition.name} is a {dataset.kind} dataset, and stays one: its definition says "
            f"{definition.kind}; create another dataset"
        )

    def resolve(alias: DatasetAlias) -> DatasetId | None:
        try:
            return workspace.find(alias)
        except NotFoundError:
            return None

    events = [normalise_event(event, resolve) for event in definition.metadata]
    return Redefinition(dataset, tuple(event for event in events if not _holds(dataset, event)))


def _holds(dataset: Dataset, event: MetadataEvent) -> bool:
    if isinstance(event, SetAttachments):  # nothing else depends on them, so no state has them
        found = (block.event for block in dataset.blocks())
        return next((each for each in found if isinstance(each, SetAttachments)), None) == event
    return dataset.state.has_in_force(event)


# -- who reads whom -------------------------------------------------------------------------------


def _refuse_circles(workspace: Workspace, planned: Sequence[Redefinition]) -> None:
    changed = {
        each.dataset.dataset_id: tuple(DatasetId.parse(given.dataset_ref) for given in event.inputs)
        for each in planned
        for event in each.events
        if isinstance(event, SetTransform)
    }
    for dataset_id in changed:
        if circle := _circle(workspace, changed, dataset_id):
            names = " -> ".join(workspace.open(each).alias or str(each) for each in circle)
            raise InvalidInputError(
                f"these datasets would read each other in a circle: {names}; let one of them read "
                "others"
            )


def _circle(workspace: Workspace, changed: Inputs, start: DatasetId) -> list[DatasetId]:
    """Return the shortest way from a dataset to itself, over what is read; empty without one."""
    ways = {start: [start]}
    waiting = [start]
    for reader in waiting:
        for given in _inputs(workspace, changed, reader):
            if given == start:
                return [*ways[reader], given]
            if given not in ways:
                ways[given] = [*ways[reader], given]
                waiting.append(given)
    return []


def _inputs(workspace: Workspace, changed: Inputs, dataset_id: DatasetId) -> tuple[DatasetId, ...]:
    if dataset_id in changed:
        return changed[dataset_id]
    try:
        transform = workspace.open(dataset_id).state.transform
    except NotFoundError:  # of another workspace: it cannot read what is here
        return ()
    inputs = () if transform is None else transform.inputs
    return tuple(DatasetId.parse(given.dataset_ref) for given in inputs)
