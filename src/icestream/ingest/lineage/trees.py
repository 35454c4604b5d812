"""A lineage as plain values, and as a tree of text."""

from collections.abc import Iterator
from typing import Any

from icestream.ingest.lineage.graphs import Freshness, LineageGraph, Node

_SHORT_HASH = 12


def lineage_tree(graph: LineageGraph) -> dict[str, Any]:
    """Return a graph as plain values."""
    return {
        "nodes": [_node_tree(node) for node in graph.nodes],
        "edges": [{"from": edge.source, "to": edge.target, **edge.facts} for edge in graph.edges],
    }


def _node_tree(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "kind": node.kind.value,
        "name": node.name,
        "freshness": None if node.freshness is None else node.freshness.value,
        "reason": node.reason,
        **node.facts,
    }


def lineage_text(graph: LineageGraph, marked: str | None = None) -> str:
    """Return a graph as a tree, from its sources on; a node that comes again is only named."""
    seen: set[str] = set()
    lines: list[str] = []
    for node in graph.beginnings:
        lines += _lines(graph, node, seen, marked)
    return "\n".join(lines) + "\n"


def _lines(graph: LineageGraph, node: Node, seen: set[str], marked: str | None) -> Iterator[str]:
    star = "* " if node.id == marked else ""
    if node.id in seen:
        yield f"{star}{node.name} ({node.kind.value}, see above)"
        return
    seen.add(node.id)
    yield f"{star}{node.name}  {'  '.join(summary(node))}"
    following = [graph.by_id[target] for target in graph.targets.get(node.id, ())]
    for number, child in enumerate(following):
        is_last = number == len(following) - 1
        first, rest = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        for line in _lines(graph, child, seen, marked):
            yield first + line
            first = rest


def summary(node: Node) -> list[str]:
    """Return the facts of a node in a few words each."""
    facts, words = node.facts, [node.kind.value]
    if facts.get("block"):
        words.append(f"block {facts['sequence_number']} {short_hash(facts['block'])}")
    if facts.get("last_offset") is not None:
        words.append(f"offset {facts['last_offset']}")
    if facts.get("snapshot"):
        words.append(f"snapshot {facts['snapshot']}")
    if facts.get("run") is not None:
        words.append(f"run {facts['run']}")
    if facts.get("watermark"):
        words.append(f"watermark {facts['watermark']}")
    if facts.get("updated"):
        words.append(f"updated {str(facts['updated'])[:19]}")
    if node.freshness is not None:
        words.append(freshness_words(node))
    return words


def freshness_words(node: Node) -> str:
    """Return how fresh a node is, and why it is not."""
    if node.freshness is None:
        return ""
    if node.freshness is Freshness.UP_TO_DATE or node.reason is None:
        return node.freshness.value
    return f"{node.freshness.value}: {node.reason}"


def short_hash(text: str) -> str:
    """Return the end of a hash, by which it can be told and found."""
    return f"…{text[-_SHORT_HASH:]}"
