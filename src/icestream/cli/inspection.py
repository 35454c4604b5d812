"""`icestream inspect`: the files of a repository."""

import json
from typing import Annotated, Any

import typer

from icestream.cli.addresses import Target
from icestream.cli.commands import command, new_group
from icestream.cli.results import Document, Result
from icestream.cli.versions import VERSION_HELP, snapshot_of

app = new_group("Show the files of a repository as JSON.")

Version = Annotated[str, typer.Argument(help=VERSION_HELP)]


@command(app, "repo")
def repo_info(target: Target) -> Result:
    """Show the repo object: branches, tags, snapshots, newest events."""
    return _as_json(target.open().inspect_repo_info())


@command(app, "snapshot")
def snapshot(target: Target, version: Version = "main") -> Result:
    """Show a snapshot: its groups, arrays and manifests."""
    repo = target.open()
    return _as_json(repo.inspect_snapshot(snapshot_of(repo, version)))


@command(app, "manifest")
def manifest(
    target: Target, manifest_id: Annotated[str, typer.Argument(help="Id of the manifest.")]
) -> Result:
    """Show a manifest: how many references it has, of which kinds."""
    return _as_json(target.open().inspect_manifest(manifest_id))


@command(app, "log")
def transaction_log(target: Target, version: Version = "main") -> Result:
    """Show the transaction log of a version: what its commit touched."""
    repo = target.open()
    return _as_json(repo.inspect_transaction_log(snapshot_of(repo, version)))


def _as_json(data: dict[str, Any]) -> Document:
    return Document(json.dumps(data, indent=2, ensure_ascii=False), data)
