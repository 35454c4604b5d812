"""Zarr keys of everything in a session."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.chunk_tables import UInt32
from icestream.model.nodes import ArrayNode
from icestream.model.paths import ROOT
from icestream.zarr_store.keys import METADATA_NAME, chunk_prefix, metadata_key, prefix_path
from icestream.zarr_store.protocol import StoreSession

_BLOCK = 65_536


def iter_keys(session: StoreSession, prefix: str) -> Iterator[list[str]]:
    """Yield lists of all keys that start with `prefix`, which may end anywhere."""
    for node_path in _candidate_paths(session, prefix):
        node = session.nodes.find(node_path)
        if node is None:
            continue
        key = metadata_key(node_path)
        if key.startswith(prefix):
            yield [key]
        start = chunk_prefix(node_path)
        if isinstance(node, ArrayNode) and (start.startswith(prefix) or prefix.startswith(start)):
            for keys in chunk_keys(start, session.table(node).index):
                yield (
                    keys if start.startswith(prefix) else [k for k in keys if k.startswith(prefix)]
                )


def _candidate_paths(session: StoreSession, prefix: str) -> Iterable[str]:
    """Return the paths of nodes that can have keys with this prefix."""
    return [
        path
        for path in session.nodes.paths()
        if path == ROOT or ("/" + prefix).startswith(path) or path.startswith("/" + prefix)
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


def iter_names(session: StoreSession, prefix: str) -> Iterator[str]:
    """Yield the names directly below a prefix, as a directory listing would."""
    directory = prefix.strip("/")
    below_chunks = _split_chunk_directory(session, directory)
    if below_chunks is not None:
        yield from _chunk_names(session, *below_chunks)
        return
    try:
        path = prefix_path(directory)
    except InvalidInputError:
        return
    node = session.nodes.find(path)
    if node is not None:
        yield METADATA_NAME
    if isinstance(node, ArrayNode) and len(session.table(node)):
        yield "c"
    yield from _child_names(session, path)


def _child_names(session: StoreSession, path: str) -> list[str]:
    """Return the names below a path, of nodes and of the groups they imply."""
    depth = 0 if path == ROOT else path.count("/")
    names = {below.split("/")[depth + 1] for below in session.nodes.paths_below(path)}
    return sorted(names)


def _split_chunk_directory(
    session: StoreSession, directory: str
) -> tuple[ArrayNode, tuple[int, ...]] | None:
    """Return (array, leading chunk coordinates) when a directory lies among an array's chunks."""
    parts = directory.split("/")
    for position in range(len(parts) - 1, -1, -1):
        rest = parts[position + 1 :]
        if parts[position] != "c" or not all(part.isdecimal() for part in rest):
            continue
        path = "/" + "/".join(parts[:position])
        node = session.nodes.find(path)
        if isinstance(node, ArrayNode):
            return node, tuple(map(int, rest))
    return None


def _chunk_names(
    session: StoreSession, array: ArrayNode, leading: tuple[int, ...]
) -> Iterator[str]:
    index = session.table(array).index
    if len(leading) >= index.shape[1]:
        return
    inside = np.ones(len(index), bool)
    for axis, value in enumerate(leading):
        inside &= index[:, axis] == value
    yield from map(str, np.unique(index[inside, len(leading)]).tolist())


def check_listable(prefix: str) -> str:
    """Return a prefix that keys can start with."""
    if prefix.startswith("/"):
        raise InvalidInputError(
            f"the prefix {prefix!r} starts with a slash, keys do not", kind=ErrorKind.BAD_PREFIX
        )
    return prefix
