"""`icestream lineage`: where the data of a workspace come from, and where they go."""

from enum import StrEnum
from typing import Annotated

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command, new_group
from icestream.cli.results import Document, Result
from icestream.errors import NotFoundError

# What opens datasets is imported by the command: `icestream --help` must be quick.

app = new_group("Show where data come from.")


class LineageFormat(StrEnum):
    """How a lineage is shown."""

    text = "text"
    json = "json"
    svg = "svg"
    html = "html"


@command(app, "lineage", of="workspace of datasets")
def lineage(
    target: Target,
    name: Annotated[
        str | None,
        typer.Argument(help="Dataset, archive or repository; everything there, if left out."),
    ] = None,
    *,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not look into the repositories that are named.")
    ] = False,
    output: Annotated[
        LineageFormat,
        typer.Option("--output", "-o", metavar="text|json|svg|html", help="How to show it."),
    ] = LineageFormat.text,
) -> Result:
    """Show where data come from and go: sources, datasets, repositories, and how fresh they are."""
    from icestream.ingest.lineage.pictures import lineage_html, lineage_svg  # noqa: PLC0415  loads pyarrow
    from icestream.ingest.lineage.reading import find_node, read_lineage  # noqa: PLC0415  as above
    from icestream.ingest.lineage.trees import lineage_text, lineage_tree  # noqa: PLC0415  as above
    from icestream.ledger.workspace import Workspace  # noqa: PLC0415  as above

    graph = read_lineage(Workspace(target.storage()), opens_repositories=not offline)
    if not graph.nodes:
        raise NotFoundError(
            f"there are no datasets at {target.address}: give the address of a workspace; that of "
            "an archive is beside its repository, with .ledger after the name"
        )
    marked = None if name is None else find_node(graph, name)
    if marked is not None:
        graph = graph.around(marked)
    match output:
        case LineageFormat.svg:
            text = lineage_svg(graph, marked)
        case LineageFormat.html:
            text = lineage_html(graph, marked)
        case _:
            text = lineage_text(graph, marked)
    return Document(text, lineage_tree(graph))
