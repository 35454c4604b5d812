"""Verification finds what is wrong, and names the first block or file."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Barrier

import pytest
from tests.ledger_events import (
    SCHEMA,
    checkpoint,
    content,
    data_slice,
    dataset_id,
    moment,
    save_checkpoint,
    save_slice,
    seed,
    transform,
)

from icestream.errors import IntegrityError, InvalidInputError, NotFoundError
from icestream.ledger.blocks.events import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    SetInfo,
    SetVocab,
)
from icestream.ledger.blocks.hashes import sha3_256
from icestream.ledger.chain import object_checks
from icestream.ledger.chain.appending import linked
from icestream.ledger.chain.layout import HEAD, SUMMARY, block_key, checkpoint_key, data_key
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.object_checks import SliceContext
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.chain.summaries import encode_summary
from icestream.ledger.chain.verification import VerificationOptions, verify_chain
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import LatentStorage, WrappedStorage
from icestream.testing.ledger_chains import BlockTemplate, LongChain


def create(storage: Storage) -> MetadataChain:
    """Return a chain of five blocks, three slices and a checkpoint."""
    chain = MetadataChain.create(storage, [seed(), SCHEMA], system_time=moment(0))
    made = save_checkpoint(storage, "one")
    for start in (0, 10, 20):
        chain.append(
            AddData(
                prev_offset=chain.state.last_offset,
                prev_checkpoint=chain.state.checkpoint,
                new_data=save_slice(storage, start, start + 9),
                new_checkpoint=made,
            )
        )
    return chain


def slice_key(start: int) -> str:
    return data_key(data_slice(start, start + 9).physical_hash)


def test_a_whole_dataset_has_no_problems() -> None:
    storage = InMemoryStorage()
    create(storage)

    report = verify_chain(storage)

    assert report.is_valid
    assert report.first is None
    assert (report.blocks, report.slices, report.checkpoints) == (5, 3, 1)
    assert report.size_bytes == sum(
        info.size_bytes for info in storage.list() if info.path.startswith(("data", "check"))
    )
    report.require_valid()


class MeetingStorage(WrappedStorage):
    """Answers reads of a folder only when all of them are under way."""

    def __init__(self, inner: Storage, **readers: int) -> None:
        super().__init__(inner)
        self.reads_inline = False
        self.meetings = {name: Barrier(count, timeout=5) for name, count in readers.items()}

    def around[T](self, verb: str, path: str, call: Callable[[], T]) -> T:
        meeting = self.meetings.get(path.partition("/")[0])
        if verb == "get" and meeting is not None:
            meeting.wait()
        return call()


def test_blocks_and_files_are_read_in_parallel() -> None:
    storage = InMemoryStorage()
    create(storage)

    assert verify_chain(MeetingStorage(storage, blocks=5, data=3)) == verify_chain(storage)


def test_storages_that_answer_slowly_give_the_same_report() -> None:
    storage = InMemoryStorage()
    create(storage)
    latent = LatentStorage(storage, read_latency_ms=1)

    assert verify_chain(latent) == verify_chain(storage)


def test_without_a_dataset_there_is_nothing_to_verify() -> None:
    with pytest.raises(NotFoundError):
        verify_chain(InMemoryStorage())


DAMAGES: dict[str, tuple[Callable[[Storage], object], str, str, int | None]] = {
    "slice is missing": (
        lambda storage: storage.delete_many([slice_key(10)]),
        slice_key(10),
        "objects-exist",
        3,
    ),
    "slice is too long": (
        lambda storage: storage.put(slice_key(10), content(10, 19) + b"!"),
        slice_key(10),
        "size-matches-block",
        3,
    ),
    "slice has other bytes": (
        lambda storage: storage.put(slice_key(10), content(10, 18)),
        slice_key(10),
        "hash-matches-name",
        3,
    ),
    "checkpoint has other bytes": (
        lambda storage: storage.put(checkpoint_key(checkpoint("one").physical_hash), b"two"),
        checkpoint_key(checkpoint("one").physical_hash),
        "hash-matches-name",
        2,
    ),
    "checkpoint is missing": (
        lambda storage: storage.delete_many([checkpoint_key(checkpoint("one").physical_hash)]),
        checkpoint_key(checkpoint("one").physical_hash),
        "objects-exist",
        2,
    ),
    "head is no hash": (lambda storage: storage.put(HEAD, b"x"), HEAD, "head-names-a-block", None),
}


@pytest.mark.parametrize(("damage", "key", "rule", "number"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_named(
    damage: Callable[[Storage], object], key: str, rule: str, number: int | None
) -> None:
    storage = InMemoryStorage()
    create(storage)
    damage(storage)

    report = verify_chain(storage)

    (problem,) = report.problems
    assert (problem.object_key, problem.rule, problem.sequence_number) == (key, rule, number)
    with pytest.raises(IntegrityError, match=rf"{key}.* \(rule {rule}\)") as caught:
        report.require_valid()
    assert caught.value.rule == rule


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("is_missing", [True, False])
def test_a_damaged_block_is_named(number: int, *, is_missing: bool) -> None:
    storage = InMemoryStorage()
    chain = create(storage)
    block = list(chain.blocks())[4 - number]
    key = block_key(block.block_hash)
    if is_missing:
        storage.delete_many([key])
    else:
        storage.put(key, block.data[:-1] + b"!")

    report = verify_chain(storage)

    assert report.first is not None
    assert report.first.object_key == key
    assert report.first.rule == ("objects-exist" if is_missing else "hash-matches-name")
    assert report.first.sequence_number == (None if number == 4 else number)
    assert report.blocks == 4 - number


def test_the_first_of_several_problems_comes_first() -> None:
    storage = InMemoryStorage()
    create(storage)
    storage.delete_many([slice_key(20), slice_key(0)])

    report = verify_chain(storage)

    assert [problem.object_key for problem in report.problems] == [slice_key(0), slice_key(20)]


def forge(storage: Storage, chain: MetadataChain, event: AddData) -> StoredBlock:
    """Put a block on a chain, whatever its rules say."""
    (block,) = linked(chain.state, [event])
    storage.put(block_key(block.block_hash), block.data)
    storage.put(HEAD, str(block.block_hash).encode())
    return block


def test_a_broken_rule_is_named_with_its_block() -> None:
    storage = InMemoryStorage()
    block = forge(storage, create(storage), AddData(prev_offset=12, new_watermark=moment(0)))

    report = verify_chain(storage)

    assert report.first is not None
    assert report.first.object_key == block_key(block.block_hash)
    assert report.first.rule == "prev-offset-is-carried"
    assert report.first.sequence_number == 5


def test_a_summary_that_lies_is_named() -> None:
    storage = InMemoryStorage()
    chain = create(storage)
    chain.append(SetInfo(description="x"))
    lie = {role: block for role, block in chain.state.latest.items() if role != "data"}
    storage.put(SUMMARY, encode_summary(ChainState(head=chain.state.head, latest=lie)))

    report = verify_chain(storage)

    assert [problem.object_key for problem in report.problems] == [SUMMARY]


def test_only_files_since_a_block_are_looked_at() -> None:
    storage = InMemoryStorage()
    chain = create(storage)
    blocks = list(chain.blocks())
    storage.delete_many([slice_key(0)])

    report = verify_chain(storage, VerificationOptions(since=blocks[2].block_hash))

    assert report.is_valid
    assert (report.blocks, report.slices) == (5, 2)
    with pytest.raises(InvalidInputError, match="not on the chain"):
        verify_chain(storage, VerificationOptions(since=sha3_256(b"?")))
    storage.delete_many([block_key(blocks[2].block_hash)])
    broken = verify_chain(storage, VerificationOptions(since=blocks[3].block_hash))
    assert [problem.rule for problem in broken.problems] == ["objects-exist"]


def test_large_files_are_hashed_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_checks, "_PART_BYTES", 4)
    storage = InMemoryStorage()
    create(storage)

    assert verify_chain(storage).is_valid
    storage.put(slice_key(10), content(10, 18))
    storage.put(slice_key(20), content(20, 29) + b"!")
    rules = [problem.rule for problem in verify_chain(storage).problems]
    assert rules == ["hash-matches-name", "size-matches-block"]


# -- content --------------------------------------------------------------------------------------


def test_slices_are_looked_into_with_what_is_in_force_at_their_block() -> None:
    storage = InMemoryStorage()
    chain = create(storage)
    vocabulary = SetVocab(offset_column="o")
    chain.append(vocabulary)
    chain.append(
        AddData(
            prev_offset=29,
            prev_checkpoint=chain.state.checkpoint,
            new_data=save_slice(storage, 30, 39),
        )
    )
    seen: dict[str, SetVocab] = {}

    def check(data: bytes, context: SliceContext) -> None:
        assert data == storage.get(context.key)
        assert context.schema == SCHEMA
        seen[context.key] = context.vocabulary

    assert verify_chain(storage, VerificationOptions(check_slice=check)).is_valid
    assert seen == {slice_key(start): SetVocab() for start in (0, 10, 20)} | {
        slice_key(30): vocabulary
    }


def refuse(data: bytes, context: SliceContext) -> None:
    raise IntegrityError(f"offsets have a gap in {len(data)} bytes")


def accept(data: bytes, context: SliceContext) -> None:
    pass


def test_a_slice_with_wrong_records_is_named() -> None:
    storage = InMemoryStorage()
    create(storage)

    report = verify_chain(storage, VerificationOptions(check_slice=refuse))

    assert [problem.rule for problem in report.problems] == ["slice-holds-its-records"] * 3
    assert "offsets have a gap" in report.problems[0].message


def test_other_bytes_with_the_same_records_are_fine_in_derivative_datasets_only() -> None:
    root, derivative = InMemoryStorage(), InMemoryStorage()
    create(root)
    root.put(slice_key(0), b"other")
    chain = MetadataChain.create(
        derivative, [seed(DatasetKind.DERIVATIVE, 9), transform(1), SCHEMA]
    )
    entry = ExecuteTransformInput(dataset_id=dataset_id(1), new_block_hash=sha3_256(b"a"))
    chain.append(ExecuteTransform(query_inputs=(entry,), new_data=save_slice(derivative, 0, 9)))
    derivative.put(slice_key(0), b"other")

    options = VerificationOptions(check_slice=accept)

    assert verify_chain(derivative, options).is_valid
    assert not verify_chain(derivative).is_valid
    assert not verify_chain(derivative, VerificationOptions(check_slice=refuse)).is_valid
    assert not verify_chain(root, options).is_valid


def test_what_transactions_say_about_inputs_is_verified_where_these_are_given() -> None:
    root, derivative = InMemoryStorage(), InMemoryStorage()
    source = create(root)
    chain = MetadataChain.create(derivative, [seed(DatasetKind.DERIVATIVE, 9), transform(1)])
    entry = ExecuteTransformInput(
        dataset_id=dataset_id(1), new_block_hash=source.head, new_offset=28
    )
    chain.append(
        ExecuteTransform(
            query_inputs=(entry,), new_checkpoint=save_checkpoint(derivative, "watermarks")
        )
    )

    report = verify_chain(derivative, VerificationOptions(inputs={dataset_id(1): source.store}))

    assert verify_chain(derivative).is_valid
    assert report.first is not None
    assert report.first.rule == "consumed-records-exist"


@pytest.mark.slow
def test_10000_blocks_on_disk_are_verified_in_less_than_10_seconds(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, sync="never")
    chain = LongChain.start(storage, seed(), SCHEMA, system_time=moment(0))
    template = BlockTemplate.of(SetInfo(description="x"), moment(0))
    for _ in range(10_000):
        chain.stamp(template)
    chain.finish()

    start = time.perf_counter()
    report = verify_chain(storage)

    assert report.is_valid
    assert report.blocks == 10_002
    assert time.perf_counter() - start < 10
