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
        "step 1 ('halves') fails at line 2, column 3: [DIVIDE_BY_ZERO] Division by zero"
    )


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
