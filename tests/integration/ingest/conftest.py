"""Archives on disk, and runs of them that are quick."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ingested_archives import ArchiveOnDisk
from tests.quick_runs import patch_large_arrays, patch_quick_scans


@pytest.fixture(scope="module")
def quick_runs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch_quick_scans(patch)
        yield


@pytest.fixture
def on_disk(tmp_path: Path) -> ArchiveOnDisk:
    return ArchiveOnDisk(tmp_path)


def written_as(way: str, patch: pytest.MonkeyPatch, on_disk: ArchiveOnDisk) -> ArchiveOnDisk:
    if way == "large":
        patch_large_arrays(patch)
    return on_disk


@pytest.fixture(params=["small", "large"])
def both_ways(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, on_disk: ArchiveOnDisk
) -> ArchiveOnDisk:
    """An archive whose arrays are written as small ones are, and as large ones."""
    return written_as(request.param, monkeypatch, on_disk)


@pytest.fixture(params=["small", pytest.param("large", marks=pytest.mark.slow)])
def either(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, on_disk: ArchiveOnDisk
) -> ArchiveOnDisk:
    """The same, where the second takes its time."""
    return written_as(request.param, monkeypatch, on_disk)
