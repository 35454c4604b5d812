"""The commands of `icestream` in one application."""

from importlib.metadata import version
from typing import Annotated

import typer

from icestream.cli import (
    archive,
    config,
    dataset,
    derived_arrays,
    history,
    inspection,
    lineage,
    maintenance,
    manifests,
    pull,
    references,
    repo,
    sources,
)

app = typer.Typer(
    name="icestream",
    help="Versioned, transactional Zarr repositories in the Icechunk format.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(repo.app, name="repo")
app.add_typer(references.branch_app, name="branch")
app.add_typer(references.tag_app, name="tag")
app.add_typer(history.app)
app.add_typer(config.app, name="config")
app.add_typer(maintenance.app)
app.add_typer(inspection.app, name="inspect")
app.add_typer(manifests.app, name="manifests")
app.add_typer(sources.app, name="sources")
dataset.app.add_typer(pull.app)
dataset.app.add_typer(derived_arrays.app)
app.add_typer(dataset.app, name="dataset")
app.add_typer(archive.app, name="archive")
app.add_typer(lineage.app)


def _show_version(asked: bool) -> None:  # noqa: FBT001  typer calls it with the option's value
    if asked:
        typer.echo(f"icestream {version('icestream')}")
        raise typer.Exit


@app.callback()
def _application(
    *,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and stop."
        ),
    ] = False,
) -> None:
    """Versioned, transactional Zarr repositories in the Icechunk format."""


def main() -> None:
    """Run the command line."""
    app()
