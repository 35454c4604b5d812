"""Whether a query needs to remember: told from the plan that Spark makes of it."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_FORGETFUL = frozenset(
    {
        "EventTimeWatermark",
        "Filter",
        "Generate",
        "LocalRelation",
        "MapInArrow",
        "OneRowRelation",
        "Project",
        "StreamingRelationV2",
        "SubqueryAlias",
        "Union",
        "View",
        "CTERelationDef",
        "CTERelationRef",
        "WithCTE",
    }
)
"""Operators whose output for some rows depends on no other rows."""
_BARRIER = "SPARK_PARTITION_ID"
"""What keeps conditions behind the watermark of an input; it decides nothing."""


def needs_state(rows: DataFrame) -> bool:
    """Tell whether the output depends on rows of other transactions.

    Args:
        rows: The output of the queries over streams; it decides how they are run, and a query
            that looks at more than one row at a time can only be right as a stream.
    """
    return any(
        plan.isStreaming() and plan.nodeName() not in _FORGETFUL and not _is_lookup(plan)
        for plan in _operators(rows)
    )


def keeps_order(rows: DataFrame) -> bool:
    """Tell whether rows come out in the order in which their inputs have them."""
    return all(plan.nodeName() in _FORGETFUL | {"LogicalRDD", "Range"} for plan in _operators(rows))


def is_repeatable(rows: DataFrame) -> bool:
    """Tell whether Spark knows of no function in the queries that gives a new result each time."""
    return all(
        expression.deterministic() or _BARRIER in expression.toString()
        for plan in _operators(rows)
        for expression in _elements(plan.expressions())
    )


def _is_lookup(plan: Any) -> bool:
    """Tell whether an operator joins a stream with what is not one."""
    return plan.nodeName() == "Join" and not all(
        child.isStreaming() for child in _elements(plan.children())
    )


def _operators(rows: DataFrame) -> Iterator[Any]:
    """Yield the operators of an analysed query, those of subqueries in expressions too."""
    # of pyspark: it shows plans as texts only
    waiting = [rows._jdf.queryExecution().analyzed()]  # noqa: SLF001
    while waiting:
        plan = waiting.pop()
        yield plan
        waiting += _elements(plan.children())
        waiting += _elements(plan.subqueries())


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.length())]
