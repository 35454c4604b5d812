"""Moving chunks inside an array, without touching their bytes."""

from collections.abc import Callable, Iterable

import numpy as np

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable, UInt32, drop_duplicates, overlay
from icestream.model.nodes import ArrayNode, parse_node_metadata

Remap = Callable[[Iterable[int]], Iterable[int] | None]


def plan_shift(array: ArrayNode, table: ChunkTable, offset: tuple[int, ...]) -> ChunkTable:
    """Return the edits that shift all chunks; the positions they leave are cleared."""
    _check_regular(array)
    if len(offset) != len(array.shape):
        raise InvalidInputError(
            f"the offset {offset} is not one number for each of the {len(array.shape)} dimensions "
            f"of {array.path}",
            kind=ErrorKind.INVALID_CHUNK_INDEX,
        )
    moved = table.index.astype(np.int64) + np.array(offset, np.int64).reshape(1, -1)
    inside = ((moved >= 0) & (moved < np.array(array.num_chunks, np.int64))).all(axis=1)
    shifted = table.take(inside).with_index(moved[inside].astype(np.uint32))
    return overlay(deletions(table.index), shifted)


def plan_reindex(
    array: ArrayNode, table: ChunkTable, forward: Remap, backward: Remap | None
) -> ChunkTable:
    """Return the edits that move chunks to where `forward` sends them."""
    _check_regular(array)
    targets = [_checked(array, forward(index)) for index in table.index.tolist()]
    moving = np.array([target is not None for target in targets], bool)
    index = np.array([t for t in targets if t is not None], np.uint32)
    index = index.reshape(int(moving.sum()), table.rank)
    moved = drop_duplicates(table.take(moving).with_index(index))
    if backward is None:
        return moved
    cleared = [not _has_source(array, table, backward, index) for index in table.index.tolist()]
    return overlay(deletions(table.index[np.array(cleared, bool)]), moved)


def deletions(index: UInt32) -> ChunkTable:
    """Return edits that delete the chunks of a sorted list of indexes."""
    return ChunkTable(
        index=index,
        kind=np.broadcast_to(np.uint8(ChunkType.uninitialized), len(index)),
        byte_offset=np.broadcast_to(np.uint64(0), len(index)),
        length=np.broadcast_to(np.uint64(0), len(index)),
    )


def _has_source(array: ArrayNode, table: ChunkTable, backward: Remap, index: list[int]) -> bool:
    source = backward(index)
    if source is None:
        return False
    position = tuple(source)
    return array.has_chunk(position) and table.find(position) >= 0


def _checked(array: ArrayNode, target: Iterable[int] | None) -> tuple[int, ...] | None:
    if target is None:
        return None
    index = tuple(int(i) for i in target)
    if not array.has_chunk(index):
        raise InvalidInputError(
            f"chunk {index} is outside the grid {array.num_chunks} of {array.path}; "
            "resize the array first, or return None to leave the chunk in place",
            kind=ErrorKind.INVALID_CHUNK_INDEX,
        )
    return index


def _check_regular(array: ArrayNode) -> None:
    metadata = parse_node_metadata(array.user_data, array.path)
    if metadata is None or any(dimension.chunk_length is None for dimension in metadata.shape):
        raise InvalidInputError(
            f"the chunks of {array.path} differ in size (rectilinear grid) and cannot be moved",
            kind=ErrorKind.INVALID_ARRAY_METADATA,
        )
