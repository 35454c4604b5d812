"""Where the boxes and lines of a lineage go: in columns, from left to right.

A box is as far to the right as the longest way to it. A line that passes a column gets a place of
its own there, so that it crosses no box. Within a column everything is in the order of what it is
connected with, which leaves few lines that cross.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from icestream.ingest.lineage.graphs import LineageGraph

COLUMN_GAP = 70
ROW_GAP = 22
MARGIN = 20
_PASSAGE_HEIGHT = 10
_SWEEPS = 4

type Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Size:
    """Of a box, in pixels."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node is: its upper left corner, and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def entrance(self) -> Point:
        """Where lines come in: in the middle of the left side."""
        return self.x, self.y + self.height / 2

    @property
    def exit(self) -> Point:
        """Where lines go out: in the middle of the right side."""
        return self.x + self.width, self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Line:
    """The way of an edge: through points from left to right."""

    source: str
    target: str
    points: tuple[Point, ...]
    returns: bool = False
    """It leads back to the left, below everything."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A picture without colours and letters."""

    width: float
    height: float
    boxes: Mapping[str, Box]
    lines: Sequence[Line]


def lay_out(graph: LineageGraph, sizes: Mapping[str, Size]) -> Layout:
    """Return where everything goes; the sizes are those of the nodes, by id."""
    if not graph.nodes:
        return Layout(2 * MARGIN, 2 * MARGIN, {}, ())
    columns, ways = _columns(graph)
    ordered = _ordered(columns, ways)
    slots = {
        slot: sizes.get(slot, Size(0, _PASSAGE_HEIGHT)) for column in ordered for slot in column
    }
    boxes = _placed(ordered, slots)
    bottom = max(box.y + box.height for box in boxes.values())
    lines = [_line(way, boxes) for way in ways]
    back = sorted(graph.returning)
    lines += [
        _returning(source, target, boxes, bottom + ROW_GAP * (number + 1))
        for number, (source, target) in enumerate(back)
    ]
    return Layout(
        max(box.x + box.width for box in boxes.values()) + MARGIN + (ROW_GAP if back else 0),
        bottom + MARGIN + ROW_GAP * len(back),
        {node.id: boxes[node.id] for node in graph.nodes},
        lines,
    )


def _columns(graph: LineageGraph) -> tuple[list[list[str]], list[tuple[str, ...]]]:
    """Return what is in each column, and through which of these slots each edge goes."""
    layers = graph.layers
    columns: list[list[str]] = [[] for _ in range(max(layers.values()) + 1)]
    for node in graph.nodes:
        columns[layers[node.id]].append(node.id)
    ways = []
    pairs = dict.fromkeys((edge.source, edge.target) for edge in graph.edges)
    for source, target in pairs:
        if (source, target) in graph.returning:
            continue
        between = range(layers[source] + 1, layers[target])
        passages = [f"{source} > {target} @ {layer}" for layer in between]
        for layer, passage in zip(between, passages, strict=True):
            columns[layer].append(passage)
        ways.append((source, *passages, target))
    return columns, ways


def _ordered(columns: list[list[str]], ways: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Return columns in which each slot is near the middle of those that it is connected with."""
    before, after = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for way in ways:
        for left, right in pairwise(way):
            after[left].append(right)
            before[right].append(left)
    for sweep in range(_SWEEPS):
        neighbours = after if sweep % 2 else before
        for number in range(len(columns)) if not sweep % 2 else reversed(range(len(columns))):
            columns[number] = _sorted_column(columns, number, neighbours)
    return columns


def _sorted_column(
    columns: Sequence[list[str]], number: int, neighbours: Mapping[str, Sequence[str]]
) -> list[str]:
    places = {slot: place for column in columns for place, slot in enumerate(column)}

    def middle(slot: str) -> float:
        near = [places[other] for other in neighbours.get(slot, ())]
        return sum(near) / len(near) if near else places[slot]

    return sorted(columns[number], key=middle)


def _placed(columns: Sequence[Sequence[str]], sizes: Mapping[str, Size]) -> dict[str, Box]:
    heights = [
        sum(sizes[slot].height for slot in column) + ROW_GAP * (len(column) - 1)
        for column in columns
    ]
    boxes: dict[str, Box] = {}
    x: float = MARGIN
    for column, height in zip(columns, heights, strict=True):
        width = max(sizes[slot].width for slot in column)
        y = MARGIN + (max(heights) - height) / 2
        for slot in column:
            # all of one width: a line that leaves a narrow box would cross a wide one below
            boxes[slot] = Box(x, y, width, sizes[slot].height)
            y += sizes[slot].height + ROW_GAP
        x += width + COLUMN_GAP
    return boxes


def _line(way: tuple[str, ...], boxes: Mapping[str, Box]) -> Line:
    source, *passages, target = way
    points = [boxes[source].exit]
    for passage in passages:
        points += [boxes[passage].entrance, boxes[passage].exit]
    return Line(source, target, (*points, boxes[target].entrance))


def _returning(source: str, target: str, boxes: Mapping[str, Box], below: float) -> Line:
    start, end = boxes[source].exit, boxes[target].entrance
    right, left = start[0] + ROW_GAP / 2, end[0] - ROW_GAP / 2
    points = (start, (right, start[1]), (right, below), (left, below), (left, end[1]), end)
    return Line(source, target, points, returns=True)
