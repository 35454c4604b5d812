"""Graphs of sources, datasets and repositories, as values, texts and pictures."""

from collections.abc import Iterator
from itertools import combinations, pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream.ingest.lineage.graphs import Edge, Freshness, LineageGraph, Node, NodeKind
from icestream.ingest.lineage.layouts import Box, Line, Size, lay_out
from icestream.ingest.lineage.pictures import lineage_html, lineage_svg, shortened
from icestream.ingest.lineage.trees import lineage_text, lineage_tree

SVG = "{http://www.w3.org/2000/svg}"


def graph_of(*pairs: str) -> LineageGraph:
    """Return a graph of edges such as `a>b`."""
    edges = [Edge(source=pair[0], target=pair[-1]) for pair in pairs if ">" in pair]
    names = dict.fromkeys(name for pair in pairs for name in pair.split(">"))
    return LineageGraph([Node(id=n, kind=NodeKind.ROOT, name=n) for n in names], edges)


def test_a_node_is_behind_the_longest_way_to_it() -> None:
    graph = graph_of("a>b", "b>c", "a>c", "c>d", "e>d")

    assert graph.layers == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 0}
    assert [node.id for node in graph.beginnings] == ["a", "e"]


def test_a_circle_is_opened_where_it_returns() -> None:
    graph = graph_of("s>r", "r>v", "v>d", "d>r")

    assert graph.returning == {("d", "r")}
    assert graph.layers == {"s": 0, "r": 1, "v": 2, "d": 3}
    assert "see above" in lineage_text(graph)


def test_a_circle_without_a_beginning_has_one_all_the_same() -> None:
    graph = graph_of("a>b", "b>a")

    assert [node.id for node in graph.beginnings] == ["a"]
    assert lineage_text(graph).count("\n") == 3


def test_around_a_node_is_what_leads_to_it_and_from_it() -> None:
    graph = graph_of("a>b", "x>b", "b>c", "a>y", "c>d")

    assert [node.id for node in graph.around("c").nodes] == ["a", "b", "x", "c", "d"]
    assert ("a", "y") not in {(e.source, e.target) for e in graph.around("c").edges}


def test_a_tree_names_each_node_once_with_its_facts() -> None:
    nodes = [
        Node(id="s", kind=NodeKind.SOURCE, name="s3://bucket/*.nc"),
        Node(
            id="d",
            kind=NodeKind.INVENTORY,
            name="sst.inventory",
            freshness=Freshness.BEHIND,
            reason="3 records of x are not read yet",
            facts={"block": "f1620" + "ab" * 32, "sequence_number": 4, "last_offset": 7},
        ),
        Node(id="e", kind=NodeKind.DERIVATIVE, name="other"),
    ]
    edges = [Edge(source="s", target="d"), Edge(source="s", target="e")]

    text = lineage_text(LineageGraph(nodes, edges), marked="d")

    first, second, third = text.splitlines()
    assert first == "s3://bucket/*.nc  source"
    assert second.startswith("├─ * sst.inventory  inventory  block 4 …abababababab  offset 7  ")
    assert second.endswith("  behind: 3 records of x are not read yet")
    assert third == "└─ other  derivative dataset"
    tree = lineage_tree(LineageGraph(nodes, edges))
    assert tree["nodes"][1]["last_offset"] == 7
    assert tree["edges"][0] == {"from": "s", "to": "d"}


@st.composite
def graphs(draw: st.DrawFn) -> LineageGraph:
    names = [chr(ord("a") + n) for n in range(draw(st.integers(1, 9)))]
    ends = st.sampled_from(names)
    pairs = draw(st.lists(st.tuples(ends, ends).filter(lambda pair: pair[0] != pair[1])))
    return graph_of(*names, *(f"{source}>{target}" for source, target in pairs))


@given(graphs())
def test_boxes_never_overlap_and_lines_cross_none_that_is_not_theirs(graph: LineageGraph) -> None:
    sizes = {node.id: Size(100 + 20 * n, 40 + 10 * n) for n, node in enumerate(graph.nodes)}

    layout = lay_out(graph, sizes)

    boxes = list(layout.boxes.values())
    assert not any(overlap(one, other) for one, other in combinations(boxes, 2))
    assert all(box.x + box.width < layout.width for box in boxes)
    assert all(box.y + box.height < layout.height for box in boxes)
    drawn = {(line.source, line.target) for line in layout.lines}
    assert drawn == {(edge.source, edge.target) for edge in graph.edges}
    for line in layout.lines:
        assert all(0 < x < layout.width and 0 < y < layout.height for x, y in line.points)
        assert not any(inside(point, box) for point in way(line) for box in boxes)


def way(line: Line) -> Iterator[tuple[float, float]]:
    """Yield points of a line as it is drawn: curves that leave and arrive level, or straight."""
    for (x0, y0), (x1, y1) in pairwise(line.points):
        for step in (0.1, 0.25, 0.5, 0.75, 0.9):
            bend = step if line.returns else 3 * step**2 - 2 * step**3
            along = step if line.returns else 1.5 * step * (1 - step) + step**3
            yield x0 + (x1 - x0) * along, y0 + (y1 - y0) * bend


def overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def inside(point: tuple[float, float], box: Box) -> bool:
    x, y = point
    return box.x < x < box.x + box.width and box.y < y < box.y + box.height


def test_a_picture_has_a_box_and_its_words_for_each_node() -> None:
    nodes = [
        Node(id="s", kind=NodeKind.SOURCE, name="s3://bucket/<a&b>/" + "x" * 80),
        Node(id="d", kind=NodeKind.ROOT, name="cities", freshness=Freshness.UP_TO_DATE),
    ]
    graph = LineageGraph(nodes, [Edge(source="s", target="d", facts={"consumed_offset": 3})])

    root = ET.fromstring(lineage_svg(graph, marked="d"))  # noqa: S314  our own text

    assert len(root.findall(f"{SVG}g/{SVG}rect")) == 2
    words = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert words[0] == shortened(nodes[0].name)
    assert "up to date" in words
    (path,) = root.findall(f"{SVG}path")
    assert path.findtext(f"{SVG}title") == "consumed_offset: 3"
    widths = [float(r.get("width", 0)) for r in root.iter(f"{SVG}rect")]
    assert widths[0] > len(words[0]) * 7
    page = lineage_html(graph, marked="d")
    assert "<h1>Lineage of cities</h1>" in page
    assert "s3://bucket/&lt;a&amp;b&gt;/" in page


@pytest.mark.parametrize("shape", [lineage_svg, lineage_html])
def test_a_workspace_without_datasets_has_an_empty_picture(shape) -> None:
    assert "<svg" in shape(LineageGraph([], []))
    assert lineage_text(LineageGraph([], [])) == "\n"
