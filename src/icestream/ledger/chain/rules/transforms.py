"""Rules for SetTransform: inputs are resolved, and queries have their normal form."""

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import SetTransform
from icestream.ledger.blocks.transforms import Transform, TransformInput
from icestream.ledger.chain.states import ChainState


def transform_has_inputs(state: ChainState, event: SetTransform) -> str | None:
    """A transform reads at least one dataset."""
    del state
    return None if event.inputs else "the transform has no inputs"


def inputs_are_resolved(state: ChainState, event: SetTransform) -> str | None:
    """Inputs are given by id, and have the alias by which queries know them."""
    del state
    for entry in event.inputs:
        if input_id(entry) is None:
            return f"input {entry.dataset_ref!r} is no dataset id: resolve names before appending"
        if not entry.alias:
            return f"input {entry.dataset_ref} has no alias"
    return None


def inputs_are_distinct(state: ChainState, event: SetTransform) -> str | None:
    """No dataset is an input twice."""
    del state
    references = [input_id(entry) or entry.dataset_ref for entry in event.inputs]
    if len(set(references)) < len(references):
        return "a dataset is an input twice"
    return None


def queries_are_normalised(state: ChainState, event: SetTransform) -> str | None:
    """Queries are steps, all but the last of which have an alias; the last is the output."""
    del state
    return unnormalised(event.transform)


def input_id(entry: TransformInput) -> DatasetId | None:
    """Return the id of an input; None if it is given by name."""
    try:
        return DatasetId.parse(entry.dataset_ref)
    except InvalidInputError:
        return None


def unnormalised(transform: Transform | None) -> str | None:
    """Return why a transform, also one that preprocesses a source, has not its normal form."""
    if transform is None:
        return None
    if transform.query is not None:
        return "`query` must be written as `queries` with one step"
    if not transform.queries:
        return "the transform has no queries"
    *views, output = transform.queries
    if output.alias is not None:
        return f"the last query is the output and has no alias, but it is called {output.alias!r}"
    if any(not step.alias for step in views):
        return "a query before the last has no alias"
    return None


RULES = (
    transform_has_inputs,
    inputs_are_resolved,
    inputs_are_distinct,
    queries_are_normalised,
)
