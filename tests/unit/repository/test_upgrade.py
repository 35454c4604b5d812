"""From format version 1 to 2: nothing is lost, whatever happens on the way."""

from itertools import pairwise

import pytest
from tests.builders import messages, repository, repository_with_array
from tests.histories import (
    InterruptingStorage,
    all_values,
    history,
    make_long_history,
    soon,
    write,
)

from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    IcestreamError,
    SessionStateError,
)
from icestream.model.config import RepositoryConfig
from icestream.model.ops_log import (
    BranchCreated,
    NewCommit,
    RepoInitialized,
    RepoMigrated,
    TagCreated,
    TagDeleted,
)
from icestream.repository.repository import Repository
from icestream.repository.upgrade import upgrade_icechunk_repository
from icestream.storage import in_memory_storage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import Loss, LossRule, LossyStorage

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=77)


def paths(storage: Storage) -> set[str]:
    return {info.path for info in storage.list()}


def version_1_repository(storage: Storage | None = None) -> Repository:
    repo = repository(storage, spec_version=1, config=CONFIG)
    make_long_history(repo, spec=1)
    return repo


def test_an_upgraded_repository_says_what_it_said_before():
    repo = version_1_repository()
    before, content, files = history(repo), all_values(repo), paths(repo.storage)
    upgraded = upgrade_icechunk_repository(repo, dry_run=False)
    assert upgraded.spec_version == 2
    assert (history(upgraded), all_values(upgraded)) == (before, content)
    assert upgraded.config.inline_chunk_threshold_bytes == 77
    with pytest.raises(AlreadyExistsError):
        upgraded.create_tag("gone", upgraded.lookup_branch("main"))
    left = {path for path in files if not path.startswith("refs/")} - {"config.yaml"}
    assert paths(upgraded.storage) == left | {"repo"}
    write(upgraded, "main", 99, method="amend")
    assert messages(upgraded)[0] == "amend 99 on main"


def test_the_ops_log_is_made_up_from_references_and_snapshots():
    repo = version_1_repository()
    by_message = {i.message: i for b in repo.list_branches() for i in repo.ancestry(branch=b)}
    updates = list(upgrade_icechunk_repository(repo, dry_run=False).ops_log())
    assert all(later.updated_at > earlier.updated_at for later, earlier in pairwise(updates))
    assert all(update.backup_path is None for update in updates)
    kinds = [update.kind for update in updates]
    assert kinds[0] == RepoMigrated(1, 2)
    assert kinds[-1] == RepoInitialized()
    assert NewCommit("main", by_message["commit 1 on main"].id) in kinds
    assert NewCommit("spanning", by_message["commit 20 on spanning"].id) in kinds
    assert {kind for kind in kinds if isinstance(kind, BranchCreated)} == {
        BranchCreated("old"),
        BranchCreated("spanning"),
    }
    assert [TagCreated("middle") in kinds, TagCreated("gone") in kinds] == [True, True]
    assert TagDeleted("gone", by_message["commit 2 on main"].id) in kinds


def test_a_dry_run_changes_nothing():
    repo = version_1_repository()
    before = {info.path: info.version for info in repo.storage.list()}
    assert upgrade_icechunk_repository(repo) is repo
    assert repo.spec_version == 1
    assert {info.path: info.version for info in repo.storage.list()} == before


def test_the_old_object_becomes_the_upgraded_repository():
    repo = version_1_repository()
    repo.set_default_commit_metadata({"by": "me"})
    upgraded = upgrade_icechunk_repository(repo, dry_run=False, delete_unused_v1_files=False)
    assert repo.spec_version == upgraded.spec_version == 2
    made = write(repo, "main", 50)
    assert upgraded.lookup_branch("main") == made
    assert upgraded.lookup_snapshot(made).metadata == {"by": "me"}


def test_files_left_behind_are_deleted_by_another_upgrade_and_then_there_is_nothing_to_do():
    repo = version_1_repository()
    upgrade_icechunk_repository(repo, dry_run=False, delete_unused_v1_files=False)
    assert "refs/branch.main/ref.json" in paths(repo.storage)
    write(repo, "main", 50)
    again = upgrade_icechunk_repository(Repository.open(repo.storage), dry_run=False)
    assert {p for p in paths(repo.storage) if p.startswith(("refs/", "config"))} == set()
    assert messages(again)[0] == "commit 50 on main"
    with pytest.raises(SessionStateError) as caught:
        upgrade_icechunk_repository(again, dry_run=False)
    assert caught.value.kind is ErrorKind.INVALID_REPOSITORY_MIGRATION


@pytest.mark.parametrize("loss", list(Loss))
@pytest.mark.parametrize("verb", ["put_if_absent", "delete_many"])
def test_an_upgrade_that_was_cut_off_can_be_repeated(verb, loss):
    memory = in_memory_storage()
    repo = version_1_repository(memory)
    before, content = history(repo), all_values(repo)
    lossy = LossyStorage(memory)
    victim = Repository.open(lossy)
    lossy.rule = LossRule(verb, loss)
    with pytest.raises(IcestreamError):
        upgrade_icechunk_repository(victim, dry_run=False)
    assert lossy.met == 1
    cut_off = Repository.open(memory)
    assert (history(cut_off), all_values(cut_off)) == (before, content)
    if cut_off.spec_version == 1 or "refs/branch.main/ref.json" in paths(memory):
        upgrade_icechunk_repository(cut_off, dry_run=False)
    finished = Repository.open(memory)
    assert finished.spec_version == 2
    assert (history(finished), all_values(finished)) == (before, content)
    assert {path for path in paths(memory) if path.startswith(("refs/", "config"))} == set()


def test_the_victim_of_a_fault_may_itself_try_again():
    memory = in_memory_storage()
    version_1_repository(memory)
    lossy = LossyStorage(memory)
    victim = Repository.open(lossy)
    lossy.rule = LossRule("put_if_absent", Loss.LOSE_ANSWER)
    with pytest.raises(IcestreamError):
        upgrade_icechunk_repository(victim, dry_run=False)
    assert upgrade_icechunk_repository(victim, dry_run=False).spec_version == 2


def test_commits_of_version_1_made_after_the_swap_are_not_thrown_away():
    storage = InterruptingStorage(in_memory_storage())
    repo = repository_with_array(storage, spec_version=1)
    writer = Repository.open(storage.inner)
    with (
        storage.interrupted("put_if_absent", "repo", lambda: write(writer, "main", 5)),
        pytest.raises(ConflictError, match="unknown to `repo`"),
    ):
        upgrade_icechunk_repository(repo, dry_run=False)
    assert "refs/branch.main/ref.json" in paths(storage)


def test_a_branch_that_moves_while_the_upgrade_is_planned_stops_it():
    storage = InterruptingStorage(in_memory_storage())
    repo = repository_with_array(storage, spec_version=1)
    writer = Repository.open(storage.inner)
    with (
        storage.interrupted("get_versioned", "config.yaml", lambda: write(writer, "main", 5)),
        pytest.raises(ConflictError, match="changed during the upgrade"),
    ):
        upgrade_icechunk_repository(repo, dry_run=False)
    assert "repo" not in paths(storage)


def test_a_history_that_was_expired_in_version_1_is_upgraded_as_it_is():
    repo = version_1_repository()
    repo.expire_snapshots(soon())
    before, content = history(repo), all_values(repo)
    upgraded = upgrade_icechunk_repository(repo, dry_run=False)
    assert (history(upgraded), all_values(upgraded)) == (before, content)
    upgraded.garbage_collect(soon())
    assert all_values(upgraded) == content
