"""Whether a query needs to remember: told from the plan that Spark makes of it."""

from typing import Any

from pyspark.sql import DataFrame

from icestream.spark.transforms.query_plans import analysed, elements, operators

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
_LOOKUPS = frozenset(
    (side, kind)
    for side, kinds in {
        "left": ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"),
        "right": ("Inner", "Cross", "RightOuter"),
    }.items()
    for kind in kinds
)
"""On which side of which joins a stream may be, if the other side is none."""
_BARRIER = "SPARK_PARTITION_ID"
"""What keeps conditions behind the watermark of an input; it decides nothing."""


def needs_state(rows: DataFrame) -> bool:
    """Tell whether the output depends on rows of other transactions.

    Args:
        rows: The output of the queries over streams; it decides how they are run, and a query
            that looks at more than one row at a time can only be right as a stream.
    """
    return any(
        plan.isStreaming() and plan.nodeName() not in _FORGETFUL and not is_lookup(plan)
        for plan in operators(analysed(rows))
    )


def keeps_order(rows: DataFrame) -> bool:
    """Tell whether rows come out in the order in which their inputs have them."""
    return all(
        plan.nodeName() in _FORGETFUL | {"LogicalRDD", "Range"}
        for plan in operators(analysed(rows))
    )


def is_repeatable(rows: DataFrame) -> bool:
    """Tell whether Spark knows of no function in the queries that gives a new result each time."""
    plan = analysed(rows)
    return not _asks_for_now(rows, plan) and all(
        expression.deterministic() or _BARRIER in expression.toString()
        for each in operators(plan)
        for expression in elements(each.expressions())
    )


def is_lookup(plan: Any) -> bool:
    """Tell whether an operator joins a stream with what is none, and each row is one of the stream.

    Then the output for some rows of the stream depends on no others.
    """
    return is_mixed_join(plan) and (_stream_side(plan), plan.joinType().toString()) in _LOOKUPS


def is_mixed_join(plan: Any) -> bool:
    """Tell whether an operator joins a stream with what is none."""
    return bool(
        plan.nodeName() == "Join" and plan.left().isStreaming() != plan.right().isStreaming()
    )


def _stream_side(plan: Any) -> str:
    return "left" if plan.left().isStreaming() else "right"


def _asks_for_now(rows: DataFrame, plan: Any) -> bool:
    """Tell whether a query asks for the time or the user of the run, which Spark fills in later."""
    # of pyspark: plans are no part of what it shows
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    return bool(plan.containsPattern(patterns.CURRENT_LIKE()))
