"""What no block leads to is found, and deleted once it is old enough."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.ledger_events import SCHEMA, moment, save_checkpoint, save_slice, seed

from icestream.errors import IntegrityError, StorageError
from icestream.ledger.blocks.attributes import ExtraAttributes
from icestream.ledger.blocks.events import AddData, SetInfo
from icestream.ledger.blocks.hashes import sha3_256
from icestream.ledger.chain.layout import HEAD, SUMMARY, block_key, data_key
from icestream.ledger.chain.leftovers import delete_leftovers, find_leftovers
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.rewriting import reset
from icestream.ledger.chain.verification import verify_chain
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import Loss, LossRule, LossyStorage, WrappedStorage

PAST = datetime.now(UTC) - timedelta(hours=1)


def future() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def create(storage: Storage) -> MetadataChain:
    chain = MetadataChain.create(storage, [seed(), SCHEMA], system_time=moment(0))
    made = save_checkpoint(storage, "one")
    chain.append(AddData(new_data=save_slice(storage, 0, 9), new_checkpoint=made))
    return chain


def found(storage: Storage) -> set[str]:
    return {info.path for info in find_leftovers(storage, older_than=future()).objects}


def test_a_whole_dataset_has_no_leftovers() -> None:
    storage = InMemoryStorage()
    create(storage)

    assert found(storage) == set()
    assert delete_leftovers(storage, older_than=future()).deleted == 0


def test_what_a_cut_off_commit_left_is_found_and_deleted() -> None:
    lossy = LossyStorage(InMemoryStorage())
    chain = create(lossy)
    before = {info.path for info in lossy.list()}
    slice_ = save_slice(lossy, 10, 19)
    lossy.rule = LossRule("put_if_version", Loss.FAIL_BEFORE)
    with pytest.raises(StorageError):
        chain.append(
            AddData(prev_offset=9, prev_checkpoint=chain.state.checkpoint, new_data=slice_)
        )
    lossy.put("data/.pending-0123456789abcdef", b"half")
    leftovers = {info.path for info in lossy.list()} - before

    assert len(leftovers) == 3
    assert found(lossy) == leftovers
    assert find_leftovers(lossy, older_than=PAST).objects == ()
    assert delete_leftovers(lossy, older_than=PAST).deleted == 0
    assert delete_leftovers(lossy, older_than=future()).deleted == 3
    assert {info.path for info in lossy.list()} == before
    assert verify_chain(lossy).is_valid


def test_what_a_reset_took_back_is_found() -> None:
    storage = InMemoryStorage()
    chain = create(storage)
    target = chain.head
    chain.append(SetInfo(description="x"))
    gone = block_key(chain.head)
    reset(chain, target)

    leftovers = find_leftovers(storage, older_than=future())

    assert [info.path for info in leftovers.objects] == [gone]
    assert leftovers.size_bytes == len(storage.get(gone))


def test_without_a_head_all_is_left_over() -> None:
    storage = InMemoryStorage()
    create(storage)
    everything = {info.path for info in storage.list()}
    storage.delete_many([HEAD])

    assert found(storage) == everything - {HEAD, SUMMARY}


def test_nothing_is_deleted_where_a_block_is_missing() -> None:
    storage = InMemoryStorage()
    chain = create(storage)
    first = list(chain.blocks())[-1]
    storage.delete_many([block_key(first.block_hash)])
    storage.put("data/x", b"x")

    with pytest.raises(IntegrityError, match="missing"):
        delete_leftovers(storage, older_than=future())
    assert storage.get("data/x") == b"x"


def test_objects_that_records_link_to_are_spared_unless_they_are_told() -> None:
    storage = InMemoryStorage()
    chain = MetadataChain.create(storage, [seed(), SCHEMA], system_time=moment(0))
    extra = ExtraAttributes.of({"opendatafabric.org/linkedObjects": {"numObjectsNaive": 1}})
    chain.append(AddData(new_data=save_slice(storage, 0, 9), extra=extra))
    linked, stray = (sha3_256(name) for name in (b"linked", b"stray"))
    for made in (linked, stray):
        storage.put(data_key(made), b"x")
    storage.put(block_key(stray), b"x")

    spared = find_leftovers(storage, older_than=future())
    told = find_leftovers(storage, older_than=future(), linked=[linked])

    assert spared.spares_data
    assert [info.path for info in spared.objects] == [block_key(stray)]
    assert not told.spares_data
    assert {info.path for info in told.objects} == {block_key(stray), data_key(stray)}


def test_blocks_that_come_back_while_leftovers_are_looked_for_stay() -> None:
    storage = InMemoryStorage()
    chain = create(storage)
    target = chain.head
    chain.append(SetInfo(description="x"))
    returning = storage.get(HEAD)
    reset(chain, target)

    class Racing(WrappedStorage):
        """Another writer moves the head after it was read."""

        def around[T](self, verb: str, path: str, call: Callable[[], T]) -> T:
            result = call()
            if (verb, path) == ("get_versioned", HEAD):
                self.inner.put(HEAD, returning)
            return result

    assert delete_leftovers(Racing(storage), older_than=future()).deleted == 0
    assert verify_chain(storage).is_valid
