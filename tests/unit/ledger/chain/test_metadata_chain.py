"""A chain on a storage: created, read, appended to by one or many, and killed in between."""

import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ledger_events import (
    SCHEMA,
    checkpoint,
    data_slice,
    dataset_id,
    moment,
    save_checkpoint,
    save_slice,
    seed,
    transform,
)

from icestream.errors import (
    AlreadyExistsError,
    ChainRuleError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from icestream.ledger.blocks.decoding import manifest_version
from icestream.ledger.blocks.encoding import block_hash, encode_block
from icestream.ledger.blocks.events import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    SetInfo,
)
from icestream.ledger.blocks.hashes import Multihash, sha3_256
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.appending import linked
from icestream.ledger.chain.layout import HEAD, SUMMARY, block_key, checkpoint_key, data_key
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.chain.verification import verify_chain
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import CountingStorage, Loss, LossRule, LossyStorage

INFO = SetInfo(description="x")


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return InMemoryStorage() if request.param == "memory" else LocalStorage(tmp_path)


def create(storage: Storage) -> MetadataChain:
    return MetadataChain.create(storage, [seed(), SCHEMA], system_time=moment(0))


def contents(storage: Storage) -> dict[str, bytes]:
    return {info.path: storage.get(info.path) for info in storage.list()}


def test_a_chain_lies_where_the_format_says(storage: Storage) -> None:
    chain = create(storage)
    slice_ = save_slice(storage, 0, 9)
    chain.append(AddData(new_data=slice_))

    names = {block_key(block.block_hash) for block in chain.blocks()}
    assert contents(storage).keys() == names | {HEAD, SUMMARY, data_key(slice_.physical_hash)}
    assert storage.get(HEAD) == str(chain.head).encode()
    assert all(sha3_256(storage.get(name)) == Multihash.parse(name.split("/")[1]) for name in names)


def test_blocks_come_newest_first_and_may_be_cut(storage: Storage) -> None:
    chain = create(storage)
    middle = chain.append(INFO)
    chain.append(SetInfo(description="y"), SetInfo(description="z"))

    opened = MetadataChain.open(storage)

    assert [block.sequence_number for block in opened.blocks()] == [4, 3, 2, 1, 0]
    assert [block.sequence_number for block in opened.blocks(since=middle)] == [4, 3]
    assert opened.head == chain.head
    assert opened.state == chain.state


def test_blocks_of_other_writers_are_kept_byte_for_byte(storage: Storage) -> None:
    chain = create(storage)
    (block,) = linked(chain.state, [INFO], moment(1))
    older = encode_block(block.block, version=2)
    assert older != block.data

    chain.append_blocks([StoredBlock.received(older, sha3_256(older))])
    MetadataChain.open(storage).append(SetInfo(description="y"))

    assert storage.get(block_key(sha3_256(older))) == older
    assert [block.sequence_number for block in MetadataChain.open(storage).blocks()] == [3, 2, 1, 0]


def test_a_received_block_must_have_the_hash_it_was_asked_for_by(storage: Storage) -> None:
    (block,) = linked(None, [seed()], moment(0))

    with pytest.raises(IntegrityError, match="hash-matches-name"):
        StoredBlock.received(block.data, sha3_256(b"other"))


def test_several_events_become_visible_with_one_move_of_the_head(storage: Storage) -> None:
    counting = CountingStorage(storage)
    chain = create(counting)
    slice_ = save_slice(counting, 0, 9)
    counting.reset()

    chain.append(INFO, SetInfo(description="y"), AddData(new_data=slice_))

    assert counting.requests["put_if_version"] == 1
    assert counting.log[-2][1] == HEAD
    assert MetadataChain.open(storage).state.last_offset == 9


def test_appending_an_event_without_output_takes_at_most_4_requests(storage: Storage) -> None:
    counting = CountingStorage(storage)
    chain = MetadataChain.create(
        counting, [seed(DatasetKind.DERIVATIVE, 9), transform(1)], system_time=moment(0)
    )
    made = save_checkpoint(counting, "watermarks")
    entry = ExecuteTransformInput(dataset_id=dataset_id(1), new_block_hash=sha3_256(b"a"))
    counting.reset()

    chain.append(ExecuteTransform(query_inputs=(entry,), new_checkpoint=made))

    requests = [path for _, path in counting.log if path != SUMMARY]
    assert len(requests) == 3
    counting.reset()
    entry = replace(entry, prev_block_hash=entry.new_block_hash, new_block_hash=sha3_256(b"b"))
    chain.append(
        ExecuteTransform(
            query_inputs=(entry,), prev_checkpoint=made.physical_hash, new_checkpoint=made
        )
    )
    assert [verb for verb, path in counting.log if path != SUMMARY] == [
        "put_if_absent",
        "put_if_version",
    ]


def test_an_event_that_breaks_a_rule_changes_nothing(storage: Storage) -> None:
    chain = create(storage)
    before, state = contents(storage), chain.state

    with pytest.raises(ChainRuleError, match="offsets-are-sequential"):
        chain.append(INFO, AddData(new_data=save_slice(InMemoryStorage(), 5, 9)))
    with pytest.raises(InvalidInputError, match="nothing to append"):
        chain.append()

    assert contents(storage) == before
    assert chain.state == state


def test_a_slice_must_be_there_before_the_block_that_names_it(storage: Storage) -> None:
    chain = create(storage)
    before = contents(storage)

    with pytest.raises(ChainRuleError, match="objects-exist") as caught:
        chain.append(AddData(new_data=data_slice(0, 9)))

    assert str(data_slice(0, 9).physical_hash) in str(caught.value)
    assert contents(storage) == before


def test_a_checkpoint_must_be_there_before_the_block_that_names_it(storage: Storage) -> None:
    chain = create(storage)
    before = contents(storage)

    with pytest.raises(ChainRuleError, match="objects-exist") as caught:
        chain.append(AddData(new_checkpoint=checkpoint("none")))

    assert checkpoint_key(checkpoint("none").physical_hash) in str(caught.value)
    assert contents(storage) == before


def test_a_block_of_an_unknown_version_is_named_with_the_rule(storage: Storage) -> None:
    chain = create(storage)
    (block,) = linked(chain.state, [INFO], moment(9))
    newer = block.data.replace(struct.pack("<i", 3), struct.pack("<i", 4), 1)
    assert manifest_version(newer) == 4
    name = block_hash(newer)
    storage.put(block_key(name), newer)
    storage.put(HEAD, str(name).encode())

    with pytest.raises(IntegrityError, match=f"{name} has version 4.*version-is-known") as caught:
        MetadataChain.open(storage)
    first = verify_chain(storage).first

    assert caught.value.rule == "version-is-known"
    assert first is not None
    assert (first.object_key, first.rule) == (block_key(name), "version-is-known")


def test_a_clock_that_is_behind_does_not_stop_a_writer(storage: Storage) -> None:
    future = Timestamp.from_epoch_ms(4_000_000_000_000)
    chain = MetadataChain.create(storage, [seed()], system_time=future)

    chain.append(INFO)

    assert chain.state.head.block.system_time == future


# -- several writers ------------------------------------------------------------------------------


def test_of_two_writers_one_wins_and_nothing_of_the_other_is_visible(storage: Storage) -> None:
    create(storage)
    first, second = MetadataChain.open(storage), MetadataChain.open(storage)
    first.append(SetInfo(description="first"))

    with pytest.raises(ConflictError, match="another writer was first") as caught:
        second.append(SetInfo(description="second"))

    assert caught.value.actual_parent == str(first.head)
    assert caught.value.expected_parent == str(second.head)
    assert MetadataChain.open(storage).state.info == SetInfo(description="first")
    second.refresh()
    second.append(SetInfo(description="second"))
    assert [block.sequence_number for block in MetadataChain.open(storage).blocks()] == [3, 2, 1, 0]


def test_no_append_is_lost_among_many_writers(storage: Storage) -> None:
    create(storage)
    won: list[Multihash] = []
    start = threading.Barrier(4)

    def write(number: int) -> None:
        chain = MetadataChain.open(storage)
        start.wait()
        for attempt in range(10):
            try:
                won.append(chain.append(SetInfo(description=f"{number}.{attempt}")))
            except ConflictError:
                chain.refresh()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    hashes = {block.block_hash for block in MetadataChain.open(storage).blocks()}
    assert set(won) <= hashes
    assert len(hashes) == len(won) + 2
    assert len(won) >= 10


def test_blocks_that_come_late_conflict_and_strange_ones_break_a_rule(storage: Storage) -> None:
    chain = create(storage)
    late = linked(chain.state, [INFO], moment(1))
    strange = [StoredBlock.of(replace(late[0].block, prev_block_hash=sha3_256(b"?")))]
    chain.append(SetInfo(description="y"), system_time=moment(1))

    with pytest.raises(ConflictError):
        chain.append_blocks(late)
    with pytest.raises(ChainRuleError, match="previous-block-is-the-head"):
        chain.append_blocks(strange)


def test_a_dataset_is_created_once(storage: Storage) -> None:
    create(storage)

    with pytest.raises(AlreadyExistsError, match="already"):
        create(storage)


def test_of_two_creators_one_wins() -> None:
    storage = InMemoryStorage()
    counting = CountingStorage(storage)
    around = counting.around

    def other_comes_first[T](verb: str, path: str, call: Callable[[], T]) -> T:
        if (verb, path) == ("put_if_absent", HEAD):
            MetadataChain.create(storage, [seed(number=2)])
        return around(verb, path, call)

    counting.around = other_comes_first  # type: ignore[method-assign]  # a race, made certain

    with pytest.raises(AlreadyExistsError):
        create(counting)
    assert MetadataChain.open(storage).state.dataset_id == dataset_id(2)


# -- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("verb", ["put_if_absent", "put_if_version", "put", "head"])
@pytest.mark.parametrize("step", [1, 2])
def test_a_commit_that_is_cut_off_is_as_before_or_complete(
    loss: Loss, verb: str, step: int
) -> None:
    inner = InMemoryStorage()
    before = create(inner).head
    slice_ = save_slice(inner, 0, 9)
    lossy = LossyStorage(inner)
    chain = MetadataChain.open(lossy)
    lossy.rule = LossRule(verb, loss, first=step, last=99)

    try:
        chain.append(INFO, AddData(new_data=slice_))
    except (StorageError, CommitUnknownError):
        assert MetadataChain.open(inner).head == before
        assert chain.head == before
    opened = MetadataChain.open(inner)

    assert opened.head in {before, chain.head}
    assert opened.state.last_offset == (None if opened.head == before else 9)
    lossy.rule = None
    chain = MetadataChain.open(lossy)
    if opened.head == before:
        chain.append(INFO, AddData(new_data=slice_))
    assert chain.state.last_offset == 9


def test_a_lost_answer_of_a_move_that_happened_is_no_error() -> None:
    lossy = LossyStorage(InMemoryStorage())
    chain = create(lossy)
    lossy.rule = LossRule("put_if_version", Loss.LOSE_ANSWER)

    head = chain.append(INFO)

    assert lossy.met == 1
    assert MetadataChain.open(lossy.inner).head == head
    chain.append(SetInfo(description="y"))


def test_a_lost_answer_to_a_block_is_no_unknown_commit() -> None:
    lossy = LossyStorage(InMemoryStorage())
    chain = create(lossy)
    lossy.rule = LossRule("put_if_absent", Loss.LOSE_ANSWER)

    chain.append(INFO)

    assert lossy.met == 1
    assert MetadataChain.open(lossy.inner).head == chain.head


def test_an_outcome_that_nothing_tells_is_called_unknown() -> None:
    lossy = LossyStorage(InMemoryStorage())
    chain = create(lossy)
    around = lossy.around

    def answer_is_lost_and_another_writer_goes_on[T](
        verb: str, path: str, call: Callable[[], T]
    ) -> T:
        try:
            return around(verb, path, call)
        except CommitUnknownError:
            MetadataChain.open(lossy.inner).append(SetInfo(description="later"))
            raise

    lossy.around = answer_is_lost_and_another_writer_goes_on  # type: ignore[method-assign]  # a race
    lossy.rule = LossRule("put_if_version", Loss.LOSE_ANSWER)

    with pytest.raises(CommitUnknownError):
        chain.append(INFO)


def test_without_a_head_there_is_no_dataset(storage: Storage) -> None:
    storage.put(f"blocks/{sha3_256(b'x')}", b"x")

    with pytest.raises(NotFoundError, match="refs/head is missing"):
        MetadataChain.open(storage)
    create(storage)


@pytest.mark.parametrize("text", [b"", b"\xff", b"main", b"f1620"])
def test_a_head_that_is_no_hash_is_named(storage: Storage, text: bytes) -> None:
    create(storage)
    storage.put(HEAD, text)

    with pytest.raises(FormatError, match=r"refs/head.*rule head-names-a-block"):
        MetadataChain.open(storage)


def test_a_head_with_a_newline_is_refused(storage: Storage) -> None:
    chain = create(storage)
    storage.put(HEAD, f"{chain.head}\n".encode())

    with pytest.raises(FormatError, match="without a newline"):
        MetadataChain.open(storage)


def test_a_head_may_be_written_in_another_base(storage: Storage) -> None:
    chain = create(storage)
    storage.put(HEAD, chain.head.to_base58().encode())

    assert MetadataChain.open(storage).head == chain.head


@pytest.mark.parametrize("has_summary", [True, False])
def test_a_head_that_points_nowhere_is_named(storage: Storage, *, has_summary: bool) -> None:
    chain = create(storage)
    storage.delete_many([block_key(chain.head), *([] if has_summary else [SUMMARY])])

    with pytest.raises(IntegrityError, match=f"{chain.head} is missing \\(rule objects-exist"):
        MetadataChain.open(storage)


@pytest.mark.parametrize("has_summary", [True, False])
def test_a_damaged_head_block_is_named(storage: Storage, *, has_summary: bool) -> None:
    chain = create(storage)
    key = block_key(chain.head)
    storage.put(key, storage.get(key)[:-1] + b"!")
    storage.delete_many([] if has_summary else [SUMMARY])

    with pytest.raises(IntegrityError, match=f"{chain.head} has bytes of hash"):
        MetadataChain.open(storage)


def test_a_missing_block_is_named_when_it_is_walked_over(storage: Storage) -> None:
    chain = create(storage)
    middle = chain.append(INFO)
    chain.append(SetInfo(description="y"))
    storage.delete_many([block_key(middle), SUMMARY])

    with pytest.raises(IntegrityError, match=f"{middle} is missing"):
        MetadataChain.open(storage)


def test_a_damaged_leftover_is_mended_by_the_append_that_needs_it(storage: Storage) -> None:
    chain = create(storage)
    (block,) = linked(chain.state, [INFO], moment(1))
    storage.put(block_key(block.block_hash), b"half a blo")

    chain.append_blocks([block])

    assert storage.get(block_key(block.block_hash)) == block.data
