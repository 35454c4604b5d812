"""Each write step of a commit is made to fail, and to succeed with a lost answer."""

import pytest
from tests.builders import array_of, messages, repository_with_array, values

from icestream.errors import CommitUnknownError, IcestreamError, StorageError
from icestream.model.conflicts import ConflictDetector
from icestream.repository.repository import Repository
from icestream.storage import in_memory_storage
from icestream.testing.doubles import Loss, LossRule, LossyStorage

WRITE_STEPS = {
    "manifest": ("put", "manifests/"),
    "snapshot": ("put", "snapshots/"),
    "transaction log": ("put", "transactions/"),
    "backup": ("put", "overwritten/"),
    "swap of the repo object": ("put_if_version", "repo"),
}
SPEC1_STEPS = {
    "manifest": ("put", "manifests/"),
    "snapshot": ("put", "snapshots/"),
    "transaction log": ("put", "transactions/"),
    "swap of the branch": ("put_if_version", "refs/"),
}
ALL_STEPS = [(2, *step) for step in WRITE_STEPS.values()] + [
    (1, *step) for step in SPEC1_STEPS.values()
]


@pytest.mark.parametrize("loss", list(Loss))
@pytest.mark.parametrize(("spec", "verb", "prefix"), ALL_STEPS)
def test_a_commit_with_a_fault_is_seen_whole_or_not_at_all(spec, verb, prefix, loss):
    memory = in_memory_storage()
    repository_with_array(memory, spec_version=spec)
    lossy = LossyStorage(memory)
    session = Repository.open(lossy).writable_session("main")
    array_of(session)[:] = 7
    lossy.rule = LossRule(verb, loss, path_prefix=prefix)
    try:
        session.commit("faulty")
        succeeded = True
    except IcestreamError:
        succeeded = False

    assert lossy.met >= 1
    found = values(Repository.open(memory))
    assert found in ([0, 0, 0, 0], [7, 7, 7, 7])
    assert succeeded == (found == [7, 7, 7, 7])
    assert messages(Repository.open(memory)).count("faulty") == int(succeeded)


@pytest.mark.parametrize("spec", [1, 2])
def test_a_lost_answer_to_the_swap_is_recognised_as_success(spec):
    memory = in_memory_storage()
    repository_with_array(memory, spec_version=spec)
    lossy = LossyStorage(memory)
    session = Repository.open(lossy).writable_session("main")
    array_of(session)[0] = 1
    lossy.rule = LossRule("put_if_version", Loss.LOSE_ANSWER)

    session.commit("answer lost")

    assert messages(Repository.open(memory)) == ["answer lost", "array", "Repository initialized"]


class _RivalAfterLostAnswer(LossyStorage):
    """Loses the answer to the first swap, and lets another writer commit before it is looked at."""

    def __init__(self, inner, rival):
        super().__init__(inner, LossRule("put_if_version", Loss.LOSE_ANSWER))
        self._rival = rival

    def around(self, verb, path, call):
        try:
            return super().around(verb, path, call)
        except CommitUnknownError:
            self._rival()
            raise


@pytest.mark.parametrize("spec", [1, 2])
def test_a_lost_answer_is_recognised_even_when_a_rival_committed_on_top(spec):
    memory = in_memory_storage()
    repository_with_array(memory, spec_version=spec)

    def rival_commits():
        session = Repository.open(memory).writable_session("main")
        array_of(session)[1] = 2
        session.commit("rival")

    session = Repository.open(_RivalAfterLostAnswer(memory, rival_commits)).writable_session("main")
    array_of(session)[0] = 1
    session.commit("mine", rebase_with=ConflictDetector())

    repo = Repository.open(memory)
    assert messages(repo) == ["rival", "mine", "array", "Repository initialized"]
    assert values(repo) == [1, 2, 0, 0]


def test_a_session_whose_commit_failed_can_commit_again():
    memory = in_memory_storage()
    repository_with_array(memory)
    lossy = LossyStorage(memory)
    session = Repository.open(lossy).writable_session("main")
    array_of(session)[:] = 7
    lossy.rule = LossRule("put", Loss.FAIL_BEFORE, path_prefix="snapshots/")
    with pytest.raises(StorageError):
        session.commit("fails")

    session.commit("succeeds")

    assert values(Repository.open(memory)) == [7, 7, 7, 7]


@pytest.mark.parametrize("loss", list(Loss))
@pytest.mark.parametrize(
    ("spec", "verb", "prefix"),
    [
        (2, "put", "snapshots/"),
        (2, "put", "transactions/"),
        (2, "put_if_absent", "repo"),
        (1, "put", "snapshots/"),
        (1, "put_if_absent", "refs/"),
    ],
)
def test_a_creation_with_a_fault_leaves_a_repository_or_none(spec, verb, prefix, loss):
    memory = in_memory_storage()
    lossy = LossyStorage(memory, LossRule(verb, loss, path_prefix=prefix))
    with pytest.raises(IcestreamError):
        Repository.create(lossy, spec_version=spec)

    assert lossy.met == 1
    if Repository.exists(memory):
        assert messages(Repository.open(memory)) == ["Repository initialized"]
    else:
        Repository.create(memory, spec_version=spec, check_clean_root=False)


def test_a_commit_that_fails_after_its_rebase_leaves_the_session_as_it_was():
    memory = in_memory_storage()
    repository_with_array(memory)
    lossy = LossyStorage(memory)
    session = Repository.open(lossy).writable_session("main")
    array_of(session).attrs["k"] = 1
    rival = Repository.open(memory).writable_session("main")
    array_of(rival)[1] = 2
    rival.commit("rival")
    lossy.rule = LossRule("put", Loss.FAIL_BEFORE, path_prefix="snapshots/")
    with pytest.raises(StorageError):
        session.commit("fails", rebase_with=ConflictDetector())

    assert array_of(session)[:].tolist() == [0, 0, 0, 0]
    session.commit("succeeds", rebase_with=ConflictDetector())
    assert values(Repository.open(memory)) == [0, 2, 0, 0]
    assert array_of(session).attrs["k"] == 1
