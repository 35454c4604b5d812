"""Sources, datasets and repositories as nodes, and what flows between them as edges."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any


class NodeKind(StrEnum):
    """What a node is."""

    SOURCE = "source"
    ROOT = "root dataset"
    INVENTORY = "inventory"
    INGEST = "ingest"
    DERIVATIVE = "derivative dataset"
    ARRAY = "derived array"
    REPOSITORY = "repository"
    MISSING = "missing dataset"


class Freshness(StrEnum):
    """How a node stands to what it is made from."""

    UP_TO_DATE = "up to date"
    BEHIND = "behind"
    EMPTY = "empty"
    UNREACHABLE = "unreachable"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A source, a dataset, or a branch of a repository."""

    id: str
    kind: NodeKind
    name: str
    freshness: Freshness | None = None
    """None where that cannot be told."""
    reason: str | None = None
    """Why it is not up to date."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Last block, offset, watermark, snapshot ... as far as there are any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What one node gives to another."""

    source: str
    target: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    """How far the target has read: consumed offset and block, and how many records are left."""


@dataclass(frozen=True)
class LineageGraph:
    """Nodes in the order in which data flow, and the edges between them."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]

    @cached_property
    def by_id(self) -> Mapping[str, Node]:
        """The nodes by their ids."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def targets(self) -> Mapping[str, Sequence[str]]:
        """For each node those that are made from it."""
        return _neighbours((edge.source, edge.target) for edge in self.edges)

    @cached_property
    def sources(self) -> Mapping[str, Sequence[str]]:
        """For each node those that it is made from."""
        return _neighbours((edge.target, edge.source) for edge in self.edges)

    def around(self, node_id: str) -> "LineageGraph":
        """Return the part of the graph that leads to a node, or from it."""
        kept = _reached(node_id, self.sources) | _reached(node_id, self.targets)
        return LineageGraph(
            [node for node in self.nodes if node.id in kept],
            [edge for edge in self.edges if edge.source in kept and edge.target in kept],
        )

    @cached_property
    def layers(self) -> Mapping[str, int]:
        """How many steps each node is from the beginning; edges that close a circle do not count.

        A derived array may be stored in the repository that it is made from.
        """
        forward = {(edge.source, edge.target) for edge in self.edges} - self.returning
        sources = _neighbours((target, source) for source, target in sorted(forward))
        found: dict[str, int] = {}

        def layer(node_id: str) -> int:
            if node_id not in found:
                before = [layer(source) for source in sources.get(node_id, ())]
                found[node_id] = max(before, default=-1) + 1
            return found[node_id]

        return {node.id: layer(node.id) for node in self.nodes}

    @cached_property
    def returning(self) -> set[tuple[str, str]]:
        """The edges that lead back to where they came from."""
        back: set[tuple[str, str]] = set()
        done: set[str] = set()
        for node in self._beginnings_first:
            _find_returning(node.id, self.targets, done, back)
        return back

    @property
    def beginnings(self) -> list[Node]:
        """The nodes that nothing leads to; of a circle, one node of it."""
        layers = self.layers
        return [node for node in self.nodes if not layers[node.id]]

    @property
    def _beginnings_first(self) -> list[Node]:
        return sorted(self.nodes, key=lambda node: bool(self.sources.get(node.id)))


def _neighbours(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for here, there in pairs:
        if there not in found[here]:
            found[here].append(there)
    return dict(found)


def _reached(start: str, neighbours: Mapping[str, Sequence[str]]) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        for node_id in neighbours.get(waiting.pop(), ()):
            if node_id not in found:
                found.add(node_id)
                waiting.append(node_id)
    return found


def _find_returning(
    start: str, targets: Mapping[str, Sequence[str]], done: set[str], back: set[tuple[str, str]]
) -> None:
    """Walk from a node in depth; an edge to a node that the walk is inside of leads back."""
    if start in done:
        return
    inside, path = {start}, [(start, iter(targets.get(start, ())))]
    while path:
        here, following = path[-1]
        there = next(following, None)
        if there is None:
            path.pop()
            inside.discard(here)
            done.add(here)
        elif there in inside:
            back.add((here, there))
        elif there not in done:
            inside.add(there)
            path.append((there, iter(targets.get(there, ()))))
