"""Judges a block by all rules that concern it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from icestream.errors import ChainRuleError
from icestream.ledger.blocks.events import (
    AddData,
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataBlock,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
)
from icestream.ledger.chain.rules import (
    data_events,
    schemas,
    sources,
    structure,
    transactions,
    transforms,
)
from icestream.ledger.chain.states import ChainState

type EventRule = Callable[[ChainState, Any], str | None]
"""Takes the state and an event of the type that the rule is listed under."""

EVENT_RULES: Mapping[type, Sequence[EventRule]] = {
    AddData: data_events.RULES,
    ExecuteTransform: (*data_events.RULES, *transactions.RULES),
    SetTransform: transforms.RULES,
    SetPollingSource: sources.POLLING_RULES,
    AddPushSource: sources.PUSH_RULES,
    DisablePushSource: (sources.disabled_push_source_is_active,),
    DisablePollingSource: (sources.disabled_polling_source_is_active,),
    SetDataSchema: schemas.RULES,
}
"""What each event must comply with; the other events have no rules of their own."""


def judge(state: ChainState | None, block: MetadataBlock) -> None:
    """Admit a block to a chain; `state` is None for the first one.

    Raises:
        ChainRuleError: It breaks a rule; the first one is named.
    """
    for rule in structure.RULES:
        _require(rule(state, block), rule.__name__, block)
    if state is not None:
        for event_rule in EVENT_RULES.get(type(block.event), ()):
            _require(event_rule(state, block.event), event_rule.__name__, block)


def _require(problem: str | None, function_name: str, block: MetadataBlock) -> None:
    if problem is not None:
        raise broken(function_name.replace("_", "-"), problem, block)


def broken(
    rule: str, problem: str, block: MetadataBlock, name: str | None = None
) -> ChainRuleError:
    """Return the error of a block that breaks a rule; `name` is its hash, if it has one."""
    return ChainRuleError(
        f"{type(block.event).__name__} in block {block.sequence_number}: {problem} (rule {rule})",
        rule=rule,
        block=name,
    )
