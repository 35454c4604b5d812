"""Uncommitted edits of a session: which nodes and which chunks differ from its snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from icestream.errors import ErrorKind, SessionStateError
from icestream.model.chunk_refs import ChunkRef
from icestream.model.chunk_tables import ChunkTable, concat, overlay
from icestream.model.ids import NodeId, SnapshotId
from icestream.model.nodes import ArrayNode, Node
from icestream.model.transaction_logs import Move, TransactionLog, merge_moves


@dataclass(slots=True)
class ArrayEdits:
    """Chunk references of one array that were set or deleted; the newest wins.

    Single edits gather in a dict, bulk edits in tables. Tables are merged like the levels of a
    log-structured tree, so that n bulk edits cost n log n and a look-up few tables.
    """

    rank: int
    singles: dict[tuple[int, ...], ChunkRef | None] = field(default_factory=dict)
    tables: list[ChunkTable] = field(default_factory=list)

    def set(self, index: tuple[int, ...], ref: ChunkRef | None) -> None:
        """Set one chunk; None deletes it."""
        self.singles[index] = ref

    def set_table(self, table: ChunkTable) -> None:
        """Set many chunks; rows of kind `uninitialized` delete."""
        tables = [*self._all_tables(), table]
        while len(tables) > 1 and len(tables[-2]) <= 2 * len(tables[-1]):
            newer = tables.pop()
            tables.append(overlay(tables.pop(), newer))
        self._become(tables)

    def add_fork(self, table: ChunkTable) -> None:
        """Set the chunks of a fork; the tables of many forks are joined at once, when needed."""
        self._become([*self._all_tables(), table])

    def find(self, index: tuple[int, ...]) -> tuple[bool, ChunkRef | None]:
        """Return whether the chunk was edited, and what it is now."""
        singles, tables = self.singles, self.tables
        if index in singles:
            return True, singles[index]
        for table in reversed(tables):
            row = table.find(index)
            if row >= 0:
                return True, table.ref(row)
        return False, None

    def table(self) -> ChunkTable:
        """Return all edits as one table."""
        if not self.singles and len(self.tables) == 1:
            return self.tables[0]
        joined = _joined(self._all_tables() or [ChunkTable.empty(self.rank)])
        self._become([joined])
        return joined

    def _all_tables(self) -> list[ChunkTable]:
        """Return all edits as tables, oldest first."""
        if not self.singles:
            return self.tables
        return [*self.tables, ChunkTable.from_refs(self.singles, self.rank)]

    def _become(self, tables: list[ChunkTable]) -> None:
        """Let `tables` be all edits.

        `find` reads without a lock, singles first: the tables that take them up come before the
        singles go, and neither is changed in place.
        """
        self.tables = tables
        self.singles = {}

    def replace_all(self, table: ChunkTable) -> None:
        """Let `table` be all edits."""
        self._become([table])

    def __len__(self) -> int:
        return len(self.singles) + sum(len(table) for table in self.tables)


def _joined(tables: list[ChunkTable]) -> ChunkTable:
    """Return tables as one, the later winning; those that follow each other are only appended."""
    filled = [table for table in tables if len(table)]
    in_order = sorted(filled, key=lambda table: table.index[0].tolist())
    if all(a.index[-1].tolist() < b.index[0].tolist() for a, b in pairwise(in_order)):
        return concat(in_order or tables)
    return reduce(overlay, tables)


@dataclass(slots=True)
class ChangeSet:
    """All uncommitted edits of a session."""

    nodes: dict[str, Node | None] = field(default_factory=dict)
    """Path to the node put there, or None where a node of the snapshot was removed."""
    chunks: dict[NodeId, ArrayEdits] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to commit."""
        return not self.nodes and not any(len(edits) for edits in self.chunks.values())

    def edits_of(self, array: ArrayNode) -> ArrayEdits:
        """Return the edits of an array, to be added to."""
        return self.chunks.setdefault(array.id, ArrayEdits(len(array.shape)))

    def forget_chunks(self, node_id: NodeId) -> None:
        """Drop the chunk edits of an array that was deleted."""
        self.chunks.pop(node_id, None)

    def copy(self) -> "ChangeSet":
        """Return an independent change set; tables are shared, they never change."""
        chunks = {
            node_id: ArrayEdits(edits.rank, dict(edits.singles), list(edits.tables))
            for node_id, edits in self.chunks.items()
        }
        return ChangeSet(dict(self.nodes), chunks)

    def merge(
        self, other: "ChangeSet", *, base: Mapping[str, Node], other_base: Mapping[str, Node]
    ) -> None:
        """Add the edits of a fork; its chunks win over those set before.

        `base` and `other_base` are the nodes that the two were made on.

        Raises:
            SessionStateError: Both sides put different nodes at one path, or one edited chunks of
                an array that the other deleted; nothing is merged.
        """
        for path, node in other.nodes.items():
            _check_same_origin(path, self.nodes.get(path), node, other_base.get(path))
        nodes = {
            path: node
            for path, node in (self.nodes | other.nodes).items()
            if node is not None or path in base
        }
        alive = {node.id for path, node in base.items() if path not in nodes}
        alive |= {node.id for node in nodes.values() if node is not None}
        if not alive.issuperset(node_id for node_id, edits in other.chunks.items() if len(edits)):
            raise _merge_failed("a fork wrote chunks of an array that was deleted meanwhile")
        self.nodes = nodes
        self.chunks = {i: edits for i, edits in self.chunks.items() if i in alive}
        for node_id, edits in other.chunks.items():
            if len(edits):
                self.chunks.setdefault(node_id, ArrayEdits(edits.rank)).add_fork(edits.table())


def _check_same_origin(
    path: str, mine: Node | None, theirs: Node | None, theirs_before: Node | None
) -> None:
    """Refuse a node of a fork in place of one that the fork did not know."""
    if mine is None or theirs is None or mine.id == theirs.id:
        return
    if theirs_before is None or theirs_before.id != mine.id:
        raise _merge_failed(f"two forks created {path} independently; create nodes before forking")


def _merge_failed(message: str) -> SessionStateError:
    return SessionStateError(message, kind=ErrorKind.MERGE_FAILED)


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """The node edits of a change set, sorted out by what they mean."""

    new: Mapping[NodeId, Node]
    deleted: Mapping[NodeId, Node]
    updated: Mapping[NodeId, Node]
    moved: tuple[Move, ...]


def node_changes(base: Mapping[str, Node], edits: Mapping[str, Node | None]) -> NodeChanges:
    """Compare edited paths with the snapshot they were made on."""
    before = {base[path].id: base[path] for path in edits if path in base}
    after = {node.id: node for node in edits.values() if node is not None}
    kept = [(before[node_id], after[node_id]) for node_id in before.keys() & after.keys()]
    return NodeChanges(
        new={i: node for i, node in after.items() if i not in before},
        deleted={i: node for i, node in before.items() if i not in after},
        updated={
            new.id: new
            for old, new in kept
            if old.path == new.path or old.user_data != new.user_data
        },
        moved=merge_moves(
            (), [Move(old.path, new.path, new.id, isinstance(new, ArrayNode)) for old, new in kept]
        ),
    )


def transaction_log(
    log_id: SnapshotId, base: Mapping[str, Node], changes: ChangeSet
) -> TransactionLog:
    """Return the log of what a change set does to a snapshot."""
    nodes = node_changes(base, changes.nodes)

    def ids(found: Mapping[NodeId, Node], *, arrays: bool) -> frozenset[NodeId]:
        return frozenset(i for i, node in found.items() if isinstance(node, ArrayNode) is arrays)

    return TransactionLog(
        id=log_id,
        new_groups=ids(nodes.new, arrays=False),
        new_arrays=ids(nodes.new, arrays=True),
        deleted_groups=ids(nodes.deleted, arrays=False),
        deleted_arrays=ids(nodes.deleted, arrays=True),
        updated_arrays=ids(nodes.updated, arrays=True),
        updated_groups=ids(nodes.updated, arrays=False),
        updated_chunks={
            node_id: np.asarray(edits.table().index)
            for node_id, edits in changes.chunks.items()
            if len(edits)
        },
        moved_nodes=nodes.moved,
    )


def relink(changes: ChangeSet, base: Mapping[str, Node]) -> None:
    """Give edited arrays the manifests that they have in another snapshot: none if they are new."""
    by_id = {node.id: node for node in base.values() if isinstance(node, ArrayNode)}
    for path, node in changes.nodes.items():
        if isinstance(node, ArrayNode):
            known = by_id.get(node.id)
            changes.nodes[path] = replace(node, manifests=known.manifests if known else ())
