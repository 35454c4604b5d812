"""`icestream branch` and `icestream tag`: names of snapshots."""

from typing import Annotated

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command, new_group
from icestream.cli.results import Done, Result, Table
from icestream.cli.versions import VERSION_HELP, snapshot_of

branch_app = new_group("List, create, move and delete branches.")
tag_app = new_group("List, create and delete tags.")

BranchName = Annotated[str, typer.Argument(help="Name of the branch.")]
TagName = Annotated[str, typer.Argument(help="Name of the tag.")]
Version = Annotated[str, typer.Argument(help=VERSION_HELP)]


@command(branch_app, "list")
def list_branches(target: Target) -> Result:
    """List the branches and the snapshots they point at."""
    repo = target.open()
    names = sorted(repo.list_branches())
    return Table(("branch", "snapshot_id"), [(name, repo.lookup_branch(name)) for name in names])


@command(branch_app, "create")
def create_branch(target: Target, name: BranchName, version: Version = "main") -> Result:
    """Create a branch at a version."""
    repo = target.open()
    snapshot_id = snapshot_of(repo, version)
    repo.create_branch(name, snapshot_id)
    return Done(
        f"created branch {name} at {snapshot_id}", {"branch": name, "snapshot_id": snapshot_id}
    )


@command(branch_app, "delete")
def delete_branch(target: Target, name: BranchName) -> Result:
    """Delete a branch; its snapshots stay until garbage collection."""
    target.open().delete_branch(name)
    return Done(f"deleted branch {name}", {"branch": name})


@command(branch_app, "reset")
def reset_branch(
    target: Target,
    name: BranchName,
    version: Version,
    *,
    from_snapshot: Annotated[
        str | None, typer.Option(help="Refuse unless the branch still points at this snapshot.")
    ] = None,
) -> Result:
    """Point a branch at another version."""
    repo = target.open()
    snapshot_id = snapshot_of(repo, version)
    repo.reset_branch(name, snapshot_id, from_snapshot_id=from_snapshot)
    return Done(
        f"branch {name} points at {snapshot_id}", {"branch": name, "snapshot_id": snapshot_id}
    )


@command(tag_app, "list")
def list_tags(target: Target) -> Result:
    """List the tags and the snapshots they point at."""
    repo = target.open()
    names = sorted(repo.list_tags())
    return Table(("tag", "snapshot_id"), [(name, repo.lookup_tag(name)) for name in names])


@command(tag_app, "create")
def create_tag(target: Target, name: TagName, version: Version = "main") -> Result:
    """Create a tag at a version, where it stays."""
    repo = target.open()
    snapshot_id = snapshot_of(repo, version)
    repo.create_tag(name, snapshot_id)
    return Done(f"created tag {name} at {snapshot_id}", {"tag": name, "snapshot_id": snapshot_id})


@command(tag_app, "delete")
def delete_tag(target: Target, name: TagName) -> Result:
    """Delete a tag; its name can never be used again."""
    target.open().delete_tag(name)
    return Done(f"deleted tag {name}", {"tag": name})
