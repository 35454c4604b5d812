"""Writers of a dataset that are killed at any step, or are not alone."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.histories import InterruptingStorage

from icestream.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    StorageError,
)
from icestream.ledger import Dataset, Workspace
from icestream.ledger.chain.layout import HEAD
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import WRITE_VERBS, Loss, LossRule, LossyStorage, WrappedStorage

FUTURE = datetime.now(UTC) + timedelta(hours=1)
MORE = pa.table({"city": ["lviv", "odesa"]})


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return InMemoryStorage() if request.param == "memory" else LocalStorage(tmp_path)


class Killed(BaseException):
    """The process is gone: nothing catches this."""


class DeadlyStorage(WrappedStorage):
    """Kills its user at a write, just before it or just after it."""

    def __init__(self, inner: Storage, number: int, *, after: bool) -> None:
        super().__init__(inner)
        self.writes = 0
        self._number, self._after = number, after

    def around[T](self, verb: str, path: str, call: Callable[[], T]) -> T:
        if verb not in WRITE_VERBS:
            return call()
        self.writes += 1
        if self.writes == self._number and not self._after:
            raise Killed
        result = call()
        if self.writes == self._number:
            raise Killed
        return result


def killed(
    storage: Storage, number: int, step: Callable[[Storage], object], *, after: bool
) -> bool:
    """Do a step that is killed at a write; tell whether it came that far."""
    try:
        step(DeadlyStorage(storage, number, after=after))
    except Killed:
        return True
    return False


def filled(storage: Storage) -> Dataset:
    dataset = Dataset.create(storage, "cities")
    for name in ("kyiv", "kharkiv"):
        dataset.add_data(pa.table({"city": [name]}))
    return dataset


def first_data(storage: Storage) -> None:
    Dataset.open(storage).add_data(MORE)


def compact(storage: Storage) -> None:
    Dataset.open(storage).compact()


def reset(storage: Storage) -> None:
    Dataset.open(storage).reset(1)


def empty(storage: Storage) -> Dataset:
    return Dataset.create(storage, "cities")


def records(storage: Storage) -> pa.Table:
    return Dataset.open(storage).to_arrow().drop_columns(["system_time", "event_time"])


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("start", "step"),
    [(empty, first_data), (filled, first_data), (filled, compact), (filled, reset)],
)
def test_a_killed_writer_leaves_the_dataset_as_before_or_complete(
    start: Callable[[Storage], Dataset], step: Callable[[Storage], None], *, after: bool
) -> None:
    reference = InMemoryStorage()
    start(reference)
    before = records(reference)
    step(reference)
    complete = records(reference)

    number = 1
    while True:
        storage = InMemoryStorage()
        start(storage)
        if not killed(storage, number, step, after=after):
            break
        dataset = Dataset.open(storage)

        assert records(storage) in (before, complete)
        assert dataset.verify().is_valid
        dataset.collect_garbage(FUTURE)
        assert dataset.find_garbage(FUTURE).objects == ()
        step(storage)
        assert Dataset.open(storage).verify().is_valid
        number += 1

    assert number > 2  # the head at least, and the summary


def test_what_a_killed_writer_leaves_is_found(storage: Storage) -> None:
    dataset = filled(storage)
    known = {info.path for info in storage.list()}
    # slice, block, then the head
    assert killed(storage, 3, first_data, after=False)

    leftovers = {info.path for info in dataset.find_garbage(FUTURE).objects}

    assert leftovers == {info.path for info in storage.list()} - known
    assert sorted(path.split("/")[0] for path in leftovers) == ["blocks", "data"]
    assert Dataset.open(storage).last_offset == 1
    assert dataset.collect_garbage(FUTURE).deleted == 2
    assert {info.path for info in storage.list()} == known


@pytest.mark.parametrize("after", [False, True])
def test_a_killed_creation_leaves_no_dataset_or_a_whole_one(*, after: bool) -> None:
    number = 0
    while True:
        number += 1
        storage = InMemoryStorage()
        if not killed(storage, number, lambda each: Dataset.create(each, "cities"), after=after):
            break
        try:
            assert Dataset.open(storage).verify().is_valid
        except NotFoundError:
            assert Dataset.create(storage, "cities").verify().is_valid

    assert number > 3


@pytest.mark.parametrize("after", [False, True])
def test_a_name_never_leads_to_half_a_dataset(*, after: bool) -> None:
    number = 0
    while True:
        number += 1
        storage = InMemoryStorage()
        if not killed(storage, number, lambda each: Workspace(each).create("cities"), after=after):
            break
        workspace = Workspace(storage)
        for entry in workspace.datasets():
            assert workspace.open(entry.alias).verify().is_valid
        if not workspace.datasets():
            workspace.create("cities")
        assert len(workspace.datasets()) == 1
        workspace.delete_abandoned(FUTURE)
        assert workspace.find_abandoned(FUTURE) == []
        assert len({info.path.split("/")[1] for info in storage.list("datasets/")}) == 1
        assert workspace.open("cities").verify().is_valid

    assert number > 4


@pytest.mark.parametrize("verb", ["put_if_absent", "put_if_version"])
@pytest.mark.parametrize("loss", [Loss.FAIL_BEFORE, Loss.LOSE_ANSWER])
def test_a_request_that_gets_lost_leaves_the_dataset_as_before_or_complete(
    storage: Storage, verb: str, loss: Loss
) -> None:
    filled(storage)
    lossy = LossyStorage(storage)
    dataset = Dataset.open(lossy)
    lossy.rule = LossRule(verb, loss)

    try:
        dataset.add_data(MORE)
    except (StorageError, CommitUnknownError):
        assert Dataset.open(storage).last_offset == 1
    else:
        assert Dataset.open(storage).last_offset == 3
    assert Dataset.open(storage).verify().is_valid


def test_of_two_writers_one_wins_and_nothing_of_the_other_is_visible(storage: Storage) -> None:
    filled(storage)
    one, other = Dataset.open(storage), Dataset.open(storage)
    one.add_data(pa.table({"city": ["lviv"]}))

    with pytest.raises(ConflictError, match="another writer was first"):
        other.add_data(pa.table({"city": ["odesa"]}))

    found = Dataset.open(storage)
    assert found.to_arrow().column("city").to_pylist() == ["kyiv", "kharkiv", "lviv"]
    assert found.verify().is_valid
    assert len(found.find_garbage(FUTURE).objects) == 2
    other.refresh()
    assert other.add_data(pa.table({"city": ["odesa"]})).record_count == 1
    assert Dataset.open(storage).last_offset == 3


def test_a_rival_just_before_the_head_moves_wins(storage: Storage) -> None:
    filled(storage)
    interrupted = InterruptingStorage(storage)
    dataset = Dataset.open(interrupted)
    rival = Dataset.open(storage)

    def win() -> None:
        rival.add_data(pa.table({"city": ["lviv"]}))

    with interrupted.interrupted("put_if_version", HEAD, win), pytest.raises(ConflictError):
        dataset.add_data(pa.table({"city": ["odesa"]}))

    assert Dataset.open(storage).head == rival.head


def test_of_many_writers_at_once_each_wins_in_the_end(storage: Storage) -> None:
    filled(storage)
    conflicts: list[ConflictError] = []
    start = threading.Barrier(4)

    def write(number: int) -> None:
        dataset = Dataset.open(storage)
        start.wait()
        while True:
            try:
                dataset.add_data(pa.table({"city": [f"city {number}"]}))
            except ConflictError as error:
                conflicts.append(error)
                dataset.refresh()
            else:
                return

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    dataset = Dataset.open(storage)
    table = dataset.to_arrow()
    assert sorted(table.column("city").to_pylist()[2:]) == [f"city {n}" for n in range(4)]
    assert table.column("offset").to_pylist() == list(range(6))
    assert dataset.verify().is_valid


def test_of_two_that_take_a_name_at_once_one_wins() -> None:
    storage = InterruptingStorage(InMemoryStorage())
    rival = Workspace(storage.inner)

    def win() -> None:
        rival.create("cities")

    with (
        storage.interrupted("put_if_absent", "aliases/", win),
        pytest.raises(AlreadyExistsError, match="there is a dataset cities already"),
    ):
        Workspace(storage).create("cities")

    folders = {info.path.split("/")[1] for info in storage.inner.list("datasets/")}
    (entry,) = rival.datasets()
    assert folders == {str(entry.dataset_id).removeprefix("did:odf:")}
