"""What a query of a transform must not do, told from its plan before anything runs.

A transaction sees some records, and those before and behind it come in others. So what picks from
all rows, or keeps rows that belong to no record, would depend on how records are cut into
transactions. And a query reads: it starts no programs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.publishing.ledger_side import NEW_CELLS_SUFFIX
from icestream.spark.transforms.query_plans import (
    analysed,
    elements,
    fickle_expressions,
    operators,
)
from icestream.spark.transforms.statefulness import is_lookup, is_mixed_join

_PICKING: Mapping[str, str] = {
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "Tail": "LIMIT",
    "Offset": "OFFSET",
    "Sample": "TABLESAMPLE",
}
"""Operators that pick from all rows, as SQL calls them."""


def require_allowed(rows: DataFrame, *, name: str) -> None:
    """Refuse a query whose results would not be those of its records, or that does more than read.

    Args:
        rows: Its result over the inputs, streams if they are to be told from what is none.
        name: Of the step, for errors.

    Raises:
        InvalidInputError: Names the step, what is wrong and what to write in its place.
    """
    for plan in operators(analysed(rows)):
        for problem in _problems(plan):
            raise InvalidInputError(f"{name} {problem}", kind=ErrorKind.INVALID_ARGUMENT)


def _problems(plan: Any) -> Iterator[str]:
    node = plan.nodeName()
    if node in _PICKING and plan.isStreaming():
        yield (
            f"has {_PICKING[node]}: which rows it picks depends on all that ever come, and on how"
            " they are cut into transactions; pick them by a condition, for example on event_time"
        )
    if is_mixed_join(plan) and not is_lookup(plan):
        yield (
            f"has a {plan.joinType().sql()} join that keeps rows of a side that is no input: only"
            " all records that ever come could tell which of them have no match; put the input on"
            " the side that is kept (input LEFT JOIN table), or use INNER JOIN"
        )
    if node == "Union" and _adds_rows_to_stream(plan):
        yield (
            "adds rows to an input by UNION that are not of an input: they would come out again"
            " with each transaction; add them to a dataset, and read that one too"
        )
    if node == "ScriptTransformation":
        yield "starts a program (TRANSFORM ... USING), which no query may: use functions of SQL"
    if any(part.nodeName() == "CallMethodViaReflection" for part in fickle_expressions(plan)):
        yield "calls a method of Java (java_method, reflect), which no query may: use those of SQL"


def _adds_rows_to_stream(plan: Any) -> bool:
    """Tell whether an operator puts rows behind those of a stream that are of no transaction."""
    return bool(plan.isStreaming()) and any(
        not child.isStreaming() and not _reads_new_cells(child)
        for child in elements(plan.children())
    )


def _reads_new_cells(plan: Any) -> bool:
    return any(
        each.nodeName() == "View" and NEW_CELLS_SUFFIX in each.desc().identifier().table()
        for each in operators(plan)
    )
