"""What it costs to prepare the next transaction of a derivative dataset, however long its chain.

    python -m benchmarks.ledger_operations [transactions ...] [--on-disk N]

The example is that of RFC-014: a source writes many batches, and a derivative dataset runs a
transaction for each, of which 12 have data. Prints a Markdown table: objects read and time to open
both chains and plan the next transaction, beside a scan of the chain that carried nothing on. Then
the cost of appending, and of verifying a chain on disk.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from icestream.ledger.blocks.data_schemas import DataSchema
from icestream.ledger.blocks.data_types import DataField, DataTypeInt64
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import (
    AddData,
    Checkpoint,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetTransform,
)
from icestream.ledger.blocks.hashes import LOGICAL_CODE, Multihash, sha3_256
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.blocks.transforms import SqlQueryStep, TransformInput, TransformSql
from icestream.ledger.chain.layout import SUMMARY, checkpoint_key, data_key
from icestream.ledger.chain.metadata_chain import MetadataChain
from icestream.ledger.chain.planning import TransformPlan, plan_transform
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.verification import verify_chain
from icestream.storage.local import LocalStorage
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.testing.doubles import CountingStorage
from icestream.testing.ledger_chains import (
    BlockTemplate,
    LongChain,
    placeholder_hash,
    placeholder_number,
)

MONTHS = 12
SOURCE, DERIVATIVE = (DatasetId(bytes([number]) * 32) for number in (1, 2))

_NOW = Timestamp.from_epoch_ms(1_700_000_000_000)
_REPEATS = 5
_LENGTHS = (1_000, 10_000, 100_000)
_SCHEMA = SetDataSchema(schema=DataSchema(fields=(DataField(name="offset", type=DataTypeInt64()),)))
_STATE = b"the state of an engine"
_CHECKPOINT = Checkpoint(physical_hash=sha3_256(_STATE), size=len(_STATE))
_RECORDS = b"some records"


@dataclass(frozen=True, slots=True)
class Example:
    """A derivative dataset that consumed all but the last batch of its source."""

    source: Storage
    derivative: Storage


@dataclass(frozen=True, slots=True)
class Measured:
    """What a step took."""

    objects_read: int
    seconds: float


def build_example(transactions: int, make_storage: Callable[[str], Storage]) -> Example:
    """Return the example after so many transactions."""
    example = Example(make_storage("source"), make_storage("derivative"))
    blocks = _build_source(example.source, transactions + 1)
    _build_derivative(example.derivative, blocks, transactions)
    return example


def prepare_next(example: Example) -> Measured:
    """Open both chains and plan the next transaction."""

    def prepare(source: Storage, derivative: Storage) -> None:
        plan = plan_transform(MetadataChain.open(derivative), {SOURCE: MetadataChain.open(source)})
        assert isinstance(plan, TransformPlan)
        assert len(plan.inputs[0].slices) == 1

    return _measure(example, prepare)


def scan_deeply(example: Example) -> Measured:
    """Find out by walking over all blocks of the derivative what it carries on."""

    def scan(source: Storage, derivative: Storage) -> None:
        del source
        chain = MetadataChain.open(derivative)
        assert ChainState.walked(chain.blocks()) == chain.state

    return _measure(example, scan)


def append_empty(example: Example) -> Measured:
    """Append a transaction without output on an open handle; the summary is not counted."""
    counting = CountingStorage(example.derivative)
    chain = MetadataChain.open(counting)
    plan = plan_transform(chain, {SOURCE: MetadataChain.open(example.source)})
    assert isinstance(plan, TransformPlan)
    counting.reset()
    start = time.perf_counter()
    chain.append(
        ExecuteTransform(
            query_inputs=plan.query_inputs,
            prev_offset=plan.prev_offset,
            prev_checkpoint=plan.prev_checkpoint,
            new_checkpoint=_CHECKPOINT,
        )
    )
    seconds = time.perf_counter() - start
    return Measured(len([path for _, path in counting.log if path != SUMMARY]), seconds)


def verify_source(example: Example) -> Measured:
    """Verify the source: its blocks, and the one file that all its slices are."""

    def verify(source: Storage, derivative: Storage) -> None:
        del derivative
        verify_chain(source).require_valid()

    return _measure(example, verify)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transactions", nargs="*", type=int, default=_LENGTHS)
    parser.add_argument("--on-disk", type=int, default=1_000)
    options = parser.parse_args(arguments)
    print("| transactions | storage | objects read: plan | ms | objects read: deep scan | ms |")
    print("|---:|---|---:|---:|---:|---:|")
    for count in options.transactions:
        _print_row(count, "memory", build_example(count, lambda _: InMemoryStorage()))
    with tempfile.TemporaryDirectory() as folder:
        example = build_example(
            options.on_disk, lambda name: LocalStorage(f"{folder}/{name}", sync="never")
        )
        _print_row(options.on_disk, "disk", example)
        verified = verify_source(example)
        print(f"\nverifying {options.on_disk:,} blocks on disk: {verified.seconds:.2f} s")
        appended = append_empty(example)
        print(
            f"appending a transaction without output: {appended.objects_read} requests,"
            f" {appended.seconds * 1000:.1f} ms"
        )


def _print_row(count: int, storage: str, example: Example) -> None:
    plan = min((prepare_next(example) for _ in range(_REPEATS)), key=lambda cost: cost.seconds)
    scan = scan_deeply(example)
    print(
        f"| {count:,} | {storage} | {plan.objects_read} | {plan.seconds * 1000:.1f}"
        f" | {scan.objects_read:,} | {scan.seconds * 1000:,.1f} |",
        flush=True,
    )


def _measure(example: Example, step: Callable[[Storage, Storage], None]) -> Measured:
    source, derivative = CountingStorage(example.source), CountingStorage(example.derivative)
    start = time.perf_counter()
    step(source, derivative)
    return Measured(source.reads + derivative.reads, time.perf_counter() - start)


def _build_source(storage: Storage, batches: int) -> list[Multihash]:
    """Write a batch of one record per block; return the blocks, oldest first."""
    seed = Seed(dataset_id=SOURCE, dataset_kind=DatasetKind.ROOT)
    chain = LongChain.start(storage, seed, _SCHEMA, system_time=_NOW)
    storage.put(data_key(sha3_256(_RECORDS)), _RECORDS)
    chain.add(AddData(new_data=_slice(0, 0)), _NOW)
    names = ("offprev", "starting", "endingat")
    previous, start, end = (placeholder_number(name) for name in names)
    event = AddData(prev_offset=previous, new_data=_slice(start, end))
    template = BlockTemplate.of(event, _NOW, *names)
    for offset in range(1, batches):
        chain.stamp(
            template,
            {
                "offprev": (offset - 1).to_bytes(8, "little"),
                "starting": offset.to_bytes(8, "little"),
                "endingat": offset.to_bytes(8, "little"),
            },
        )
    chain.finish()
    return chain.hashes[2:]


def _build_derivative(storage: Storage, blocks: Sequence[Multihash], transactions: int) -> None:
    chain = LongChain.start(
        storage,
        Seed(dataset_id=DERIVATIVE, dataset_kind=DatasetKind.DERIVATIVE),
        SetTransform(
            inputs=(TransformInput(dataset_ref=str(SOURCE), alias="source"),),
            transform=TransformSql(
                engine="spark", queries=(SqlQueryStep(query="select * from source"),)
            ),
        ),
        _SCHEMA,
        system_time=_NOW,
    )
    storage.put(checkpoint_key(_CHECKPOINT.physical_hash), _STATE)
    storage.put(data_key(sha3_256(_RECORDS)), _RECORDS)
    written = 0
    for number in range(transactions):
        has_data = number % max(transactions // MONTHS, 1) == 0 and written < MONTHS
        if has_data:
            chain.add(_transaction(blocks, number, written, has_data=True), _NOW)
            written += 1
            template = _template(written)
        else:
            chain.stamp(template, _values(blocks, number))
    chain.finish()


def _transaction(
    blocks: Sequence[Multihash], number: int, written: int, *, has_data: bool
) -> ExecuteTransform:
    entry = ExecuteTransformInput(
        dataset_id=SOURCE,
        prev_block_hash=blocks[number - 1] if number else None,
        new_block_hash=blocks[number],
        prev_offset=number - 1 if number else None,
        new_offset=number,
    )
    return ExecuteTransform(
        query_inputs=(entry,),
        prev_offset=written - 1 if written else None,
        prev_checkpoint=_CHECKPOINT.physical_hash if number else None,
        new_data=_slice(written, written) if has_data else None,
        new_checkpoint=_CHECKPOINT,
    )


def _template(written: int) -> BlockTemplate:
    """Return the template of transactions without data, after so many records."""
    entry = ExecuteTransformInput(
        dataset_id=SOURCE,
        prev_block_hash=placeholder_hash("last input"),
        new_block_hash=placeholder_hash("this input"),
        prev_offset=placeholder_number("old offs"),
        new_offset=placeholder_number("new offs"),
    )
    event = ExecuteTransform(
        query_inputs=(entry,),
        prev_offset=written - 1,
        prev_checkpoint=_CHECKPOINT.physical_hash,
        new_checkpoint=_CHECKPOINT,
    )
    return BlockTemplate.of(event, _NOW, "last input", "this input", "old offs", "new offs")


def _values(blocks: Sequence[Multihash], number: int) -> dict[str, bytes]:
    return {
        "last input": blocks[number - 1].digest,
        "this input": blocks[number].digest,
        "old offs": (number - 1).to_bytes(8, "little"),
        "new offs": number.to_bytes(8, "little"),
    }


def _slice(start: int, end: int) -> DataSlice:
    physical = sha3_256(_RECORDS)
    return DataSlice(
        logical_hash=replace(physical, code=LOGICAL_CODE),
        physical_hash=physical,
        offset_interval=OffsetInterval(start=start, end=end),
        size=len(_RECORDS),
    )


if __name__ == "__main__":
    main()
