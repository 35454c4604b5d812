"""A repository on a real S3 server, behind a proxy that loses what commits need."""

import random
from collections.abc import Iterator

import pytest
from tests.builders import array_of, messages, repository_with_array, values

from icestream.model.conflicts import ConflictDetector
from icestream.repository.repository import Repository
from icestream.storage import Storage, s3_storage
from icestream.testing.fault_proxy import Action, Fault, FaultProxy, Request, nth

pytestmark = pytest.mark.server


@pytest.fixture
def behind_proxy(moto) -> Iterator[tuple[FaultProxy, Storage, Storage]]:
    bucket = moto.new_bucket()
    with FaultProxy(moto.port) as proxy:
        arguments = moto.storage_arguments()
        direct = s3_storage(bucket=bucket, prefix="repo", **arguments)
        arguments["endpoint_url"] = f"http://127.0.0.1:{proxy.port}"
        yield proxy, s3_storage(bucket=bucket, prefix="repo", **arguments), direct


def is_swap(request: Request) -> bool:
    return request.method == "PUT" and request.target.split("?")[0].endswith("/repo")


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.RESET_BEFORE, Fault.STATUS])
def test_a_commit_whose_swap_is_disturbed_is_in_the_history_once(behind_proxy, fault):
    proxy, disturbed, direct = behind_proxy
    repository_with_array(direct)
    session = Repository.open(disturbed).writable_session("main")
    array_of(session)[:] = 5
    proxy.rule = nth(is_swap, Action(fault, status=503))
    session.commit("disturbed")

    assert messages(Repository.open(direct)) == ["disturbed", "array", "Repository initialized"]
    assert values(Repository.open(direct)) == [5, 5, 5, 5]


def test_commits_through_a_bad_network_are_all_there_once(behind_proxy):
    proxy, disturbed, direct = behind_proxy
    repository_with_array(direct, chunks=12)
    dice = random.Random(7)
    faults = [
        Action(Fault.LOSE_ANSWER),
        Action(Fault.RESET_BEFORE),
        Action(Fault.STATUS, status=503),
        Action(Fault.STATUS, status=500),
    ]

    def rule(request: Request) -> Action | None:
        del request
        return dice.choice(faults) if dice.random() < 0.2 else None

    repo = Repository.open(disturbed)
    proxy.rule = rule
    for turn in range(12):
        session = repo.writable_session("main")
        array_of(session)[turn] = turn
        session.commit(f"turn {turn}", rebase_with=ConflictDetector())
    proxy.rule = None

    assert values(Repository.open(direct)) == list(range(12))
    assert messages(Repository.open(direct))[:12] == [f"turn {turn}" for turn in range(11, -1, -1)]


def test_bytes_changed_on_the_way_are_noticed(behind_proxy):
    """Metadata files: the codec sees it. Chunks carry no checksum of their own in this format."""
    from icestream.errors import FormatError

    proxy, disturbed, direct = behind_proxy
    repository_with_array(direct)
    # in every answer: what is loaded ahead, and fails, is loaded again by whoever needs it
    flip = Action(Fault.FLIP_BIT)
    proxy.rule = lambda request: flip if "/snapshots/" in request.target else None
    repo = Repository.open(disturbed)
    with pytest.raises(FormatError, match="snapshots/"):
        repo.readonly_session("main")
