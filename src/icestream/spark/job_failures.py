"""Failures of jobs that are no errors of this package, told in a line."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no types
from pyspark.errors import PySparkException

from icestream.errors import InternalError

_CALLS = ("at ", "... ", "Driver stacktrace", "File ", "Traceback")
"""How lines begin that only name calls."""


@contextmanager
def translated_failures() -> Iterator[None]:
    """Let a job that is run inside fail with an error of this package.

    Raises:
        InternalError: A task ended, or raised what it should not.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        told = reason_in(str(error)) or type(error).__name__
        raise InternalError(f"a Spark job failed: {told} (its log has all of it)") from error


def reason_in(text: str) -> str:
    """Return the line of a failure that tells most: the last that names an exception."""
    lines = [line.strip() for line in text.splitlines()]
    causes = [line for line in lines if line and not line.startswith(_CALLS)]
    named = [line for line in causes if "Exception: " in line or "Error: " in line]
    return (named or causes or [""])[-1]
