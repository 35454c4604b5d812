"""Rules for sources: a root dataset is either polled or pushed to."""

from icestream.ledger.blocks.events import (
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    SetPollingSource,
)
from icestream.ledger.blocks.sources import FetchStepEthereumLogs
from icestream.ledger.chain.rules.transforms import unnormalised
from icestream.ledger.chain.states import ChainState


def source_has_one_schema(state: ChainState, event: SetPollingSource | AddPushSource) -> str | None:
    """A source is read by a schema or by its older spelling, not by both."""
    del state
    if event.read.ddl_schema is not None and event.read.schema is not None:
        return "the source has both a schema and a ddlSchema: leave out one"
    return None


def preprocessing_is_normalised(
    state: ChainState, event: SetPollingSource | AddPushSource
) -> str | None:
    """Queries that preprocess a source have the normal form of transforms."""
    del state
    return unnormalised(event.preprocess)


def ethereum_source_names_its_chain(state: ChainState, event: SetPollingSource) -> str | None:
    """Logs of a blockchain are fetched by the number of the chain or from a node."""
    del state
    fetch = event.fetch
    if isinstance(fetch, FetchStepEthereumLogs) and fetch.chain_id is None and not fetch.node_url:
        return "EthereumLogs needs a chainId or a nodeUrl"
    return None


def polling_source_is_without_push_sources(
    state: ChainState, event: SetPollingSource
) -> str | None:
    """A dataset that was ever pushed to is not polled."""
    del event
    if state.had_push_source:
        return "the dataset has push sources, so it cannot have a polling source"
    return None


def push_source_is_without_polling_source(state: ChainState, event: AddPushSource) -> str | None:
    """A dataset that was ever polled is not pushed to."""
    del event
    if state.had_polling_source:
        return "the dataset has a polling source, so it cannot have push sources"
    return None


def push_source_comes_before_any_disabling(state: ChainState, event: AddPushSource) -> str | None:
    """No push source is added once a source was disabled."""
    if state.had_source_disabled:
        return f"a source was disabled before, so {event.source_name!r} cannot be added"
    return None


def push_source_changes_something(state: ChainState, event: AddPushSource) -> str | None:
    """A push source that is added again replaces the one of its name by another."""
    if state.push_sources.get(event.source_name) == event:
        return f"push source {event.source_name!r} is defined in the same way already"
    return None


def disabled_push_source_is_active(state: ChainState, event: DisablePushSource) -> str | None:
    """Only a push source that is in use is disabled."""
    if event.source_name not in state.push_sources:
        return f"there is no active push source {event.source_name!r}"
    return None


def disabled_polling_source_is_active(state: ChainState, event: DisablePollingSource) -> str | None:
    """Only a polling source that is in use is disabled."""
    del event
    return None if state.polling_source else "there is no active polling source"


POLLING_RULES = (
    source_has_one_schema,
    preprocessing_is_normalised,
    ethereum_source_names_its_chain,
    polling_source_is_without_push_sources,
)
PUSH_RULES = (
    source_has_one_schema,
    preprocessing_is_normalised,
    push_source_is_without_polling_source,
    push_source_comes_before_any_disabling,
    push_source_changes_something,
)
