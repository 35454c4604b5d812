"""A writer who is killed at any step leaves the dataset as before or complete."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.ledger_events import SCHEMA, checkpoint, content, data_slice, moment, seed

from icestream.ledger.blocks.events import AddData, SetInfo
from icestream.ledger.chain.hashed_objects import save_object
from icestream.ledger.chain.layout import checkpoint_key, data_key
from icestream.ledger.chain.leftovers import delete_leftovers, find_leftovers
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.verification import verify_chain
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import WRITE_VERBS, WrappedStorage

STEPS = ["data", "checkpoint", "first block", "second block", "head", "summary"]


class KilledError(BaseException):
    """The end of a process: nothing in it goes on."""


class DyingStorage(WrappedStorage):
    """Ends the process at a write: before it is done, or right after."""

    def __init__(self, inner: Storage, step: int, *, is_done: bool) -> None:
        super().__init__(inner)
        self.left = step
        self.is_done = is_done

    def around[T](self, verb: str, path: str, call: Callable[[], T]) -> T:
        """Do the call, or die."""
        if verb not in WRITE_VERBS:
            return call()
        self.left -= 1
        if self.left >= 0:
            return call()
        if self.is_done:
            call()
        raise KilledError


def commit(storage: Storage) -> None:
    """Save a slice and a checkpoint, and append them after an info."""
    chain = MetadataChain.open(storage)
    new_data, new_checkpoint = data_slice(0, 9), checkpoint("state")
    save_object(storage, data_key(new_data.physical_hash), content(0, 9))
    save_object(storage, checkpoint_key(new_checkpoint.physical_hash), b"state")
    chain.append(
        SetInfo(description="x"), AddData(new_data=new_data, new_checkpoint=new_checkpoint)
    )


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
def test_a_killed_commit_is_as_before_or_complete(step: int, *, is_done: bool) -> None:
    storage = InMemoryStorage()
    before = MetadataChain.create(storage, [seed(), SCHEMA], system_time=moment(0)).head

    with pytest.raises(KilledError):
        commit(DyingStorage(storage, step, is_done=is_done))

    later = datetime.now(UTC) + timedelta(hours=1)
    is_complete = step + is_done > STEPS.index("head")
    chain = MetadataChain.open(storage)
    assert verify_chain(storage).is_valid
    assert chain.state.last_offset == (9 if is_complete else None)
    assert (chain.head == before) is not is_complete
    left = 0 if is_complete else min(step + is_done, STEPS.index("head"))
    assert len(find_leftovers(storage, older_than=later).objects) == left
    assert delete_leftovers(storage, older_than=later).deleted == left
    if not is_complete:
        commit(storage)
    assert verify_chain(storage).is_valid
    assert MetadataChain.open(storage).state.last_offset == 9


def test_the_steps_are_all_there_are() -> None:
    storage = InMemoryStorage()
    MetadataChain.create(storage, [seed(), SCHEMA], system_time=moment(0))

    commit(DyingStorage(storage, len(STEPS), is_done=False))

    assert MetadataChain.open(storage).state.last_offset == 9
