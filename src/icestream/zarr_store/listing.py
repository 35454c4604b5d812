"""Zarr keys of everything in a session, and the directories that they imply."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icestream.model.chunk_tables import UInt32
from icestream.model.nodes import ArrayNode
from icestream.model.paths import ROOT
from icestream.zarr_store.chunk_batches import value_lengths
from icestream.zarr_store.keys import (
    METADATA_NAME,
    ChunkKey,
    chunk_prefix,
    find_key,
    metadata_key,
    node_path,
)
from icestream.zarr_store.protocol import StoreSession

_BLOCK = 65_536


class ChunkDirectory(NamedTuple):
    """A directory among the chunks of an array, such as `a/c/3` of `a/c/3/0` and `a/c/3/1`."""

    array: ArrayNode
    leading: tuple[int, ...]
    """The first coordinates of all chunks in it."""

    def contains(self, index: UInt32) -> npt.NDArray[np.bool_]:
        """Tell which chunks lie in the directory."""
        if len(self.leading) >= index.shape[1]:
            return np.zeros(len(index), bool)
        inside = np.ones(len(index), bool)
        for axis, value in enumerate(self.leading):
            inside &= index[:, axis] == value
        return inside


def find_chunk_directory(session: StoreSession, directory: str) -> ChunkDirectory | None:
    """Return the directory if it lies among the chunks of an array."""
    parsed = find_key(directory)  # a directory of chunks is spelled like a chunk of lower rank
    if not isinstance(parsed, ChunkKey):
        return None
    node = session.nodes.find(parsed.path)
    return ChunkDirectory(node, parsed.coordinates) if isinstance(node, ArrayNode) else None


def completed_prefix(session: StoreSession, prefix: str) -> str:
    """Return a prefix, with a slash behind it if it is the path of a node.

    So zarr asks for the chunks of an array `t`, and takes no keys of an array `time` for an answer.
    """
    is_path = bool(prefix) and not prefix.endswith("/")
    is_node = is_path and session.nodes.find("/" + prefix) is not None
    return f"{prefix}/" if is_node else prefix


def iter_keys(session: StoreSession, prefix: str) -> Iterator[list[str]]:
    """Yield lists of all keys that start with `prefix`, which may end anywhere."""
    for path in _paths_with_prefix(session, prefix):
        node = session.nodes.find(path)
        if node is None:
            continue
        key = metadata_key(path)
        if key.startswith(prefix):
            yield [key]
        start = chunk_prefix(path)
        if not isinstance(node, ArrayNode):
            continue
        if start.startswith(prefix):
            yield from chunk_keys(start, session.table(node).index)
        elif prefix.startswith(start):
            for keys in chunk_keys(start, session.table(node).index):
                yield [key for key in keys if key.startswith(prefix)]


def _paths_with_prefix(session: StoreSession, prefix: str) -> list[str]:
    """Return the paths of nodes that can have keys with this prefix."""
    below = "/" + prefix
    return [
        path
        for path in session.nodes.paths()
        if path.startswith(below) or below.startswith(path) or path == ROOT
    ]


def chunk_keys(start: str, index: UInt32) -> Iterator[list[str]]:
    """Yield lists of the keys of chunks, block by block, from their index columns."""
    if not index.shape[1]:
        yield [start] * len(index)
        return
    for first in range(0, len(index), _BLOCK):
        block = index[first : first + _BLOCK]
        columns = [pa.array(np.ascontiguousarray(block[:, axis])) for axis in range(block.shape[1])]
        texts = [column.cast(pa.string()) for column in columns]
        keys: list[str] = pc.binary_join_element_wise(start, *texts, "/").to_pylist()
        yield keys


def names_in(session: StoreSession, directory: str) -> list[str]:
    """Return the names directly in a directory, of keys and of deeper directories."""
    chunks = find_chunk_directory(session, directory)
    if chunks is not None:
        index = session.table(chunks.array).index
        inside = index[chunks.contains(index)]
        return [str(i) for i in np.unique(inside[:, len(chunks.leading)])] if len(inside) else []
    path = node_path(directory)
    if path is None:
        return []
    node = session.nodes.find(path)
    own = [METADATA_NAME] if node is not None else []
    if isinstance(node, ArrayNode) and len(session.table(node)):
        own.append("c")
    return [*own, *session.nodes.child_names(path)]


def size_of(session: StoreSession, directory: str) -> int:
    """Return the bytes of all values in a directory and deeper; chunks are not read."""
    chunks = find_chunk_directory(session, directory)
    if chunks is not None:
        table = session.table(chunks.array)
        return int(value_lengths(table)[chunks.contains(table.index)].sum())
    path = node_path(directory)
    paths = [] if path is None else [path, *session.nodes.paths_below(path)]
    return sum(_node_size(session, path) for path in paths)


def _node_size(session: StoreSession, path: str) -> int:
    node = session.nodes.find(path)
    if node is None:
        return 0
    chunks = value_lengths(session.table(node)).sum() if isinstance(node, ArrayNode) else 0
    return len(node.user_data) + int(chunks)
