"""`icestream repo`: repositories as a whole."""

from typing import Annotated

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command, new_group
from icestream.cli.results import Done, Record, Result

app = new_group("Create, look at and upgrade repositories.")


@command(app, "create")
def create(
    target: Target,
    *,
    spec_version: Annotated[
        int, typer.Option(min=1, max=2, help="Version of the Icechunk format.")
    ] = 2,
) -> Result:
    """Create a repository at an empty place."""
    from icestream.repository.repository import Repository  # noqa: PLC0415  loads zarr

    repo = Repository.create(target.storage(), spec_version=spec_version)
    return Done(
        f"created a repository at {target.address}",
        {"address": target.address, "spec_version": int(repo.spec_version)},
    )


@command(app, "show")
def show(target: Target) -> Result:
    """Show what a repository has: branches, tags, metadata."""
    repo = target.open()
    return Record(
        {
            "address": target.address,
            "spec_version": int(repo.spec_version),
            "branches": {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())},
            "tags": {name: repo.lookup_tag(name) for name in sorted(repo.list_tags())},
            "metadata": repo.metadata if repo.spec_version > 1 else {},
        }
    )


@command(app, "status")
def status(target: Target) -> Result:
    """Show whether a repository accepts writes."""
    found = target.open().status
    return Record(
        {
            "availability": found.availability,
            "since": found.set_at,
            "reason": found.limited_availability_reason,
        }
    )


@command(app, "upgrade")
def upgrade(
    target: Target,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check only, change nothing.")] = False,
    keep_old_files: Annotated[
        bool, typer.Option("--keep-old-files", help="Leave the files of version 1 in place.")
    ] = False,
) -> Result:
    """Bring a repository to the newest version of the format; nobody else may use it meanwhile."""
    from icestream.repository.upgrade import upgrade_icechunk_repository  # noqa: PLC0415  loads zarr

    repo = upgrade_icechunk_repository(
        target.open(), dry_run=dry_run, delete_unused_v1_files=not keep_old_files
    )
    done = "can be upgraded; nothing was changed" if dry_run else "is upgraded"
    return Done(
        f"{target.address} {done}", {"spec_version": int(repo.spec_version), "dry_run": dry_run}
    )
