"""What a task hands back: its result, or why there is none, which another try would not change."""

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from icestream.errors import AccessError, IcestreamError, InvalidInputError, NotFoundError

OUTCOME = "outcome"
OUTCOME_SCHEMA = f"{OUTCOME} binary"
_FINAL = (AccessError, InvalidInputError, NotFoundError)


def outcome_of(work: Callable[[], Any]) -> pa.RecordBatch:
    """Do the work of a task, and return what came of it as one row.

    Errors of the network are raised, so that Spark tries the task again.
    """
    try:
        outcome: object = work()
    except _FINAL as error:
        outcome = error
    return pa.RecordBatch.from_pydict({OUTCOME: [pickle.dumps(outcome)]})


def opened_outcome(pickled: bytes) -> Any:
    """Return the result of a task.

    Raises:
        IcestreamError: The task found that it cannot have one.
    """
    outcome = pickle.loads(pickled)  # noqa: S301  from our own task
    if isinstance(outcome, IcestreamError):
        raise outcome
    return outcome
