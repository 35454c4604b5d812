"""Sessions: reading, editing, committing, amending, flushing."""

import pickle
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import zarr
from tests.builders import array_of, messages, repository, repository_with_array, values

from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from icestream.model.chunk_refs import ChunkType
from icestream.repository.repository import Repository
from icestream.repository.working_copy import SessionMode
from icestream.storage import in_memory_storage


def test_a_commit_makes_the_session_read_only_and_show_the_new_version():
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[0] = 5
    snapshot_id = session.commit("five", {"who": "me"})

    assert session.read_only
    assert session.snapshot_id == snapshot_id == repo.lookup_branch("main")
    assert array_of(session)[0] == 5
    assert next(repo.ancestry(branch="main")).metadata == {"who": "me"}
    with pytest.raises(ReadOnlyError):
        session.store.session.discard_changes()


def test_readers_keep_the_version_they_opened():
    repo = repository_with_array()
    reader = repo.readonly_session("main")
    writer = repo.writable_session("main")
    array_of(writer)[0] = 5
    writer.commit("five")

    assert array_of(reader)[0] == 0
    assert values(repo)[0] == 5


def test_versions_are_found_by_branch_tag_id_and_time():
    repo = repository_with_array()
    first = repo.lookup_branch("main")
    repo.create_tag("v1", first)
    moment = repo.lookup_snapshot(first).written_at
    session = repo.writable_session("main")
    array_of(session)[0] = 5
    session.commit("five")

    assert values(repo, branch="main")[0] == 5
    assert values(repo, tag="v1")[0] == 0
    assert values(repo, snapshot_id=first)[0] == 0
    assert values(repo, branch="main", as_of=moment)[0] == 0
    assert values(repo, branch="main", as_of=datetime.now(UTC))[0] == 5


@pytest.mark.parametrize(
    ("version", "error", "kind"),
    [
        ({"branch": "nope"}, RefNotFoundError, ErrorKind.BRANCH_NOT_FOUND),
        ({"tag": "nope"}, RefNotFoundError, ErrorKind.TAG_NOT_FOUND),
        ({"snapshot_id": "XX"}, InvalidInputError, ErrorKind.INVALID_SNAPSHOT_ID),
        (
            {"snapshot_id": "0000000000000000000G"},
            SnapshotNotFoundError,
            ErrorKind.SNAPSHOT_NOT_FOUND,
        ),
        ({}, InvalidInputError, ErrorKind.INVALID_ARGUMENT),
        ({"branch": "main", "tag": "x"}, InvalidInputError, ErrorKind.INVALID_ARGUMENT),
        (
            {"branch": "main", "as_of": datetime.now(UTC) - timedelta(days=9)},
            SnapshotNotFoundError,
            ErrorKind.NO_SNAPSHOT_AT_TIME,
        ),
        ({"branch": "main", "as_of": datetime(2020, 1, 1)}, InvalidInputError, None),  # noqa: DTZ001  naive on purpose
    ],
)
def test_a_version_that_is_not_there_is_named_in_the_error(version, error, kind):
    repo = repository_with_array()
    with pytest.raises(error) as raised:
        repo.readonly_session(**version)
    assert kind in {None, raised.value.kind}


def test_nothing_to_commit_is_an_error_unless_allowed():
    repo = repository_with_array()
    session = repo.writable_session("main")
    with pytest.raises(SessionStateError) as raised:
        session.commit("nothing")
    assert raised.value.kind is ErrorKind.NO_CHANGES_TO_COMMIT

    session.commit("nothing, on purpose", allow_empty=True)
    assert messages(repo)[0] == "nothing, on purpose"


def test_status_lists_what_a_commit_would_record():
    repo = repository_with_array()
    session = repo.writable_session("main")
    assert session.status().is_empty()
    root = zarr.open_group(session.store)
    root.create_group("g").create_array("b", shape=(2,), chunks=(1,), dtype="i4")[:] = 1
    root.attrs["x"] = 1
    root["a"][1:3] = 9
    status = session.status()

    assert status.new_groups == {"/g"}
    assert status.new_arrays == {"/g/b"}
    assert status.updated_groups == {"/"}
    assert status.updated_chunks == {"/a": [[1], [2]], "/g/b": [[0], [1]]}
    assert session.has_uncommitted_changes


def test_discarded_changes_are_gone():
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[:] = 9
    zarr.open_group(session.store).create_group("g")
    session.discard_changes()

    assert not session.has_uncommitted_changes
    assert array_of(session)[:].tolist() == [0, 0, 0, 0]
    assert "g" not in zarr.open_group(session.store)


def test_a_deleted_and_recreated_array_is_another_array():
    repo = repository_with_array()
    session = repo.writable_session("main")
    before = session.get_node_id("/a")
    root = zarr.open_group(session.store)
    del root["a"]
    root.create_array("a", shape=(2, 2), chunks=(1, 1), dtype="i4", fill_value=3)
    session.commit("another a")

    assert values(repo) == [[3, 3], [3, 3]]
    assert repo.readonly_session("main").get_node_id("/a") != before
    log = repo.diff(from_snapshot_id=_parent(repo), to_branch="main")
    assert log.new_arrays == {"/a"}


def _parent(repo: Repository) -> str:
    parent = next(repo.ancestry(branch="main")).parent_id
    assert parent is not None
    return parent


def test_chunks_dropped_by_a_resize_do_not_come_back():
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[:] = [1, 2, 3, 4]
    array_of(session).resize((2,))
    array_of(session).resize((4,))
    session.commit("shrunk and grown")

    assert values(repo) == [1, 2, -1, -1]
    diff = repo.diff(from_snapshot_id=_parent(repo), to_branch="main")
    assert diff.updated_arrays == {"/a"}
    assert diff.updated_chunks == {"/a": [[0], [1], [2], [3]]}


def test_deleted_chunks_read_as_fill_value_and_leave_no_manifest():
    repo = repository_with_array()
    session = repo.writable_session("main")
    for i in range(4):
        session.store.delete_sync(f"a/c/{i}")
    session.commit("all gone")

    assert values(repo) == [-1, -1, -1, -1]
    assert repo.list_manifest_files(repo.lookup_branch("main")) == []


def test_amend_replaces_the_newest_commit_and_keeps_its_changes():
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[0] = 1
    session.commit("one")
    session = repo.writable_session("main")
    array_of(session)[1] = 2
    session.amend("one and two", metadata={"k": 1})

    assert messages(repo) == ["one and two", "array", "Repository initialized"]
    assert values(repo) == [1, 2, 0, 0]
    diff = repo.diff(from_snapshot_id=_parent(repo), to_branch="main")
    assert diff.updated_chunks == {"/a": [[0], [1]]}


def test_the_initial_snapshot_cannot_be_amended():
    session = repository().writable_session("main")
    zarr.create_group(session.store)
    with pytest.raises(SessionStateError) as raised:
        session.amend("x")
    assert raised.value.kind is ErrorKind.NO_AMEND_FOR_INITIAL_COMMIT


def test_amend_loses_against_a_newer_commit():
    repo = repository_with_array()
    late = repo.writable_session("main")
    array_of(late)[0] = 1
    early = repo.writable_session("main")
    array_of(early)[1] = 1
    early.commit("early")

    with pytest.raises(ConflictError):
        late.amend("late")
    assert messages(repo)[0] == "early"


def test_flush_writes_a_version_that_no_branch_shows():
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[0] = 1
    snapshot_id = session.flush("aside")

    assert messages(repo)[0] == "array"
    assert values(repo, snapshot_id=snapshot_id)[0] == 1
    assert repo.lookup_snapshot(snapshot_id).parent_id == repo.lookup_branch("main")
    repo.create_branch("aside", snapshot_id)
    assert values(repo, branch="aside")[0] == 1


def test_the_transaction_context_commits_when_the_block_ends_well():
    repo = repository_with_array()
    with repo.transaction("main", message="in a block") as store:
        zarr.open_array(store, path="a")[0] = 1
    assert values(repo)[0] == 1

    with suppress(RuntimeError), repo.transaction("main", message="fails") as store:
        zarr.open_array(store, path="a")[0] = 2
        raise RuntimeError
    assert values(repo)[0] == 1


def test_default_commit_metadata_is_under_what_a_commit_says():
    repo = repository_with_array()
    repo.set_default_commit_metadata({"who": "me", "why": "because"})
    session = repo.writable_session("main")
    array_of(session)[0] = 1
    session.commit("x", {"who": "you"})

    assert repo.default_commit_metadata() == {"who": "me", "why": "because"}
    assert next(repo.ancestry(branch="main")).metadata == {"who": "you", "why": "because"}


def test_moved_nodes_keep_id_chunks_and_children():
    repo = repository_with_array()
    with repo.transaction("main", message="groups") as store:
        root = zarr.open_group(store)
        root.create_group("g")
        root["g"].create_group("h").create_array("x", shape=(1,), dtype="i4")[:] = 6
    before = repo.readonly_session("main").get_node_id("/g/h/x")
    session = repo.rearrange_session("main")
    assert session.mode is SessionMode.rearrange
    session.move("/g", "/moved")
    session.move("a", "moved/a")
    session.commit("moved")

    assert values(repo, "moved/h/x") == [6]
    assert values(repo, "moved/a") == [0, 0, 0, 0]
    assert repo.readonly_session("main").get_node_id("/moved/h/x") == before
    diff = repo.diff(from_snapshot_id=_parent(repo), to_branch="main")
    assert diff.moved_nodes == [
        ("/g", "/moved"),
        ("/a", "/moved/a"),
        ("/g/h", "/moved/h"),
        ("/g/h/x", "/moved/h/x"),
    ]
    assert not diff.new_groups
    assert not diff.deleted_arrays


@pytest.mark.parametrize(
    ("source", "target", "error", "kind"),
    [
        ("/nope", "/x", NodeNotFoundError, ErrorKind.NODE_NOT_FOUND),
        ("/a", "/g", AlreadyExistsError, ErrorKind.MOVE_WONT_OVERWRITE),
        ("/g", "/g/h/g", SessionStateError, ErrorKind.MOVE_INTO_SELF_OR_DESCENDANT),
        ("/", "/x", SessionStateError, ErrorKind.MOVE_INTO_SELF_OR_DESCENDANT),
        ("/g", "/x/y", SessionStateError, ErrorKind.MOVE_DESTINATION_PARENT_MISSING),
        ("/g", "/a/y", SessionStateError, ErrorKind.MOVE_DESTINATION_PARENT_NOT_GROUP),
        ("/g", "/x/../y", InvalidInputError, ErrorKind.INVALID_PATH),
    ],
)
def test_impossible_moves_are_refused(source, target, error, kind):
    repo = repository_with_array()
    with repo.transaction("main", message="groups") as store:
        zarr.open_group(store).create_group("g").create_group("h")
    session = repo.rearrange_session("main")
    with pytest.raises(error) as raised:
        session.move(source, target)
    assert raised.value.kind is kind
    assert not session.has_uncommitted_changes


def test_moves_and_edits_do_not_mix():
    repo = repository_with_array()
    with pytest.raises(SessionStateError) as raised:
        repo.writable_session("main").move("/a", "/b")
    assert raised.value.kind is ErrorKind.NON_REARRANGE_SESSION
    with pytest.raises(SessionStateError) as raised:
        array_of(repo.rearrange_session("main"))[0] = 1
    assert raised.value.kind is ErrorKind.REARRANGE_SESSION_ONLY


def test_a_move_there_and_back_is_no_change():
    repo = repository_with_array()
    session = repo.rearrange_session("main")
    session.move("/a", "/b")
    session.move("/b", "/a")
    assert session.status().moved_nodes == []


def test_chunks_are_shifted_without_being_copied():
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[:] = [1, 2, 3, 4]
    session.shift_array("/a", [1])
    session.commit("right")
    assert values(repo) == [-1, 1, 2, 3]

    session = repo.writable_session("main")
    session.shift_array("/a", (-2,))
    session.commit("left")
    assert values(repo) == [2, 3, -1, -1]


def test_chunks_are_reindexed_by_a_function():
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[:] = [1, 2, 3, 4]

    def reverse(index):
        return [3 - i for i in index]

    session.reindex_array("/a", reverse, reverse)
    session.commit("reversed")
    assert values(repo) == [4, 3, 2, 1]


def test_reindexing_leaves_stale_chunks_unless_a_backward_function_clears_them():
    repo = repository_with_array()
    session = repo.writable_session("main")
    array_of(session)[:] = [1, 2, 3, 4]

    def forward(index):
        return [i + 1 for i in index] if index[0] < 3 else None

    def backward(index):
        return [i - 1 for i in index] if index[0] > 0 else None

    session.reindex_array("/a", forward)
    assert array_of(session)[:].tolist() == [1, 1, 2, 3]
    session.discard_changes()
    array_of(session)[:] = [1, 2, 3, 4]
    session.reindex_array("/a", forward, backward)
    assert array_of(session)[:].tolist() == [-1, 1, 2, 3]
    with pytest.raises(InvalidInputError):
        session.reindex_array("/a", lambda index: [9 for _ in index])
    with pytest.raises(InvalidInputError):
        session.shift_array("/a", [1, 1])


def test_chunk_types_and_coordinates_are_shown():
    repo = repository()
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store, name="x", shape=(4, 300), chunks=(1, 300), dtype="i4", compressors=None
    )
    array[0] = np.arange(300)
    zarr.create_array(session.store, name="y", shape=(4,), chunks=(1,), dtype="i4")[1] = 1
    session.store.set_virtual_ref("x/c/1/0", "s3://b/k", 0, 10, validate_containers=False)

    assert session.chunk_type("/x", [0, 0]) is ChunkType.native
    assert session.chunk_type("/x", [1, 0]) is ChunkType.virtual
    assert session.chunk_type("x", [2, 0]) is ChunkType.uninitialized
    assert session.chunk_type("/y", [1]) is ChunkType.inline
    assert session.all_virtual_chunk_locations() == ["s3://b/k"]
    with pytest.raises(NodeNotFoundError):
        session.chunk_type("/nope", [0])
    with pytest.raises(InvalidInputError):
        session.chunk_type("/", [0])


async def test_chunk_coordinates_are_yielded():
    session = repository_with_array().readonly_session("main")
    assert [index async for index in session.chunk_coordinates("/a", 3)] == [(0,), (1,), (2,), (3,)]


def test_read_only_sessions_pickle_and_writable_ones_refuse():
    repo = repository_with_array()
    reader = pickle.loads(pickle.dumps(repo.readonly_session("main")))
    assert array_of(reader)[:].tolist() == [0, 0, 0, 0]
    with pytest.raises(SessionStateError, match=r"session\.fork"):
        pickle.dumps(repo.writable_session("main"))
    with pytest.raises(SessionStateError, match=r"session\.fork"):
        pickle.dumps(repo.writable_session("main").store)


def test_repositories_pickle():
    repo = repository_with_array()
    repo.set_default_commit_metadata({"a": 1})
    again = pickle.loads(pickle.dumps(repo))
    assert values(again) == [0, 0, 0, 0]
    assert again.default_commit_metadata() == {"a": 1}


def test_sessions_are_equal_when_they_show_the_same():
    repo = repository_with_array()
    assert repo.readonly_session("main") == repo.readonly_session("main")
    assert repo.readonly_session("main") != repo.writable_session("main")
    assert repo.readonly_session("main") != "main"


async def test_async_twins_do_the_same():
    repo = await Repository.create_async(in_memory_storage())
    session = await repo.writable_session_async("main")
    await session.store.set("zarr.json", _group_buffer())
    snapshot_id = await session.commit_async("async")
    assert await repo.lookup_branch_async("main") == snapshot_id
    assert [info.message async for info in repo.async_ancestry(branch="main")] == [
        "async",
        "Repository initialized",
    ]
    assert len([update async for update in repo.ops_log_async()]) == 2
    assert await Repository.exists_async(repo.storage)
    assert (await Repository.open_async(repo.storage)).lookup_branch("main") == snapshot_id


def _group_buffer():
    from zarr.core.buffer import default_buffer_prototype

    return default_buffer_prototype().buffer.from_bytes(
        b'{"zarr_format":3,"node_type":"group","attributes":{}}'
    )
