"""Run after run: only what is new is done, and everything is told to the ledger."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tests.archive_builders import (
    FIRST_DAY,
    Form,
    change_day,
    cut_short,
    daily_archive,
    day,
    number_of,
    opened_files,
    path_of,
    write_day,
    write_days,
    write_error_page,
)
from tests.ingested_archives import ArchiveOnDisk, opened
from tests.quick_runs import NO_RULES, patch_large_arrays, patch_quick_scans
from tests.run_results import FileRow, file_rows, results_of

from icestream.errors import InvalidInputError, ObjectChangedError, SourceError
from icestream.ingest.declaration.archives import (
    Archive,
    Axis,
    Combination,
    OnBroken,
    OnChanged,
    OnMismatch,
    OnVanished,
    PlaceBy,
    Policies,
    Target,
)
from icestream.ingest.opened_archives import open_archive
from icestream.ingest.run_reports import RunReport
from icestream.model.chunk_refs import InlineRef, NativeRef, VirtualRef
from icestream.model.nodes import ArrayNode

SMALL = Form(shape=(4, 6), chunks=(2, 3))
CHUNKS = 4
"""Of a small day."""
OTHER_CHUNKS = Form(shape=(4, 6), chunks=(4, 3))
OTHER_SCALE = Form(shape=(4, 6), chunks=(2, 3), scale=0.02)
LEAP_DAY = number_of("2024-02-29")


@pytest.fixture(scope="module", autouse=True)
def quick_runs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch_quick_scans(patch)
        yield


@pytest.fixture
def large_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_large_arrays(monkeypatch, max_chunks=1_000_000)


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


def daily(on_disk: ArchiveOnDisk, **settings: Any) -> Archive:
    target = {"chunk_manifests": NO_RULES, "splits": {"time": 3}}
    return daily_archive(on_disk.files, on_disk.repository, target=target, **settings)


def combined(on_disk: ArchiveOnDisk, *along: Axis, **settings: Any) -> Archive:
    given: dict[str, Any] = {
        "name": "some",
        "sources": (f"{on_disk.files}/*.nc",),
        "combine": Combination(along=along),
        "target": Target(repository=str(on_disk.repository), chunk_manifests=NO_RULES),
    }
    return Archive(**{**given, **settings})


def found_in(on_disk: ArchiveOnDisk, **options: Any) -> xr.Dataset:
    return opened(on_disk.ours().readonly_session("main").store, **options)


def last_rows(archive: Archive) -> dict[str, FileRow]:
    """Return what the last run says of files, by their names."""
    rows = file_rows(open_archive(archive))[-1]
    return {url.rpartition("/")[2]: row for row in rows for url in [row[0]]}


def statuses(archive: Archive) -> dict[str, str]:
    """Return what the last run says became of files, by their names."""
    return {name: row[1] for name, row in last_rows(archive).items()}


def versions(archive: Archive) -> tuple[str, str, str]:
    """Return what changes with every write: the version, and the heads of both datasets."""
    found = open_archive(archive)
    tip = found.repository.lookup_branch("main")
    return tip, str(found.ledger.ingest.head), str(found.ledger.inventory.head)


def assert_nothing_follows(on_disk: ArchiveOnDisk, archive: Archive) -> RunReport:
    before = versions(archive)
    reports = [on_disk.run(archive) for _ in range(2)]
    assert all(report.is_empty for report in reports)
    assert versions(archive) == before
    return reports[0]


# -- files that come late --------------------------------------------------------------------------


def manifests(on_disk: ArchiveOnDisk) -> list[bytes]:
    node = on_disk.ours().readonly_session("main")._copy.snapshot.nodes["/sst"]
    assert isinstance(node, ArrayNode)
    return [ref.manifest_id for ref in node.manifests]


@pytest.mark.usefixtures("large_arrays")
def test_a_late_file_rewrites_the_splits_from_its_place_on(on_disk: ArchiveOnDisk) -> None:
    archive = daily(on_disk)
    paths = write_days(on_disk.files, [1, 2, 3, 4, 5, 6, 8, 9], SMALL)
    assert on_disk.run(archive).num_manifests == 3
    before = manifests(on_disk)
    paths += write_days(on_disk.files, [7], SMALL)
    report = on_disk.run(archive)
    assert (report.num_scanned, report.num_references, report.num_manifests) == (1, CHUNKS, 1)
    assert manifests(on_disk)[:2] == before[:2]
    paths += write_days(on_disk.files, [0], SMALL)
    report = on_disk.run(archive)
    assert (report.num_scanned, report.num_references, report.num_manifests) == (1, CHUNKS, 4)
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
    assert (report.num_scanned, report.num_manifests) == (4, 2)
    assert manifests(on_disk)[0] == before[0]
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths))


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


def assert_as_at_once(on_disk: ArchiveOnDisk, archive: Archive) -> None:
    """Compare the repository with what one run over all files makes."""
    target = replace(archive.target, repository=str(on_disk.repository.with_name("fresh")))
    fresh = replace(archive, target=target)
    on_disk.run(fresh)
    found, expected = results_of(archive), results_of(fresh)
    assert found.documents == expected.documents
    assert found.references == expected.references


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
    assert statuses(archive) == {path_of(on_disk.files, 1).name: "changed"}
    assert_nothing_follows(on_disk, archive)
    # who changes his mind gets what was not followed
    on_disk.run(daily(on_disk))
    xr.testing.assert_equal(found_in(on_disk), opened_files(on_disk.files.glob("*.nc")))
    assert_nothing_follows(on_disk, daily(on_disk))


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


# -- files that disagree ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "named"),
    [(OTHER_CHUNKS, "chunk"), (OTHER_SCALE, "scale_factor")],
    ids=["chunks", "scale"],
)
def test_a_mismatch_names_files_and_attributes(
    on_disk: ArchiveOnDisk, form: Form, named: str
) -> None:
    archive = daily(on_disk)
    write_days(on_disk.files, range(3), SMALL)
    on_disk.run(archive)
    before = versions(archive)[:2]
    other = write_day(on_disk.files, 3, form)
    with pytest.raises(InvalidInputError, match=f"(?s){named}.*{other.name}|{other.name}.*{named}"):
        on_disk.run(archive)
    assert versions(archive)[:2] == before


def test_files_that_disagree_are_set_aside_where_that_is_the_policy(either: ArchiveOnDisk) -> None:
    archive = daily(either, policies={"on_mismatch": OnMismatch.SET_ASIDE})
    paths = write_days(either.files, range(3), SMALL)
    either.run(archive)
    other = write_day(either.files, 3, OTHER_CHUNKS)
    paths += write_days(either.files, [4], SMALL)
    report = either.run(archive)
    assert report.num_set_aside == 1
    assert statuses(archive) == {other.name: "set-aside", paths[-1].name: "ingested"}
    xr.testing.assert_equal(found_in(either), opened_files(paths))
    assert assert_nothing_follows(either, archive).num_set_aside == 1


def test_files_that_disagree_are_copied_where_that_is_the_policy(both_ways: ArchiveOnDisk) -> None:
    archive = daily(both_ways, policies={"on_mismatch": OnMismatch.MATERIALISE})
    paths = write_days(both_ways.files, [0, 1, 4, 5], SMALL)
    both_ways.run(archive)
    paths += write_days(both_ways.files, [2, 6], OTHER_CHUNKS)
    both_ways.run(archive)
    xr.testing.assert_equal(found_in(both_ways), opened_files(paths))
    paths += write_days(both_ways.files, [3], SMALL)
    report = both_ways.run(archive)
    assert report.num_scanned == 1
    xr.testing.assert_equal(found_in(both_ways), opened_files(paths))
    references = both_ways.ours().readonly_session("main").reference_table("/sst")
    kinds = [type(references.ref(row)) for row in range(len(references))]
    assert kinds.count(VirtualRef) == 5 * CHUNKS
    assert kinds.count(InlineRef) + kinds.count(NativeRef) == 2 * CHUNKS
    assert_nothing_follows(both_ways, archive)


def test_each_era_has_a_group(either: ArchiveOnDisk) -> None:
    archive = daily(either, policies={"on_mismatch": OnMismatch.ERA})
    old = write_days(either.files, range(3), SMALL)
    new = write_days(either.files, range(3, 6), OTHER_SCALE)
    either.run(archive)
    new += write_days(either.files, range(6, 8), OTHER_SCALE)
    either.run(archive)
    groups = sorted(results_of(archive).documents.keys() & eras(archive))
    first, second = (found_in(either, group=group) for group in groups)
    xr.testing.assert_equal(first, opened_files(old))
    xr.testing.assert_equal(second, opened_files(new))
    assert_nothing_follows(either, archive)


def eras(archive: Archive) -> set[str]:
    """Return the groups that hold a variable."""
    paths = results_of(archive).references
    return {path.rpartition("/")[0] or "/" for path in paths if path.endswith("/sst")}


# -- positions that cannot be ----------------------------------------------------------------------


def write_hours(folder: Path, name: str, hours: list[int], **coordinates: Any) -> Path:
    """Write a file of several times, with a variable that tells them."""
    path = folder / f"{name}.nc"
    folder.mkdir(parents=True, exist_ok=True)
    values = np.array(hours, "f4")[:, None] * 10 + np.arange(2, dtype="f4")
    dataset = xr.Dataset(
        {"height": (("time", "x"), values)},
        {"time": ("time", hours, {"units": f"hours since {FIRST_DAY}"}), **coordinates},
    )
    encoding = {"height": {"chunksizes": (1, 2)}}
    dataset.to_netcdf(path, engine="h5netcdf", encoding=encoding)
    return path


@pytest.mark.parametrize(
    ("hours", "told"),
    [
        ({"a": [0, 1], "b": [1, 2]}, r"files overlap.*a\.nc.*b\.nc"),
        ({"a": [0, 3], "b": [1, 2]}, r"time: files overlap.*a\.nc.*b\.nc"),
        ({"a": [0, 1], "b": [0, 1]}, r"several files have the same position.*a\.nc.*b\.nc"),
        ({"a": [0, 1], "b": [3, 2, 4]}, r"time: values are not sorted within files.*b\.nc"),
        ({"a": [0, 1], "b": [2, 2]}, r"time: values .* occur twice.*b\.nc"),
    ],
    ids=["overlapping", "interleaved", "duplicate", "unsorted", "repeated"],
)
def test_positions_that_cannot_be_are_explained(
    on_disk: ArchiveOnDisk, hours: dict[str, list[int]], told: str
) -> None:
    archive = combined(on_disk, Axis(dimension="time"))
    for name, values in hours.items():
        write_hours(on_disk.files, name, values)
    with pytest.raises(InvalidInputError, match=told):
        on_disk.run(archive)
    (on_disk.files / "b.nc").unlink()
    assert on_disk.run(archive).run == 1


# -- other declarations ----------------------------------------------------------------------------


def test_another_declaration_looks_at_all_files_again(either: ArchiveOnDisk) -> None:
    both = Form(shape=(4, 6), chunks=(2, 3), variables=("sst", "ice"))
    paths = write_days(either.files, range(4), both)
    either.run(daily(either))
    without = daily(either, drop=("ice",))
    report = either.run(without)
    assert report.num_scanned == 4
    assert "declaration" in report.notes[0]
    xr.testing.assert_equal(found_in(either), opened_files(paths).drop_vars("ice"))
    assert_nothing_follows(either, without)
    copied = daily(either, drop=("ice",), loaded=("sst",))
    assert either.run(copied).num_scanned == 4
    found = found_in(either)
    xr.testing.assert_equal(found, opened_files(paths).drop_vars("ice"))
    references = either.ours().readonly_session("main").reference_table("/sst")
    kinds = {type(references.ref(row)) for row in range(len(references))}
    assert VirtualRef not in kinds
    either.run(daily(either))
    xr.testing.assert_equal(found_in(either), opened_files(paths))
    results_of(daily(either))


def test_files_that_are_gone_cannot_follow_another_declaration(on_disk: ArchiveOnDisk) -> None:
    both = Form(shape=(4, 6), chunks=(2, 3), variables=("sst", "ice"))
    paths = write_days(on_disk.files, range(3), both)
    on_disk.run(daily(on_disk))
    gone = paths.pop(1)
    gone.unlink()
    on_disk.run(daily(on_disk))
    with pytest.raises(SourceError, match=f"{gone.name}.*on-vanished"):
        on_disk.run(daily(on_disk, drop=("ice",)))
    on_disk.run(daily(on_disk, drop=("ice",), policies={"on_vanished": OnVanished.REMOVE}))
    xr.testing.assert_equal(found_in(on_disk), opened_files(paths).drop_vars("ice"))


def test_another_policy_is_no_reason_to_scan(on_disk: ArchiveOnDisk) -> None:
    write_days(on_disk.files, range(3), SMALL)
    on_disk.run(daily(on_disk))
    report = on_disk.run(daily(on_disk, policies={"on_vanished": OnVanished.REMOVE}))
    assert (report.num_scanned, report.snapshot) == (0, None)


def test_an_archive_does_not_move_to_another_group(on_disk: ArchiveOnDisk) -> None:
    write_days(on_disk.files, range(3), SMALL)
    on_disk.run(daily_archive(on_disk.files, on_disk.repository))
    moved = daily_archive(on_disk.files, on_disk.repository, target={"group": "/daily"})
    with pytest.raises(InvalidInputError, match="does not move"):
        on_disk.run(moved)


# -- other combinations ----------------------------------------------------------------------------


def test_each_file_is_a_group(on_disk: ArchiveOnDisk) -> None:
    by_group = Combination(group_per_file=r"(?P<group>\w+)\.nc$")
    archive = combined(on_disk, combine=by_group, policies=Policies(on_vanished=OnVanished.REMOVE))
    truth = {name: write_hours(on_disk.files, name, [0, 1]) for name in ("one", "two")}
    on_disk.run(archive)
    truth["three"] = write_hours(on_disk.files, "three", [5, 6, 7])
    report = on_disk.run(archive)
    assert report.num_scanned == 1
    truth.pop("one").unlink()
    on_disk.run(archive)
    paths = results_of(archive).documents
    assert {path for path in paths if path.count("/") == 1} == {"/", "/two", "/three"}
    for name, path in truth.items():
        expected = xr.load_dataset(path, engine="h5netcdf")
        xr.testing.assert_equal(found_in(on_disk, group=name), expected)
    assert_nothing_follows(on_disk, archive)


def write_tile(on_disk: ArchiveOnDisk, name: str, number: int, rows: slice) -> Path:
    """Write some latitudes of a day."""
    latitude = np.linspace(-60, 60, 6)[rows]
    values = number * 100 + latitude[:, None] + np.arange(3.0)
    path = on_disk.files / f"{name}-{number}-{rows.start}.nc"
    dataset = xr.Dataset(
        {name: (("time", "lat", "lon"), values[None])},
        {"time": [day(number).astype("M8[ns]")], "lat": latitude, "lon": np.arange(3.0)},
    )
    dataset.to_netcdf(path, engine="h5netcdf", encoding={name: {"chunksizes": (1, 2, 3)}})
    return path


def test_files_of_several_kinds_are_merged(either: ArchiveOnDisk) -> None:
    archive = combined(either, Axis(dimension="time"))
    kinds: dict[str, list[Path]] = {"sst": [], "wind": []}
    for numbers in ([0, 1, 4], [2], [3]):
        for name, paths in kinds.items():
            paths += [write_tile(either, name, number, slice(0, 6)) for number in numbers]
        either.run(archive)
    kinds["sst"] += [write_tile(either, "sst", 5, slice(0, 6))]
    either.run(archive)
    truth = xr.merge(
        [sorted_by_time(paths) for paths in kinds.values()], join="outer", compat="no_conflicts"
    )
    xr.testing.assert_equal(found_in(either), truth)
    assert_as_at_once(either, archive)


def sorted_by_time(paths: list[Path]) -> xr.Dataset:
    return opened_files(paths).sortby("time")


def test_tiles_are_put_along_two_dimensions(both_ways: ArchiveOnDisk) -> None:
    archive = combined(both_ways, Axis(dimension="time"), Axis(dimension="lat"))
    north, south = slice(2, 6), slice(0, 2)
    paths: list[Path] = []
    for number, rows in [(0, north), (2, north), (2, south), (0, south), (1, north), (1, south)]:
        paths.append(write_tile(both_ways, "sst", number, rows))
        both_ways.run(archive)
        truth = xr.combine_by_coords(
            [xr.load_dataset(path, engine="h5netcdf") for path in paths],
            join="outer",
            combine_attrs="override",
        )
        xr.testing.assert_equal(found_in(both_ways), truth)
    assert_as_at_once(both_ways, archive)


def test_names_tell_a_dimension_that_files_lack(either: ArchiveOnDisk) -> None:
    axis = Axis(
        dimension="member", by=PlaceBy.NAME, pattern=r"-(?P<member>\d+)", format="integer", new=True
    )
    archive = combined(either, axis)
    for members in ([2, 10], [1], [30, 3]):
        for member in members:
            write_hours(either.files, f"run-{member}", [0, 1])
        either.run(archive)
    found = found_in(either)
    assert found.member.values.tolist() == [1, 2, 3, 10, 30]
    for member in found.member.values.tolist():
        path = either.files / f"run-{member}.nc"
        expected = xr.load_dataset(path, engine="h5netcdf")
        assert np.array_equal(found.height.sel(member=member).values, expected.height.values)
    assert_as_at_once(either, archive)
