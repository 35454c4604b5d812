"""Differences between versions, by path."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from icestream.model.change_sets import ChangeSet, transaction_log
from icestream.model.ids import INITIAL_SNAPSHOT_ID, NodeId
from icestream.model.nodes import Node
from icestream.model.transaction_logs import TransactionLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What changed between two versions, or what a session would commit."""

    new_groups: set[str] = field(default_factory=set)
    new_arrays: set[str] = field(default_factory=set)
    deleted_groups: set[str] = field(default_factory=set)
    deleted_arrays: set[str] = field(default_factory=set)
    updated_groups: set[str] = field(default_factory=set)
    updated_arrays: set[str] = field(default_factory=set)
    updated_chunks: dict[str, list[list[int]]] = field(default_factory=dict)
    moved_nodes: list[tuple[str, str]] = field(default_factory=list)

    def is_empty(self) -> bool:
        """Tell whether nothing changed."""
        return not (
            self.new_groups
            or self.new_arrays
            or self.deleted_groups
            or self.deleted_arrays
            or self.updated_groups
            or self.updated_arrays
            or self.updated_chunks
            or self.moved_nodes
        )

    def __str__(self) -> str:
        lines: list[str] = []
        for title in ("new_groups", "new_arrays", "deleted_groups", "deleted_arrays"):
            lines += _section(title, sorted(getattr(self, title)))
        lines += _section("updated_groups", sorted(self.updated_groups))
        lines += _section("updated_arrays", sorted(self.updated_arrays))
        lines += _section(
            "updated_chunks",
            [f"{path}: {len(index)} chunks" for path, index in sorted(self.updated_chunks.items())],
        )
        lines += _section("moved_nodes", [f"{old} -> {new}" for old, new in self.moved_nodes])
        return "\n".join(lines) or "no changes"


def _section(title: str, entries: Iterable[str]) -> list[str]:
    entries = list(entries)
    return [f"{title.replace('_', ' ')}:", *(f"  {entry}" for entry in entries)] if entries else []


def diff_of_log(log: TransactionLog, before: Mapping[str, Node], after: Mapping[str, Node]) -> Diff:
    """Name the nodes of a transaction log by their paths, the later path where both exist."""
    paths = {node.id: node.path for node in before.values()}
    paths |= {node.id: node.path for node in after.values()}

    def named(ids: Iterable[NodeId]) -> set[str]:
        return {paths[i] for i in ids if i in paths}

    return Diff(
        new_groups=named(log.new_groups),
        new_arrays=named(log.new_arrays),
        deleted_groups=named(log.deleted_groups),
        deleted_arrays=named(log.deleted_arrays),
        updated_groups=named(log.updated_groups),
        updated_arrays=named(log.updated_arrays),
        updated_chunks={
            paths[i]: index.tolist() for i, index in log.updated_chunks.items() if i in paths
        },
        moved_nodes=[(move.from_path, move.to_path) for move in log.moved_nodes],
    )


def diff_of_changes(changes: ChangeSet, base: Mapping[str, Node]) -> Diff:
    """Return what a session would commit."""
    log = transaction_log(INITIAL_SNAPSHOT_ID, base, changes)
    after = {node.path: node for node in changes.nodes.values() if node is not None}
    return diff_of_log(log, base, after)
