"""Declarations of archives in files: read, and written for the first time."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icestream.errors import AlreadyExistsError, ErrorKind, FormatError, InvalidInputError

if TYPE_CHECKING:
    from icestream.ingest.declaration.archives import Archive
    from icestream.ingest.declaration.source_places import SourcePlace

_WILDCARD = re.compile(r"[*?\[]")


def read_declaration(path: Path) -> "Archive":
    """Return the archive that a file declares.

    Raises:
        InvalidInputError: The file cannot be read, or has faults; all of them are named.
    """
    from icestream.ingest.declaration.documents import decode_archive  # noqa: PLC0415  loads numpy

    try:
        return decode_archive(path.read_bytes(), name=str(path))
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}") from error
    except FormatError as error:
        raise InvalidInputError(str(error), kind=ErrorKind.INVALID_CONFIG) from error


def check_new(path: Path | None) -> None:
    """Refuse a file that is there, before any work is done for it.

    Raises:
        AlreadyExistsError: What somebody has edited is not overwritten.
    """
    if path is not None and path.exists():
        raise AlreadyExistsError(f"{path} is there already; give another --file, or remove it")


def write_declaration(path: Path, text: str) -> None:
    """Write a new file.

    Raises:
        AlreadyExistsError: It is there already.
        InvalidInputError: It cannot be written.
    """
    check_new(path)
    try:
        path.write_text(text)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}") from error


def absolute_source(source: str) -> str:
    """Return a folder or pattern that means the same from wherever it is read."""
    if "://" in source:
        return source
    folder = "/" if source.endswith("/") else ""
    return os.path.abspath(source) + folder  # noqa: PTH100  a pattern is no path to resolve


def source_places(sources: Sequence[str], options: Mapping[str, Any]) -> "tuple[SourcePlace, ...]":
    """Return how the buckets of sources are reached, if more than their URLs is needed.

    Raises:
        InvalidInputError: A source is local, and there is nothing to say.
    """
    from icestream.ingest.declaration.source_places import SourcePlace  # noqa: PLC0415  loads numpy
    from icestream.ingest.source_patterns import parse_source  # noqa: PLC0415  as above

    patterns = [parse_source(source) for source in sources] if options else []
    for pattern in patterns:
        if pattern.is_local:
            given = ", ".join(f"--{option.replace('_', '-')}" for option in options)
            raise InvalidInputError(f"{given} means nothing for the local {pattern.text}")
    roots = dict.fromkeys(pattern.root for pattern in patterns)
    return tuple(SourcePlace(prefix=root, **options) for root in roots)


def name_of_sources(sources: Sequence[str]) -> str:
    """Return a name for an archive: that of the last folder without wildcards."""
    parts = re.split(r"/+", sources[0].partition("://")[2] or sources[0])
    folders = [part for part in parts if part and not _WILDCARD.search(part)]
    if folders and "." in folders[-1] and len(folders) > 1:
        folders.pop()  # a single file
    return re.sub(r"[^\w.-]+", "-", folders[-1] if folders else "").strip("-.") or "archive"
