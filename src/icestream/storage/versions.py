"""Versions of objects, from and to the words of obstore."""

from datetime import UTC, datetime
from typing import Any

from icestream.errors import InvalidInputError
from icestream.storage.conditions import plain_etag
from icestream.storage.protocol import Version

State = tuple[str | None, datetime | None]
"""ETag and time of change of an object, as far as its store names them."""

_UNNAMED = datetime.fromtimestamp(0, UTC)
"""What obstore gives as the time of change where a web server gives none."""


def version_of(meta: Any) -> Version:
    """Return the version in the answer of a store."""
    etag = meta["e_tag"]
    return Version(etag if etag is None else plain_etag(etag), meta["version"])


def state_of(meta: Any) -> State:
    """Return what a conditional read is compared with."""
    modified = meta["last_modified"]
    return version_of(meta).etag, None if modified == _UNNAMED else modified


def update_mode(version: Version) -> dict[str, str]:
    """Return the condition of a write, with the quotes that HTTP wants."""
    mode: dict[str, str] = {}
    if version.etag is not None:
        # weak ETags keep their quotes in a `Version`
        mode["e_tag"] = version.etag if version.etag.startswith("W/") else f'"{version.etag}"'
    if version.generation is not None:
        mode["version"] = version.generation
    if not mode:
        raise InvalidInputError("a version without ETag and generation names no state")
    return mode
