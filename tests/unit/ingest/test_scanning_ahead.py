"""A look at real files before anything is written."""

from pathlib import Path

import pytest
from tests.archive_builders import Form, cut_short, daily_archive, path_of, write_days

from icestream.errors import NotFoundError
from icestream.ingest.engines.scanning import ScanFailure
from icestream.ingest.scanning_ahead import look_at, scan_archive, spread


class Told:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.counts = [0, 0, 0]

    def stage(self, name, total=None) -> None:
        self.stages.append((name, total))

    def advance(self, count=1, *, references=0, set_aside=0) -> None:
        if self.stages[-1][0] == "scan":
            found = (count, references, set_aside)
            self.counts = [a + b for a, b in zip(self.counts, found, strict=True)]

    def note(self, text: str) -> None:
        """Nothing is noted here."""


def test_all_files_are_scanned_and_placed_and_nothing_is_written(tmp_path: Path):
    write_days(tmp_path / "files", [0, 1, 2, 5])
    archive = daily_archive(tmp_path / "files", tmp_path / "repo", step="1 day")
    told = Told()

    report = scan_archive(archive, progress=told)

    assert report.is_clean
    assert report.num_files == 4
    assert report.num_listed is None
    sst = next(array for array in report.arrays if array.path == "/sst")
    assert sst.shape == (6, 36, 72)
    assert [gap.length for gap in report.gaps] == [2]
    assert report.expected is not None
    assert 0 < report.expected.minutes < 5
    assert report.expected.num_requests == 0  # local files
    assert told.stages == [("list", None), ("scan", 4), ("place", 4)]
    assert told.counts == [4, report.num_references, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files"]


def test_broken_files_are_told_with_their_reason(tmp_path: Path):
    folder = tmp_path / "files"
    write_days(folder, range(3))
    broken = cut_short(path_of(folder, 1))
    told = Told()

    report = scan_archive(daily_archive(folder, tmp_path / "repo"), progress=told)

    ((url, reason),) = report.set_aside
    assert url == broken.as_uri()
    assert reason
    assert not report.is_clean
    assert report.problems == ()
    assert (told.counts[0], told.counts[2]) == (3, 1)


def test_an_archive_of_broken_files_only_is_reported_too(tmp_path: Path):
    folder = tmp_path / "files"
    write_days(folder, [0])
    cut_short(path_of(folder, 0))
    report = scan_archive(daily_archive(folder, tmp_path / "repo"))
    assert report.num_files == 0
    assert len(report.set_aside) == 1
    assert "set aside" in report.text()


def test_files_that_differ_are_a_problem(tmp_path: Path):
    folder = tmp_path / "files"
    write_days(folder, [0, 1])
    write_days(folder, [2], Form(scale=0.02))
    report = scan_archive(daily_archive(folder, tmp_path / "repo"))
    assert [problem.kind for problem in report.problems] == ["mismatch"]
    assert "scale_factor" in report.text()


def test_a_sample_tells_no_gaps_and_counts_for_all(tmp_path: Path):
    folder = tmp_path / "files"
    write_days(folder, range(7))
    archive = daily_archive(folder, tmp_path / "repo", step="1 day")

    report = scan_archive(archive, sample=3)

    assert (report.num_files, report.num_listed) == (3, 7)
    assert report.is_sample
    assert report.gaps == ()
    assert "sample of 7 files" in report.text()


def test_a_source_without_files_is_an_error(tmp_path: Path):
    (tmp_path / "files").mkdir()
    with pytest.raises(NotFoundError, match="has no files"):
        scan_archive(daily_archive(tmp_path / "files", tmp_path / "repo"))


def test_the_first_files_are_looked_at_in_order(tmp_path: Path):
    folder = tmp_path / "files"
    write_days(folder, range(4))
    cut_short(path_of(folder, 0))
    first, second = look_at(daily_archive(folder, tmp_path / "repo"), num_files=2)
    assert isinstance(first, ScanFailure)
    assert second.url == path_of(folder, 1).as_uri()
    assert not isinstance(second, ScanFailure)
    assert "/time" in second.values


@pytest.mark.parametrize(
    ("count", "chosen"), [(1, "a"), (2, "ag"), (3, "adg"), (7, "abcdefg"), (99, "abcdefg")]
)
def test_samples_reach_from_the_first_to_the_last(count: int, chosen: str):
    assert spread(list("abcdefg"), count) == list(chosen)
