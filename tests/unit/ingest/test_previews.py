"""What a run would find to do, compared with what it then does."""

from pathlib import Path

import pytest
from tests.archive_builders import change_day, cut_short, daily_archive, path_of, write_days

from icestream.errors import SourceError
from icestream.ingest.declaration.archives import OnChanged, OnVanished
from icestream.ingest.previews import preview_run
from icestream.ingest.runs import run_archive


def urls(folder: Path, *numbers: int) -> tuple[str, ...]:
    return tuple(path_of(folder, number).as_uri() for number in numbers)


def test_before_the_first_run_all_files_are_new(tmp_path: Path):
    write_days(tmp_path / "files", range(2))
    archive = daily_archive(tmp_path / "files", tmp_path / "repo")
    told = preview_run(archive)
    assert (told.num_listed, told.num_new) == (2, 2)
    assert told.to_scan == urls(tmp_path / "files", 0, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["files"]


def test_it_agrees_with_the_run_that_follows(tmp_path: Path):
    folder = tmp_path / "files"
    write_days(folder, range(4))
    cut_short(path_of(folder, 2))
    archive = daily_archive(folder, tmp_path / "repo", policies={"on_vanished": OnVanished.REMOVE})
    run_archive(archive)
    assert preview_run(archive).to_scan == urls(folder, 2)  # it was set aside, and is tried again

    change_day(folder, 1)
    path_of(folder, 0).unlink()
    write_days(folder, [7])
    told = preview_run(archive)
    assert told.to_scan == urls(folder, 1, 2, 7)
    assert told.to_remove == urls(folder, 0)
    assert "remove 1" in told.text()

    done = run_archive(archive)
    assert (done.num_new, done.num_changed, done.num_vanished) == (
        told.num_new,
        told.num_changed,
        told.num_vanished,
    )
    assert done.num_scanned == len(told.to_scan)
    assert preview_run(archive).to_remove == ()


def test_what_a_broken_run_has_listed_is_still_to_do(tmp_path: Path):
    """The inventory knows the file already, and no run has come so far."""
    folder = tmp_path / "files"
    write_days(folder, range(2))
    archive = daily_archive(folder, tmp_path / "repo")
    run_archive(archive)
    write_days(folder, [2])

    class KilledError(Exception):
        pass

    def kill(step: str) -> None:
        if step == "inventoried":
            raise KilledError

    with pytest.raises(KilledError):
        run_archive(archive, after_step=kill)
    assert preview_run(archive).to_scan == urls(folder, 2)


def test_a_policy_that_ends_a_run_ends_its_preview(tmp_path: Path):
    folder = tmp_path / "files"
    write_days(folder, range(2))
    archive = daily_archive(folder, tmp_path / "repo", policies={"on_changed": OnChanged.FAIL})
    run_archive(archive)
    change_day(folder, 0)
    with pytest.raises(SourceError, match="on-changed"):
        preview_run(archive)
