"""The queries of a transform, each a view for those that follow."""

import re
from collections.abc import Mapping, Sequence

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ledger.blocks.events import SetTransform
from icestream.ledger.blocks.snapshots import normalise_transform
from icestream.ledger.blocks.transforms import SqlQueryStep
from icestream.spark.transforms.query_errors import told_by_step

ENGINE = "spark"

_DEDUPLICATE = re.compile(
    r"\s*deduplicate\s+(?P<view>`(?:[^`]|``)+`|\w+)\s+by\s+(?P<columns>.+?)\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)
_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))\s*")


def steps_of(transform: SetTransform) -> tuple[SqlQueryStep, ...]:
    """Return the queries of a transform.

    Raises:
        InvalidInputError: They are for another engine, or need what Spark does not have.
    """
    queries = transform.transform
    if queries.engine.lower() != ENGINE:
        raise InvalidInputError(
            f"the transform is for the engine {queries.engine!r}, and only {ENGINE!r} runs here:"
            " update the definition with Spark SQL"
        )
    if queries.temporal_tables:
        names = ", ".join(table.name for table in queries.temporal_tables)
        raise InvalidInputError(
            f"the transform has temporal tables ({names}), which Spark does not know: join streams"
            " on a range of event times"
        )
    return normalise_transform(queries).queries or ()


def run_steps(
    session: SparkSession, inputs: Mapping[str, DataFrame], steps: Sequence[SqlQueryStep]
) -> DataFrame:
    """Return the output of queries, which Spark has analysed but not run.

    Args:
        session: In which the inputs, and the results of the queries, become temporary views.
        inputs: By the names that queries know them by.
        steps: In their order; the last one is the output.

    Raises:
        InvalidInputError: A query is wrong; names the step and the place.
    """
    for alias, given in inputs.items():
        given.createOrReplaceTempView(quoted(alias))
    rows: DataFrame | None = None
    for number, step in enumerate(steps):
        with told_by_step(steps, number):
            rows = _result(session, step.query, number)
            if step.alias is not None:
                rows.createOrReplaceTempView(quoted(step.alias))
    if rows is None:
        raise InvalidInputError("the transform has no queries: update the definition with some")
    return rows


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever it consists of."""
    return f"`{name.replace('`', '``')}`"


def _result(session: SparkSession, query: str, number: int) -> DataFrame:
    if found := _DEDUPLICATE.fullmatch(query):
        return _deduplicated(session, found["view"], found["columns"], number)
    rows = _parsed(session, query, number)
    return session.sql(rows)


def _deduplicated(session: SparkSession, view: str, columns: str, number: int) -> DataFrame:
    names = [_COLUMN.fullmatch(part) for part in columns.split(",")]
    if not all(names):
        raise InvalidInputError(
            f"step {number + 1} is not of the form 'deduplicate <view> by <column>, <column>'",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    found = [(name[1] or name[2]).replace("``", "`") for name in names if name]
    return session.table(view).dropDuplicatesWithinWatermark(found)


def _parsed(session: SparkSession, query: str, number: int) -> str:
    """Return a query that reads and does nothing else: Spark runs commands as soon as it can."""
    text = query.rstrip().rstrip(";")
    # of pyspark: there is no public way to parse without running
    parser = session._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
    parser.parsePlan(text)
    try:
        parser.parsePlan(f"select * from (\n{text}\n)")  # noqa: S608  it is not run
    except ParseException as error:
        raise InvalidInputError(
            f"step {number + 1} is no query: only SELECT, VALUES and the like are allowed in"
            f" transforms, not {text.split(maxsplit=1)[0].upper()}"
        ) from error
    return text
