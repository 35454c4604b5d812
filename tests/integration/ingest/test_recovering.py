"""Repository and ledger are brought together again, and what is wrong is told before."""

from pathlib import Path

import pytest
from tests.archive_builders import Form, change_day, cut_short, daily_archive, path_of, write_days
from tests.quick_runs import patch_quick_scans
from tests.run_results import results_of

from icestream.errors import ConflictError, NotFoundError
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.opened_archives import Places, open_archive
from icestream.ingest.publishing.steps import RunStep
from icestream.ingest.recovering import recover_archive
from icestream.ingest.runs import run_archive
from icestream.ingest.statuses import ArchiveStatus, archive_status
from icestream.ingest.undoing import undo_run
from icestream.storage import in_memory_storage

SMALL = Form(shape=(4, 6), chunks=(2, 3))


class Life:
    """An archive of two runs."""

    def __init__(self, files: Path) -> None:
        self.files = files
        self.places = Places(repository=in_memory_storage(), ledger=in_memory_storage())
        for numbers in ([0, 1], [2]):
            write_days(files, numbers, SMALL)
            run_archive(self.archive, places=self.places)

    @property
    def archive(self) -> Archive:
        return daily_archive(self.files, "elsewhere")

    def cut_off(self, last: RunStep) -> None:
        """Run up to a step."""

        def stop(step: RunStep) -> None:
            if step is last:
                raise ConflictError("stopped")

        with pytest.raises(ConflictError, match="stopped"):
            run_archive(self.archive, places=self.places, after_step=stop)

    def move_back(self) -> None:
        """Forget the last run in the repository."""
        repository = open_archive(self.archive, self.places).repository
        _, before, *_ = repository.ancestry(branch="main")
        repository.reset_branch("main", before.id)

    def status(self) -> ArchiveStatus:
        return archive_status(self.archive, self.places)


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    patch_quick_scans(monkeypatch)
    return Life(tmp_path / "files")


def test_a_run_that_was_cut_off_is_told_and_finished(life: Life) -> None:
    write_days(life.files, [3], SMALL)
    life.cut_off(RunStep.COMMITTED)
    told = life.status()
    assert told.unfinished is not None
    assert told.unfinished.startswith("run 3 is in the repository, and not in the ledger yet")
    report = recover_archive(life.archive, places=life.places)
    assert (report.last_run, report.was_unfinished) == (3, True)
    assert "up to run 3" in report.text()
    assert life.status().unfinished is None
    assert run_archive(life.archive, places=life.places).is_empty
    assert results_of(life.archive, life.places).committed == [1, 2, 3]


def test_where_all_is_well_nothing_is_done(life: Life) -> None:
    cut_short(write_days(life.files, [3], SMALL)[0])
    run_archive(life.archive, places=life.places)  # a run without a commit
    for follows_branch in (False, True):
        report = recover_archive(life.archive, places=life.places, follows_branch=follows_branch)
        assert (report.last_run, report.was_unfinished) == (3, False)
        assert report.text().endswith("nothing to do")


def test_the_ledger_follows_a_branch_that_was_moved_back_when_it_is_told_to(life: Life) -> None:
    life.move_back()
    told = life.status()
    assert told.unfinished is not None
    assert "recover --follow-branch" in told.unfinished
    assert told.unfinished in told.text()
    with pytest.raises(ConflictError, match="archive recover --follow-branch"):
        recover_archive(life.archive, places=life.places)
    report = recover_archive(life.archive, places=life.places, follows_branch=True)
    assert (report.last_run, report.was_unfinished) == (1, True)
    assert run_archive(life.archive, places=life.places).num_new == 1
    assert results_of(life.archive, life.places).committed == [1, 2]


def test_what_was_never_run_cannot_be_recovered(tmp_path: Path) -> None:
    places = Places(repository=in_memory_storage(), ledger=in_memory_storage())
    with pytest.raises(NotFoundError, match="never ingested"):
        recover_archive(daily_archive(tmp_path, "elsewhere"), places=places)


def test_the_status_tells_of_files_that_were_taken_back(life: Life) -> None:
    change_day(life.files, 1, SMALL)
    run_archive(life.archive, places=life.places)
    undo_run(life.archive, 2, places=life.places)
    undo_run(life.archive, 3, places=life.places)
    found = life.status()
    urls = [path_of(life.files, number).as_uri() for number in (1, 2)]
    assert list(found.undone) == urls
    assert (found.num_files, found.num_references) == (2, 8)
    assert found.runs[0].counts == {"undone": 1}
    assert not found.has_faults
    assert found.tree()["unfinished"] is None
