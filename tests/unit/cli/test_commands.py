from datetime import UTC, datetime

import pytest
import zarr

from icestream import errors
from icestream.cli.commands import exit_code
from icestream.errors import (
    AccessError,
    AlreadyExistsError,
    CommitUnknownError,
    FormatError,
    IntegrityError,
    InternalError,
    InvalidInputError,
    RebaseFailedError,
    RefNotFoundError,
    SourceError,
    StorageError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InternalError("x"), 1),
        (InvalidInputError("x"), 2),
        (RefNotFoundError("x"), 3),
        (RebaseFailedError("x"), 4),
        (AlreadyExistsError("x"), 4),
        (StorageError("x"), 5),
        (AccessError("x"), 5),
        (CommitUnknownError("x"), 5),
        (FormatError("x"), 6),
        (IntegrityError("x"), 6),
        (SourceError("x"), 8),
    ],
)
def test_exit_codes_follow_the_class_of_the_error(error, code) -> None:
    assert exit_code(error) == code


def test_errors_go_to_standard_error_as_text(run, tmp_path) -> None:
    ran = run("log", str(tmp_path))

    assert (ran.exit_code, ran.stdout) == (3, "")
    assert ran.stderr.startswith("error: there is no repository at ")


def test_errors_go_to_standard_error_as_json(run, tmp_path) -> None:
    ran = run("log", str(tmp_path), "--output", "json")

    assert (ran.exit_code, ran.stdout) == (3, "")
    assert '"kind": "repository-not-found"' in ran.stderr


def test_a_wrong_command_line_is_a_usage_error(run, address) -> None:
    assert run("gc", address).exit_code == 2
    assert run("gc", address, "--older-than", "yesterday").exit_code == 2
    assert run("nothing").exit_code == 2


def test_the_version_is_shown(run) -> None:
    assert run("--version").stdout.startswith("icestream 0.")


def test_repositories_are_created_once(run, tmp_path) -> None:
    path = str(tmp_path / "new")

    assert run("repo", "create", path, "-o", "json").data == {"address": path, "spec_version": 2}
    assert run("repo", "create", path).exit_code == 4


def test_repositories_of_the_older_format_are_created_and_upgraded(run, tmp_path) -> None:
    path = str(tmp_path / "old")
    run("repo", "create", path, "--spec-version", "1")

    checked = run("repo", "upgrade", path, "--dry-run")
    before = run("repo", "show", path, "-o", "json").data["spec_version"]
    upgraded = run("repo", "upgrade", path)

    assert (checked.exit_code, upgraded.exit_code, before) == (0, 0, 1)
    assert run("repo", "show", path, "-o", "json").data["spec_version"] == 2


def test_a_repository_is_shown(run, repo, address) -> None:
    repo.create_tag("v1", repo.lookup_branch("main"))

    shown = run("repo", "show", address, "-o", "json").data

    assert shown["branches"] == {"main": repo.lookup_branch("main")}
    assert shown["tags"] == {"v1": repo.lookup_branch("main")}
    assert "branches      main=" in run("repo", "show", address).stdout


def test_the_status_is_shown(run, address) -> None:
    assert run("repo", "status", address, "-o", "json").data["availability"] == "online"


def test_branches_are_created_moved_and_deleted(run, repo, address) -> None:
    first = list(repo.ancestry(branch="main"))[1].id

    run("branch", "create", address, "dev", first)
    assert repo.lookup_branch("dev") == first
    run("branch", "reset", address, "dev", "main")
    assert repo.lookup_branch("dev") == repo.lookup_branch("main")
    stale = run("branch", "reset", address, "dev", first, "--from-snapshot", first)
    assert stale.exit_code == 4
    assert run("branch", "list", address, "-o", "json").data == [
        {"branch": name, "snapshot_id": repo.lookup_branch("main")} for name in ("dev", "main")
    ]
    run("branch", "delete", address, "dev")
    assert repo.list_branches() == {"main"}


def test_tags_are_created_and_deleted_for_ever(run, repo, address) -> None:
    run("tag", "create", address, "v1")
    assert repo.lookup_tag("v1") == repo.lookup_branch("main")
    assert run("tag", "list", address).stdout.split()[3] == "v1"
    run("tag", "delete", address, "v1")
    assert run("tag", "create", address, "v1").exit_code == 4


def test_the_log_is_newest_first(run, repo, address) -> None:
    rows = run("log", address, "-o", "json").data

    assert [row["message"] for row in rows] == ["mend", "first year", "Repository initialized"]
    assert rows[0]["metadata"] == {"by": "me"}
    assert rows[0]["parent_id"] == rows[1]["id"]
    assert len(run("log", address, "main", "-n", "1", "-o", "json").data) == 1
    assert len(run("log", address, rows[1]["id"], "-o", "json").data) == 2


def test_the_graph_shows_all_branches(run, repo, address) -> None:
    repo.create_branch("dev", list(repo.ancestry(branch="main"))[1].id)

    drawn = run("log", address, "--graph").stdout
    rows = run("log", address, "--graph", "-o", "json", "-n", "2").data

    assert "(main)" in drawn.splitlines()[0]
    assert "(dev)" in drawn.splitlines()[1]
    assert [row["labels"] for row in rows] == [["main"], ["dev"]]


def test_differences_are_listed(run, repo, address) -> None:
    first = list(repo.ancestry(branch="main"))[1].id

    changes = run("diff", address, first, "-o", "json").data

    assert changes["updated_chunks"] == {"/sst/mean": [[0, 0], [0, 1]]}
    assert "/sst/mean: 2 chunks" in run("diff", address, first, "main").stdout
    assert run("diff", address, "main", first).exit_code == 2


def test_nodes_are_listed_below_a_path(run, address) -> None:
    assert [row["path"] for row in run("ls", address, "-o", "json").data] == [
        "/",
        "/sst",
        "/sst/mean",
    ]
    below = run("ls", address, "sst/", "--version", "main", "-o", "json").data
    assert below[1] == {
        "path": "/sst/mean",
        "type": "array",
        "shape": [4, 4],
        "chunks": [2, 2],
        "manifests": 1,
    }
    assert run("ls", address, "/ss", "-o", "json").data == []


def test_operations_are_listed(run, repo, address) -> None:
    repo.create_tag("v1", repo.lookup_branch("main"))

    newest, before = run("ops", address, "--limit", "2", "-o", "json").data

    assert (newest["event"], newest["details"]) == ("TagCreated", {"name": "v1"})
    assert before["details"] == {"branch": "main", "new_snap_id": repo.lookup_branch("main")}


def test_one_setting_is_set_and_the_others_stay(run, repo, address) -> None:
    run("config", "set", address, "compression.level", "5")
    run("config", "set", address, "inline_chunk_threshold_bytes", "100")

    assert run("config", "show", address, "-o", "json").data == {
        "inline_chunk_threshold_bytes": 100,
        "compression": {"level": 5},
    }
    assert "level: 5" in run("config", "show", address).stdout


def test_settings_are_loaded_from_standard_input(run, address) -> None:
    ran = run("config", "load", address, "-", input="compression:\n  level: 7\n")

    assert ran.exit_code == 0
    assert run("config", "show", address, "-o", "json").data == {"compression": {"level": 7}}


def test_manifest_sets_are_loaded_and_shown_at_the_top(run, address) -> None:
    sets = {"sets": [{"small": {"max-manifest-size": 10, "cardinality": None}}]}
    document = "chunk-manifests: {sets: [small: {max-size: 1_0, cardinality: null}]}"

    assert run("config", "load", address, "-", input=document).exit_code == 0

    assert run("config", "show", address, "-o", "json").data == {"chunk-manifests": sets}
    assert run("config", "show", address).stdout.startswith("chunk-manifests:\n")


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        (("compression.level", "high"), "'high' is not a whole number"),
        (("compression.levl", "5"), "there is no setting compression.levl"),
        (("storage.retries.max_tries", "5"), "storage settings are not part"),
        (("compression", "{level: "), "compression"),
        (("chunk-manifests", "{rules: [{target: x}]}"), "rules[0].target: there is no set 'x'"),
        (("chunk-manifests.preload.max-manifests", "3"), "chunk-manifests is set as a whole"),
    ],
)
def test_bad_settings_are_refused(run, address, setting, fault) -> None:
    ran = run("config", "set", address, *setting)

    assert ran.exit_code == 2
    assert fault in ran.stderr
    assert run("config", "show", address, "-o", "json").data == {}


def test_garbage_is_counted_before_it_is_collected(run, repo, address) -> None:
    repo.create_branch("dev", repo.lookup_branch("main"))
    with repo.transaction("dev", message="in vain") as store:
        zarr.open_array(store, path="sst/mean")[3] = 3
    repo.delete_branch("dev")

    counted = run("gc", address, "--older-than", "0h", "--dry-run", "-o", "json").data
    too_young = run("gc", address, "--older-than", "1w", "-o", "json").data
    collected = run("gc", address, "--older-than", "0h", "-o", "json").data

    assert too_young["snapshots_deleted"] == 0
    assert counted == collected
    assert collected["snapshots_deleted"] == collected["manifests_deleted"] == 1


def test_old_versions_expire_after_a_look(run, repo, address) -> None:
    ids = [info.id for info in repo.ancestry(branch="main")]
    later = datetime.now(UTC).isoformat()

    looked = run("expire", address, "--older-than", later, "--dry-run", "-o", "json").data
    assert [info.id for info in repo.ancestry(branch="main")] == ids
    expired = run("expire", address, "--older-than", later, "-o", "json").data

    assert looked == expired == [{"snapshot_id": ids[1]}]
    assert [info.id for info in repo.ancestry(branch="main")] == [ids[0], ids[2]]


def test_bytes_of_chunks_are_counted(run, address) -> None:
    counted = run("stats", address, "-o", "json").data

    assert counted["inlined_bytes"] > 0
    assert counted["total_bytes"] == counted["inlined_bytes"]


def test_files_are_shown_as_json(run, repo, address) -> None:
    manifest = run("manifests", "list", address, "-o", "json").data[0]

    assert run("inspect", "repo", address).data["branches"] == {"main": repo.lookup_branch("main")}
    assert run("inspect", "snapshot", address).data["id"] == repo.lookup_branch("main")
    assert run("inspect", "manifest", address, manifest["manifest"]).data["total_chunk_refs"] == 4
    assert run("inspect", "log", address).data["updated_chunks"][0]["chunks"] == [[0, 0], [0, 1]]
    assert manifest["references"] == 4


def test_every_error_but_a_bug_has_an_exit_code_of_its_own() -> None:
    classes = [v for v in vars(errors).values() if isinstance(v, type)]
    found = {cls.__name__ for cls in classes if issubclass(cls, errors.IcestreamError)}
    unmapped = {name for name in found if exit_code(getattr(errors, name)("x")) == 1}

    assert unmapped == {"IcestreamError", "InternalError"}
