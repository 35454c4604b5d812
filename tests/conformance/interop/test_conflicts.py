"""Conflicts: the same two edits give the same conflicts here and in the icechunk package."""

from collections.abc import Callable
from typing import Any

import icechunk
import pytest
import zarr
from tests.builders import array_of, messages, values

import icestream

Edit = Callable[[Any], None]
LIBRARIES = [icestream, icechunk]


def write(cell: int, value: int = 1, path: str = "a") -> Edit:
    def edit(root: Any) -> None:
        root[path][cell] = value

    return edit


def create_array(path: str) -> Edit:
    return lambda root: root.create_array(path, shape=(1,), dtype="i4")


def create_group(path: str) -> Edit:
    return lambda root: root.create_group(path)


def delete(path: str) -> Edit:
    return lambda root: root.__delitem__(path)


def set_attribute(path: str, key: str = "k") -> Edit:
    return lambda root: (root if path == "/" else root[path]).attrs.update({key: 1})


SCENARIOS: dict[str, tuple[Edit, Edit, set[str]]] = {
    # name: theirs, ours, expected conflicts
    "different chunks": (write(0), write(1), set()),
    "same chunk": (write(0), write(0, 2), {"ChunkDoubleUpdate"}),
    "same new array": (
        create_array("n"),
        create_array("n"),
        {"NewNodeConflictsWithExistingNode"},
    ),
    "new group over new array": (
        create_array("n"),
        create_group("n"),
        {"NewNodeConflictsWithExistingNode"},
    ),
    "different new nodes": (create_array("n"), create_array("m"), set()),
    "both update an array": (
        set_attribute("a"),
        set_attribute("a"),
        {"ZarrMetadataDoubleUpdate"},
    ),
    "both update a group": (
        set_attribute("g"),
        set_attribute("g"),
        {"ZarrMetadataDoubleUpdate"},
    ),
    "update of a deleted array": (
        delete("a"),
        set_attribute("a"),
        {"ZarrMetadataUpdateOfDeletedArray"},
    ),
    "update of a deleted group": (
        delete("g"),
        set_attribute("g"),
        {"ZarrMetadataUpdateOfDeletedGroup"},
    ),
    "chunk in a deleted array": (delete("a"), write(0), {"ChunksUpdatedInDeletedArray"}),
    "chunk in an updated array": (
        set_attribute("a"),
        write(0),
        {"ChunksUpdatedInUpdatedArray"},
    ),
    "delete of an updated array": (set_attribute("a"), delete("a"), {"DeleteOfUpdatedArray"}),
    "delete of an array with new chunks": (write(0), delete("a"), {"DeleteOfUpdatedArray"}),
    "delete of an updated group": (set_attribute("g"), delete("g"), {"DeleteOfUpdatedGroup"}),
    "metadata of an array whose chunks were written": (write(0), set_attribute("a"), set()),
    "both delete": (delete("a"), delete("a"), set()),
}


def prepared(library: Any) -> Any:
    repo = library.Repository.create(library.in_memory_storage())
    session = repo.writable_session("main")
    root = zarr.create_group(session.store)
    root.create_array("a", shape=(4,), chunks=(1,), dtype="i4")[:] = 0
    root.create_group("g")
    session.commit("base")
    return repo


def race(library: Any, theirs: Edit, ours: Edit) -> tuple[Any, Any]:
    """Return the repository after their commit, and our session that is based on the one before."""
    repo = prepared(library)
    mine = repo.writable_session("main")
    ours(zarr.open_group(mine.store))
    other = repo.writable_session("main")
    theirs(zarr.open_group(other.store))
    other.commit("theirs")
    return repo, mine


def kind_of(conflict: Any) -> str:
    """Return the kind in one spelling: icechunk shows `Chunk double update`."""
    words = str(conflict.conflict_type).rpartition(".")[2].split(" ")
    return "".join(word[0].upper() + word[1:] for word in words)


def conflicts_of(library: Any, session: Any, solver: Any) -> set[str]:
    try:
        session.rebase(solver)
    except library.RebaseFailedError as error:
        return {kind_of(conflict) for conflict in error.conflicts}
    return set()


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_conflicts_are_detected(name):
    theirs, ours, expected = SCENARIOS[name]
    found = []
    for library in LIBRARIES:
        _, session = race(library, theirs, ours)
        found.append(conflicts_of(library, session, library.ConflictDetector()))

    assert found == [expected, expected]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_conflicts_are_solved(name):
    theirs, ours, _ = SCENARIOS[name]
    outcomes = []
    for library in LIBRARIES:
        repo, session = race(library, theirs, ours)
        left = conflicts_of(library, session, library.BasicConflictSolver())
        if not left and session.has_uncommitted_changes:
            session.commit("ours")
        reader = zarr.open_group(repo.readonly_session("main").store, mode="r")
        shown = {key: node[...].tolist() for key, node in reader.arrays()}
        outcomes.append((left, shown, sorted(reader.group_keys())))

    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("selection", ["UseOurs", "UseTheirs", "Fail"])
def test_chunk_conflicts_are_settled_the_same_way(selection):
    outcomes = []
    for library in LIBRARIES:
        repo, session = race(library, write(0, 1), lambda root: root["a"].__setitem__(slice(2), 9))
        solver = library.BasicConflictSolver(
            on_chunk_conflict=getattr(library.VersionSelection, selection)
        )
        left = conflicts_of(library, session, solver)
        if not left:
            session.commit("ours")
        outcomes.append(
            (left, zarr.open_array(repo.readonly_session("main").store, path="a")[:2].tolist())
        )

    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    "flag", ["fail_on_delete_of_updated_array", "fail_on_delete_of_updated_group"]
)
def test_deletes_of_updated_nodes_can_be_made_to_fail(flag):
    path = "a" if flag.endswith("array") else "g"
    found = []
    for library in LIBRARIES:
        _, session = race(library, set_attribute(path), delete(path))
        found.append(conflicts_of(library, session, library.BasicConflictSolver(**{flag: True})))

    assert found[0] == found[1] != set()


def test_a_commit_with_moves_cannot_be_passed():
    found = []
    for library in LIBRARIES:
        repo = prepared(library)
        session = repo.writable_session("main")
        zarr.open_group(session.store)["a"][0] = 1
        mover = repo.rearrange_session("main")
        mover.move("/g", "/h")
        mover.commit("moved")
        found.append(conflicts_of(library, session, library.BasicConflictSolver()))

    assert found == [{"MoveOperationCannotBeRebased"}] * 2


def test_moves_are_rebased_over_other_commits():
    for library in LIBRARIES:
        repo = prepared(library)
        mover = repo.rearrange_session("main")
        mover.move("/a", "/b")
        session = repo.writable_session("main")
        zarr.open_group(session.store)["a"][0] = 1
        session.commit("write")
        mover.commit("moved", rebase_with=library.ConflictDetector())

        reader = repo.readonly_session("main")
        assert zarr.open_array(reader.store, path="b", mode="r")[:].tolist() == [1, 0, 0, 0]


def test_a_child_created_below_a_deleted_group_is_not_orphaned():
    _, session = race(icestream, create_group("g/child"), delete("g"))
    left = conflicts_of(icestream, session, icestream.BasicConflictSolver())
    assert left == {"NewNodeInInvalidGroup"}


def test_each_library_rebases_over_the_commits_of_the_other(tmp_path):
    path = str(tmp_path / "repo")
    ours = icestream.Repository.create(icestream.local_filesystem_storage(path))
    session = ours.writable_session("main")
    zarr.create_group(session.store).create_array("a", shape=(4,), chunks=(1,), dtype="i4")[:] = 0
    session.commit("base")
    theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(path))

    for early, late, libraries in (
        (ours, theirs, (icestream, icechunk)),
        (theirs, ours, (icechunk, icestream)),
    ):
        second = late.writable_session("main")
        zarr.open_array(second.store, path="a")[1] = 5
        first = early.writable_session("main")
        zarr.open_array(first.store, path="a")[0] = 4
        first.commit(f"first by {libraries[0].__name__}")
        with pytest.raises(libraries[1].ConflictError):
            second.commit("too late")
        clash = late.writable_session("main")
        second.commit(
            f"second by {libraries[1].__name__}", rebase_with=libraries[1].ConflictDetector()
        )
        zarr.open_array(clash.store, path="a")[1] = 7
        with pytest.raises(libraries[1].RebaseFailedError):
            clash.rebase(libraries[1].ConflictDetector())

    assert messages(ours)[:4] == [
        "second by icestream",
        "first by icechunk",
        "second by icechunk",
        "first by icestream",
    ]
    assert values(ours) == [4, 5, 0, 0]
    assert array_of(ours.readonly_session("main"))[0] == 4
