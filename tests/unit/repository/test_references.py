"""Branches and tags, in both versions of the format."""

import pytest
from tests.builders import array_of, messages, repository_with_array

from icestream.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    InvalidInputError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)

UNKNOWN = "0000000000000000000G"


@pytest.fixture(params=[1, 2])
def repo(request):
    return repository_with_array(spec_version=request.param)


def test_a_branch_starts_where_it_is_told_and_moves_alone(repo):
    tip = repo.lookup_branch("main")
    repo.create_branch("dev", tip)
    session = repo.writable_session("dev")
    array_of(session)[0] = 1
    session.commit("on dev")

    assert repo.list_branches() == {"main", "dev"}
    assert messages(repo, "dev")[0] == "on dev"
    assert repo.lookup_branch("main") == tip


def test_branches_are_created_once(repo):
    with pytest.raises(AlreadyExistsError) as raised:
        repo.create_branch("main", repo.lookup_branch("main"))
    assert raised.value.kind is ErrorKind.BRANCH_ALREADY_EXISTS
    with pytest.raises(SnapshotNotFoundError):
        repo.create_branch("x", UNKNOWN)
    with pytest.raises(InvalidInputError):
        repo.create_branch("", repo.lookup_branch("main"))


def test_a_branch_is_reset_if_it_is_where_it_was_expected(repo):
    first = next(repo.ancestry(branch="main")).parent_id
    tip = repo.lookup_branch("main")
    with pytest.raises(ConflictError):
        repo.reset_branch("main", first, from_snapshot_id=first)
    repo.reset_branch("main", first, from_snapshot_id=tip)
    assert repo.lookup_branch("main") == first
    repo.reset_branch("main", tip)
    assert repo.lookup_branch("main") == tip
    with pytest.raises(RefNotFoundError):
        repo.reset_branch("nope", tip)
    with pytest.raises(SnapshotNotFoundError):
        repo.reset_branch("main", UNKNOWN)


def test_branches_are_deleted_but_never_main(repo):
    repo.create_branch("dev", repo.lookup_branch("main"))
    repo.delete_branch("dev")
    assert repo.list_branches() == {"main"}
    with pytest.raises(RefNotFoundError):
        repo.delete_branch("dev")
    with pytest.raises(SessionStateError) as raised:
        repo.delete_branch("main")
    assert raised.value.kind is ErrorKind.CANNOT_DELETE_MAIN
    repo.create_branch("dev", repo.lookup_branch("main"))


def test_a_commit_on_a_deleted_branch_finds_no_branch(repo):
    repo.create_branch("dev", repo.lookup_branch("main"))
    session = repo.writable_session("dev")
    array_of(session)[0] = 1
    repo.delete_branch("dev")
    with pytest.raises(RefNotFoundError):
        session.commit("too late")


def test_tags_never_move_and_never_come_back(repo):
    tip = repo.lookup_branch("main")
    repo.create_tag("v1", tip)
    assert repo.list_tags() == {"v1"}
    assert repo.lookup_tag("v1") == tip
    with pytest.raises(AlreadyExistsError) as raised:
        repo.create_tag("v1", tip)
    assert raised.value.kind is ErrorKind.TAG_ALREADY_EXISTS
    repo.delete_tag("v1")
    assert repo.list_tags() == set()
    with pytest.raises(RefNotFoundError):
        repo.lookup_tag("v1")
    with pytest.raises(RefNotFoundError):
        repo.delete_tag("v1")
    with pytest.raises(AlreadyExistsError) as raised:
        repo.create_tag("v1", tip)
    assert raised.value.kind is ErrorKind.TAG_PREVIOUSLY_DELETED


def test_slashes_are_for_version_two_only():
    repository_with_array(spec_version=2).create_branch("a/b", "1CECHNKREP0F1RSTCMT0")
    with pytest.raises(InvalidInputError) as raised:
        repository_with_array(spec_version=1).create_branch("a/b", "1CECHNKREP0F1RSTCMT0")
    assert raised.value.kind is ErrorKind.INVALID_REF_NAME
