"""What commands about archives show of runs."""

from datetime import datetime
from typing import Any, Protocol

from icestream.cli.commands import SET_ASIDE_EXIT_CODE, exit_code
from icestream.cli.results import Document
from icestream.errors import InvalidInputError
from icestream.ingest.watching import Attempt

PROBLEM_EXIT_CODE = exit_code(InvalidInputError(""))


class Report(Protocol):
    """What a run did."""

    @property
    def set_aside(self) -> tuple[tuple[str, str], ...]:
        """URLs of files that could not be ingested, with reasons."""

    def text(self) -> str:
        """Return it for people."""

    def tree(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""


def reported(report: Report) -> Document:
    """Return what a run did; files that were set aside show in the exit code."""
    return Document(report.text(), report.tree(), SET_ASIDE_EXIT_CODE if report.set_aside else 0)


def attempted(attempt: Attempt[Report], moment: datetime) -> Document:
    """Return what one of many runs did, or why it failed."""
    shown = _shown(attempt)
    data = {"time": moment, "number": attempt.number, "next_in_seconds": attempt.pause}
    return Document(_dated(moment, shown.text), {**data, **shown.data}, shown.exit_code)


def stopped(moment: datetime) -> Document:
    """Return that somebody asked to stop, which is no failure whatever the last run was."""
    return Document(_dated(moment, "stopped"), {"time": moment, "is_stopped": True})


def _dated(moment: datetime, text: str) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} {text}"


def _shown(attempt: Attempt[Report]) -> Document:
    error = attempt.error
    if attempt.report is not None:
        return reported(attempt.report)
    if error is None:
        return Document("done", {})
    again = "" if attempt.pause is None else f"; next try in {attempt.pause:.0f} seconds"
    data = {"error": type(error).__name__, "kind": error.kind, "message": str(error)}
    return Document(f"failed: {error}{again}", data, exit_code(error))
