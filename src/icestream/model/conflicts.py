"""What two writers did to the same thing, and who may win."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from icestream.model.change_sets import ChangeSet, NodeChanges, node_changes
from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable, UInt32
from icestream.model.ids import NodeId
from icestream.model.nodes import ArrayNode, GroupNode, Node
from icestream.model.paths import ROOT, ancestors_of, is_below, parent_of
from icestream.model.transaction_logs import TransactionLog


class ConflictType(Enum):
    """The kinds of conflicts; names and numbers are those of the icechunk package."""

    NewNodeConflictsWithExistingNode = (1,)
    NewNodeInInvalidGroup = (2,)
    ZarrMetadataDoubleUpdate = (3,)
    ZarrMetadataUpdateOfDeletedArray = (4,)
    ZarrMetadataUpdateOfDeletedGroup = (5,)
    ChunkDoubleUpdate = (6,)
    ChunksUpdatedInDeletedArray = (7,)
    ChunksUpdatedInUpdatedArray = (8,)
    DeleteOfUpdatedArray = (9,)
    DeleteOfUpdatedGroup = (10,)
    MoveOperationCannotBeRebased = (11,)


@dataclass(frozen=True, slots=True)
class Conflict:
    """One conflict between a session and a commit that came first."""

    conflict_type: ConflictType
    path: str
    conflicted_chunks: list[list[int]] | None = None


class VersionSelection(Enum):
    """Whose chunk stays when both sides wrote it."""

    Fail = 0
    UseOurs = 1
    UseTheirs = 2


class ConflictSolver:
    """Decides which conflicts a rebase may settle; the base class settles none."""

    def resolves(self, conflict: Conflict) -> bool:  # noqa: ARG002  subclasses look at it
        """Tell whether the rebase may go on over this conflict."""
        return False

    def keeps_ours(self) -> bool:
        """Tell whose chunks stay where a chunk conflict is resolved."""
        return True


class ConflictDetector(ConflictSolver):
    """Settles nothing: a rebase succeeds only when there is no conflict at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicConflictSolver(ConflictSolver):
    """Settles chunk conflicts, and deletes of what the other side updated, by simple rules."""

    on_chunk_conflict: VersionSelection = VersionSelection.UseOurs
    fail_on_delete_of_updated_array: bool = False
    fail_on_delete_of_updated_group: bool = False

    def resolves(self, conflict: Conflict) -> bool:
        """Tell whether the rules cover this conflict."""
        match conflict.conflict_type:
            case ConflictType.ChunkDoubleUpdate:
                return self.on_chunk_conflict is not VersionSelection.Fail
            case ConflictType.DeleteOfUpdatedArray:
                return not self.fail_on_delete_of_updated_array
            case ConflictType.DeleteOfUpdatedGroup:
                return not self.fail_on_delete_of_updated_group
            case _:
                return False

    def keeps_ours(self) -> bool:
        """Tell whose chunks stay."""
        return self.on_chunk_conflict is VersionSelection.UseOurs


def find_conflicts(
    changes: ChangeSet,
    base: Mapping[str, Node],
    theirs: TransactionLog,
    their_nodes: Mapping[str, Node],
) -> list[Conflict]:
    """Return all conflicts of a change set made on `base` with a commit made on it first."""
    if theirs.moved_nodes:
        moved = theirs.moved_nodes[0].from_path
        return [Conflict(ConflictType.MoveOperationCannotBeRebased, moved)]
    ours = node_changes(base, changes.nodes)
    paths = {node.id: node.path for node in base.values()}
    return [
        *_new_node_conflicts(ours, theirs, their_nodes),
        *_update_conflicts(ours, theirs),
        *_chunk_conflicts(changes, ours, theirs, paths),
        *_delete_conflicts(ours, theirs, their_nodes),
    ]


def _new_node_conflicts(
    ours: NodeChanges, theirs: TransactionLog, their_nodes: Mapping[str, Node]
) -> Iterator[Conflict]:
    created = theirs.new_arrays | theirs.new_groups
    placed = {node.path for node in ours.new.values()} | {move.to_path for move in ours.moved}
    for path in sorted(placed):
        existing = their_nodes.get(path)
        if existing is not None and existing.id in created:
            yield Conflict(ConflictType.NewNodeConflictsWithExistingNode, path)
        elif path != ROOT and not _has_group_above(path, placed, their_nodes):
            yield Conflict(ConflictType.NewNodeInInvalidGroup, path)


def _has_group_above(path: str, placed: set[str], their_nodes: Mapping[str, Node]) -> bool:
    if any(isinstance(their_nodes.get(above), ArrayNode) for above in ancestors_of(path)):
        return False
    parent = parent_of(path)
    return parent in placed or parent == ROOT or parent in their_nodes


def _update_conflicts(ours: NodeChanges, theirs: TransactionLog) -> Iterator[Conflict]:
    for node_id, node in ours.updated.items():
        if node_id in theirs.updated_arrays | theirs.updated_groups:
            yield Conflict(ConflictType.ZarrMetadataDoubleUpdate, node.path)
        if node_id in theirs.deleted_arrays:
            yield Conflict(ConflictType.ZarrMetadataUpdateOfDeletedArray, node.path)
        if node_id in theirs.deleted_groups:
            yield Conflict(ConflictType.ZarrMetadataUpdateOfDeletedGroup, node.path)


def _chunk_conflicts(
    changes: ChangeSet, ours: NodeChanges, theirs: TransactionLog, paths: Mapping[NodeId, str]
) -> Iterator[Conflict]:
    for node_id, edits in changes.chunks.items():
        if node_id in ours.new or not len(edits):
            continue
        path = paths[node_id]
        if node_id in theirs.deleted_arrays:
            yield Conflict(ConflictType.ChunksUpdatedInDeletedArray, path)
        elif node_id in theirs.updated_arrays:
            yield Conflict(ConflictType.ChunksUpdatedInUpdatedArray, path)
        elif node_id in theirs.updated_chunks:
            both = shared_rows(edits.table(), theirs.updated_chunks[node_id])
            if both.any():
                index = edits.table().index[both].tolist()
                yield Conflict(ConflictType.ChunkDoubleUpdate, path, index)


def _delete_conflicts(
    ours: NodeChanges, theirs: TransactionLog, their_nodes: Mapping[str, Node]
) -> Iterator[Conflict]:
    created = [
        n.path for n in their_nodes.values() if n.id in theirs.new_arrays | theirs.new_groups
    ]
    for node_id, node in ours.deleted.items():
        if node_id in theirs.updated_arrays or node_id in theirs.updated_chunks:
            yield Conflict(ConflictType.DeleteOfUpdatedArray, node.path)
        elif node_id in theirs.updated_groups:
            yield Conflict(ConflictType.DeleteOfUpdatedGroup, node.path)
        if isinstance(node, GroupNode):
            orphans = (path for path in created if is_below(path, node.path))
            yield from (Conflict(ConflictType.NewNodeInInvalidGroup, path) for path in orphans)


def shared_rows(table: ChunkTable, index: UInt32) -> np.ndarray:
    """Return which rows of a table have their index in a sorted list of indexes."""
    wanted = ChunkTable(
        index=index,
        kind=np.broadcast_to(np.uint8(ChunkType.native), len(index)),
        byte_offset=np.broadcast_to(np.uint64(0), len(index)),
        length=np.broadcast_to(np.uint64(0), len(index)),
    )
    return wanted.find_many(table.index) >= 0
