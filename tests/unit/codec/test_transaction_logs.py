"""Transaction log files: what is written, what is read, what is refused."""

import struct
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import zstandard
from tests.foreign_manifests import Walker, file_of

from icestream.codec.header import HEADER_SIZE, FileType, decode_body
from icestream.codec.transaction_logs import decode_transaction_log, encode_transaction_log
from icestream.errors import ErrorKind, FormatError, InvalidInputError
from icestream.model.chunk_tables import UInt32, dense_index
from icestream.model.ids import INITIAL_SNAPSHOT_ID, NodeId, SnapshotId
from icestream.model.transaction_logs import Move, TransactionLog

ID = SnapshotId(b"snapshot-id.")
A, B, C = (NodeId(b"node-id-" + letter)[-8:] for letter in (b"a", b"b", b"c"))
NODE_A, NODE_B, NODE_C = NodeId(A), NodeId(B), NodeId(C)

FULL = TransactionLog(
    id=ID,
    new_groups=frozenset({NODE_A}),
    new_arrays=frozenset({NODE_B, NODE_C}),
    deleted_groups=frozenset({NodeId(b"deleted1")}),
    deleted_arrays=frozenset({NodeId(b"deleted2")}),
    updated_arrays=frozenset({NodeId(b"updated1")}),
    updated_groups=frozenset({NodeId(b"updated2")}),
    updated_chunks={
        NODE_C: dense_index((2, 3)),
        NODE_A: np.array([[7], [2**32 - 1]], np.uint32),
        NODE_B: np.empty((1, 0), np.uint32),
    },
    moved_nodes=(
        Move("/a", "/ü/b", NODE_A, is_array=False),
        Move("/c", "/d", NODE_B, is_array=True),
    ),
)


def body_of(data: bytes) -> bytes:
    return decode_body(data, FileType.TRANSACTION_LOG, name="t")[1]


def decode(data: bytes) -> TransactionLog:
    return decode_transaction_log(data, name="transactions/T")


def parts(log: TransactionLog) -> tuple[object, ...]:
    chunks = {node_id: index.tolist() for node_id, index in log.updated_chunks.items()}
    return (
        log.id,
        log.new_groups,
        log.new_arrays,
        log.deleted_groups,
        log.deleted_arrays,
        log.updated_arrays,
        log.updated_groups,
        chunks,
        set(log.moved_nodes),
    )


def log_of(index: UInt32) -> TransactionLog:
    return TransactionLog(id=ID, updated_chunks={NODE_A: index})


def assert_refused(body: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why) as caught:
        decode(file_of(body, file_type=FileType.TRANSACTION_LOG))
    assert "transactions/T" in str(caught.value)


def test_a_full_log_survives() -> None:
    assert parts(decode(encode_transaction_log(FULL, spec=2))) == parts(FULL)


def test_a_log_of_spec_1_survives() -> None:
    log = replace(FULL, moved_nodes=())

    data = encode_transaction_log(log, spec=1)

    assert data[36] == 1
    assert parts(decode(data)) == parts(log)
    assert set(Walker(body_of(data)).root()) == set(range(8))


def test_the_log_of_the_initial_snapshot_is_empty() -> None:
    log = decode(encode_transaction_log(TransactionLog(id=INITIAL_SNAPSHOT_ID), spec=2))

    assert log.is_empty
    assert log.id == INITIAL_SNAPSHOT_ID


def test_the_log_that_icechunk_writes_for_the_initial_snapshot_is_read() -> None:
    head = """
        20000000 4963686b 00001600 30000400 10001400 18001c00 20002400 28002c00
        16000000 0b1cc8d6787580f0e33a6534
        3c000000 34000000 2c000000 24000000 18000000 18000000 0c000000 04000000
    """
    body = bytes.fromhex(head) + bytes(32)

    log = decode(file_of(body, file_type=FileType.TRANSACTION_LOG))

    assert log.is_empty
    assert log.id == INITIAL_SNAPSHOT_ID


@pytest.mark.parametrize("rank", [1, 2, 3, 6])
def test_coordinates_longer_than_a_block_survive(rank: int) -> None:
    index = dense_index((40_000, *(1,) * (rank - 1)))

    decoded = decode(encode_transaction_log(log_of(index), spec=2)).updated_chunks[NODE_A]

    assert np.array_equal(decoded, index)


def test_an_array_without_chunks_survives() -> None:
    log = decode(encode_transaction_log(log_of(np.empty((0, 3), np.uint32)), spec=2))

    assert len(log.updated_chunks[NODE_A]) == 0


def test_coordinates_that_a_writer_left_unsorted_are_sorted_and_listed_once() -> None:
    unsorted = np.array([[5, 0], [1, 9], [5, 0], [1, 2]], np.uint32)

    log = decode(encode_transaction_log(log_of(unsorted), spec=2))

    assert log.updated_chunks[NODE_A].tolist() == [[1, 2], [1, 9], [5, 0]]


def test_moves_are_refused_in_spec_1() -> None:
    with pytest.raises(InvalidInputError, match="upgrade") as caught:
        encode_transaction_log(FULL, spec=1)
    assert caught.value.kind is ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION


def test_moves_are_ordered_by_target_name_by_name() -> None:
    targets = ["/a-b", "/a/b", "/a"]
    moves = tuple(Move("/x" + to, to, NODE_A, is_array=False) for to in targets)

    log = decode(encode_transaction_log(TransactionLog(id=ID, moved_nodes=moves), spec=2))

    assert [move.to_path for move in log.moved_nodes] == ["/a", "/a/b", "/a-b"]


def test_lists_are_in_the_order_of_node_ids() -> None:
    body = body_of(encode_transaction_log(FULL, spec=2))
    walker = Walker(body)
    root = walker.root()

    start, count = walker.vector(root[2], 8)
    arrays = [walker.fields(table)[0] for table in walker.tables(root[7])]

    assert [body[start + 8 * i : start + 8 * i + 8] for i in range(count)] == [B, C]
    assert [body[at : at + 8] for at in arrays] == [A, B, C]


def test_a_log_of_another_snapshot_is_refused() -> None:
    data = encode_transaction_log(FULL, spec=2)

    assert decode_transaction_log(data, name="t", expected_id=ID).id == ID
    with pytest.raises(FormatError, match="carries the id"):
        decode_transaction_log(data, name="t", expected_id=INITIAL_SNAPSHOT_ID)


def test_an_array_that_is_listed_twice_is_refused() -> None:
    body = bytearray(body_of(encode_transaction_log(FULL, spec=2)))
    walker = Walker(bytes(body))
    first, second, _ = (walker.fields(table)[0] for table in walker.tables(walker.root()[7]))
    body[second : second + 8] = body[first : first + 8]

    assert_refused(bytes(body), "twice")


@pytest.mark.parametrize("slot", range(8))
def test_trap_6_every_list_is_written_and_required(slot: int) -> None:
    body = bytearray(body_of(encode_transaction_log(TransactionLog(id=ID), spec=2)))
    assert set(Walker(bytes(body)).root()) == set(range(9))

    struct.pack_into("<H", body, 8 + 4 + 2 * slot, 0)
    assert_refused(bytes(body), "required field")


def test_trap_13_updated_arrays_come_before_updated_groups() -> None:
    body = body_of(encode_transaction_log(FULL, spec=2))
    walker = Walker(body)

    (arrays, _), (groups, _) = (walker.vector(walker.root()[slot], 8) for slot in (5, 6))

    assert body[arrays : arrays + 8] == b"updated1"
    assert body[groups : groups + 8] == b"updated2"


def test_trap_13_a_moved_group_is_0_and_a_moved_array_is_1() -> None:
    body = body_of(encode_transaction_log(FULL, spec=2))
    walker = Walker(body)

    moves = [walker.fields(table) for table in walker.tables(walker.root()[8])]

    assert {walker.text(move[1]): body[move[3]] for move in moves} == {"/ü/b": 0, "/d": 1}


def test_trap_2_there_is_exactly_one_frame_with_its_size() -> None:
    data = encode_transaction_log(log_of(dense_index((1000, 100))), spec=2)
    frame = data[HEADER_SIZE:]

    assert zstandard.get_frame_parameters(frame).content_size == len(body_of(data))
    with pytest.raises(FormatError, match="behind it"):
        decode(data + b"\0")


def test_sharing_cannot_turn_a_small_file_into_huge_columns() -> None:
    arrays = {NodeId(struct.pack("<Q", i)): np.empty((0, 1), np.uint32) for i in range(2000)}
    big = dense_index((3000,))
    last = NodeId(b"\xff" * 8)
    body = bytearray(
        body_of(
            encode_transaction_log(
                TransactionLog(id=ID, updated_chunks=arrays | {last: big}), spec=2
            )
        )
    )
    walker = Walker(bytes(body))
    fields = [walker.fields(table)[1] for table in walker.tables(walker.root()[7])]
    for at in fields:
        struct.pack_into("<I", body, at, walker.target(fields[-1]) - at)

    tracemalloc.start()
    try:
        assert_refused(bytes(body), "shared so often")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20e6
