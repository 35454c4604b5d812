"""Which of two engines does the work of a run."""

from typing import Any

import pytest

from icestream.ingest.engines.choosing import ChoosingEngine
from icestream.ingest.engines.protocol import ScanResult
from icestream.ingest.engines.scanning import ScanJob
from icestream.ingest.file_columns import gather
from icestream.ingest.progress import SILENT

NO_JOB: Any = None


class NoReferences:
    """Nothing is kept."""

    def close(self) -> None:
        """Nothing to let go of."""


class NotingEngine:
    """Does nothing, and notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def scan(self, urls, job: ScanJob, progress, *, first_ordinal: int = 0) -> ScanResult:
        self.asked.append(("scan", len(urls), first_ordinal))
        return ScanResult(gather([]), (), NoReferences())

    def collect(self, references, destinations):
        self.asked.append(("collect",))
        return []

    def write_cells(self, references, job, extra, progress):
        self.asked.append(("write_cells",))
        return []

    def map(self, work, items):
        self.asked.append(("map",))
        return [work(item) for item in items]


def engines(few_files: int = 3) -> tuple[ChoosingEngine, NotingEngine, list[NotingEngine]]:
    small = NotingEngine()
    made: list[NotingEngine] = []

    def make() -> NotingEngine:
        made.append(NotingEngine())
        return made[-1]

    return ChoosingEngine(small, make, few_files=few_files), small, made


def test_few_files_need_no_large_engine():
    engine, small, made = engines()
    engine.scan(["a", "b"], NO_JOB, SILENT, first_ordinal=5)
    engine.write_cells([], NO_JOB, (), SILENT)
    assert small.asked == [("scan", 2, 5), ("write_cells",)]
    assert made == []


def test_many_files_are_for_the_large_engine_which_then_does_all():
    """References that one engine keeps mean nothing to another."""
    engine, small, made = engines()
    engine.scan(["a", "b", "c"], NO_JOB, SILENT)
    engine.scan(["d"], NO_JOB, SILENT, first_ordinal=3)
    engine.collect([], {})
    engine.write_cells([], NO_JOB, (), SILENT)
    assert engine.map(str, [1]) == ["1"]
    (large,) = made
    assert [verb for verb, *_ in large.asked] == ["scan", "scan", "collect", "write_cells", "map"]
    assert small.asked == []


@pytest.mark.parametrize("verb", ["collect", "map"])
def test_without_a_scan_the_small_engine_serves(verb: str):
    engine, small, made = engines()
    if verb == "collect":
        engine.collect([], {})
    else:
        engine.map(str, [])
    assert small.asked == [(verb,)]
    assert made == []
