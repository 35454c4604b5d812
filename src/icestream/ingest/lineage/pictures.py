"""A lineage as a picture: SVG, or a page of HTML with the picture and its facts."""

from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise

from icestream.ingest.lineage.graphs import Edge, Freshness, LineageGraph, Node
from icestream.ingest.lineage.layouts import Box, Line, Size, lay_out
from icestream.ingest.lineage.trees import freshness_words, summary

_LETTER_WIDTH = 7.3
_LINE_HEIGHT = 17
_PADDING = 10
_LONGEST = 44
_MIN_WIDTH = 150

_COLOURS: Mapping[Freshness | None, str] = {
    None: "plain",
    Freshness.UP_TO_DATE: "fresh",
    Freshness.BEHIND: "behind",
    Freshness.UNFINISHED: "behind",
    Freshness.EMPTY: "empty",
    Freshness.UNREACHABLE: "broken",
}
_STYLE = """
.lineage { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.lineage rect { fill: #ffffff; stroke: #8a94a3; stroke-width: 1.4; }
.lineage text { fill: #1d2733; }
.lineage .name { font-weight: bold; }
.lineage .fact { fill: #566372; }
.lineage path { fill: none; stroke: #8a94a3; stroke-width: 1.4; }
.lineage .back { stroke-dasharray: 5 4; }
.lineage .arrow { fill: #8a94a3; stroke: none; }
.lineage .fresh rect { stroke: #2b8a4b; }
.lineage .behind rect { stroke: #c77700; fill: #fff8ec; }
.lineage .empty rect { stroke-dasharray: 4 3; }
.lineage .broken rect { stroke: #c0392b; fill: #fdf0ee; }
.lineage .marked rect { stroke-width: 3; }
@media (prefers-color-scheme: dark) {
  .lineage rect { fill: #1b222b; stroke: #66717f; }
  .lineage text { fill: #e6ebf0; }
  .lineage .fact { fill: #a3afbc; }
  .lineage .behind rect { fill: #33270f; }
  .lineage .broken rect { fill: #3a1c19; }
}
"""
_OPENING = (
    '<svg xmlns="http://www.w3.org/2000/svg" class="lineage" width="{width}" height="{height}"'
    ' viewBox="0 0 {width} {height}" role="img" aria-label="lineage">'
)
_ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
    ' markerHeight="7" orient="auto"><path class="arrow" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
)
_PAGE_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; max-width: 90rem; }
.picture { overflow-x: auto; }
table { border-collapse: collapse; margin-top: 1.5rem; font-size: 13px; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8a94a355;
  vertical-align: top; white-space: nowrap; }
th:last-child, td:last-child { white-space: normal; overflow-wrap: anywhere; }
"""


def lineage_svg(graph: LineageGraph, marked: str | None = None) -> str:
    """Return a picture of a graph, which any browser shows; one node may be marked."""
    texts = {node.id: _texts(node) for node in graph.nodes}
    layout = lay_out(graph, {node_id: _size(lines) for node_id, lines in texts.items()})
    edges = {(edge.source, edge.target): edge for edge in graph.edges}
    width, height = f"{layout.width:.0f}", f"{layout.height:.0f}"
    parts = [_OPENING.format(width=width, height=height), f"<style>{_STYLE}</style>", _ARROW]
    parts += [_line(line, edges[line.source, line.target]) for line in layout.lines]
    for node in graph.nodes:
        parts += _node(node, texts[node.id], layout.boxes[node.id], is_marked=node.id == marked)
    return "\n".join([*parts, "</svg>", ""])


def lineage_html(graph: LineageGraph, marked: str | None = None) -> str:
    """Return a page with the picture of a graph and a table of its facts."""
    title = "a workspace" if marked is None else graph.by_id[marked].name
    rows = "\n".join(
        f"<tr><td>{escape(node.name)}</td><td>{node.kind.value}</td>"
        f"<td>{escape(freshness_words(node))}</td><td>{escape(_all_facts(node))}</td></tr>"
        for node in graph.nodes
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Lineage of {escape(title)}</title>
<style>{_PAGE_STYLE}</style>
</head>
<body>
<h1>Lineage of {escape(title)}</h1>
<div class="picture">
{lineage_svg(graph, marked)}</div>
<table>
<thead><tr><th>name</th><th>kind</th><th>freshness</th><th>facts</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""


def _texts(node: Node) -> list[str]:
    return [shortened(line) for line in (node.name, *summary(node))]


def shortened(text: str) -> str:
    """Return a text without its middle, where it is too long for a box."""
    if len(text) <= _LONGEST:
        return text
    half = (_LONGEST - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def _size(lines: list[str]) -> Size:
    widest = max(map(len, lines)) * _LETTER_WIDTH + 2 * _PADDING
    return Size(max(_MIN_WIDTH, widest), len(lines) * _LINE_HEIGHT + 2 * _PADDING)


def _node(node: Node, lines: list[str], box: Box, *, is_marked: bool) -> Iterator[str]:
    classes = f"{_COLOURS[node.freshness]}{' marked' if is_marked else ''}"
    yield f'<g class="{classes}"><title>{escape(node.name)}: {escape(_all_facts(node))}</title>'
    yield (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}"'
        f' height="{box.height:.1f}" rx="6"/>'
    )
    for number, line in enumerate(lines):
        y = box.y + _PADDING + (number + 0.75) * _LINE_HEIGHT
        role = "fact" if number else "name"
        yield f'<text class="{role}" x="{box.x + _PADDING:.1f}" y="{y:.1f}">{escape(line)}</text>'
    yield "</g>"


def _line(line: Line, edge: Edge) -> str:
    style = ' class="back"' if line.returns else ""
    told = ", ".join(f"{name}: {value}" for name, value in edge.facts.items() if value is not None)
    return (
        f'<path{style} marker-end="url(#arrow)" d="{_way(line)}"><title>{escape(told)}</title>'
        "</path>"
    )


def _way(line: Line) -> str:
    x, y = line.points[0]
    steps = [f"M{x:.1f} {y:.1f}"]
    for (x0, y0), (x1, y1) in pairwise(line.points):
        if line.returns:
            steps.append(f"L{x1:.1f} {y1:.1f}")
        else:
            middle = (x0 + x1) / 2
            steps.append(f"C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}")
    return " ".join(steps)


def _all_facts(node: Node) -> str:
    return ", ".join(f"{name}: {value}" for name, value in node.facts.items() if value is not None)
