"""Versions and moments as people write them."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from icestream.repository.repository import Repository

VERSION_HELP = (
    "A branch, a tag or a snapshot id; branch:NAME, tag:NAME and snapshot:ID leave no doubt."
)

_KINDS = {"branch": "branch", "tag": "tag", "snapshot": "snapshot_id"}
_AGE = re.compile(r"(\d+)(h|d|w)")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def selected(repo: "Repository", version: str, prefix: str = "") -> dict[str, str]:
    """Return the keyword argument that names a version: branches first, then tags, then ids."""
    kind, _, name = version.partition(":")
    if kind in _KINDS and name:
        return {prefix + _KINDS[kind]: name}
    if version in repo.list_branches():
        return {f"{prefix}branch": version}
    if version in repo.list_tags():
        return {f"{prefix}tag": version}
    return {f"{prefix}snapshot_id": version}


def snapshot_of(repo: "Repository", version: str) -> str:
    """Return the id of the snapshot that a version names."""
    match selected(repo, version):
        case {"branch": name}:
            return repo.lookup_branch(name)
        case {"tag": name}:
            return repo.lookup_tag(name)
        case {"snapshot_id": snapshot_id}:
            return repo.lookup_snapshot(snapshot_id).id
        case other:
            raise AssertionError(other)


def parse_moment(text: str) -> datetime:
    """Return the moment that an ISO date or an age such as `12h`, `30d` or `8w` means."""
    if age := _AGE.fullmatch(text):
        return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no ISO date such as 2026-01-31T12:00:00Z, and no age such as 30d"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
