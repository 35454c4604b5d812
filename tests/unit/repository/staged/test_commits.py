"""Staged manifests become versions: in one commit, or in several that are seen at once."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from tests.builders import array_json, messages, repository
from tests.tables import Refs, refs_of

from icestream.errors import (
    ConflictError,
    ErrorKind,
    InternalError,
    InvalidInputError,
    SessionStateError,
    StorageError,
)
from icestream.model.changed_indexes import ChangedIndexes
from icestream.model.chunk_refs import InlineRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.config import RepositoryConfig
from icestream.model.ids import NodeId
from icestream.model.index_maps import IndexMap, as_boxes
from icestream.model.manifest_sets import ChunkManifests, ManifestSet
from icestream.repository.flush import LogTask
from icestream.repository.repository import Repository
from icestream.repository.session import Session
from icestream.repository.staged.cells import CellPlan, StagedArrays, WrittenCell
from icestream.repository.staged.commits import commit_staged, put_staged_array
from icestream.repository.staged.log_limits import share_of_log
from icestream.repository.staged.planning import plan_cells
from icestream.repository.staged.publishing import (
    STAGING_PREFIX,
    drop_staging_branches,
    publish_staged,
    split_into_commits,
)
from icestream.repository.staged.writing import write_cell


@pytest.fixture
def repo() -> Repository:
    """Return an empty repository that splits arrays into manifests of four chunks."""
    config = RepositoryConfig()
    config.chunk_manifests = ChunkManifests((ManifestSet("default", max_manifest_size=4),))
    return repository(config=config)


def table(*places: int, label: str = "old") -> ChunkTable:
    refs: Refs = {(place,): InlineRef(f"{label} {place}".encode()) for place in places}
    return ChunkTable.from_refs(refs, 1)


def stage(
    session: Session,
    end: int,
    added: ChunkTable,
    *,
    path: str = "/a",
    index_map: IndexMap | None = None,
) -> StagedArrays:
    """Let an array have `end` chunks, and write the cells of the chunks that are added."""
    before, after = put_staged_array(session, path, array_json((end,)))
    context = session._copy.context
    boxes = as_boxes([((i, i + 1),) for i in added.index[:, 0].tolist()], 1)
    plan = plan_cells(before, after, context.packing, index_map=index_map, added=boxes)
    spec = context.timeline.spec
    return {path: (plan, [write_cell(context.assets, t, [added], spec=spec) for t in plan.tasks])}


def make_version(repo: Repository, *places: int) -> None:
    session = repo.writable_session("main")
    commit_staged(session, stage(session, max(places) + 1, table(*places)), "made")


def chunks(repo: Repository, path: str = "/a", **version: Any) -> dict[int, str]:
    session = repo.readonly_session(**(version or {"branch": "main"}))
    refs = refs_of(session.reference_table(path))
    return {i: ref.data.decode() for (i,), ref in refs.items() if isinstance(ref, InlineRef)}


def test_a_staged_array_is_committed_with_the_edits_of_the_session(repo: Repository) -> None:
    session = repo.writable_session("main")
    staged = stage(session, 10, table(*range(10)))
    session._copy.put_metadata("/b", array_json((2,)))
    session._copy.put_table("/b", table(1))
    snapshot_id = commit_staged(session, staged, "both", {"run": 1})
    assert repo.lookup_branch("main") == snapshot_id == session.snapshot_id
    assert session.read_only
    info = next(repo.ancestry(branch="main"))
    assert (info.message, info.metadata) == ("both", {"run": 1})
    assert chunks(repo) == {i: f"old {i}" for i in range(10)}
    assert chunks(repo, "/b") == {1: "old 1"}
    assert session.commit_statistics is not None
    assert session.commit_statistics.manifests_written == 4
    assert session.commit_statistics.references_written == 11
    assert session.commit_statistics.manifests_linked == 0


def test_only_affected_manifests_are_replaced(repo: Repository) -> None:
    make_version(repo, *range(10))
    earlier = repo.readonly_session("main")._copy.get_array("/a").manifests
    session = repo.writable_session("main")
    commit_staged(session, stage(session, 12, table(10, 11, label="new")), "append")
    later = repo.readonly_session("main")._copy.get_array("/a").manifests
    assert later[:2] == earlier[:2]
    assert chunks(repo) == {i: f"old {i}" for i in range(10)} | {10: "new 10", 11: "new 11"}
    diff = repo.diff(from_branch="main", to_branch="main")
    assert diff.is_empty()
    assert session.commit_statistics is not None
    assert session.commit_statistics.manifests_linked == 2


def test_other_arrays_keep_a_manifest_that_they_shared() -> None:
    repo = repository()
    session = repo.writable_session("main")
    for path in ("/a", "/b"):
        session._copy.put_metadata(path, array_json((4,)))
        session._copy.put_table(path, table(0, 1))
    session.commit("shared")
    before = repo.readonly_session("main")._copy
    assert before.get_array("/a").manifests[0] == before.get_array("/b").manifests[0]
    session = repo.writable_session("main")
    staged = stage(session, 4, table(1, 2, label="new"))
    session._copy.put_table("/b", table(3, label="new"))
    commit_staged(session, staged, "staged")
    assert chunks(repo) == {0: "old 0", 1: "new 1", 2: "new 2"}
    assert chunks(repo, "/b") == {0: "old 0", 1: "old 1", 3: "new 3"}


def test_an_array_that_shrinks_is_not_read_by_the_session(repo: Repository) -> None:
    make_version(repo, *range(10))
    session = repo.writable_session("main")
    staged = stage(session, 5, table(), index_map=IndexMap((None,)))
    assert not session._copy.changes.chunks
    commit_staged(session, staged, "shrunk")
    assert chunks(repo) == {i: f"old {i}" for i in range(5)}
    parent, child = [info.id for info in repo.ancestry(branch="main")][1::-1]
    diff = repo.diff(from_snapshot_id=parent, to_snapshot_id=child)
    assert diff.updated_chunks == {"/a": [[i] for i in range(5, 10)]}


def test_an_array_that_the_session_has_shrunk_itself_is_committed_too(repo: Repository) -> None:
    make_version(repo, *range(10))
    session = repo.writable_session("main")
    session._copy.put_metadata("/a", array_json((5,)))
    commit_staged(session, stage(session, 5, table()), "shrunk")
    assert chunks(repo) == {i: f"old {i}" for i in range(5)}


def test_the_log_is_written_where_the_caller_wants(repo: Repository) -> None:
    sent: list[bytes] = []

    def elsewhere(task: Callable[[], None]) -> None:
        assert isinstance(task, LogTask)
        sent.append(pickle.dumps((task.log, task.parts)))
        task()

    session = repo.writable_session("main")
    staged = stage(session, 1000, table(*range(1000)))
    commit_staged(session, staged, "logged", run_log=elsewhere)
    assert len(sent) == 1
    assert repo.diff(from_snapshot_id=_root(repo), to_branch="main").updated_chunks == {
        "/a": [[i] for i in range(1000)]
    }


def _root(repo: Repository) -> str:
    return [info.id for info in repo.ancestry(branch="main")][-1]


# -- what is refused ------------------------------------------------------------------------------


def test_nothing_staged_is_nothing_to_commit(repo: Repository) -> None:
    session = repo.writable_session("main")
    with pytest.raises(SessionStateError, match="nothing to commit"):
        commit_staged(session, {}, "nothing")


def test_a_branch_that_moved_is_a_conflict(repo: Repository) -> None:
    session = repo.writable_session("main")
    staged = stage(session, 10, table(*range(10)))
    make_version(repo, 0)
    for publish in (commit_staged, _publish_in_parts):
        with pytest.raises(ConflictError) as caught:
            publish(session, staged, "late")
        assert caught.value.kind is ErrorKind.COMMIT_CONFLICT
    assert repo.list_branches() == {"main"}
    assert messages(repo)[0] == "made"


def test_cells_of_another_version_are_refused(repo: Repository) -> None:
    make_version(repo, 0)
    staged = stage(repo.writable_session("main"), 10, table(1))
    make_version(repo, 2)
    session = repo.writable_session("main")
    with pytest.raises(SessionStateError, match="another version"):
        commit_staged(session, staged, "stale")


def test_chunks_are_edited_or_staged(repo: Repository) -> None:
    session = repo.writable_session("main")
    staged = stage(session, 10, table(1))
    session._copy.put_table("/a", table(5))
    with pytest.raises(SessionStateError, match="one or the other"):
        commit_staged(session, staged, "both")


def test_every_planned_cell_has_to_be_written(repo: Repository) -> None:
    session = repo.writable_session("main")
    staged = stage(session, 10, table(*range(10)))
    plan, cells = staged["/a"]
    with pytest.raises(InternalError, match="2 cells of /a were written, 3 were planned"):
        commit_staged(session, {"/a": (plan, cells[:2])}, "incomplete")


def test_a_log_that_would_be_too_large_is_refused(repo: Repository) -> None:
    session = repo.writable_session("main")
    plan, cells = stage(session, 1, table(0))["/a"]
    huge = ChangedIndexes(((0, 60_000_000),), 60_000_000)
    cells = [_with_changed(cell, huge) for cell in cells]
    with pytest.raises(InvalidInputError, match="split_into_commits"):
        commit_staged(session, {"/a": (plan, cells)}, "huge")


def _with_changed(cell: WrittenCell, changed: ChangedIndexes) -> WrittenCell:
    return WrittenCell(
        path=cell.path,
        cell=cell.cell,
        file=cell.file,
        ref=cell.ref,
        num_references=len(changed),
        num_added=len(changed),
        changed=changed,
    )


# -- several commits ------------------------------------------------------------------------------


def _publish_in_parts(session: Session, staged: StagedArrays, message: str, **kw: Any) -> str:
    return publish_staged(session, split_into_commits(staged, 4), message, **kw)


def test_several_commits_are_seen_at_once(repo: Repository) -> None:
    tips = set()

    def watching(task: Callable[[], None]) -> None:
        tips.add(repo.lookup_branch("main"))
        assert STAGING_PREFIX + "x" in repo.list_branches()
        task()

    base = repo.lookup_branch("main")
    session = repo.writable_session("main")
    staged = stage(session, 10, table(*range(10)))
    parts = split_into_commits(staged, 4)
    published = publish_staged(session, parts, "all", {"run": 7}, run_log=watching, name="x")
    assert tips == {base}
    assert repo.lookup_branch("main") == published == session.snapshot_id
    assert repo.list_branches() == {"main"}
    assert chunks(repo) == {i: f"old {i}" for i in range(10)}
    infos = list(repo.ancestry(branch="main"))
    expected = ["all", "all (part 2 of 3)", "all (part 1 of 3)"]
    assert [info.message for info in infos[:3]] == expected
    assert [info.metadata for info in infos[:3]] == [{"run": 7}, {}, {}]
    assert chunks(repo, snapshot_id=infos[1].id) == {i: f"old {i}" for i in range(8)}
    diff = repo.diff(from_snapshot_id=base, to_branch="main")
    assert diff.new_arrays == {"/a"}
    assert diff.updated_chunks == {"/a": [[i] for i in range(10)]}


def test_manifests_stay_until_their_cells_are_committed(repo: Repository) -> None:
    make_version(repo, *range(12))
    session = repo.writable_session("main")
    staged = stage(session, 12, table(*range(12), label="new"))
    _publish_in_parts(session, staged, "replaced")
    versions = [info.id for info in repo.ancestry(branch="main")]
    for done, version in zip((12, 8, 4), versions[:3], strict=True):
        expected = {i: f"{'new' if i < done else 'old'} {i}" for i in range(12)}
        assert chunks(repo, snapshot_id=version) == expected


def test_a_target_that_moved_meanwhile_is_a_conflict(repo: Repository) -> None:
    make_version(repo, 0)
    session = repo.writable_session("main")
    staged = stage(session, 10, table(*range(10), label="new"))
    raced: list[bool] = []

    def racing(task: Callable[[], None]) -> None:
        task()
        if not raced:
            raced.append(True)
            make_version(repo, 1)

    with pytest.raises(ConflictError) as caught:
        _publish_in_parts(session, staged, "late", run_log=racing)
    assert caught.value.kind is ErrorKind.COMMIT_CONFLICT
    assert repo.list_branches() == {"main"}
    assert chunks(repo) == {0: "old 0", 1: "old 1"}


def test_a_failure_leaves_no_branch_behind(repo: Repository) -> None:
    def failing(task: Callable[[], None]) -> None:
        raise StorageError("no space")

    session = repo.writable_session("main")
    with pytest.raises(StorageError, match="no space"):
        _publish_in_parts(session, stage(session, 10, table(*range(10))), "x", run_log=failing)
    assert repo.list_branches() == {"main"}
    assert not session.read_only


def test_branches_that_were_left_behind_are_dropped(repo: Repository) -> None:
    base = repo.lookup_branch("main")
    for branch in (STAGING_PREFIX + "sst-1", STAGING_PREFIX + "wind-1", "mine"):
        repo.create_branch(branch, base)
    assert drop_staging_branches(repo, STAGING_PREFIX + "sst-") == [STAGING_PREFIX + "sst-1"]
    assert drop_staging_branches(repo, "m") == []
    assert drop_staging_branches(repo) == [STAGING_PREFIX + "wind-1"]
    assert repo.list_branches() == {"main", "mine"}


def test_arrays_are_spread_over_as_few_commits_as_fit(repo: Repository) -> None:
    session = repo.writable_session("main")
    staged = {**stage(session, 8, table(*range(8)))}
    staged |= stage(session, 8, table(*range(8)), path="/b")
    parts = split_into_commits(staged, 12)
    assert [{path: len(cells) for path, (_, cells) in part.items()} for part in parts] == [
        {"/a": 2, "/b": 1},
        {"/b": 1},
    ]
    assert split_into_commits(staged) == [
        {
            path: (plan, sorted(cells, key=lambda one: one.cell))
            for path, (plan, cells) in staged.items()
        }
    ]
    assert split_into_commits({}) == []


def test_a_cell_that_is_too_large_is_alone(repo: Repository) -> None:
    session = repo.writable_session("main")
    parts = split_into_commits(stage(session, 8, table(*range(8))), 1)
    assert [[cell.cell for cell in part["/a"][1]] for part in parts] == [[(0,)], [(1,)]]


def test_many_dimensions_fill_a_log_sooner() -> None:
    thin = ChangedIndexes(((0, 40_000_000),), 40_000_000)
    thick = ChangedIndexes(((0, 40_000_000), *[(0, 1)] * 11), 40_000_000)
    assert share_of_log(thin, 40_000_000) == 1
    assert share_of_log(thick, 40_000_000) > 1


def test_an_empty_plan_needs_no_cells() -> None:
    plan = CellPlan(array_id=NodeId(b"array-id"), path="/a", tasks=())
    assert plan.is_empty
    assert split_into_commits({"/a": (plan, [])}) == []


def test_format_version_1_is_published_too() -> None:
    config = RepositoryConfig()
    config.chunk_manifests = ChunkManifests((ManifestSet("default", max_manifest_size=4),))
    repo = repository(config=config, spec_version=1)
    session = repo.writable_session("main")
    _publish_in_parts(session, stage(session, 10, table(*range(10))), "old format")
    assert chunks(repo) == {i: f"old {i}" for i in range(10)}
    assert repo.list_branches() == {"main"}
