"""The branch of a large run, and who writes its transaction log."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.ingest_builders import archive

from icestream.ingest.declaration.archives import Target
from icestream.ingest.staged_commits import _log_runner, staging_name
from icestream.ingest.staging.workbenches import StagedRun
from icestream.model.changed_indexes import ChangedIndexes
from icestream.repository.staged.cells import WrittenCell


def name_of(name: str, branch: str) -> str:
    return staging_name(archive(name=name, target=Target(repository="r", branch=branch)))


def test_staging_names_have_no_slash_and_none_begins_with_another():
    names = [name_of("sst", branch) for branch in ("main", "main-2", "team/main")]
    names += [name_of("sst-main", "2"), name_of("SST", "main")]
    assert not any("/" in name for name in names)
    assert names == [name.lower() for name in names]
    for name in names:
        assert sum(other.startswith(name) for other in names) == 1


class _CountingEngine:
    """Does everything here, and counts."""

    def __init__(self) -> None:
        self.jobs = 0

    def map(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        self.jobs += 1
        return [work(item) for item in items]


@pytest.mark.parametrize(("num_changed", "jobs"), [(10, 0), (1_200_000, 1)])
def test_short_logs_are_written_here_and_long_ones_by_the_engine(num_changed: int, jobs: int):
    index = np.arange(num_changed, dtype=np.uint32)[:, None]
    cell = WrittenCell(
        path="/v",
        cell=(),
        file=None,
        ref=None,
        num_references=0,
        num_added=0,
        changed=ChangedIndexes.of(index),
    )
    session: Any = None
    plan: Any = None
    run = StagedRun(session=session, cells={"/v": (plan, [cell])})
    engine: Any = _CountingEngine()
    written = []
    _log_runner(run, engine)(lambda: written.append("log"))
    assert written == ["log"]
    assert engine.jobs == jobs
