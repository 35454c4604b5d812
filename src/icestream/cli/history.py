"""`icestream log`, `diff`, `ls` and `ops`: what is there, and how it came about."""

import dataclasses
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command
from icestream.cli.results import Document, Result, Table
from icestream.cli.versions import VERSION_HELP, selected, snapshot_of
from icestream.model.ids import id_text

if TYPE_CHECKING:
    from icestream.repository.ancestry_graphs import AncestryGraph

app = typer.Typer()

Version = Annotated[str, typer.Argument(help=VERSION_HELP)]
VersionOption = Annotated[str, typer.Option("--version", "-v", help=VERSION_HELP)]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Show at most this many.")]


@command(app, "log")
def log(
    target: Target,
    version: Annotated[str | None, typer.Argument(help=VERSION_HELP)] = None,
    *,
    graph: Annotated[bool, typer.Option("--graph", help="Draw the history as a graph.")] = False,
    limit: Limit = None,
) -> Result:
    """Show a version and all before it, newest first.

    Without a version: the branch main, or with --graph everything.
    """
    repo = target.open()
    chosen = {} if version is None else selected(repo, version)
    if graph:
        return _drawn(repo.ancestry_graph(**chosen, plain=True), limit)
    versions = islice(repo.ancestry(**(chosen or {"branch": "main"})), limit)
    columns = ("id", "parent_id", "written_at", "message", "metadata")
    return Table(columns, [[getattr(info, name) for name in columns] for info in versions])


@command(app, "diff")
def diff(target: Target, older: Version, newer: Version = "main") -> Result:
    """Show what changed from one version to a later one that descends from it."""
    repo = target.open()
    changes = repo.diff(**selected(repo, older, "from_"), **selected(repo, newer, "to_"))
    return Document(str(changes), dataclasses.asdict(changes))


@command(app, "ls")
def list_nodes(
    target: Target,
    path: Annotated[str, typer.Argument(help="Show this node and what is below it.")] = "/",
    *,
    version: VersionOption = "main",
) -> Result:
    """List the groups and arrays of a version."""
    repo = target.open()
    nodes = repo.inspect_snapshot(snapshot_of(repo, version))["nodes"]
    top = "/" + path.strip("/")
    shown = [node for node in nodes if f"{node['path']}/".startswith(f"{top.rstrip('/')}/")]
    return Table(("path", "type", "shape", "chunks", "manifests"), [_node_row(n) for n in shown])


@command(app, "ops")
def ops(target: Target, *, limit: Limit = None) -> Result:
    """Show everything that was done to a repository, newest first."""
    updates = islice(target.open().ops_log(), limit)
    return Table(
        ("time", "event", "details"),
        [(u.updated_at, type(u.kind).__name__, _details(u.kind)) for u in updates],
    )


def _drawn(graph: "AncestryGraph", limit: int | None) -> Document:
    rows = [
        {
            "id": id_text(row.snapshot_id),
            "parent_id": None if row.parent_id is None else id_text(row.parent_id),
            "labels": list(row.labels),
        }
        for row in graph.rows[:limit]
    ]
    return Document("\n".join(str(graph).splitlines()[:limit]), rows)


def _node_row(node: dict[str, Any]) -> list[Any]:
    dimensions = node.get("shape")
    if dimensions is None:
        return [node["path"], node["node_type"], None, None, None]
    return [
        node["path"],
        node["node_type"],
        [dimension["array_length"] for dimension in dimensions],
        [dimension["num_chunks"] for dimension in dimensions],
        len(node["manifest_refs"]),
    ]


def _details(event: Any) -> dict[str, Any]:
    return {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
