"""Run after run: only what is new is done, and everything is told to the ledger."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from tests.archive_builders import (
    Form,
    change_day,
    cut_short,
    number_of,
    opened_files,
    path_of,
    write_day,
    write_days,
    write_error_page,
)
from tests.followed_archives import (
    CHUNKS,
    SMALL,
    assert_as_at_once,
    assert_nothing_follows,
    daily,
    found_in,
    last_rows,
    statuses,
    versions,
)
from tests.ingested_archives import ArchiveOnDisk
from tests.quick_runs import patch_large_arrays, scan_here
from tests.run_results import results_of
from tests.tables import refs_of

from icestream.errors import ObjectChangedError, SourceError, StorageError
from icestream.ingest import run_plans
from icestream.ingest.declaration.archives import (
    Archive,
    OnBroken,
    OnChanged,
    OnMismatch,
    OnVanished,
)
from icestream.ingest.engines import scanning
from icestream.ingest.file_columns import FileColumns
from icestream.ingest.placement.placing import Placement, plan_placement
from icestream.ingest.run_reports import RunReport
from icestream.ingest.statuses import archive_status
from icestream.model.nodes import ArrayNode
from icestream.parsers.scanned_files import ScannedFile

pytestmark = pytest.mark.usefixtures("quick_runs")
LEAP_DAY = number_of("2024-02-29")


@pytest.fixture
def large_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_large_arrays(monkeypatch, max_chunks=1_000_000)


# -- nothing new -----------------------------------------------------------------------------------


def test_files_are_placed_only_where_something_is_new(
    on_disk: ArchiveOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed: list[int] = []

    def place(files: FileColumns, *args: Any, **options: Any) -> Placement:
        placed.append(len(files))
        return plan_placement(files, *args, **options)

    monkeypatch.setattr(run_plans, "plan_placement", place)
    archive = daily(on_disk, step="1 day", policies={"on_mismatch": OnMismatch.SET_ASIDE})
    write_days(on_disk.files, [0, 1, 3], SMALL)
    write_day(on_disk.files, 4, replace(SMALL, scale=0.02))
    write_error_page(path_of(on_disk.files, 5))
    first = on_disk.run(archive)
    assert (first.num_set_aside, len(first.gaps)) == (2, 1)
    assert placed
    placed.clear()
    again = assert_nothing_follows(on_disk, archive)
    assert (again.set_aside, again.gaps, again.notes) == (first.set_aside, first.gaps, first.notes)
    path_of(on_disk.files, 0).unlink()
    assert on_disk.run(archive).run == 2
    found = archive_status(archive)
    assert (found.set_aside, found.num_files) == (first.set_aside, 3)
    assert placed == []
    write_day(on_disk.files, 2, SMALL)
    assert on_disk.run(archive).gaps == ()
    assert placed


# -- files that come late --------------------------------------------------------------------------


def manifests(on_disk: ArchiveOnDisk) -> list[bytes]:
    node = on_disk.ours().readonly_session("main")._copy.snapshot.nodes["/sst"]
    assert isinstance(node, ArrayNode)
    return [ref.manifest_id for ref in node.manifests]


@pytest.mark.usefixtures("large_arrays")
def test_a_late_file_rewrites_the_splits_from_its_place_on(on_disk: ArchiveOnDisk) -> None:
    archive = daily(on_disk)
    paths = write_days(on_disk.files, [1, 2, 3, 4, 5, 6, 8, 9], SMALL)
    on_disk.run(archive)
    before = manifests(on_disk)
    assert len(before) == 3
    paths += write_days(on_disk.files, [7], SMALL)
    report = on_disk.run(archive)
    assert (report.num_scanned, report.num_references) == (1, CHUNKS)
    assert len(manifests(on_disk)) == 3
    assert manifests(on_disk)[:2] == before[:2]
    paths += write_days(on_disk.files, [0], SMALL)
    report = on_disk.run(archive)
    assert (report.num_scanned, report.num_references) == (1, CHUNKS)
    assert len(manifests(on_disk)) == 4
    assert not {*manifests(on_disk)} & {*before}
    assert len(list(on_disk.ours().ancestry(branch="main"))) == 1 + 3
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths))
    assert results_of(archive).committed == [1, 2, 3]


@pytest.mark.usefixtures("large_arrays")
def test_files_at_the_end_leave_full_splits_alone(on_disk: ArchiveOnDisk) -> None:
    archive = daily(on_disk)
    write_days(on_disk.files, range(4), SMALL)
    on_disk.run(archive)
    before = manifests(on_disk)
    paths = write_days(on_disk.files, range(8), SMALL)
    report = on_disk.run(archive)
    assert (report.num_scanned, len(manifests(on_disk))) == (4, 3)
    assert manifests(on_disk)[0] == before[0]
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths))


def test_all_manifests_that_a_run_writes_are_counted(both_ways: ArchiveOnDisk) -> None:
    folder, counted = both_ways.repository / "manifests", 0
    for days in ([1, 2, 3, 4], [5], [0]):
        write_days(both_ways.files, days, SMALL)
        counted += both_ways.run(daily(both_ways)).num_manifests
        assert counted == len(list(folder.iterdir()))


# -- gaps ------------------------------------------------------------------------------------------


def test_gaps_read_as_fill_values_and_are_reported(either: ArchiveOnDisk) -> None:
    archive = daily(either, step="1 day")
    here = [LEAP_DAY - 2, LEAP_DAY - 1, LEAP_DAY + 1, LEAP_DAY + 5]
    report = run_days(either, archive, here)
    assert len(report.gaps) == 2
    assert "2024-02-29" in report.gaps[0]
    found = found_in(either)
    assert found.sizes["time"] == 8
    missing = [number - here[0] for number in range(here[0], here[-1]) if number not in here]
    assert found.sst[missing].isnull().all()
    files = opened_files(path_of(either.files, number) for number in here)
    xr.testing.assert_equal(found.sel(time=files.time), files)
    # what was missing moves nothing when it comes
    report = run_days(either, archive, [LEAP_DAY])
    assert len(report.gaps) == 1
    assert report.num_references == CHUNKS
    assert not found_in(either).sst[2].isnull().all()


def run_days(on_disk: ArchiveOnDisk, archive: Archive, numbers: list[int]) -> RunReport:
    write_days(on_disk.files, numbers, SMALL)
    return on_disk.run(archive)


# -- variables that come and go --------------------------------------------------------------------


def test_variables_appear_and_vanish_over_the_years(either: ArchiveOnDisk) -> None:
    archive = daily(either)
    paths: list[Path] = []
    for first, variables in enumerate([("sst",), ("sst", "ice"), ("ice",)]):
        form = Form(shape=(4, 6), chunks=(2, 3), variables=variables)
        paths += write_days(either.files, [3 * first, 3 * first + 1], form)
        either.run(archive)
        xr.testing.assert_equal(found_in(either), opened_files(paths))
    found = found_in(either)
    assert found.ice[:2].isnull().all()
    assert found.sst[4:].isnull().all()
    assert_as_at_once(either, archive)


# -- files that change -----------------------------------------------------------------------------


def test_a_changed_file_has_both_etags_in_the_ledger(both_ways: ArchiveOnDisk) -> None:
    archive = daily(both_ways)
    paths = write_days(both_ways.files, range(5), SMALL)
    both_ways.run(archive)
    name = path_of(both_ways.files, 2).name
    _, _, etag, _, _ = last_rows(archive)[name]
    change_day(both_ways.files, 2, SMALL)
    with pytest.raises(ObjectChangedError, match=name):
        found_in(both_ways)
    report = both_ways.run(archive)
    assert (report.num_changed, report.num_scanned, report.num_references) == (1, 1, CHUNKS)
    rows = last_rows(archive)
    assert rows.keys() == {name}
    _, status, new_etag, old_etag, references = rows[name]
    assert (status, old_etag, references) == ("updated", etag, CHUNKS)
    assert new_etag not in {None, etag}
    xr.testing.assert_equal(found_in(both_ways), opened_files(paths))
    assert_nothing_follows(both_ways, archive)


def test_a_changed_file_may_be_left_as_it_was(on_disk: ArchiveOnDisk) -> None:
    archive = daily(on_disk, policies={"on_changed": OnChanged.KEEP})
    write_days(on_disk.files, range(3), SMALL)
    on_disk.run(archive)
    tip = versions(archive)[0]
    change_day(on_disk.files, 1, SMALL)
    report = on_disk.run(archive)
    assert (report.num_changed, report.num_scanned, report.snapshot) == (1, 0, None)
    assert versions(archive)[0] == tip
    changed = path_of(on_disk.files, 1)
    assert statuses(archive) == {changed.name: "changed"}
    assert_nothing_follows(on_disk, archive)
    found = archive_status(archive)
    assert (found.num_files, found.changed, found.has_faults) == (3, (changed.as_uri(),), False)
    # who changes his mind gets what was not followed
    on_disk.run(daily(on_disk))
    xr.testing.assert_equal(found_in(on_disk), opened_files(on_disk.files.glob("*.nc")))
    assert_nothing_follows(on_disk, daily(on_disk))
    assert archive_status(daily(on_disk)).changed == ()


def test_a_file_that_went_and_came_back_may_be_left_as_it_was(on_disk: ArchiveOnDisk) -> None:
    archive = daily(on_disk, policies={"on_changed": OnChanged.KEEP})
    gone = write_days(on_disk.files, range(3), SMALL)[1]
    on_disk.run(archive)
    gone.unlink()
    on_disk.run(archive)
    found = archive_status(archive)
    assert (found.vanished, found.changed) == ((gone.as_uri(),), ())
    change_day(on_disk.files, 1, SMALL)
    on_disk.run(archive)
    assert_nothing_follows(on_disk, archive)
    found = archive_status(archive)
    assert (found.vanished, found.changed) == ((), (gone.as_uri(),))


def test_a_changed_file_may_be_a_failure(on_disk: ArchiveOnDisk) -> None:
    archive = daily(on_disk, policies={"on_changed": OnChanged.FAIL})
    write_days(on_disk.files, range(3), SMALL)
    on_disk.run(archive)
    tip, head, _ = versions(archive)
    changed = change_day(on_disk.files, 1, SMALL)
    for _ in range(2):  # not only the first run after it
        with pytest.raises(SourceError, match=f"{changed.name}.*on-changed"):
            on_disk.run(archive)
    assert versions(archive)[:2] == (tip, head)


def test_a_changed_file_may_have_another_place(either: ArchiveOnDisk) -> None:
    archive = daily(either)
    paths = write_days(either.files, range(5), SMALL)
    either.run(archive)
    moved = write_day(either.files, 9, SMALL)
    paths[1].unlink()
    moved.rename(paths[1])
    either.run(archive)
    truth = opened_files(paths).sortby("time")
    xr.testing.assert_equal(found_in(either), truth)


# -- files that vanish -----------------------------------------------------------------------------


def test_a_vanished_file_that_is_kept_is_told_once(on_disk: ArchiveOnDisk) -> None:
    archive = daily(on_disk)
    paths = write_days(on_disk.files, range(4), SMALL)
    on_disk.run(archive)
    tip = versions(archive)[0]
    content = paths[1].read_bytes()
    paths[1].unlink()
    report = on_disk.run(archive)
    assert (report.num_vanished, report.snapshot) == (1, None)
    assert versions(archive)[0] == tip
    assert statuses(archive) == {paths[1].name: "vanished"}
    assert_nothing_follows(on_disk, archive)
    paths[1].write_bytes(content)
    on_disk.run(archive)
    assert statuses(archive) == {paths[1].name: "updated"}
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths))
    assert_nothing_follows(on_disk, archive)


def test_a_vanished_file_is_removed_where_that_is_the_policy(both_ways: ArchiveOnDisk) -> None:
    archive = daily(both_ways, policies={"on_vanished": OnVanished.REMOVE})
    paths = write_days(both_ways.files, range(5), SMALL)
    both_ways.run(archive)
    gone = paths.pop(1)
    gone.unlink()
    assert both_ways.run(archive).num_vanished == 1
    assert statuses(archive) == {gone.name: "removed"}
    xr.testing.assert_equal(found_in(both_ways), opened_files(paths))
    assert_as_at_once(both_ways, archive)
    assert_nothing_follows(both_ways, archive)


def test_a_vanished_file_may_be_a_failure(on_disk: ArchiveOnDisk) -> None:
    archive = daily(on_disk, policies={"on_vanished": OnVanished.FAIL})
    paths = write_days(on_disk.files, range(3), SMALL)
    on_disk.run(archive)
    tip, head, _ = versions(archive)
    paths[1].unlink()
    for _ in range(2):
        with pytest.raises(SourceError, match=f"{paths[1].name}.*on-vanished"):
            on_disk.run(archive)
    assert versions(archive)[:2] == (tip, head)
    write_day(on_disk.files, 1, SMALL)
    on_disk.run(archive)
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths))


# -- files that cannot be read ---------------------------------------------------------------------


def test_broken_files_are_told_and_tried_again(on_disk: ArchiveOnDisk) -> None:
    archive = daily(on_disk)
    good = write_days(on_disk.files, [0, 2], SMALL)
    short = cut_short(write_day(on_disk.files, 1, SMALL))
    page = write_error_page(path_of(on_disk.files, 3))
    report = on_disk.run(archive)
    assert report.num_set_aside == 2
    assert [url.rpartition("/")[2] for url, _ in report.set_aside] == [short.name, page.name]
    assert all(reason for _, reason in report.set_aside)
    assert statuses(archive) == {
        short.name: "set-aside",
        page.name: "set-aside",
        **{path.name: "ingested" for path in good},
    }
    xr.testing.assert_equal(found_in(on_disk), opened_files(good))
    again = assert_nothing_follows(on_disk, archive)
    assert (again.num_scanned, again.num_set_aside) == (2, 2)
    good += write_days(on_disk.files, [1, 3], SMALL)
    report = on_disk.run(archive)
    assert (report.num_set_aside, report.num_scanned) == (0, 2)
    assert statuses(archive) == {short.name: "ingested", page.name: "ingested"}
    xr.testing.assert_equal(found_in(on_disk), opened_files(good))
    assert_nothing_follows(on_disk, archive)


def test_a_file_that_breaks_loses_its_place_until_it_is_whole(either: ArchiveOnDisk) -> None:
    archive = daily(either)
    paths = write_days(either.files, range(4), SMALL)
    either.run(archive)
    broken = cut_short(change_day(either.files, 1, SMALL))
    report = either.run(archive)
    assert report.num_set_aside == 1
    assert statuses(archive) == {broken.name: "set-aside"}
    xr.testing.assert_equal(found_in(either), opened_files([paths[0], *paths[2:]]))
    assert_nothing_follows(either, archive)
    change_day(either.files, 1, SMALL)
    either.run(archive)
    xr.testing.assert_equal(found_in(either), opened_files(paths))


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files whose store does not answer while they are scanned."""
    names: set[str] = set()

    def scan(url: str, **options: Any) -> ScannedFile:
        if url.rpartition("/")[2] in names:
            raise StorageError(f"{url}: the store does not answer", retryable=True)
        return scan_here(url, **options)

    monkeypatch.setattr(scanning, "scan_file_isolated", scan)
    return names


def test_a_store_that_fails_removes_nothing(either: ArchiveOnDisk, unreachable: set[str]) -> None:
    archive = daily(either)
    paths = write_days(either.files, range(3), SMALL)
    either.run(archive)
    before = either.ours().readonly_session("main").reference_table("/sst")
    changed = change_day(either.files, 1, SMALL)
    unreachable |= {changed.name, path_of(either.files, 3).name}
    paths += write_days(either.files, [3, 4], SMALL)
    report = either.run(archive)
    # the one that was never read has no place, the other keeps what it had
    reasons = {url.rpartition("/")[2]: reason for url, reason in report.set_aside}
    assert reasons.keys() == unreachable
    assert reasons[changed.name].endswith("does not answer; what was ingested of it stays")
    assert found_in(either, drop_variables="sst").sizes["time"] == 4
    table = either.ours().readonly_session("main").reference_table("/sst")
    assert refs_of(before).items() <= refs_of(table).items()
    assert archive_status(archive).num_files == 4
    assert_nothing_follows(either, archive)
    unreachable.clear()
    report = either.run(archive)
    assert (report.num_scanned, report.num_set_aside) == (2, 0)
    xr.testing.assert_equal(found_in(either), opened_files(paths))
    assert_nothing_follows(either, archive)


def test_files_that_cannot_be_reached_cannot_follow_another_declaration(
    on_disk: ArchiveOnDisk, unreachable: set[str]
) -> None:
    paths = write_days(on_disk.files, range(3), SMALL)
    on_disk.run(daily(on_disk))
    tip = versions(daily(on_disk))[0]
    unreachable.add(paths[1].name)
    with pytest.raises(StorageError, match=f"cannot be reached.*{paths[1].name}"):
        on_disk.run(daily(on_disk, drop=("nothing",)))
    assert versions(daily(on_disk))[0] == tip
    assert len(opened_files(paths).time) == found_in(on_disk).sizes["time"]


def test_files_that_come_back_to_their_place_must_be_reached(
    on_disk: ArchiveOnDisk, unreachable: set[str]
) -> None:
    """What agrees with most is placed: first one form, then another, then the first again."""
    archive = daily(on_disk, policies={"on_mismatch": OnMismatch.SET_ASIDE})
    first = write_days(on_disk.files, [0], SMALL)
    on_disk.run(archive)
    write_days(on_disk.files, [1, 2], replace(SMALL, scale=0.02))
    assert on_disk.run(archive).num_set_aside == 1
    tip = versions(archive)[0]
    first += write_days(on_disk.files, [3, 4], SMALL)
    unreachable.add(first[0].name)
    with pytest.raises(StorageError, match=f"cannot be reached.*{first[0].name}"):
        on_disk.run(archive)
    assert versions(archive)[0] == tip
    unreachable.clear()
    assert on_disk.run(archive).num_set_aside == 2
    xr.testing.assert_equal(found_in(on_disk), opened_files(first))


def test_a_broken_file_that_is_deleted_is_forgotten(on_disk: ArchiveOnDisk) -> None:
    archive = daily(on_disk)
    good = write_days(on_disk.files, range(2), SMALL)
    page = write_error_page(path_of(on_disk.files, 2))
    assert on_disk.run(archive).num_set_aside == 1
    page.unlink()
    assert on_disk.run(archive).num_set_aside == 0
    xr.testing.assert_equal(found_in(on_disk), opened_files(good))
    assert_nothing_follows(on_disk, archive)


def test_a_broken_file_may_be_a_failure(on_disk: ArchiveOnDisk) -> None:
    archive = daily(on_disk, policies={"on_broken": OnBroken.FAIL})
    write_days(on_disk.files, range(2), SMALL)
    page = write_error_page(path_of(on_disk.files, 2))
    for _ in range(2):
        with pytest.raises(SourceError, match=f"(?s)on-broken.*{page.name}"):
            on_disk.run(archive)
    page.unlink()
    assert on_disk.run(archive).run == 1
