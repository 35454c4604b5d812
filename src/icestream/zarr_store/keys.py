"""Zarr keys as values: which node or chunk a key names."""

import re
from dataclasses import dataclass

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.paths import ROOT, check_path

METADATA_NAME = "zarr.json"
_ZARR_V2_NAMES = frozenset({".zgroup", ".zarray", ".zattrs", ".zmetadata"})
_CHUNK = re.compile(r"(?:(?P<path>.+)/)?c(?P<index>(?:/(?:0|[1-9][0-9]*))*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class MetadataKey:
    """The zarr.json of a node."""

    path: str


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """One chunk of an array."""

    path: str
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ZarrV2Key:
    """A metadata key of Zarr version 2, which never exists here."""

    key: str


Key = MetadataKey | ChunkKey | ZarrV2Key


def parse_key(key: str) -> Key:
    """Return what a zarr key names.

    Raises:
        InvalidInputError: It can name neither metadata nor a chunk.
    """
    if key.endswith(METADATA_NAME) and (len(key) == len(METADATA_NAME) or key[-10] == "/"):
        return MetadataKey(_node_path(key, key[: -len(METADATA_NAME)].removesuffix("/")))
    chunk = _CHUNK.fullmatch(key)
    if chunk is not None:
        path, index = chunk["path"], chunk["index"]
        return ChunkKey(_node_path(key, path or ""), tuple(map(int, index.split("/")[1:])))
    if key.rpartition("/")[2] in _ZARR_V2_NAMES:
        return ZarrV2Key(key)
    raise InvalidInputError(
        f"{key!r} is not a zarr key: expected 'path/zarr.json' or 'path/c/0/0'",
        kind=ErrorKind.INVALID_KEY,
    )


def metadata_key(path: str) -> str:
    """Return the zarr key of a node's metadata."""
    return METADATA_NAME if path == ROOT else f"{path[1:]}/{METADATA_NAME}"


def chunk_prefix(path: str) -> str:
    """Return what the zarr keys of an array's chunks start with, without the final slash."""
    return "c" if path == ROOT else f"{path[1:]}/c"


def prefix_path(prefix: str) -> str:
    """Return the node path that a key prefix spells."""
    return _node_path(prefix, prefix.strip("/"))


def _node_path(key: str, relative: str) -> str:
    if not relative:
        if key.startswith("/") and key != "/":
            raise InvalidInputError(
                f"{key!r} is not a zarr key: it starts with a slash", kind=ErrorKind.INVALID_KEY
            )
        return ROOT
    return check_path("/" + relative)
