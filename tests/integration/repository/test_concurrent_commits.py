"""Many writers on one branch, in threads and in processes: no commit is lost or doubled."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from tests.builders import array_of, messages, repository_with_array, values

from icestream.errors import ConflictError
from icestream.model.conflicts import BasicConflictSolver, ConflictDetector
from icestream.repository.repository import Repository
from icestream.storage import Storage, local_filesystem_storage

COMMITS_EACH = 4


def commit_cells(storage: Storage, writer: int, writers: int) -> list[str]:
    """Commit to cells that no other writer touches; return the messages that succeeded."""
    done = []
    for turn in range(COMMITS_EACH):
        session = Repository.open(storage).writable_session("main")
        array_of(session)[turn * writers + writer] = writer + 1
        message = f"writer {writer} turn {turn}"
        session.commit(message, rebase_with=ConflictDetector())
        done.append(message)
    return done


def race_for_one_cell(storage: Storage, writer: int) -> list[str]:
    """Commit to one contested cell without rebasing; return the messages that succeeded."""
    done = []
    for turn in range(COMMITS_EACH):
        session = Repository.open(storage).writable_session("main")
        array_of(session)[0] = writer + 1
        message = f"racer {writer} turn {turn}"
        try:
            session.commit(message)
        except ConflictError:
            continue
        done.append(message)
    return done


def check_history(repo: Repository, committed: list[list[str]]) -> None:
    expected = sorted(message for messages_of_one in committed for message in messages_of_one)
    history = messages(repo)
    assert sorted(history[:-2]) == expected
    assert len(set(history)) == len(history)


@pytest.fixture(params=["local", "seaweedfs"])
def storage(request, tmp_path) -> Storage:
    if request.param == "local":
        return local_filesystem_storage(str(tmp_path / "repo"))
    found: Storage = request.getfixturevalue("seaweedfs_storage")
    return found


@pytest.mark.server
@pytest.mark.parametrize("writers", [2, 8])
def test_threads_that_rebase_all_succeed(storage, writers):
    repo = repository_with_array(storage, chunks=writers * COMMITS_EACH)
    with ThreadPoolExecutor(writers) as pool:
        done = list(pool.map(lambda w: commit_cells(storage, w, writers), range(writers)))

    check_history(repo, done)
    assert values(repo) == [w + 1 for w in range(writers)] * COMMITS_EACH


@pytest.mark.server
def test_processes_that_rebase_all_succeed(storage):
    writers = 4
    repo = repository_with_array(storage, chunks=writers * COMMITS_EACH)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(writers, mp_context=spawn) as pool:
        futures = [pool.submit(commit_cells, storage, w, writers) for w in range(writers)]
        done = [future.result(timeout=120) for future in futures]

    check_history(repo, done)
    assert values(repo) == [w + 1 for w in range(writers)] * COMMITS_EACH


@pytest.mark.server
def test_racers_win_or_get_a_conflict(storage):
    repo = repository_with_array(storage)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda w: race_for_one_cell(storage, w), range(8)))

    assert any(done)
    check_history(repo, done)


@pytest.mark.server
def test_solvers_let_the_last_writer_win(storage):
    repo = repository_with_array(storage)

    def write(writer: int) -> None:
        session = repo.writable_session("main")
        array_of(session)[0] = writer + 1
        session.commit(f"writer {writer}", rebase_with=BasicConflictSolver())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))

    last = messages(repo)[0]
    assert values(repo)[0] == int(last.split()[1]) + 1
    assert len(messages(repo)) == 6


@pytest.mark.server
def test_branches_and_tags_of_many_writers_are_all_there(storage):
    repo = repository_with_array(storage)
    tip = repo.lookup_branch("main")

    def write(writer: int) -> None:
        repo.create_branch(f"branch-{writer}", tip)
        repo.create_tag(f"tag-{writer}", tip)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))

    assert repo.list_branches() == {"main", *(f"branch-{w}" for w in range(8))}
    assert repo.list_tags() == {f"tag-{w}" for w in range(8)}
    assert len(np.unique([u.updated_at_micros for u in repo.ops_log()])) == 18
