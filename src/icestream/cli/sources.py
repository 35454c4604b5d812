"""`icestream sources`: the places that a repository points at."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command, new_group
from icestream.cli.results import Done, Record, Result, Table
from icestream.cli.versions import VERSION_HELP, selected

if TYPE_CHECKING:
    from icestream.model.prefix_advice import ContainerShare
    from icestream.repository.dependencies import DependencyReport
    from icestream.repository.repository import Repository

app = new_group("Find the files that virtual chunks are in, and who uses them.")

Version = Annotated[
    str | None,
    typer.Option("--version", metavar="VERSION", help=f"{VERSION_HELP} All if left out."),
]
History = Annotated[bool, typer.Option("--history", help="Look at the versions before it too.")]

_SHARE_COLUMNS = ("name", "place", "locations", "references", "bytes_before", "bytes_after")


@command(app, "list")
def list_containers(target: Target) -> Result:
    """List the containers; only the configuration is read."""
    return _rows(target.open().dependencies(level="containers"))


@command(app, "objects")
def list_objects(target: Target, *, version: Version = None, history: History = False) -> Result:
    """List every object that virtual chunks are in, the most used first."""
    repo = target.open()
    return _rows(repo.dependencies(**_scope(repo, version, history=history)))


@command(app, "prefixes")
def list_prefixes(
    target: Target,
    *,
    depth: Annotated[int, typer.Option(min=1, help="How many segments deep; 1 is the bucket.")] = 1,
    version: Version = None,
    history: History = False,
) -> Result:
    """List the folders that virtual chunks are in, to a depth."""
    repo = target.open()
    scope = _scope(repo, version, history=history)
    return _rows(repo.dependencies(**scope, level="prefixes", depth=depth))


@command(app, "users-of")
def users_of(
    target: Target,
    location: Annotated[str, typer.Argument(help="An object, or a prefix of many.")],
    *,
    version: Version = None,
    history: History = False,
) -> Result:
    """Show who refers to an object: if nobody does, the repository does not need it."""
    repo = target.open()
    users = repo.users_of(location, **_scope(repo, version, history=history))
    return Record(
        {
            "location": users.location,
            "is_used": users.is_used,
            "arrays": {path: users.chunks_of(path) for path in users.arrays},
            "branches": list(users.branches),
            "tags": list(users.tags),
            "snapshots": list(users.snapshots),
        }
    )


@command(app, "checksums")
def checksums(target: Target, *, version: Version = None, history: History = False) -> Result:
    """Count the references that would not notice a change of their object."""
    repo = target.open()
    report = repo.unchecked_references(**_scope(repo, version, history=history))
    columns = ("array", "references", "with_etag", "with_time", "unchecked")
    rows = [
        [path, *(getattr(counts, name) for name in columns[1:])]
        for path, counts in [*report.arrays.items(), ("total", report.total)]
    ]
    return Table(columns, rows)


@command(app, "advise")
def advise(
    target: Target,
    *,
    at_most: Annotated[int, typer.Option(min=1, help="Propose no more containers.")] = 8,
    min_bytes_saved: Annotated[
        int, typer.Option(min=1, help="Leave out containers that save less.")
    ] = 1024,
    templates: Annotated[
        bool, typer.Option("--templates", help="Also propose templates; icechunk has none.")
    ] = False,
    save: Annotated[bool, typer.Option("--save", help="Store the proposals.")] = False,
    version: Version = None,
) -> Result:
    """Propose containers that make stored locations shorter."""
    from icestream.model.prefix_advice import AdviceLimits  # noqa: PLC0415  loads pyarrow

    repo = target.open()
    limits = AdviceLimits(
        max_containers=at_most, min_bytes_saved=min_bytes_saved, templates=templates
    )
    scope = _scope(repo, version, history=False)
    proposals = repo.advise_containers(**scope, limits=limits).proposals
    if save and proposals:
        for share in proposals:
            repo.config.set_virtual_chunk_container(share.container)
        repo.save_config()
    return Table(_SHARE_COLUMNS, [_share(share) for share in proposals])


@command(app, "rewrite")
def rewrite(
    target: Target,
    branch: Annotated[str, typer.Argument(help="The branch to commit to.")] = "main",
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="The commit message.")],
    absolute: Annotated[
        bool, typer.Option("--absolute", help="Make locations absolute again.")
    ] = False,
    templates: Annotated[
        bool, typer.Option("--templates", help="Use templates too; icechunk cannot read those.")
    ] = False,
) -> Result:
    """Store the locations of a branch relative to its containers, in one commit."""
    done = target.open().rewrite_locations(
        message, branch=branch, relative=not absolute, templates=templates
    )
    told = f"rewrote {done.locations} locations in {done.manifests} manifests"
    return Done(
        f"{told}, {done.bytes_before} bytes became {done.bytes_after}"
        if done.snapshot_id
        else "there was nothing to rewrite",
        {
            "snapshot_id": done.snapshot_id,
            "manifests": done.manifests,
            "locations": done.locations,
            "bytes_before": done.bytes_before,
            "bytes_after": done.bytes_after,
        },
    )


def _scope(repo: "Repository", version: str | None, *, history: bool) -> dict[str, Any]:
    named: dict[str, Any] = {} if version is None else dict(selected(repo, version))
    return {**named, "history": history} if history else named


def _rows(report: "DependencyReport") -> Table:
    columns = tuple(report.table.column_names)
    return Table(columns, [list(record.values()) for record in report.records()])


def _share(share: "ContainerShare") -> list[Any]:
    return [
        share.container.name,
        share.container.key,
        share.locations,
        share.references,
        share.bytes_before,
        share.bytes_after,
    ]
