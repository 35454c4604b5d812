"""Transaction logs whose chunks come in parts: the same bytes, in little memory."""

import tracemalloc

import numpy as np
import pytest
from numpy.random import default_rng

from icestream.codec.transaction_logs import encode_transaction_log
from icestream.errors import InvalidInputError
from icestream.model.changed_indexes import ChangedIndexes
from icestream.model.chunk_tables import UInt32, dense_index
from icestream.model.ids import NodeId, SnapshotId
from icestream.model.transaction_logs import TransactionLog

ID = SnapshotId(b"snapshot-id.")
A, B = NodeId(b"node-a.."), NodeId(b"node-b..")


def cut(index: UInt32, sizes: tuple[int, ...]) -> list[ChangedIndexes]:
    cells = index // np.array(sizes, np.uint32)
    return [
        ChangedIndexes.of(index[(cells == cell).all(axis=1)]) for cell in np.unique(cells, axis=0)
    ]


@pytest.mark.parametrize("sizes", [(7, 1000), (1000, 30), (9, 40)])
@pytest.mark.parametrize("density", [1, 0.5, 0.001])
@pytest.mark.parametrize("spec", [1, 2])
def test_parts_make_the_same_file(sizes: tuple[int, ...], density: float, spec: int) -> None:
    full = dense_index((200, 300))
    index = full[default_rng(1).random(len(full)) < density]
    other = dense_index((3,))
    whole = TransactionLog(id=ID, new_arrays=frozenset({A, B}), updated_chunks={A: index, B: other})
    rest = TransactionLog(id=ID, new_arrays=frozenset({A, B}), updated_chunks={B: other})
    parts = {A: cut(index, sizes)[::-1]}
    assert encode_transaction_log(rest, spec=spec, parts=parts) == encode_transaction_log(
        whole, spec=spec
    )


def test_an_array_without_changed_chunks_is_not_named() -> None:
    log = TransactionLog(id=ID)
    empty = ChangedIndexes.of(np.empty((0, 2), np.uint32))
    assert encode_transaction_log(log, spec=2, parts={A: [empty], B: []}) == (
        encode_transaction_log(log, spec=2)
    )


def test_an_array_without_dimensions_is_named() -> None:
    index = np.empty((1, 0), np.uint32)
    log = TransactionLog(id=ID)
    assert encode_transaction_log(log, spec=2, parts={A: [ChangedIndexes.of(index)]}) == (
        encode_transaction_log(TransactionLog(id=ID, updated_chunks={A: index}), spec=2)
    )


def test_memory_does_not_grow_with_the_number_of_chunks() -> None:
    parts = [ChangedIndexes(((i, i + 1), (0, 1000), (0, 100)), 100_000) for i in range(20)]
    tracemalloc.start()
    try:
        size = len(encode_transaction_log(TransactionLog(id=ID), spec=2, parts={A: parts}))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * size + 2**23  # the coordinates alone are 24 MB, the flatbuffer is 72


def test_a_log_that_no_reader_takes_is_refused() -> None:
    part = ChangedIndexes(((0, 100_000_000),), 100_000_000)
    with pytest.raises(InvalidInputError, match="smaller commits"):
        encode_transaction_log(TransactionLog(id=ID), spec=2, parts={A: [part]})
