"""Which of the declared sources of a dataset data come from."""

from icestream.errors import InvalidInputError, NotFoundError
from icestream.ledger.blocks.events import AddPushSource, SetPollingSource
from icestream.ledger.blocks.sources import MergeStrategy, MergeStrategyAppend
from icestream.ledger.chain.states import ChainState

POLLING_SOURCE_NAME = "default"
"""What the state of a polling source is recorded under; it has no name of its own."""

type Source = SetPollingSource | AddPushSource


def active_source(state: ChainState, name: str | None = None) -> Source | None:
    """Return the source that data come from; None if the dataset declares none.

    Args:
        state: Of the dataset.
        name: Of a push source; may be left out where there is only one source.

    Raises:
        NotFoundError: There is no push source of that name.
        InvalidInputError: There are several, and none is named.
    """
    push_sources = state.push_sources
    if name is not None:
        return _named(state, name)
    if len(push_sources) > 1:
        raise InvalidInputError(
            f"the dataset has the push sources {', '.join(sorted(push_sources))}; name one of them"
        )
    return state.polling_source or next(iter(push_sources.values()), None)


def merge_strategy(state: ChainState, name: str | None = None) -> MergeStrategy:
    """Return how data of a source are merged; without any source, every row is new."""
    source = active_source(state, name)
    return MergeStrategyAppend() if source is None else source.merge


def _named(state: ChainState, name: str) -> Source:
    if state.polling_source is not None and name == POLLING_SOURCE_NAME:
        return state.polling_source
    if source := state.push_sources.get(name):
        return source
    known = ", ".join(sorted(state.push_sources))
    remedy = f"name one of {known}, or declare it" if known else "declare it"
    raise NotFoundError(f"there is no push source {name!r}: {remedy} with AddPushSource")
