"""Two runs at once, and runs among other writers: one waits, goes on from there, or gives up."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.archive_builders import Form, daily_archive, write_day, write_days
from tests.quick_runs import NO_RULES, patch_large_arrays, patch_quick_scans
from tests.run_processes import started_run
from tests.run_results import RunResults, documents_of, places_in, results_of

from icestream.errors import ConflictError, InvalidInputError
from icestream.ingest import runs
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.opened_archives import OpenedArchive, Places, open_archive
from icestream.ingest.publishing.steps import RunStep
from icestream.ingest.run_reports import RunReport
from icestream.ingest.runs import run_archive
from icestream.repository.repository import Repository

SMALL = Form(shape=(4, 6), chunks=(2, 3))
MINUTE = 60.0


class World:
    """An archive, and everybody who does something to it."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.folder = folder
        target = {"chunk_manifests": NO_RULES, "splits": {"time": 2}}
        self.archive: Archive = daily_archive(self.files, "elsewhere", target=target)
        write_days(self.files, range(4), SMALL)

    def run(self, **options: Any) -> RunReport:
        return run_archive(self.archive, places=places_in(self.folder), **options)

    def interrupted(self, step: RunStep, interrupt: Callable[[], object]) -> RunReport:
        """Run, and let something happen after a step."""

        def after_step(done: RunStep) -> None:
            if done is step:
                interrupt()

        return self.run(after_step=after_step)

    def results(self) -> RunResults:
        return results_of(self.archive, places_in(self.folder))

    def repository(self) -> Repository:
        return open_archive(self.archive, places_in(self.folder)).repository

    def edit(self, edit: Callable[[zarr.Group], object]) -> None:
        """Let another writer commit something."""
        session = self.repository().writable_session("main")
        edit(zarr.open_group(session.store, mode="a"))
        session.commit("by another writer")


def make_other_array(group: zarr.Group) -> None:
    group.create_array("other", shape=(3,), dtype="i4")[:] = 7


def delete_sst(group: zarr.Group) -> None:
    del group["sst"]


@pytest.fixture(scope="module", autouse=True)
def quick_runs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch_quick_scans(patch)
        yield


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icestream.ingest.runs.Lease.take", lambda *_: nullcontext())


# -- with the lease --------------------------------------------------------------------------------


def test_a_second_run_gives_up_and_names_the_first(world: World) -> None:
    def run_too() -> None:
        with pytest.raises(ConflictError, match=rf"another run .* sst .* process {os.getpid()} on"):
            world.run()

    assert world.interrupted(RunStep.SCANNED, run_too).run == 1
    assert world.results().committed == [1]


def test_a_second_run_waits_for_the_first(world: World) -> None:
    reports: list[RunReport] = []
    second = threading.Thread(target=lambda: reports.append(world.run(wait_seconds=MINUTE)))
    assert world.interrupted(RunStep.SCANNED, second.start).run == 1
    second.join(MINUTE)
    assert [report.is_empty for report in reports] == [True]
    assert world.results().committed == [1]


def test_a_first_run_that_had_to_wait_finds_the_repository_of_the_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[RunReport] = []

    def open_slowly(archive: Archive, places: Places | None) -> OpenedArchive:
        opened = open_archive(archive, places)
        if opened.awaited is not None and not others:
            monkeypatch.undo()
            others.append(world.run())
        return opened

    monkeypatch.setattr(runs, "open_archive", open_slowly)
    assert world.run().is_empty
    assert [report.run for report in others] == [1]
    assert world.results().committed == [1]


def test_two_processes_publish_once(world: World) -> None:
    started = [started_run(world.archive, world.folder, wait_seconds=MINUTE) for _ in range(2)]
    for child in started:
        child.join()
    assert [child.exitcode for child in started] == [0, 0]
    results = world.results()
    assert results.committed == [1]
    assert [len(rows) for rows in results.files] == [4]


# -- without it ------------------------------------------------------------------------------------

BEFORE_COMMIT = [
    pytest.param(RunStep.RECOVERED, marks=pytest.mark.slow),
    RunStep.LISTED,
    RunStep.INVENTORIED,
    pytest.param(RunStep.SCANNED, marks=pytest.mark.slow),
    RunStep.PLACED,
    pytest.param(RunStep.CELLS_WRITTEN, marks=pytest.mark.slow),
    RunStep.BLOCK_PREPARED,
]


@pytest.mark.usefixtures("no_lease")
@pytest.mark.parametrize("step", BEFORE_COMMIT)
def test_of_two_runs_without_a_lease_one_is_published(world: World, step: RunStep) -> None:
    others: list[RunReport] = []
    with pytest.raises(ConflictError):
        world.interrupted(step, lambda: others.append(world.run()))
    results = world.results()
    assert [report.run for report in others] == results.committed == [1]
    assert [len(rows) for rows in results.files] == [4]
    assert world.run().is_empty


@pytest.mark.usefixtures("no_lease")
def test_a_run_that_knows_of_more_files_is_not_taken_back(world: World) -> None:
    world.run()
    write_day(world.files, 5, SMALL)

    def run_with_one_more() -> None:
        write_day(world.files, 4, SMALL)
        world.run()

    with pytest.raises(ConflictError, match="another run of the archive sst was published"):
        world.interrupted(RunStep.BLOCK_PREPARED, run_with_one_more)
    assert world.run().is_empty
    results = world.results()
    assert results.committed == [1, 2]
    assert [len(rows) for rows in results.files] == [4, 2]
    assert results.documents["/sst"]["shape"][0] == 6


@pytest.mark.usefixtures("no_lease")
@pytest.mark.parametrize("step", [RunStep.COMMITTED, RunStep.HEAD_MOVED])
def test_a_run_that_is_published_is_finished_by_another(world: World, step: RunStep) -> None:
    others: list[RunReport] = []
    report = world.interrupted(step, lambda: others.append(world.run()))
    assert report.run == 1
    assert others[0].is_empty
    assert world.results().committed == [1]


# -- among other writers ---------------------------------------------------------------------------


@pytest.fixture(params=["small", "large"])
def grown(world: World, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> World:
    """An archive with one run, and a late and a new file for the next."""
    if request.param == "large":
        patch_large_arrays(monkeypatch)
    (late,) = world.files.glob("*21.nc")
    content = late.read_bytes()
    late.unlink()
    world.run()
    late.write_bytes(content)
    write_day(world.files, 4, SMALL)
    return world


@pytest.mark.parametrize("step", [RunStep.PLACED, RunStep.BLOCK_PREPARED])
def test_a_commit_of_another_writer_and_a_run_are_both_there(grown: World, step: RunStep) -> None:
    report = grown.interrupted(step, lambda: grown.edit(make_other_array))
    assert report.run == 2
    results = grown.results()
    assert results.committed == [1, 2]
    assert results.documents["/sst"]["shape"][0] == 5
    assert len(results.references["/sst"]) == 5 * 4
    store = grown.repository().readonly_session("main").store
    other: Any = zarr.open_group(store, mode="r")["other"]
    assert other[:].tolist() == [7, 7, 7]


@pytest.mark.parametrize("step", [RunStep.LISTED, RunStep.BLOCK_PREPARED])
def test_an_array_that_another_writer_deletes_is_missed(grown: World, step: RunStep) -> None:
    tip = grown.repository().lookup_branch("main")
    with pytest.raises(ConflictError, match="/sst, which earlier runs have written, is gone"):
        grown.interrupted(step, lambda: grown.edit(delete_sst))
    assert "/sst" not in documents_of(grown.repository())
    grown.repository().reset_branch("main", tip)
    assert grown.run().run == 2
    assert len(grown.results().references["/sst"]) == 5 * 4


def test_an_array_of_somebody_else_is_not_overwritten(world: World) -> None:
    def make_sst(group: zarr.Group) -> None:
        group.create_array("sst", shape=(3,), dtype="i4")

    with pytest.raises(InvalidInputError, match="there is /sst already"):
        world.interrupted(RunStep.BLOCK_PREPARED, lambda: world.edit(make_sst))
    assert documents_of(world.repository())["/sst"]["shape"] == [3]
    world.edit(delete_sst)
    assert world.run().run == 1
    assert world.results().committed == [1]
