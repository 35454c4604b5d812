"""A run that is killed after any of its steps is completed by the next, as if nothing had been."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import xarray as xr
from tests.archive_builders import Form, change_day, daily_archive, opened_files, write_days
from tests.ingested_archives import opened
from tests.quick_runs import NO_RULES, patch_large_arrays, patch_quick_scans
from tests.run_processes import STEPS, killed_run
from tests.run_results import RunResults, places_in, results_of

from icestream.ingest.declaration.archives import Archive, OnVanished
from icestream.ingest.opened_archives import open_archive
from icestream.ingest.publishing.leases import find_lease
from icestream.ingest.publishing.steps import RunStep
from icestream.ingest.runs import run_archive
from icestream.repository.repository import Repository

SMALL = Form(shape=(4, 6), chunks=(2, 3))


@dataclass(frozen=True)
class Story:
    """Files, and what there is before the run that is killed."""

    archive: Archive
    before: Path | None
    """A repository and a ledger; None if it is the first run."""
    undisturbed: RunResults

    def start(self, folder: Path) -> None:
        """Bring a folder to where the run begins."""
        if self.before is not None:
            shutil.copytree(self.before, folder, dirs_exist_ok=True)


@pytest.fixture(scope="module", autouse=True)
def patches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch_quick_scans(patch)
        patch_large_arrays(patch)
        yield


def declared(files: Path) -> Archive:
    return daily_archive(
        files,
        "memory",  # where it is, is said elsewhere: it moves in these tests
        policies={"on_vanished": OnVanished.REMOVE},
        target={"chunk_manifests": NO_RULES, "splits": {"time": 2}},
    )


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("first-run")
    files = write_days(folder / "files", range(5), SMALL)
    archive = declared(folder / "files")
    return Story(archive, None, undisturbed(archive, folder / "undisturbed", files))


def undisturbed(archive: Archive, folder: Path, files: list[Path]) -> RunResults:
    """Run an archive, and see that its values are those of the files."""
    places = places_in(folder)
    run_archive(archive, places=places)
    assert places.repository is not None
    access = {f"{files[0].parent.as_uri()}/": None}
    repository = Repository.open(places.repository, authorize_virtual_chunk_access=access)
    found = opened(repository.readonly_session("main").store)
    xr.testing.assert_equal(found, opened_files(files))
    return results_of(archive, places)


@pytest.fixture(scope="module")
def later_run(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Files are new, late, changed and gone."""
    folder = tmp_path_factory.mktemp("later-run")
    files = write_days(folder / "files", [0, 1, 3, 4, 5], SMALL)
    archive = declared(folder / "files")
    before = folder / "before"
    run_archive(archive, places=places_in(before))
    files += write_days(folder / "files", [2, 6, 7], SMALL)
    change_day(folder / "files", 3, SMALL)
    files.pop(1).unlink()
    shutil.copytree(before, folder / "undisturbed")
    return Story(archive, before, undisturbed(archive, folder / "undisturbed", files))


def check_kill(story: Story, folder: Path, step: str) -> None:
    story.start(folder)
    pid = killed_run(story.archive, folder, step)
    lease = find_lease(open_archive(story.archive, places_in(folder)).ledger.ingest.storage)
    assert lease is not None
    assert lease.holder.pid == pid
    assert lease.is_released == (step == RunStep.RELEASED)
    # without waiting: the lease of a dead process is free
    report = run_archive(story.archive, places=places_in(folder))
    assert report.is_empty == (step in {RunStep.COMMITTED, RunStep.HEAD_MOVED, RunStep.RELEASED})
    assert results_of(story.archive, places_in(folder)) == story.undisturbed
    assert run_archive(story.archive, places=places_in(folder)).is_empty


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_first_run_is_completed(first_run: Story, tmp_path: Path, step: str) -> None:
    check_kill(first_run, tmp_path, step)


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_later_run_is_completed(later_run: Story, tmp_path: Path, step: str) -> None:
    check_kill(later_run, tmp_path, step)
