"""`icestream archive` on small archives of NetCDF files."""

import json
import signal
from pathlib import Path

import pytest
import xarray as xr
from tests.archive_builders import (
    Form,
    change_day,
    cut_short,
    daily_archive,
    path_of,
    write_days,
)
from zarr.abc.store import Store

from icestream.cli.archive_runs import RunSettings, run_again_and_again
from icestream.credentials import containers_credentials
from icestream.ingest.declaration.archives import OnChanged
from icestream.ingest.declaration.documents import decode_archive, encode_archive
from icestream.repository.repository import Repository
from icestream.storage.factories import local_filesystem_storage

COMMANDS = [["scan"], ["run"], ["run", "--dry-run"], ["watch", "--interval", "1", "--runs", "1"]]
ALL_COMMANDS = [*COMMANDS, ["status"]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of three days."""
    write_days(tmp_path / "files", range(3))
    return tmp_path / "files"


@pytest.fixture
def declaration(tmp_path: Path, folder: Path) -> Path:
    """A file that declares them."""
    file = tmp_path / "sst.yaml"
    file.write_bytes(encode_archive(daily_archive(folder, tmp_path / "repo", step="1 day")))
    return file


# -- init -----------------------------------------------------------------------------------------


def test_init_writes_a_declaration_that_can_be_scanned(run, folder: Path, tmp_path: Path):
    file = tmp_path / "new.yaml"

    ran = run("archive", "init", f"{folder}/*.nc", "--file", str(file))

    assert ran.exit_code == 0
    assert "icestream archive scan" in ran.stdout
    archive = decode_archive(file.read_bytes())
    assert archive.name == "files"
    assert archive.sources == (f"{folder}/*.nc",)
    assert [axis.dimension for axis in archive.combine.along] == ["time"]
    assert run("archive", "scan", str(file)).exit_code == 0


def test_init_shows_what_it_would_write(run, folder: Path, monkeypatch):
    """Absolute, so that it means the same from wherever it is run."""
    monkeypatch.chdir(folder.parent)
    ran = run("archive", "init", "files", "--name", "ocean", "-o", "json")
    assert ran.data["name"] == "ocean"
    archive = decode_archive(ran.data["declaration"].encode())
    assert archive.sources == (str(folder),)
    assert archive.target.repository == f"{folder.parent}/ocean-repository"
    plain = run("archive", "init", "files", "--repository", "s3://b/ocean").stdout
    assert decode_archive(plain.encode()).target.repository == "s3://b/ocean"


def test_init_overwrites_nothing(run, folder: Path, declaration: Path):
    before = declaration.read_bytes()
    ran = run("archive", "init", str(folder), "--file", str(declaration))
    assert ran.exit_code == 4
    assert "is there already" in ran.stderr
    assert declaration.read_bytes() == before


def test_init_goes_by_the_files_that_can_be_read(run, folder: Path):
    cut_short(path_of(folder, 0))
    ran = run("archive", "init", str(folder))
    assert ran.exit_code == 0
    assert "2 files" in ran.stdout
    for number in (1, 2):
        cut_short(path_of(folder, number))
    ran = run("archive", "init", str(folder))
    assert ran.exit_code == 8
    assert "none of the first files can be read" in ran.stderr


# -- scan -----------------------------------------------------------------------------------------


def test_scan_reports_what_a_run_would_find(run, declaration: Path, tmp_path: Path):
    ran = run("archive", "scan", str(declaration))
    assert ran.exit_code == 0
    assert "3 files" in ran.stdout
    assert "no problems" in ran.stdout
    assert "a run will take about" in ran.stdout
    data = run("archive", "scan", str(declaration), "-o", "json", "--sample", "2").data
    assert (data["num_files"], data["num_listed"], data["is_clean"]) == (2, 3, True)
    assert data["expected"]["minutes"] > 0
    assert not (tmp_path / "repo").exists()


def test_scan_tells_by_its_exit_code_what_a_run_would_do(run, declaration: Path, folder: Path):
    write_days(folder, [3], Form(scale=0.02))
    ran = run("archive", "scan", str(declaration))
    assert ran.exit_code == 2
    assert "scale_factor" in ran.stdout
    cut_short(path_of(folder, 3))
    ran = run("archive", "scan", str(declaration))
    assert ran.exit_code == 7
    assert "set aside:" in ran.stdout


# -- run ------------------------------------------------------------------------------------------


def test_a_run_ingests_and_the_next_has_nothing_to_do(run, declaration: Path, tmp_path: Path):
    ran = run("archive", "run", str(declaration))
    assert ran.exit_code == 0
    assert "sst, run 1: 3 files listed, 3 new" in ran.stdout
    with xr.open_zarr(opened(tmp_path / "repo"), consolidated=False) as dataset:
        assert dataset.sizes["time"] == 3

    again = run("archive", "run", str(declaration), "-o", "json")
    assert again.exit_code == 0
    assert again.data["is_empty"] is True
    assert again.data["snapshot"] is None


def test_a_run_that_sets_files_aside_ends_with_7(run, declaration: Path, folder: Path):
    cut_short(path_of(folder, 2))
    ran = run("archive", "run", str(declaration), "--serial", "-o", "json")
    assert ran.exit_code == 7
    ((url, reason),) = ran.data["set_aside"]
    assert url == path_of(folder, 2).as_uri()
    assert reason
    assert ran.data["num_new"] == 3


def test_files_that_do_not_fit_end_a_run_with_2(run, declaration: Path, folder: Path):
    write_days(folder, [3], Form(scale=0.02))
    ran = run("archive", "run", str(declaration))
    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert "scale_factor" in ran.stderr


def test_serial_and_a_master_exclude_each_other(run, declaration: Path, tmp_path: Path):
    ran = run("archive", "run", str(declaration), "--serial", "--master", "local[1]")
    assert ran.exit_code == 2
    assert "leave out --serial or --master" in ran.stderr
    assert not (tmp_path / "repo").exists()


def test_a_dry_run_tells_what_there_is_to_do(run, declaration: Path, folder: Path, tmp_path: Path):
    ran = run("archive", "run", str(declaration), "--dry-run")
    assert ran.exit_code == 0
    assert "3 new" in ran.stdout
    assert "nothing was changed" in ran.stdout
    assert not (tmp_path / "repo").exists()
    assert not (tmp_path / "repo.ledger").exists()

    run("archive", "run", str(declaration))
    assert run("archive", "run", str(declaration), "--dry-run", "-o", "json").data["is_empty"]
    change_day(folder, 1)
    write_days(folder, [3])
    path_of(folder, 0).unlink()
    told = run("archive", "run", str(declaration), "--dry-run", "-o", "json").data
    assert told["to_scan"] == [path_of(folder, 1).as_uri(), path_of(folder, 3).as_uri()]
    assert (told["num_new"], told["num_changed"], told["num_vanished"]) == (1, 1, 1)
    assert told["to_remove"] == []

    done = run("archive", "run", str(declaration), "-o", "json").data
    assert [done[key] for key in ("num_new", "num_changed", "num_vanished")] == [1, 1, 1]


# -- status ---------------------------------------------------------------------------------------


def test_status_lists_runs_and_files_with_reasons(run, declaration: Path, folder: Path):
    run("archive", "run", str(declaration))
    ran = run("archive", "status", str(declaration))
    assert ran.exit_code == 0
    assert "sst: 3 files with 12 references, 1 runs" in ran.stdout
    assert "3 ingested" in ran.stdout

    write_days(folder, [3])
    cut_short(path_of(folder, 3))
    path_of(folder, 0).unlink()
    run("archive", "run", str(declaration))
    ran = run("archive", "status", str(declaration), "-o", "json")
    assert ran.exit_code == 7
    assert [url for url, _ in ran.data["set_aside"]] == [path_of(folder, 3).as_uri()]
    assert ran.data["vanished"] == [path_of(folder, 0).as_uri()]
    assert [one["number"] for one in ran.data["runs"]] == [2, 1]
    assert 0 <= ran.data["age_seconds"] < 600
    assert ran.data["running"] is None


def test_status_lists_files_that_changed_and_were_kept(run, folder: Path, tmp_path: Path):
    file = tmp_path / "kept.yaml"
    policies = {"on_changed": OnChanged.KEEP}
    file.write_bytes(encode_archive(daily_archive(folder, tmp_path / "repo", policies=policies)))
    run("archive", "run", str(file))
    url = change_day(folder, 1).as_uri()
    run("archive", "run", str(file))
    ran = run("archive", "status", str(file))
    assert ran.exit_code == 0
    assert "sst: 3 files with 12 references, 2 runs, 1 files changed and kept" in ran.stdout
    assert f"changed, old references kept:\n  {url}" in ran.stdout
    assert run("archive", "status", str(file), "-o", "json").data["changed"] == [url]


def test_status_before_the_first_run_says_so(run, declaration: Path, tmp_path: Path):
    ran = run("archive", "status", str(declaration))
    assert ran.exit_code == 3
    assert "was never ingested" in ran.stderr
    assert not (tmp_path / "repo").exists()


# -- undo -----------------------------------------------------------------------------------------


def test_a_run_is_taken_back_and_its_files_stay_out(run, declaration: Path, folder: Path):
    run("archive", "run", str(declaration))
    write_days(folder, [3, 4])
    run("archive", "run", str(declaration))

    told = run("archive", "undo", str(declaration), "2", "--dry-run", "-o", "json")
    assert told.exit_code == 0
    assert told.data["is_preview"]
    assert told.data["num_undone"] == 2
    assert run("archive", "status", str(declaration), "-o", "json").data["num_files"] == 5

    done = run("archive", "undo", str(declaration), "2")
    assert done.exit_code == 0
    assert "run 2 is undone by run 3, 2 files taken back" in done.stdout
    stands = run("archive", "status", str(declaration), "-o", "json")
    assert stands.exit_code == 0
    assert stands.data["num_files"] == 3
    assert stands.data["undone"] == [path_of(folder, number).as_uri() for number in (3, 4)]

    assert run("archive", "run", str(declaration), "-o", "json").data["is_empty"]
    again = run("archive", "run", str(declaration), "--include-undone", "-o", "json").data
    assert again["num_scanned"] == 2
    assert run("archive", "status", str(declaration), "-o", "json").data["num_files"] == 5


def test_a_run_that_there_is_not_cannot_be_undone(run, declaration: Path):
    before = run("archive", "undo", str(declaration), "1")
    run("archive", "run", str(declaration))
    after = run("archive", "undo", str(declaration), "9")
    assert (before.exit_code, after.exit_code) == (3, 3)
    assert "was never ingested" in before.stderr
    assert "there are runs 1 to 1" in after.stderr


# -- recover --------------------------------------------------------------------------------------


def test_the_ledger_follows_a_branch_that_was_moved_back(
    run, declaration: Path, folder: Path, tmp_path: Path
):
    run("archive", "run", str(declaration))
    write_days(folder, [3])
    run("archive", "run", str(declaration))
    first = run("archive", "status", str(declaration), "-o", "json").data["runs"][1]["snapshot"]
    run("branch", "reset", str(tmp_path / "repo"), "main", first)

    refused = run("archive", "recover", str(declaration))
    assert refused.exit_code == 4
    assert "archive recover --follow-branch" in refused.stderr
    followed = run("archive", "recover", str(declaration), "--follow-branch")
    assert followed.exit_code == 0
    assert "the ledger now follows the repository, up to run 1" in followed.stdout
    assert run("archive", "run", str(declaration), "-o", "json").data["num_new"] == 1


# -- watch ----------------------------------------------------------------------------------------


def test_watching_shows_one_line_per_run(run, declaration: Path):
    ran = run(
        *("archive", "watch", str(declaration), "--interval", "0", "--runs", "2"),
        *("--serial", "-o", "json"),
    )
    assert ran.exit_code == 0
    first, second = map(json.loads, ran.stdout.splitlines())
    assert (first["number"], first["run"], first["num_new"]) == (1, 1, 3)
    assert (second["number"], second["is_empty"], second["next_in_seconds"]) == (2, True, None)


def test_a_failure_is_shown_and_tried_again(run, declaration: Path, folder: Path, monkeypatch):
    monkeypatch.setattr("icestream.ingest.watching.FIRST_PAUSE", 0.0)
    hidden = folder.rename(folder.with_name("hidden"))
    runs = run_again_and_again(declaration, RunSettings(serial=True), interval=0, max_runs=2)

    failed = next(runs)
    hidden.rename(folder)
    done = next(runs)

    assert failed.data["error"] == "NotFoundError"
    assert failed.exit_code == 3
    assert done.data["num_new"] == 3
    assert next(runs, None) is None


def test_a_signal_ends_watching_without_failure(declaration: Path, folder: Path):
    cut_short(path_of(folder, 0))
    runs = run_again_and_again(declaration, RunSettings(serial=True), interval=3600, max_runs=None)
    assert next(runs).exit_code == 7
    signal.raise_signal(signal.SIGTERM)
    assert next(runs).data["is_stopped"]
    assert next(runs, None) is None


def test_the_declaration_is_read_anew_for_every_run(declaration: Path, monkeypatch):
    monkeypatch.setattr("icestream.ingest.watching.FIRST_PAUSE", 0.0)
    good = declaration.read_text()
    runs = run_again_and_again(declaration, RunSettings(serial=True), interval=0, max_runs=3)
    assert next(runs).data["run"] == 1
    declaration.write_text("nonsense: true")
    assert next(runs).data["kind"] == "invalid-config"
    declaration.write_text(good)
    assert next(runs).data["is_empty"]


def opened(place: Path) -> Store:
    storage = local_filesystem_storage(str(place))
    access = containers_credentials({place.parent.as_uri(): None})
    repo = Repository.open(storage, authorize_virtual_chunk_access=access)
    return repo.readonly_session("main").store


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_a_missing_declaration_is_one_message(run, command: list[str], tmp_path: Path):
    ran = run("archive", *command, str(tmp_path / "missing.yaml"))
    assert ran.exit_code == 2
    assert "does not exist" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_all_faults_of_a_declaration_are_named(run, command: list[str], declaration: Path):
    declaration.write_text("name: a b\nsources: []\npolicies: {on-brokn: fail}\ntarget: {}\n")
    ran = run("archive", *command, str(declaration))
    assert ran.exit_code == 2
    assert ran.stdout == ""
    for path in ("name", "sources", "policies.on-brokn", "target.repository"):
        assert f"\n  {path}" in ran.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_source_without_files_is_named(run, command: list[str], declaration: Path, folder: Path):
    for number in range(3):
        path_of(folder, number).unlink()
    ran = run("archive", *command, str(declaration))
    assert ran.exit_code == 3
    assert f"{folder}/*.nc has no files" in ran.stderr + ran.stdout


def test_a_folder_that_may_not_be_read_is_named(run, declaration: Path, folder: Path):
    folder.chmod(0)
    try:
        if any_readable(folder):
            pytest.skip("permissions do not bind this user")
        ran = run("archive", "scan", str(declaration))
    finally:
        folder.chmod(0o755)
    assert ran.exit_code in {3, 5}
    assert str(folder) in ran.stderr


def any_readable(folder: Path) -> bool:
    try:
        return bool(list(folder.iterdir()))
    except PermissionError:
        return False
