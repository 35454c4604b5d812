"""Maintenance: both libraries do the same to equal repositories, and read each other's results."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import icechunk
import pytest
import zarr
from tests.histories import (
    LIBRARIES,
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

DELETIONS = [
    {},
    {"delete_expired_branches": True},
    {"delete_expired_branches": True, "delete_expired_tags": True},
]
SUMMARY_FIELDS = (
    "bytes_deleted",
    "chunks_deleted",
    "manifests_deleted",
    "snapshots_deleted",
    "attributes_deleted",
    "transaction_logs_deleted",
    "objects_failed_to_delete",
    "throttled_batches",
    "delete_errors",
    "skipped_phases",
)


RANGES = [("x", 0, 10), ("x", 0, 10), ("x", 10, 10), ("x", 0, 4), ("y", 0, 10)]


class Original(NamedTuple):
    """A repository with a long history, and a moment in the middle of it."""

    folder: Path
    middle: datetime
    spec: int


@pytest.fixture(scope="module", params=LIBRARIES, ids=lambda library: library.__name__)
def writer(request: pytest.FixtureRequest) -> Any:
    """The library that wrote a repository."""
    return request.param


@pytest.fixture(scope="module", params=[1, 2], ids=["spec 1", "spec 2"])
def original(writer, request, tmp_path_factory: pytest.TempPathFactory) -> Original:
    """A repository that must not be changed, only copied."""
    folder = tmp_path_factory.mktemp("interop") / "original"
    repo = create_repository(writer, folder, spec_version=request.param)
    return Original(folder, make_long_history(repo, spec=request.param), request.param)


class Pair(NamedTuple):
    """Two equal copies of a repository, one for each library."""

    ours: Path
    theirs: Path

    def each(self, action: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Let each library do something to its copy."""
        return (
            action(open_repository(icestream, self.ours)),
            action(open_repository(icechunk, self.theirs)),
        )


@pytest.fixture
def pair(original: Original, tmp_path: Path) -> Pair:
    """Two copies of the repository."""
    return Pair(
        copy_of(original.folder, f"{tmp_path.name}-ours"),
        copy_of(original.folder, f"{tmp_path.name}-theirs"),
    )


def recorded_snapshots(folder: Path) -> Any:
    """Return what the repo object records about snapshots, dropped logs included."""
    info = open_repository(icestream, folder)._context.timeline.load()
    return info.snapshots, info.branches, info.tags, info.deleted_tags


def summary_of(summary: Any) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in SUMMARY_FIELDS}


# -- expiring -------------------------------------------------------------------------------------


@pytest.mark.parametrize("deletions", DELETIONS)
@pytest.mark.parametrize("when", ["middle", "now"])
def test_both_libraries_expire_the_same_snapshots(original, pair, when, deletions):
    moment = original.middle if when == "middle" else datetime.now(UTC)
    ours, theirs = pair.each(lambda repo: repo.expire_snapshots(moment, **deletions))
    assert ours == theirs
    ours, theirs = pair.each(history)
    assert ours == theirs
    ours, theirs = pair.each(all_values)
    assert ours == theirs
    if original.spec == 2:
        assert recorded_snapshots(pair.ours) == recorded_snapshots(pair.theirs)


def test_what_we_expired_they_expire_further(original, pair):
    content = all_values(open_repository(icechunk, pair.ours))
    open_repository(icestream, pair.ours).expire_snapshots(original.middle)
    open_repository(icechunk, pair.ours).expire_snapshots(soon())
    open_repository(icechunk, pair.theirs).expire_snapshots(original.middle)
    open_repository(icestream, pair.theirs).expire_snapshots(soon())
    ours, theirs = pair.each(history)
    assert ours == theirs
    ours, theirs = pair.each(all_values)
    assert ours == theirs == content
    if original.spec == 2:
        assert recorded_snapshots(pair.ours) == recorded_snapshots(pair.theirs)


# -- collecting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize("when", ["middle", "soon"])
def test_both_libraries_delete_the_same_objects(original, pair, when, expired):
    moment = original.middle if when == "middle" else soon()
    if expired:
        # by one of them, because a snapshot of version 1 is then written anew
        open_repository(icestream, pair.ours).expire_snapshots(original.middle, **DELETIONS[1])
        pair = Pair(pair.ours, copy_of(pair.ours, f"{pair.theirs.name}-expired"))
    content = all_values(open_repository(icechunk, pair.ours))
    told, their_told = pair.each(lambda repo: repo.garbage_collect(moment, dry_run=True))
    ours, theirs = pair.each(lambda repo: repo.garbage_collect(moment))
    assert summary_of(ours) == summary_of(theirs) == summary_of(told) == summary_of(their_told)
    assert ours.bytes_deleted > 0
    assert files_below(pair.ours) == files_below(pair.theirs)
    for library in LIBRARIES:
        for folder in pair:
            assert all_values(open_repository(library, folder)) == content
    if original.spec == 2:
        assert recorded_snapshots(pair.ours) == recorded_snapshots(pair.theirs)


@pytest.mark.parametrize("keeper", LIBRARIES, ids=lambda library: library.__name__)
def test_life_goes_on_after_expiring_and_collecting(original, pair, keeper):
    repo = open_repository(keeper, pair.ours)
    repo.expire_snapshots(original.middle)
    repo.garbage_collect(soon())
    for value, library in enumerate([*LIBRARIES, *LIBRARIES], start=100):
        open_repository(library, pair.ours).create_tag(
            f"before-{value}", repo.lookup_branch("main")
        )
        write(open_repository(library, pair.ours), "main", value)
    ours = open_repository(icestream, pair.ours)
    theirs = open_repository(icechunk, pair.ours)
    assert all_values(ours) == all_values(theirs)
    tag = {"from_tag": "before-100", "to_branch": "main"}
    assert ours.diff(**tag).updated_chunks == theirs.diff(**tag).updated_chunks


@pytest.mark.parametrize("keeper", LIBRARIES, ids=lambda library: library.__name__)
def test_conflicts_with_commits_that_were_expired_meanwhile_are_found(writer, keeper, tmp_path):
    repo = create_repository(writer, tmp_path / "repo")
    session = repo.writable_session("main")
    zarr.create_group(session.store)
    write(open_repository(icechunk, tmp_path / "repo"), "main", 0)
    write(open_repository(icestream, tmp_path / "repo"), "main", 1)
    newest = next(iter(repo.ancestry(branch="main"))).written_at
    open_repository(keeper, tmp_path / "repo").expire_snapshots(newest)
    with pytest.raises(writer.RebaseFailedError):
        # only the log of an expired commit tells that there is a root group by now
        session.rebase(writer.ConflictDetector())


# -- counting and looking -------------------------------------------------------------------------


def test_both_libraries_count_the_same_bytes(pair):
    ours, theirs = pair.each(lambda repo: repo.chunk_storage_stats())
    assert ours.native_bytes == theirs.native_bytes > 0
    assert ours.inlined_bytes == theirs.inlined_bytes > 0
    assert (ours.total_bytes(), ours.non_virtual_bytes()) == (
        theirs.total_bytes(),
        theirs.non_virtual_bytes(),
    )


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_both_libraries_count_the_same_virtual_bytes(library, tmp_path):
    config = library.RepositoryConfig()
    prefix = f"file://{tmp_path}/"
    config.set_virtual_chunk_container(
        library.VirtualChunkContainer(prefix, library.local_filesystem_store(str(tmp_path)))
    )
    folder = tmp_path / "repo"
    repo = create_repository(library, folder, config=config)
    session = repo.writable_session("main")
    zarr.open_group(session.store).create_array("a", shape=(9,), chunks=(1,), dtype="i8")
    for i, (name, offset, length) in enumerate(RANGES):
        session.store.set_virtual_ref(f"a/c/{i}", prefix + name, offset=offset, length=length)
    session.commit("virtual")
    ours = open_repository(icestream, folder).chunk_storage_stats()
    theirs = open_repository(icechunk, folder).chunk_storage_stats()
    assert ours.virtual_bytes == theirs.virtual_bytes == 10 + 10 + 4 + 10


def shown(repo: Any, folder: Path) -> dict[str, Any]:
    """Return every file of a repository as its library shows it."""
    documents: dict[str, Any] = {}
    for file in files_below(folder):
        kind, _, name = file.partition("/")
        if kind in INSPECTORS:
            documents[file] = getattr(repo, INSPECTORS[kind])(name)
            documents[file].get("synthetic_composite", {}).pop("note", None)
    if "repo" in files_below(folder):
        documents["repo"] = repo.inspect_repo_info()
    return documents


INSPECTORS = {
    "snapshots": "inspect_snapshot",
    "manifests": "inspect_manifest",
    "transactions": "inspect_transaction_log",
}


def test_both_libraries_show_files_alike(original, pair):
    open_repository(icechunk, pair.ours).expire_snapshots(original.middle)
    ours = shown(open_repository(icestream, pair.ours), pair.ours)
    theirs = shown(open_repository(icechunk, pair.ours), pair.ours)
    assert len(ours) > 20
    assert ours == theirs


def test_both_libraries_show_rare_events_alike(writer, tmp_path):
    repo = create_repository(writer, tmp_path / "repo")
    write(repo, "main", 0)
    session = repo.rearrange_session("main")
    session.move("/sub", "/moved")
    session.commit("moved")
    repo.set_feature_flag("move_node", False)
    repo.set_feature_flag("move_node", None)
    repo.set_metadata({"a": [1, 2.5, None, {"ü": "é"}]})
    online = writer.RepoStatus(writer.RepoAvailability.online, datetime.now(UTC), "fine again")
    repo.set_status(online)
    repo.reset_branch("main", "1CECHNKREP0F1RSTCMT0")
    ours = shown(open_repository(icestream, tmp_path / "repo"), tmp_path / "repo")
    theirs = shown(open_repository(icechunk, tmp_path / "repo"), tmp_path / "repo")
    assert ours == theirs


def test_compressed_locations_are_shown_alike(tmp_path):
    config = icechunk.RepositoryConfig()
    prefix = f"file://{tmp_path}/"
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(tmp_path)))
    )
    repo = create_repository(icechunk, tmp_path / "repo", config=config)
    session = repo.writable_session("main")
    zarr.open_group(session.store).create_array("a", shape=(1500,), chunks=(1,), dtype="i8")
    for i in range(1100):
        session.store.set_virtual_ref(f"a/c/{i}", f"{prefix}file-{i}.nc", offset=0, length=8)
    session.commit("virtual")
    ours = shown(open_repository(icestream, tmp_path / "repo"), tmp_path / "repo")
    assert ours == shown(repo, tmp_path / "repo")
    (manifest,) = (ours[file] for file in ours if file.startswith("manifests/"))
    assert manifest["compression"]["num_compressed_refs"] == 1100


# -- rewriting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_rewritten_manifests_are_read_by_both(original, pair, library):
    content = all_values(open_repository(icechunk, pair.ours))
    repo = open_repository(library, pair.ours)
    before = {file.id for file in repo.list_manifest_files(repo.lookup_branch("main"))}
    method = "amend" if original.spec == 2 else "new_commit"
    made = repo.rewrite_manifests("tidy", branch="main", commit_method=method)
    for reader in LIBRARIES:
        opened = open_repository(reader, pair.ours)
        assert all_values(opened) == content
        after = {file.id for file in opened.list_manifest_files(made)}
        # small arrays share a manifest here; icechunk writes one for each
        assert len(after) == (1 if library is icestream else 2)
        assert not after & before
        assert "splitting_config" in next(opened.ancestry(branch="main")).metadata["__icechunk"]
