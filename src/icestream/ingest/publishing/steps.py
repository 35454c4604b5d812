"""The steps of a run, so that whoever watches one can tell how far it came."""

from collections.abc import Callable
from enum import StrEnum


class RunStep(StrEnum):
    """What a run has just done, in this order."""

    LEASED = "leased"
    RECOVERED = "recovered"
    """What an earlier run left unfinished is finished."""
    LISTED = "listed"
    INVENTORIED = "inventoried"
    SCANNED = "scanned"
    PLACED = "placed"
    CELLS_WRITTEN = "cells-written"
    """Manifests of big arrays are written; nothing refers to them yet."""
    BLOCK_PREPARED = "block-prepared"
    """All files of the ledger are written; nothing refers to them yet."""
    COMMITTED = "committed"
    """The branch of the repository has moved."""
    HEAD_MOVED = "head-moved"
    """The ledger has moved."""
    RELEASED = "released"


type AfterStep = Callable[[RunStep], None]
"""Is told each step when it is done."""


def ignore_step(step: RunStep) -> None:
    """Do nothing after a step."""
    del step
