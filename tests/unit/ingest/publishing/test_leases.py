"""Leases: one holder at a time, and none for ever."""

import json
import multiprocessing
import os
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.publishing_builders import World

from icestream.errors import ConflictError
from icestream.ingest.publishing.leases import (
    LEASE_KEY,
    Lease,
    LeaseTerms,
    find_lease,
)
from icestream.ingest.publishing.processes import ProcessIdentity
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import Loss, LossRule, LossyStorage

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Clock:
    """A clock that stands still unless it is set."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


def take(storage: Storage, clock: Clock | None = None, **terms: float) -> Lease:
    given = LeaseTerms(clock=clock or Clock(), **terms)
    return Lease.take(storage, "sst", given)


def change_holder(storage: Storage, **changes: object) -> None:
    """Let the lease be held by another process."""
    document = json.loads(storage.get(LEASE_KEY))
    document["holder"] |= changes
    storage.put(LEASE_KEY, json.dumps(document).encode())


def test_a_lease_is_held_by_one_and_given_back() -> None:
    storage = InMemoryStorage()

    with (
        take(storage) as lease,
        pytest.raises(ConflictError, match=f"process {os.getpid()} on .* is at it since 2024-05"),
    ):
        take(storage)
    lease.check()

    with take(storage):
        found = find_lease(storage)
        assert found is not None
        assert not found.is_released
        assert found.holder == ProcessIdentity.current()


def test_a_lease_is_given_back_after_an_error() -> None:
    storage = InMemoryStorage()

    with pytest.raises(ZeroDivisionError), take(storage):
        _ = 1 // 0

    take(storage).release()


def test_nobody_holds_a_lease_that_was_never_taken() -> None:
    assert find_lease(InMemoryStorage()) is None


def test_a_lease_that_ran_out_is_taken_over_and_its_holder_learns_of_it() -> None:
    storage, clock = InMemoryStorage(), Clock()
    old = take(storage, clock, duration_s=30)
    clock.now += timedelta(seconds=31)

    new = take(storage, clock, duration_s=30)
    old.release()

    with pytest.raises(ConflictError, match="another run took the lease"):
        old.check()
    new.check()
    new.release()
    found = find_lease(storage)
    assert found is not None
    assert found.token == new.record.token


def test_a_holder_that_is_alive_renews_its_lease() -> None:
    storage, clock = InMemoryStorage(), Clock()

    with take(storage, clock, duration_s=0.03) as lease:
        clock.now += timedelta(days=1)
        deadline = time.monotonic() + 10
        while is_over(storage, clock) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not is_over(storage, clock)

    lease.check()


def is_over(storage: Storage, clock: Clock) -> bool:
    found = find_lease(storage)
    return found is None or found.expires_at <= clock.now


def test_a_dead_holder_on_this_machine_loses_its_lease_at_once() -> None:
    storage = InMemoryStorage()
    lease = take(storage)
    lease._ended.set()
    change_holder(storage, pid=2**22 + 1)  # more than there ever are

    take(storage).release()


def test_another_process_of_the_same_number_is_not_the_holder() -> None:
    storage = InMemoryStorage()
    lease = take(storage)
    lease._ended.set()
    change_holder(storage, started="1")

    take(storage).release()


def test_a_holder_on_another_machine_is_believed_until_its_lease_runs_out() -> None:
    storage, clock = InMemoryStorage(), Clock()
    lease = take(storage, clock)
    lease._ended.set()
    change_holder(storage, machine="another", host="node7", pid=2**22 + 1)

    with pytest.raises(ConflictError, match="on node7"):
        take(storage, clock)

    clock.now += timedelta(minutes=2)
    take(storage, clock).release()


def test_a_lease_that_nobody_can_read_is_taken_over() -> None:
    storage = InMemoryStorage()
    storage.put(LEASE_KEY, b"{}")

    take(storage).release()


def test_a_run_may_wait_for_another_to_finish() -> None:
    storage = InMemoryStorage()
    first = take(storage)
    threading.Timer(0.1, first.release).start()

    take(storage, wait_s=10).release()


def test_a_renewal_whose_answer_is_lost_is_found_out() -> None:
    storage = LossyStorage(InMemoryStorage())
    with take(storage) as lease:
        storage.rule = LossRule("put_if_version", Loss.LOSE_ANSWER)
        lease._write(replace(lease.record, expires_at=NOON + timedelta(hours=1)))

        lease.check()

    found = find_lease(storage)
    assert found is not None
    assert found.is_released


def test_a_lease_that_cannot_be_renewed_is_lost_when_it_runs_out() -> None:
    storage, clock = LossyStorage(InMemoryStorage()), Clock()
    with take(storage, clock) as lease:
        storage.rule = LossRule("put_if_version", Loss.FAIL_BEFORE, last=9)
        lease._write(lease.record)
        lease.check()
        clock.now += timedelta(hours=1)
        lease._write(lease.record)

        with pytest.raises(ConflictError, match="ran out"):
            lease.check()


def test_verification_and_garbage_collection_leave_the_lease_alone() -> None:
    ingest = World().target().ledger.ingest
    with take(ingest.storage):
        ingest.collect_garbage(datetime.now(UTC) + timedelta(hours=1))

        assert ingest.verify().is_valid
        assert find_lease(ingest.storage) is not None


def _die_with_a_lease(folder: str) -> None:
    Lease.take(LocalStorage(folder), "sst", LeaseTerms(duration_s=3600))
    os._exit(9)


@pytest.mark.slow
def test_the_lease_of_a_process_that_was_killed_is_free_at_once(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=_die_with_a_lease, args=(str(tmp_path),)
    )
    process.start()
    process.join()

    found = find_lease(LocalStorage(tmp_path))
    assert found is not None
    assert not found.is_released
    Lease.take(LocalStorage(tmp_path), "sst").release()
