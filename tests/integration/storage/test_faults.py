"""What a network does to requests, done to a real S3 server by a proxy before it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from icestream.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    ErrorKind,
    StorageError,
)
from icestream.storage import s3_storage
from icestream.storage.object_store import ObjectStorage
from icestream.storage.retries import RetryPolicy
from icestream.testing.fault_proxy import Action, Fault, FaultProxy, Request, Rule, nth
from icestream.testing.servers import S3Server

pytestmark = pytest.mark.server

QUICK = RetryPolicy(max_tries=4, initial_backoff_s=0.01, max_backoff_s=0.05)


@dataclass(frozen=True)
class Stage:
    """A storage behind the proxy, and the same one before it."""

    proxy: FaultProxy
    storage: ObjectStorage
    direct: ObjectStorage


@pytest.fixture(params=["moto", "seaweedfs"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    server: S3Server = request.getfixturevalue(request.param)
    one_bucket = request.param == "seaweedfs"
    bucket = request.getfixturevalue("seaweedfs_bucket") if one_bucket else server.new_bucket()
    with FaultProxy(server.port) as proxy:
        yield Stage(
            proxy,
            _storage(server, bucket, f"r{proxy.port}", f"http://127.0.0.1:{proxy.port}"),
            _storage(server, bucket, f"r{proxy.port}", server.endpoint_url),
        )


def _storage(server: S3Server, bucket: str, prefix: str, endpoint_url: str) -> ObjectStorage:
    arguments = {
        **server.storage_arguments(),
        "endpoint_url": endpoint_url,
        "network_stream_timeout_seconds": 1,
    }
    storage = s3_storage(bucket=bucket, prefix=prefix, **arguments)
    assert isinstance(storage, ObjectStorage)
    return storage.with_retries(QUICK)


def _is(method: str) -> Callable[[Request], bool]:
    return lambda request: request.method == method


def _is_listing(request: Request) -> bool:
    return request.method == "GET" and "list-type=2" in request.target


def _always(method: str, action: Action) -> Rule:
    return nth(_is(method), action, first=1000)


LOSE_ANSWER = Action(Fault.LOSE_ANSWER)


# reads and plain writes: obstore repeats them


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_passing_refusal_is_waited_out(stage: Stage, status: int) -> None:
    stage.proxy.rule = nth(_is("PUT"), Action(Fault.STATUS, status=status), first=2)
    stage.storage.put("a", b"x")
    stage.proxy.rule = nth(_is("GET"), Action(Fault.STATUS, status=status), first=2)

    assert stage.storage.get("a") == b"x"
    assert (stage.proxy.count("PUT"), stage.proxy.count("GET")) == (3, 3)


@pytest.mark.parametrize("fault", [Fault.RESET_BEFORE, Fault.LOSE_ANSWER])
def test_a_plain_write_survives_a_broken_connection(stage: Stage, fault: Fault) -> None:
    stage.proxy.rule = nth(_is("PUT"), Action(fault))
    stage.storage.put("a", b"x")

    assert stage.direct.get("a") == b"x"
    assert stage.proxy.count("PUT") == 2


@pytest.mark.parametrize("fault", [Fault.CUT_RESET, Fault.CUT_CLOSE, Fault.STALL])
def test_a_body_that_breaks_off_is_completed(stage: Stage, fault: Fault) -> None:
    data = bytes(range(256)) * 4096
    stage.direct.put("a", data)
    stage.proxy.rule = nth(_is("GET"), Action(fault, after_bytes=300_000, seconds=3))

    assert stage.storage.get("a") == data
    assert stage.proxy.count("GET") == 2


def test_a_flipped_bit_goes_unnoticed_here(stage: Stage) -> None:
    stage.direct.put("a", b"0123456789")
    stage.proxy.rule = nth(_is("GET"), Action(Fault.FLIP_BIT))

    # documented: checksums of formats find this, the transport does not
    assert stage.storage.get("a") == b"0123456788"


def test_an_overload_without_end_is_an_error_that_may_pass(stage: Stage) -> None:
    stage.proxy.rule = _always("PUT", Action(Fault.STATUS, status=503))

    for write in (stage.storage.put, stage.storage.put_if_absent):
        with pytest.raises(StorageError, match="overloaded") as caught:
            write("a", b"x")
        assert caught.value.kind is ErrorKind.THROTTLED
        assert caught.value.retryable
    assert stage.proxy.count("PUT") == 2 * QUICK.max_tries


def test_an_unreachable_store_is_an_error_that_may_pass(stage: Stage) -> None:
    stage.proxy.rule = _always("GET", Action(Fault.RESET_BEFORE))

    with pytest.raises(StorageError, match="the request failed") as caught:
        stage.storage.get("a")
    assert caught.value.retryable


# conditional writes: obstore leaves them to its caller


def test_a_create_whose_answer_was_lost_is_recognised(stage: Stage) -> None:
    stage.proxy.rule = nth(_is("PUT"), LOSE_ANSWER)
    version = stage.storage.put_if_absent("repo", b"ours")

    data, found = stage.direct.get_versioned("repo")
    assert data == b"ours"
    assert found.same_as(version)


def test_a_replace_whose_answer_was_lost_is_recognised(stage: Stage) -> None:
    version = stage.direct.put_if_absent("repo", b"1")
    stage.proxy.rule = nth(_is("PUT"), LOSE_ANSWER)
    version = stage.storage.put_if_version("repo", b"2", version)

    stage.storage.put_if_version("repo", b"3", version)
    assert stage.direct.get("repo") == b"3"


@pytest.mark.parametrize("fault", [Fault.RESET_BEFORE, Fault.STATUS])
def test_a_conditional_write_that_never_arrived_is_sent_again(stage: Stage, fault: Fault) -> None:
    stage.proxy.rule = nth(_is("PUT"), Action(fault, status=500), first=2)
    version = stage.storage.put_if_absent("repo", b"1")
    stage.proxy.rule = nth(_is("PUT"), Action(fault, status=500), first=2)
    stage.storage.put_if_version("repo", b"2", version)

    assert stage.direct.get("repo") == b"2"


def test_a_conditional_write_that_hangs_is_given_up_and_resolved(stage: Stage) -> None:
    stage.proxy.rule = nth(_is("PUT"), Action(Fault.HANG, seconds=30))
    stage.storage.put_if_absent("repo", b"ours")

    assert stage.direct.get("repo") == b"ours"


def test_a_loser_whose_answer_was_lost_is_told_that_it_exists(stage: Stage) -> None:
    stage.direct.put_if_absent("repo", b"theirs")
    stage.proxy.rule = nth(_is("PUT"), LOSE_ANSWER)

    with pytest.raises(AlreadyExistsError):
        stage.storage.put_if_absent("repo", b"ours")
    assert stage.direct.get("repo") == b"theirs"


def test_a_refused_replace_is_a_conflict_when_no_answer_was_lost(stage: Stage) -> None:
    version = stage.direct.put_if_absent("repo", b"1")
    stage.direct.put_if_version("repo", b"theirs", version)
    stage.proxy.rule = nth(_is("PUT"), Action(Fault.STATUS, status=503))

    with pytest.raises(ConflictError):
        stage.storage.put_if_version("repo", b"ours", version)


def test_a_replace_overtaken_after_its_answer_was_lost_is_unknown(stage: Stage) -> None:
    version = stage.direct.put_if_absent("repo", b"1")

    def overtake(request: Request) -> Action | None:
        if request.method != "PUT":
            return None
        if stage.proxy.count("PUT") == 1:
            return LOSE_ANSWER
        # another writer builds on what we wrote, before we try again
        data, current = stage.direct.get_versioned("repo")
        stage.direct.put_if_version("repo", data + b" and theirs", current)
        return None

    stage.proxy.rule = overtake

    with pytest.raises(CommitUnknownError, match="may or may not"):
        stage.storage.put_if_version("repo", b"ours", version)
    assert stage.direct.get("repo") == b"ours and theirs"


def test_a_lost_answer_and_a_failed_read_are_unknown(stage: Stage) -> None:
    def lose_and_hide(request: Request) -> Action | None:
        if request.method == "PUT":
            return LOSE_ANSWER
        return Action(Fault.STATUS, status=403)

    stage.proxy.rule = lose_and_hide

    with pytest.raises(CommitUnknownError, match="reading back failed"):
        stage.storage.put_if_absent("repo", b"ours")
    assert stage.direct.get("repo") == b"ours"


# listings and deletes: obstore gives up on them too


@pytest.mark.parametrize("fault", [Fault.CUT_RESET, Fault.CUT_CLOSE])
def test_a_cut_listing_goes_on_without_repeating(stage: Stage, fault: Fault) -> None:
    paths = [f"chunks/{number:02}" for number in range(40)]
    for path in paths:
        stage.direct.put(path, b"x")
    stage.proxy.rule = nth(_is_listing, Action(fault, after_bytes=500), first=2)

    assert sorted(info.path for info in stage.storage.list("chunks/")) == paths


def test_a_listing_that_always_breaks_is_an_error(stage: Stage) -> None:
    stage.direct.put("a", b"x")
    stage.proxy.rule = nth(_is_listing, Action(Fault.CUT_RESET, after_bytes=100), first=1000)

    with pytest.raises(StorageError, match="cannot list"):
        list(stage.storage.list())
    assert sum(map(_is_listing, stage.proxy.requests)) == QUICK.max_tries


def test_a_bulk_delete_whose_answer_was_lost_is_repeated(stage: Stage) -> None:
    for name in "abc":
        stage.direct.put(name, b"x")
    stage.proxy.rule = nth(_is("POST"), LOSE_ANSWER)
    result = stage.storage.delete_many(["a", "b", "missing"])

    assert (result.deleted, dict(result.failed)) == (3, {})
    assert [info.path for info in stage.direct.list()] == ["c"]


def test_a_bulk_delete_that_never_works_names_what_is_left(stage: Stage) -> None:
    stage.direct.put("a", b"x")
    stage.proxy.rule = _always("POST", Action(Fault.STATUS, status=503))
    result = stage.storage.delete_many(["a"])

    assert result.deleted == 0
    assert set(result.failed) == {"a"}
    assert stage.direct.get("a") == b"x"
