"""What Spark says about queries, in our words."""

import pytest
from pyspark.errors import PySparkException

from icestream.errors import IcestreamError, IntegrityError, InvalidInputError, StorageError
from icestream.ledger.blocks.transforms import SqlQueryStep
from icestream.spark.transforms.query_errors import told_by_step, was_raised_by_task

STEPS = (
    SqlQueryStep(alias="halves", query="select event_time,\n  1 / value as half from readings"),
    SqlQueryStep(query="select event_time, half from halves"),
)


class SaidBySpark(PySparkException):
    """An error with a text of ours."""

    def __init__(self, text: str) -> None:
        super().__init__(message=text)
        self._text = text

    def __str__(self) -> str:
        return self._text


def told(text: str, number: int | None = None) -> IcestreamError:
    with pytest.raises(IcestreamError) as raised, told_by_step(STEPS, number):
        raise SaidBySpark(text)
    return raised.value


def test_positions_of_the_analyser_become_columns() -> None:
    error = told(
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] No x. SQLSTATE: 42703; line 2 pos 2;\nPlan", 0
    )

    assert isinstance(error, InvalidInputError)
    assert str(error).startswith(
        "step 1 ('halves') fails at line 2, column 3: [UNRESOLVED_COLUMN.WITH_SUGGESTION] No x;"
    )


def test_the_step_of_a_failure_at_run_time_is_found_by_its_text() -> None:
    error = told(
        "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n"
        "== SQL (line 2, position 3) ==\n  1 / value as half from readings\n  ^^^^^^^^^"
    )

    assert str(error) == (
        "step 1 ('halves') fails at line 2, column 3: [DIVIDE_BY_ZERO] Division by zero;"
        " or leave rows whose divisor is 0 out by a condition"
    )


def test_settings_that_are_fixed_are_not_advised() -> None:
    error = told(
        "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return"
        ' NULL instead. If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error.'
        " SQLSTATE: 22012\n",
        0,
    )

    assert "try_divide" in str(error)
    assert str(error).endswith("or leave rows whose divisor is 0 out by a condition")
    assert "ansi" not in str(error)


def test_a_failure_in_a_stream_is_told_by_its_cause() -> None:
    wrapped = (
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function."
        " Reason: Traceback (most recent call last):\n"
        '  File "x", line 1, in call\n'
    )

    named = told(wrapped + "captured.ArithmeticException: [OVERFLOW] Too large. SQLSTATE: 22003\n")
    unnamed = told(wrapped + "ValueError: no such zone\n")

    assert str(named).endswith("fails: [OVERFLOW] Too large")
    assert str(unnamed).endswith("fails: ValueError: no such zone")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Stream-stream join without equality predicate is not supported.;\nPlan", "ON a column"),
        ("[INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY] Not allowed. SQLSTATE: 42823", "SEMI JOIN"),
    ],
)
def test_what_streams_cannot_do_is_told_with_what_to_write(text: str, hint: str) -> None:
    assert hint in str(told(text, 1))


def test_without_a_place_the_transform_is_named() -> None:
    assert str(told("[OOPS] Something\nwith a plan")) == "the transform fails: [OOPS] Something"
    assert str(told("something", 1)) == "step 2 (the output) fails: something"


def test_errors_of_tasks_come_back_as_themselves() -> None:
    error = told(
        "Traceback (most recent call last):\n"
        '  File "x"\nicestream.errors.IntegrityError: slice x is damaged\n'
    )

    assert type(error) is IntegrityError
    assert str(error) == "slice x is damaged"
    assert was_raised_by_task(error)
    assert not was_raised_by_task(told("[OOPS] Something"))


def test_a_spark_that_stopped_is_no_fault_of_the_query() -> None:
    assert isinstance(told("Job 1 cancelled because SparkContext was shut down"), StorageError)
