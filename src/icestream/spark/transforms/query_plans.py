"""The plan that Spark makes of a query before it runs: operators, and what they compute."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame


def analysed(rows: DataFrame) -> Any:
    """Return the plan of a query in which all names are known."""
    # of pyspark: it shows plans as texts only
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001


def operators(plan: Any) -> Iterator[Any]:
    """Yield the operators of a plan, those of subqueries in expressions too."""
    waiting = [plan]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += elements(found.children())
        waiting += elements(found.subqueries())


def fickle_expressions(plan: Any) -> Iterator[Any]:
    """Yield what one operator computes and Spark does not take for the same each time, in parts."""
    waiting = elements(plan.expressions())
    while waiting:
        found = waiting.pop()
        if not found.deterministic():
            yield found
            waiting += elements(found.children())


def elements(sequence: Any) -> list[Any]:
    """Return the elements of a sequence of Scala."""
    return [sequence.apply(index) for index in range(sequence.length())]
