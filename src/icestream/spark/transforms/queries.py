"""The queries of a transform, each a view for those that follow."""

import re
from collections.abc import Mapping, Sequence

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]  # has no types
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ledger.blocks.events import SetTransform
from icestream.ledger.blocks.snapshots import normalise_transform
from icestream.ledger.blocks.transforms import SqlQueryStep
from icestream.spark.transforms.query_errors import step_name, told_by_step
from icestream.spark.transforms.query_rules import require_allowed

ENGINE = "spark"
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"

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
        InvalidInputError: A query is wrong, or not allowed; names the step and the place.
    """
    for alias, given in inputs.items():
        given.createOrReplaceTempView(quoted(alias))
    rows: DataFrame | None = None
    for number, step in enumerate(steps):
        with told_by_step(steps, number):
            name = step_name(steps, number)
            rows = _result(session, step.query, name)
            require_allowed(rows, name=name)
            if step.alias is not None:
                rows.createOrReplaceTempView(quoted(step.alias))
    if rows is None:
        raise InvalidInputError("the transform has no queries: update the definition with some")
    return rows


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever it consists of."""
    return f"`{name.replace('`', '``')}`"


def _result(session: SparkSession, query: str, name: str) -> DataFrame:
    if found := _DEDUPLICATE.fullmatch(query):
        return _deduplicated(session, found["view"], found["columns"], name)
    return session.sql(_parsed(session, query, name))


def _deduplicated(session: SparkSession, view: str, columns: str, name: str) -> DataFrame:
    keys = [_COLUMN.fullmatch(part) for part in columns.split(",")]
    if not all(keys):
        raise InvalidInputError(
            f"{name} is not of the form 'deduplicate <view> by <column>, <column>'",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    found = [(key[1] or key[2]).replace("``", "`") for key in keys if key]
    return session.table(view).dropDuplicatesWithinWatermark(found)


def _parsed(session: SparkSession, query: str, name: str) -> str:
    """Return a query that reads and does nothing else: Spark runs commands as soon as it can."""
    text = query.rstrip().rstrip(";")
    # of pyspark: there is no public way to parse without running
    parser = session._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
    plan = parser.parsePlan(text)
    refusal = (
        f"{name} is no query: only SELECT, VALUES and the like are allowed in transforms, not"
        f" {text.split(maxsplit=1)[0].upper()}"
    )
    if is_instance_of(session.sparkContext._gateway, plan, _COMMAND):  # noqa: SLF001  as above
        raise InvalidInputError(refusal)
    try:  # statements that are no commands to Spark have no place in a FROM
        parser.parsePlan(f"select * from (\n{text}\n)")  # noqa: S608  it is not run
    except ParseException as error:
        raise InvalidInputError(refusal) from error
    return text
