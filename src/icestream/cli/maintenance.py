"""`icestream gc`, `expire` and `stats`: what a repository keeps."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command
from icestream.cli.results import Record, Result, Table
from icestream.cli.versions import parse_moment

app = typer.Typer()

OlderThan = Annotated[
    datetime,
    typer.Option(
        parser=parse_moment,
        metavar="TIME",
        help="A date such as 2026-01-31T12:00:00Z, or an age such as 12h, 30d or 8w.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, change nothing.")]


@command(app, "gc")
def collect(target: Target, *, older_than: OlderThan, dry_run: DryRun = False) -> Result:
    """Delete objects that no version uses, if they are old enough.

    Sessions that are being written must be younger than the time given: their objects are not
    used by any version yet.
    """
    return Record(asdict(target.open().garbage_collect(older_than, dry_run=dry_run)))


@command(app, "expire")
def expire(
    target: Target,
    *,
    older_than: OlderThan,
    dry_run: DryRun = False,
    delete_branches: Annotated[
        bool, typer.Option("--delete-branches", help="Delete branches that expired as a whole.")
    ] = False,
    delete_tags: Annotated[
        bool, typer.Option("--delete-tags", help="Delete tags of expired snapshots.")
    ] = False,
) -> Result:
    """Take old versions out of the history; gc then deletes what only they used."""
    expired = target.open().expire_snapshots(
        older_than,
        delete_expired_branches=delete_branches,
        delete_expired_tags=delete_tags,
        dry_run=dry_run,
    )
    return Table(("snapshot_id",), [(snapshot_id,) for snapshot_id in sorted(expired)])


@command(app, "stats")
def stats(target: Target) -> Result:
    """Show how many bytes the chunks of all versions hold."""
    found = target.open().chunk_storage_stats()
    return Record(
        {
            "native_bytes": found.native_bytes,
            "inlined_bytes": found.inlined_bytes,
            "virtual_bytes": found.virtual_bytes,
            "total_bytes": found.total_bytes(),
        }
    )
