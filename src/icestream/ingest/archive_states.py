"""What a run leaves behind for the next one: everything it needs to know, and no references.

The bytes are the checkpoint of the last block of the ingest dataset. With them, a run knows without
reading anything else which files have a place, as what they were read, and which were left out.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow as pa

from icestream.errors import ErrorKind, FormatError
from icestream.ingest.column_bundles import (
    ColumnBundle,
    decode_bundle,
    differences,
    encode_bundle,
)
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.file_columns import NOWHERE, UNKNOWN_TIME, FileColumns, gather
from icestream.ingest.file_columns_codec import bundled_columns, columns_bundle
from icestream.ingest.placement.outcomes import PlacementOutcome

KIND = "archive-state"
VERSION = 1

_FACTS_VERSION = 1
"""Of what is found out about files: one more, and every file is scanned again."""
_TEXT = pa.large_string()


class AsideStatus(StrEnum):
    """Why a file has no place, or not the one that it should have now."""

    SET_ASIDE = "set-aside"
    """It could not be read or expressed; it is tried again.

    One that was ingested, and whose store failed then, is among the placed files as well."""
    UNDONE = "undone"
    """The run that brought it was taken back; it is tried again when it changes."""


@dataclass(frozen=True, slots=True)
class AsideFile:
    """A file that is known, and is not in the repository as it is."""

    url: str
    status: AsideStatus
    reason: str
    etag: str | None = None
    size: int = 0
    last_modified: int = UNKNOWN_TIME
    """Microseconds since the epoch."""
    attempts: int = 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ArchiveState:
    """All that the next run has to know.

    Files that agree with no others and are left out for that (`on-mismatch: set-aside`) are among
    `files`: every placement decides anew, and they get a place when more files are like them.
    """

    files: FileColumns = field(default_factory=lambda: gather(()))
    """Those that were scanned, with size, ETag and time when they were."""
    vanished: frozenset[str] = frozenset()
    """URLs of files that are gone and were kept, so that this is told once."""
    aside: tuple[AsideFile, ...] = ()
    """In order of URLs."""
    outcome: PlacementOutcome = field(default_factory=PlacementOutcome)
    """Of the placement of `files`, so that a run without news need not place them again."""
    declaration_digest: str = ""
    """Of what `scan_digest` says matters to scans."""
    declaration: str = ""
    """The document of the archive by which files were placed."""


def scan_digest(archive: Archive) -> str:
    """Return a digest of what a scan depends on: if it changes, every file is scanned again."""
    axes = archive.combine.along
    relevant = {
        "version": _FACTS_VERSION,
        "parser": archive.parser.name,
        "options": archive.parser.options,
        "loaded": sorted({*archive.loaded, *(axis.coordinate_path for axis in axes)}),
        "drop": sorted(set(archive.drop)),
        "along": sorted(axis.dimension for axis in axes),
        "new": any(axis.new for axis in axes),
    }
    text = json.dumps(relevant, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def encode_state(state: ArchiveState) -> bytes:
    """Return the state as bytes, the same for the same state."""
    files = columns_bundle(state.files)
    aside = sorted(state.aside, key=lambda file: file.url)
    outcome = state.outcome
    names = sorted({*outcome.groups.values()})
    numbers = {name: i for i, name in enumerate(names)}
    grouped = map(outcome.groups.get, state.files.urls)
    columns = {
        "vanished": pa.array(sorted(state.vanished), _TEXT),
        "aside.url": pa.array([file.url for file in aside], _TEXT),
        "aside.status": pa.array([file.status.value for file in aside], _TEXT),
        "aside.reason": pa.array([file.reason for file in aside], _TEXT),
        "aside.etag": pa.array([file.etag for file in aside], _TEXT),
        "aside.size": _integers(file.size for file in aside),
        "aside.last_modified": _integers(file.last_modified for file in aside),
        "aside.attempts": _integers(file.attempts for file in aside),
        "groups": _integers(NOWHERE if name is None else numbers[name] for name in grouped),
        "left_out.url": pa.array(sorted(outcome.left_out), _TEXT),
        "left_out.reason": pa.array([why for _, why in sorted(outcome.left_out.items())], _TEXT),
        "gaps": pa.array(outcome.gaps, _TEXT),
        "notes": pa.array(outcome.notes, _TEXT),
        **{f"files.{name}": column for name, column in files.columns.items()},
    }
    document = {
        "files": files.document,
        "groups": names,
        "declaration_digest": state.declaration_digest,
        "declaration": state.declaration,
    }
    return encode_bundle(ColumnBundle(columns, document), KIND, VERSION)


def decode_state(data: bytes) -> ArchiveState:
    """Return the state that `encode_state` encoded.

    Raises:
        FormatError: The bytes are something else, or of a newer version.
        IntegrityError: They were damaged.
    """
    bundle = decode_bundle(data, KIND, VERSION)
    try:
        return _state(bundle)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise FormatError(
            f"the {KIND} does not fit together: {error!r}", kind=ErrorKind.DESERIALIZATION
        ) from error


def _state(bundle: ColumnBundle) -> ArchiveState:
    document = bundle.document
    prefix = "files."
    columns = {
        name.removeprefix(prefix): column
        for name, column in bundle.columns.items()
        if name.startswith(prefix)
    }
    files = bundled_columns(ColumnBundle(columns, document["files"]))
    return ArchiveState(
        files=files,
        vanished=frozenset(bundle.column("vanished").to_pylist()),
        aside=_aside(bundle),
        outcome=_outcome(bundle, files.urls),
        declaration_digest=document["declaration_digest"],
        declaration=document["declaration"],
    )


def _outcome(bundle: ColumnBundle, urls: Sequence[str]) -> PlacementOutcome:
    names = bundle.document["groups"]
    grouped = zip(urls, bundle.integers("groups").tolist(), strict=True)
    left_out = (bundle.column(f"left_out.{name}").to_pylist() for name in ("url", "reason"))
    return PlacementOutcome(
        groups={url: names[i] for url, i in grouped if i != NOWHERE},
        left_out=dict(zip(*left_out, strict=True)),
        gaps=tuple(bundle.column("gaps").to_pylist()),
        notes=tuple(bundle.column("notes").to_pylist()),
    )


def _aside(bundle: ColumnBundle) -> tuple[AsideFile, ...]:
    texts = (bundle.column(f"aside.{name}").to_pylist() for name in ("url", "reason", "etag"))
    numbers = (
        bundle.integers(f"aside.{name}").tolist() for name in ("size", "last_modified", "attempts")
    )
    statuses = map(AsideStatus, bundle.column("aside.status").to_pylist())
    return tuple(
        AsideFile(url, status, reason, etag, size, last_modified, attempts)
        for status, url, reason, etag, size, last_modified, attempts in zip(
            statuses, *texts, *numbers, strict=True
        )
    )


def _integers(numbers: Iterable[int]) -> pa.Array:
    return differences(np.array(list(numbers), np.int64))
