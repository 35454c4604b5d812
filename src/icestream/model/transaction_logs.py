"""Transaction logs: what one commit touched, the input of diff, amend and rebase."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from icestream.model.chunk_tables import UInt32, lexicographic_order
from icestream.model.ids import NodeId, SnapshotId


@dataclass(frozen=True, slots=True)
class Move:
    """One node that was moved, with everything below it moved by entries of its own."""

    from_path: str
    to_path: str
    node_id: NodeId
    is_array: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransactionLog:
    """The nodes and chunks that one snapshot changed relative to its parent."""

    id: SnapshotId
    new_groups: frozenset[NodeId] = frozenset()
    new_arrays: frozenset[NodeId] = frozenset()
    deleted_groups: frozenset[NodeId] = frozenset()
    deleted_arrays: frozenset[NodeId] = frozenset()
    updated_arrays: frozenset[NodeId] = frozenset()
    updated_groups: frozenset[NodeId] = frozenset()
    updated_chunks: Mapping[NodeId, UInt32] = field(default_factory=dict)
    """Node to the sorted (n, rank) index of every chunk written, replaced or deleted."""
    moved_nodes: tuple[Move, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was changed."""
        return not (
            self.new_groups
            or self.new_arrays
            or self.deleted_groups
            or self.deleted_arrays
            or self.updated_arrays
            or self.updated_groups
            or self.updated_chunks
            or self.moved_nodes
        )

    @property
    def num_changes(self) -> int:
        """Nodes and chunks named by the log."""
        nodes = (
            self.new_groups,
            self.new_arrays,
            self.deleted_groups,
            self.deleted_arrays,
            self.updated_arrays,
            self.updated_groups,
            self.moved_nodes,
        )
        chunks = sum(len(index) for index in self.updated_chunks.values())
        return sum(len(ids) for ids in nodes) + chunks


def merge_logs(log_id: SnapshotId, logs: Iterable[TransactionLog]) -> TransactionLog:
    """Return one log for several consecutive commits, oldest first."""
    return reduce(
        lambda earlier, later: _merge(log_id, earlier, later), logs, TransactionLog(id=log_id)
    )


def _merge(log_id: SnapshotId, earlier: TransactionLog, later: TransactionLog) -> TransactionLog:
    deleted_arrays = later.deleted_arrays - earlier.new_arrays
    deleted_groups = later.deleted_groups - earlier.new_groups
    gone = later.deleted_arrays | later.deleted_groups
    chunks = {
        node_id: merge_indexes(
            earlier.updated_chunks.get(node_id), later.updated_chunks.get(node_id)
        )
        for node_id in earlier.updated_chunks.keys() | later.updated_chunks.keys()
        if node_id not in gone
    }
    return TransactionLog(
        id=log_id,
        new_groups=(earlier.new_groups - gone) | later.new_groups,
        new_arrays=(earlier.new_arrays - gone) | later.new_arrays,
        deleted_groups=earlier.deleted_groups | deleted_groups,
        deleted_arrays=earlier.deleted_arrays | deleted_arrays,
        updated_arrays=(earlier.updated_arrays | later.updated_arrays) - gone,
        updated_groups=(earlier.updated_groups | later.updated_groups) - gone,
        updated_chunks=chunks,
        moved_nodes=merge_moves(earlier.moved_nodes, later.moved_nodes),
    )


def merge_indexes(first: UInt32 | None, second: UInt32 | None) -> UInt32:
    """Return the sorted union of two sorted lists of chunk indexes."""
    if first is None or not len(first):
        return second if second is not None else np.empty((0, 0), np.uint32)
    if second is None or not len(second):
        return first
    joined = np.concatenate([first, second])
    order = lexicographic_order(joined)
    joined = joined if order is None else joined[order]
    repeated = np.append((joined[1:] == joined[:-1]).all(axis=1), False)
    return joined[~repeated] if repeated.any() else joined


def merge_moves(earlier: Iterable[Move], later: Iterable[Move]) -> tuple[Move, ...]:
    """Return the net effect of moves on each node; a node that is back home is left out."""
    moves: dict[NodeId, Move] = {}
    for move in (*earlier, *later):
        origin = moves[move.node_id].from_path if move.node_id in moves else move.from_path
        moves[move.node_id] = Move(origin, move.to_path, move.node_id, move.is_array)
    return tuple(
        sorted(
            (move for move in moves.values() if move.from_path != move.to_path),
            key=lambda move: move.to_path.split("/"),
        )
    )
