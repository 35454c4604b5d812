"""Zarr keys as values: which node or chunk a key names."""

import re
from functools import lru_cache
from typing import NamedTuple

from icestream.errors import ErrorKind, InvalidInputError, SessionStateError
from icestream.model.paths import ROOT, is_path

METADATA_NAME = "zarr.json"
_ZARR_V2_NAMES = frozenset({".zgroup", ".zarray", ".zattrs", ".zmetadata"})
_METADATA = re.compile(r"(?:(.+)/)?zarr\.json", re.DOTALL)
# Ten digits hold every index that the format can, and keep `int` away from endless ones.
_CHUNK = re.compile(r"(?:(.+)/)?c((?:/(?:0|[1-9][0-9]{0,9}))*)", re.ASCII | re.DOTALL)


class MetadataKey(NamedTuple):
    """The zarr.json of a node."""

    path: str


class ChunkKey(NamedTuple):
    """One chunk of an array."""

    path: str
    coordinates: tuple[int, ...]


Key = MetadataKey | ChunkKey


def find_key(key: str) -> Key | None:
    """Return what a zarr key names; None for a key that nothing can be stored under."""
    found = _CHUNK.fullmatch(key)
    if found is not None:
        relative, index = found.groups()
        path = node_path(relative or "")
        return None if path is None else ChunkKey(path, _coordinates(index))
    found = _METADATA.fullmatch(key)
    path = None if found is None else node_path(found[1] or "")
    return None if path is None else MetadataKey(path)


def _coordinates(index: str) -> tuple[int, ...]:
    """Return `/0/1` as numbers."""
    return tuple([int(number) for number in index[1:].split("/")]) if index else ()


def parse_key(key: str) -> Key:
    """Return what a zarr key names, for storing something there.

    Raises:
        InvalidInputError: It can name neither metadata nor a chunk.
        SessionStateError: It is metadata of Zarr version 2.
    """
    found = find_key(key)
    if found is not None:
        return found
    if key.rpartition("/")[2] in _ZARR_V2_NAMES:
        raise SessionStateError(
            f"{key!r} is metadata of Zarr version 2; this store holds version 3 only, "
            "create arrays and groups with zarr_format=3",
            kind=ErrorKind.UNIMPLEMENTED,
        )
    raise InvalidInputError(
        f"{key!r} is not a key of a Zarr 3 hierarchy: use 'path/zarr.json' for metadata and "
        "'path/c/0/0' for a chunk",
        kind=ErrorKind.INVALID_KEY,
    )


def metadata_key(path: str) -> str:
    """Return the zarr key of a node's metadata."""
    return METADATA_NAME if path == ROOT else f"{path[1:]}/{METADATA_NAME}"


def chunk_prefix(path: str) -> str:
    """Return what the zarr keys of an array's chunks start with, without the final slash."""
    return "c" if path == ROOT else f"{path[1:]}/c"


@lru_cache(maxsize=4096)  # a read of many chunks asks for the path of one array again and again
def node_path(relative: str) -> str | None:
    """Return the node path that a key or prefix spells; None if no node can be there."""
    path = "/" + relative
    return path if is_path(path) else None
