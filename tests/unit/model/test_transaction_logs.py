import numpy as np

from icestream.model.ids import NodeId, SnapshotId, new_node_id
from icestream.model.transaction_logs import Move, TransactionLog, merge_indexes, merge_logs

LOG = SnapshotId(b"x" * 12)
NODE = NodeId(b"12345678")


def index(*rows: int) -> np.ndarray:
    return np.array(rows, np.uint32).reshape(-1, 1)


def test_merged_chunks_are_sorted_and_unique():
    assert merge_indexes(index(1, 5, 9), index(0, 5)).ravel().tolist() == [0, 1, 5, 9]
    assert merge_indexes(None, index(3)).ravel().tolist() == [3]
    assert merge_indexes(index(3), None).ravel().tolist() == [3]


def test_a_node_created_and_deleted_leaves_no_trace():
    log = merge_logs(
        LOG,
        [
            TransactionLog(id=LOG, new_arrays=frozenset({NODE}), updated_chunks={NODE: index(0)}),
            TransactionLog(id=LOG, deleted_arrays=frozenset({NODE})),
        ],
    )
    assert log.is_empty


def test_later_changes_are_added_to_earlier_ones():
    group = new_node_id()
    log = merge_logs(
        LOG,
        [
            TransactionLog(id=LOG, new_groups=frozenset({group}), updated_chunks={NODE: index(0)}),
            TransactionLog(
                id=LOG, updated_arrays=frozenset({NODE}), updated_chunks={NODE: index(1)}
            ),
        ],
    )
    assert log.new_groups == {group}
    assert log.updated_arrays == {NODE}
    assert log.updated_chunks[NODE].ravel().tolist() == [0, 1]
    assert log.num_changes == 4


def test_moves_are_merged_to_their_net_effect():
    def move(source: str, target: str) -> TransactionLog:
        return TransactionLog(id=LOG, moved_nodes=(Move(source, target, NODE, is_array=True),))

    assert merge_logs(LOG, [move("/a", "/b"), move("/b", "/c")]).moved_nodes == (
        Move("/a", "/c", NODE, is_array=True),
    )
    assert merge_logs(LOG, [move("/a", "/b"), move("/b", "/a")]).moved_nodes == ()


def test_moves_are_ordered_by_the_segments_of_their_target():
    moves = [
        Move(f"/x{i}", path, new_node_id(), is_array=False)
        for i, path in enumerate(["/a-b", "/a/b", "/a"])
    ]
    log = merge_logs(LOG, [TransactionLog(id=LOG, moved_nodes=tuple(moves))])
    assert [move.to_path for move in log.moved_nodes] == ["/a", "/a/b", "/a-b"]
