"""How a run is done, whatever the archive."""

from dataclasses import dataclass, field
from typing import TypedDict

from icestream.ingest.engines.protocol import Engine
from icestream.ingest.engines.serial import SerialEngine
from icestream.ingest.progress import SILENT, Progress
from icestream.ingest.publishing.steps import AfterStep, ignore_step


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is done."""

    engine: Engine = field(default_factory=SerialEngine)
    progress: Progress = SILENT
    wait_seconds: float = 0.0
    """How long to wait for another run to finish."""
    include_undone: bool = False
    """Take files up again whose runs were undone."""
    after_step: AfterStep = ignore_step
    """Is told each step when it is done."""


class RunKeywords(TypedDict, total=False):
    """The same as keywords."""

    engine: Engine
    progress: Progress
    wait_seconds: float
    include_undone: bool
    after_step: AfterStep
