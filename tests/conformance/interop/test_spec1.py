"""Format version 1, through the whole API and in both directions; and the way to version 2."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import icechunk
import pytest
import zarr
from tests.histories import (
    LIBRARIES,
    InterruptingStorage,
    all_values,
    copy_of,
    create_repository,
    files_below,
    history,
    make_long_history,
    open_repository,
    soon,
    write,
)

import icestream
from icestream.errors import ErrorKind, SessionStateError
from icestream.storage import in_memory_storage
from icestream.testing.doubles import Loss, LossRule, LossyStorage

PAIRS = [(icestream, icechunk), (icechunk, icestream)]


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0].__name__} first")
def libraries(request: pytest.FixtureRequest) -> tuple[ModuleType, ModuleType]:
    """Both libraries, in both orders."""
    one, other = request.param
    return one, other


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "repo"


# -- both directions ------------------------------------------------------------------------------


def test_what_one_writes_the_other_reads_and_goes_on_with(libraries, folder):
    one, other = libraries
    repo = create_repository(one, folder, spec_version=1)
    make_long_history(repo, spec=1)
    opened = open_repository(other, folder)
    assert opened.spec_version == other.SpecVersion.v1
    assert (all_values(opened), history(opened)) == (all_values(repo), history(repo))
    write(opened, "main", 70, metadata={"by": ["me", 1, None]})
    newest = next(iter(open_repository(one, folder).ancestry(branch="main")))
    assert (newest.message, newest.metadata) == ("commit 70 on main", {"by": ["me", 1, None]})
    assert all_values(open_repository(one, folder)) == all_values(opened)
    write(open_repository(one, folder), "main", 71)
    assert all_values(open_repository(other, folder)) == all_values(open_repository(one, folder))


def test_branches_and_tags_of_one_are_those_of_the_other(libraries, folder):
    one, other = libraries
    repo = create_repository(one, folder, spec_version=1)
    first = write(repo, "main", 0)
    repo.create_branch("b", first)
    repo.create_tag("t", first)
    repo.create_tag("gone", first)
    repo.delete_tag("gone")
    opened = open_repository(other, folder)
    assert (opened.list_branches(), opened.list_tags()) == ({"main", "b"}, {"t"})
    with pytest.raises((icestream.IcestreamError, icechunk.IcechunkError)):
        opened.create_tag("gone", first)
    second = write(opened, "b", 1)
    opened.reset_branch("main", second)
    opened.delete_branch("b")
    opened.delete_tag("t")
    assert repo.list_branches() == {"main"}
    assert (repo.list_tags(), repo.lookup_branch("main")) == (set(), second)
    with pytest.raises((icestream.IcestreamError, icechunk.IcechunkError)):
        repo.create_tag("t", first)


def test_a_lost_race_is_a_conflict_and_is_rebased_over(libraries, folder):
    one, other = libraries
    write(create_repository(one, folder, spec_version=1), "main", 0)
    late = open_repository(one, folder).writable_session("main")
    zarr.open_array(late.store, path="sub/native")[200:] = 9
    write(open_repository(other, folder), "main", 1)
    with pytest.raises(one.ConflictError):
        late.commit("late")
    late.commit("late", rebase_with=one.ConflictDetector())
    clash = open_repository(other, folder).writable_session("main")
    zarr.open_array(clash.store, path="sub/native")[:200] = 2
    write(open_repository(one, folder), "main", 3)
    with pytest.raises(other.RebaseFailedError):
        clash.rebase(other.ConflictDetector())
    assert all_values(open_repository(one, folder)) == all_values(open_repository(other, folder))


def test_both_show_the_same_difference(libraries, folder):
    one, other = libraries
    repo = create_repository(one, folder, spec_version=1)
    make_long_history(repo, spec=1)
    root = {"from_snapshot_id": "1CECHNKREP0F1RSTCMT0", "to_branch": "main"}
    first, second = repo.diff(**root), open_repository(other, folder).diff(**root)
    for name in ("new_groups", "new_arrays", "updated_arrays", "deleted_arrays"):
        assert getattr(first, name) == getattr(second, name)
    chunks = [
        {path: sorted(map(list, index)) for path, index in diff.updated_chunks.items()}
        for diff in (first, second)
    ]
    assert chunks[0] == chunks[1]


def test_configurations_are_saved_for_the_other(libraries, folder):
    one, other = libraries
    config = one.RepositoryConfig(inline_chunk_threshold_bytes=7)
    repo = create_repository(one, folder, spec_version=1, config=config)
    assert (folder / "config.yaml").exists()
    opened = open_repository(other, folder)
    assert opened.config.inline_chunk_threshold_bytes == 7
    changed = opened.config
    changed.inline_chunk_threshold_bytes = 9
    open_repository(other, folder, config=changed).save_config()
    assert open_repository(one, folder).config.inline_chunk_threshold_bytes == 9
    if one is icestream:  # on a file system, icechunk overwrites what others saved
        with pytest.raises(icestream.ConflictError):
            repo.save_config()
    kept = [file.name for file in (folder / "overwritten").iterdir()]
    assert any(name.startswith("config.yaml.") for name in kept)


# -- faults and races -----------------------------------------------------------------------------


def test_a_creation_that_was_cut_off_can_be_repeated():
    memory = in_memory_storage()
    lossy = LossyStorage(memory, LossRule("put_if_absent", Loss.FAIL_BEFORE, path_prefix="refs/"))
    config = icestream.RepositoryConfig(inline_chunk_threshold_bytes=7)
    with pytest.raises(icestream.StorageError):
        icestream.Repository.create(lossy, config, spec_version=1)
    other = icestream.RepositoryConfig(inline_chunk_threshold_bytes=8)
    with pytest.raises(icestream.InvalidInputError, match="another repository"):
        icestream.Repository.create(memory, other, spec_version=1, check_clean_root=False)
    icestream.Repository.create(memory, config, spec_version=1, check_clean_root=False)
    assert icestream.Repository.open(memory).config.inline_chunk_threshold_bytes == 7


def test_a_branch_deleted_while_branches_are_read_is_not_among_them():
    storage = InterruptingStorage(in_memory_storage())
    repo = icestream.Repository.create(storage, spec_version=1)
    repo.create_branch("brief", repo.lookup_branch("main"))
    other = icestream.Repository.open(storage.inner)
    with storage.interrupted("get_versioned", "refs/", lambda: other.delete_branch("brief")):
        assert repo.list_branches() == {"main"}


# -- what version 1 cannot do ---------------------------------------------------------------------

NEEDS_VERSION_2: dict[str, Callable[[Any], Any]] = {
    "amend": lambda repo: repo.writable_session("main").amend("x", allow_empty=True),
    "rearrange_session": lambda repo: repo.rearrange_session("main"),
    "ops_log": lambda repo: list(repo.ops_log()),
    "get_status": lambda repo: repo.get_status(),
    "set_metadata": lambda repo: repo.set_metadata({}),
    "get_metadata": lambda repo: repo.get_metadata(),
    "feature_flags": lambda repo: repo.feature_flags(),
    "set_feature_flag": lambda repo: repo.set_feature_flag("move_node", False),
    "inspect_repo_info": lambda repo: repo.inspect_repo_info(),
    "rewrite_manifests": lambda repo: repo.rewrite_manifests(
        "x", branch="main", commit_method="amend"
    ),
}


@pytest.mark.parametrize("operation", NEEDS_VERSION_2)
def test_operations_of_version_2_are_refused_with_the_remedy(operation, folder):
    repo = create_repository(icestream, folder, spec_version=1)
    write(repo, "main", 0)
    before = files_below(folder)
    with pytest.raises(SessionStateError, match="upgrade_icechunk_repository") as caught:
        NEEDS_VERSION_2[operation](repo)
    assert caught.value.kind is ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION
    assert files_below(folder) == before


# -- upgrading ------------------------------------------------------------------------------------


def upgrade(library: ModuleType, folder: Path, **options: Any) -> Any:
    return library.upgrade_icechunk_repository(
        open_repository(library, folder), dry_run=False, **options
    )


@pytest.mark.parametrize("configured", [False, True])
def test_both_upgrade_to_the_same_repo_object(libraries, folder, configured):
    one, _ = libraries
    config = one.RepositoryConfig(inline_chunk_threshold_bytes=7) if configured else None
    repo = create_repository(one, folder, spec_version=1, config=config)
    make_long_history(repo, spec=1)
    only_tagged = write(repo, "old", 80)
    repo.create_tag("only", only_tagged)
    repo.create_tag("another", only_tagged)
    repo.delete_branch("old")
    repo.create_branch("also-main", repo.lookup_branch("main"))
    repo.create_branch("at-root", "1CECHNKREP0F1RSTCMT0")
    folders = {library: copy_of(folder, library.__name__) for library in LIBRARIES}
    upgraded = {library: upgrade(library, folders[library]) for library in LIBRARIES}
    documents = [upgraded[library].inspect_repo_info() for library in LIBRARIES]
    for document in documents:
        del document["header"]
        del document["latest_updates"][0]["updated_at"]
    assert documents[0] == documents[1]
    assert files_below(folders[icestream]) == files_below(folders[icechunk])
    infos = [open_repository(icestream, f)._context.timeline.load() for f in folders.values()]
    assert infos[0].status == infos[1].status
    for library in LIBRARIES:
        thresholds = [
            open_repository(library, f).config.inline_chunk_threshold_bytes
            for f in folders.values()
        ]
        assert thresholds[0] == thresholds[1]


@pytest.mark.parametrize("upgrader", LIBRARIES, ids=lambda library: library.__name__)
def test_an_upgraded_repository_works_in_both(libraries, upgrader, folder):
    one, other = libraries
    repo = create_repository(one, folder, spec_version=1)
    make_long_history(repo, spec=1)
    before, content = history(repo), all_values(repo)
    upgrade(upgrader, folder)
    for library in LIBRARIES:
        opened = open_repository(library, folder)
        assert (history(opened), all_values(opened)) == (before, content)
    write(open_repository(other, folder), "main", 90)
    write(open_repository(one, folder), "main", 91, method="amend")
    write(open_repository(other, folder), "main", 92)
    for library in LIBRARIES:
        open_repository(library, folder).expire_snapshots(soon())
        open_repository(library, folder).garbage_collect(soon())
    ours, theirs = (open_repository(library, folder) for library in LIBRARIES)
    assert all_values(ours) == all_values(theirs)
    assert [message for _, _, message in history(ours)["{'branch': 'main'}"]] == [
        "commit 92 on main",
        "Repository initialized",
    ]
    header = ours.inspect_snapshot("1CECHNKREP0F1RSTCMT0")["header"]
    assert header["spec_version"] == "1.0"  # files are not rewritten


def test_files_of_version_1_may_stay(folder):
    repo = create_repository(icestream, folder, spec_version=1)
    write(repo, "main", 0)
    upgrade(icestream, folder, delete_unused_v1_files=False)
    assert (folder / "refs/branch.main/ref.json").exists()
    opened = open_repository(icechunk, folder)
    write(opened, "main", 1)
    assert all_values(open_repository(icestream, folder)) == all_values(opened)
