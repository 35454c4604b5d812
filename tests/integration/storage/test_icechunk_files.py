"""The local backend and icechunk's see the same objects under the same names."""

import json
from pathlib import Path

import icechunk

from icestream.storage.local import LocalStorage

ODD_BRANCHES = ["mañana", "a b", "x#1", "p%41", "q?*", "til~de", "b\\s", "c:d", '{}[]<>|^`"']


def test_finds_the_branches_of_icechunk_whatever_their_names(tmp_path: Path) -> None:
    repository = icechunk.Repository.create(
        icechunk.local_filesystem_storage(str(tmp_path)), spec_version=1
    )
    snapshot = repository.lookup_branch("main")
    for name in ODD_BRANCHES:
        repository.create_branch(name, snapshot)
    storage = LocalStorage(tmp_path)
    wanted = {f"refs/branch.{name}/ref.json" for name in [*ODD_BRANCHES, "main"]}

    assert {info.path for info in storage.list("refs/")} == wanted
    for path in wanted:
        assert json.loads(storage.get(path)) == {"snapshot": snapshot}


def test_icechunk_finds_our_branches_whatever_their_names(tmp_path: Path) -> None:
    location = icechunk.local_filesystem_storage(str(tmp_path))
    repository = icechunk.Repository.create(location, spec_version=1)
    snapshot = repository.lookup_branch("main")
    storage = LocalStorage(tmp_path)
    for name in ODD_BRANCHES:
        storage.put_if_absent(
            f"refs/branch.{name}/ref.json", json.dumps({"snapshot": snapshot}).encode()
        )

    for name in ODD_BRANCHES:
        assert repository.lookup_branch(name) == snapshot


def test_icechunk_creates_where_only_our_lock_files_are(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    version = storage.put_if_absent("repo", b"1")
    storage.put_if_version("repo", b"2", version)
    storage.delete_many(["repo"])
    (tmp_path / "tmp#5").write_bytes(b"left by a crash")
    location = icechunk.local_filesystem_storage(str(tmp_path))

    assert (tmp_path / "lock#0").exists()
    assert icechunk.Repository.create(location).lookup_branch("main")
