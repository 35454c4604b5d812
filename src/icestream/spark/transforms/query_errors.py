"""Errors of queries, told with the step, line and column at which Spark found them."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no types
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from icestream import errors
from icestream.errors import ErrorKind, IcestreamError, InvalidInputError, StorageError
from icestream.ledger.blocks.transforms import SqlQueryStep
from icestream.spark.job_failures import reason_in

_PLACE = re.compile(r"line (\d+),? pos(ition)? (\d+)")
_FRAGMENT = re.compile(r"== SQL .*?\n(.+?)\n *\^", re.DOTALL)
_OWN_ERROR = re.compile(r"icestream\.errors\.(\w+): (.+)")
_ADVICE = re.compile(r"\s*(?:If necessary,? set|You can set|Consider setting)\b.*")
"""What Spark says about its settings, which are fixed here so that replays come out the same."""
_CLASS = re.compile(r"\[[A-Z_]+(?:\.[A-Z_]+)*\]")
_HINTS = {
    "UNRESOLVED_COLUMN": "correct the name, or select the column in the step before",
    "TABLE_OR_VIEW_NOT_FOUND": "a step sees the aliases of inputs and of the steps before it",
    "NON_TIME_WINDOW": "rows of later transactions would change its result: group by a window of"
    " event_time",
    "Redefining watermark": "leave the WATERMARK clause out: a query has the watermarks of its"
    " inputs",
    "watermark": "state can only be dropped by event time: group by window(event_time, ...), keep"
    " the event time among the columns, or bound a join by it",
    "without equality predicate": "join inputs ON a column that is the same in both and, so that"
    " rows need not wait for ever, on a range of event times",
    "STREAMING_QUERY": "write a subquery over an input as a join: LEFT SEMI JOIN for IN and EXISTS,"
    " JOIN for a value",
    "DIVIDE_BY_ZERO": "or leave rows whose divisor is 0 out by a condition",
    "Sorting": "leave ORDER BY out: a transaction orders its records by event time, then by the"
    " other columns",
}
_WRAPPER = "[FOREACH_BATCH_USER_FUNCTION_ERROR]"
"""What a failure is called by the stream in which it happens."""
_STREAM_FAILED = "terminated with exception: "
_SPARK_LOGGER = "SQLQueryContextLogger"


@contextmanager
def told_by_step(steps: Sequence[SqlQueryStep], number: int | None = None) -> Iterator[None]:
    """Raise what Spark raises as an error that names the step.

    Args:
        steps: All queries of the transform.
        number: Of the step that is run, from 0 on; None if all run together.

    Raises:
        InvalidInputError: The query is wrong, or does not fit its data.
        IcestreamError: Another one that a task raised, such as for a damaged slice.
    """
    logger = PySparkLogger.getLogger(_SPARK_LOGGER)  # a plain one does not take what Spark logs
    was_silent, logger.disabled = logger.disabled, True  # it prints what is raised here
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise _own_error(str(error)) or _query_error(str(error), steps, number) from error
    finally:
        logger.disabled = was_silent


def step_name(steps: Sequence[SqlQueryStep], number: int) -> str:
    """Return what errors call a step: its number, from 1 on, and its alias."""
    alias = steps[number].alias
    return f"step {number + 1} ({'the output' if alias is None else repr(alias)})"


def was_raised_by_task(error: IcestreamError) -> bool:
    """Tell whether an error comes from Python that ran in a task, as the reading of slices does."""
    return "Traceback (most recent call last)" in str(error.__cause__)


def _own_error(text: str) -> IcestreamError | None:
    """Return the error that a task raised, if it is one of ours."""
    found = _OWN_ERROR.search(text)
    if found is None:
        return None
    kind = getattr(errors, found[1], IcestreamError)
    return kind(found[2]) if issubclass(kind, IcestreamError) else None


def _query_error(text: str, steps: Sequence[SqlQueryStep], number: int | None) -> IcestreamError:
    if "SparkContext was shut down" in text or "Answer from Java side is empty" in text:
        return StorageError(f"spark stopped: {_short(text)}; run again", kind=ErrorKind.UNKNOWN)
    found = _place_in(text)
    if number is None:
        number = _failing_step(text, steps)
    step = "the transform" if number is None else step_name(steps, number)
    place = "" if found is None else f" at line {found[0]}, column {found[1]}"
    problem = _short(text)
    hint = next((f"; {hint}" for word, hint in _HINTS.items() if word in problem), "")
    return InvalidInputError(f"{step} fails{place}: {problem}{hint}")


def _place_in(text: str) -> tuple[int, int] | None:
    """Return line and column, both from 1 on; Spark counts positions from 0, columns from 1."""
    found = _PLACE.search(text)
    if found is None:
        return None
    return int(found[1]), int(found[3]) + (found[2] is None)


def _failing_step(text: str, steps: Sequence[SqlQueryStep]) -> int | None:
    """Return the step that holds the line which Spark shows."""
    if len(steps) == 1:
        return 0
    shown = _FRAGMENT.search(text)
    if shown is None:
        return None
    line = shown[1].splitlines()[0].strip(" .")
    return next((i for i, step in enumerate(steps) if line in step.query), None)


def _short(text: str) -> str:
    """Return the sentence of an error: neither plans nor stack traces, nor what cannot be done."""
    sentence = _told(text.partition(_STREAM_FAILED)[2] or text)
    for end in ("; line ", " SQLSTATE: ", "\n"):
        sentence = sentence.split(end)[0]
    return _ADVICE.sub("", sentence).strip().rstrip(".;")


def _told(text: str) -> str:
    """Return an error from where it is named on."""
    starts = [found.start() for found in _CLASS.finditer(text) if found[0] != _WRAPPER]
    if starts:
        return text[starts[0] :]
    return reason_in(text) if _WRAPPER in text else text
