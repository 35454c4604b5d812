"""A snapshot with uncommitted changes over it: what sessions and their zarr stores work on."""

import os
import threading
import weakref
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import (
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
)
from icestream.model.change_sets import ChangeSet, relink
from icestream.model.chunk_refs import ChunkRef, InlineRef, NativeRef, VirtualRef
from icestream.model.chunk_tables import ChunkTable, UInt32
from icestream.model.ids import SnapshotId, new_node_id
from icestream.model.node_views import NodeView
from icestream.model.nodes import ArrayMetadata, ArrayNode, GroupNode, Node, parse_node_metadata
from icestream.model.paths import ancestors_of
from icestream.model.snapshots import Snapshot, expect_array
from icestream.repository.chunk_index import current_table, find_chunk
from icestream.repository.chunk_moves import deletions
from icestream.repository.context import Context
from icestream.repository.spec1 import needs_spec2
from icestream.virtual.access import describe_place
from icestream.virtual.sequences import RowHint
from icestream.zarr_store.protocol import ByteRange, FoundChunk


class SessionMode(Enum):
    """What a session may do."""

    readonly = 0
    writable = 1
    rearrange = 2


class WorkingCopy:
    """One snapshot and the changes made on it.

    Threads may read and edit at once: edits hold `lock`, reading a chunk does not.
    """

    def __init__(
        self,
        context: Context,
        snapshot: Snapshot,
        mode: SessionMode,
        changes: ChangeSet | None = None,
    ) -> None:
        self.context = context
        self.snapshot = snapshot
        self.mode = mode
        self.changes = changes or ChangeSet()
        self.nodes = NodeView(snapshot.nodes, self.changes.nodes)
        self.lock = threading.RLock()
        _ALL_COPIES.add(self)

    def __reduce__(self) -> tuple[Any, tuple[Context, SnapshotId, SessionMode, ChangeSet]]:
        return _load_copy, (self.context, self.snapshot.id, self.mode, self.changes)

    @property
    def read_only(self) -> bool:
        """Tell whether edits are refused."""
        return self.mode is SessionMode.readonly

    @property
    def reads_inline(self) -> bool:
        """Tell whether reading a native chunk is cheaper than awaiting it."""
        return self.context.assets.storage.reads_inline

    def start_over(self, snapshot: Snapshot) -> None:
        """Drop all changes and show another snapshot."""
        self._show(snapshot, ChangeSet())

    def replace_base(self, snapshot: Snapshot) -> None:
        """Lay the changes over another snapshot."""
        relink(self.changes, snapshot.nodes)
        self._show(snapshot, self.changes)

    def _show(self, snapshot: Snapshot, changes: ChangeSet) -> None:
        self.snapshot = snapshot
        self.nodes = NodeView(snapshot.nodes, changes.nodes)
        # last, because readers look here first: edits that a commit has just stored hide nothing
        # in the snapshot that holds them, but without them the snapshot before lacks chunks
        self.changes = changes

    def copy_changes(self) -> tuple[Snapshot, ChangeSet]:
        """Return what the changes were made on, and themselves as they are now."""
        with self.lock:
            return self.snapshot, self.changes.copy()

    def check_can_write(self, kind: ErrorKind = ErrorKind.READ_ONLY_SESSION) -> None:
        """Refuse changes of any sort through a session that only reads."""
        if self.read_only:
            raise _read_only_session(kind)

    def check_can_edit(self) -> None:
        """Refuse edits of nodes and chunks in sessions that only read or only move."""
        self.check_can_write()
        if self.mode is SessionMode.rearrange:
            raise SessionStateError(
                "a rearrange session only moves nodes; commit it and use "
                "repo.writable_session(branch) for other changes",
                kind=ErrorKind.REARRANGE_SESSION_ONLY,
            )

    # -- nodes ----------------------------------------------------------------------------------

    def put_metadata(self, path: str, data: bytes, *, drops_chunks: bool = True) -> None:
        """Create a node or change its zarr.json.

        Unless it `drops_chunks`, those that a smaller grid has no place for are left to whoever
        writes the manifests of the array.
        """
        metadata = parse_node_metadata(data, path)
        with self.lock:
            self.check_can_edit()
            existing = self.nodes.find(path)
            if existing is None:
                self._check_place(path, is_array=metadata is not None)
            elif isinstance(existing, ArrayNode) is (metadata is None):
                raise _other_kind_exists(existing)
            node = self._updated_node(path, data, metadata, existing)
            if drops_chunks and isinstance(existing, ArrayNode) and isinstance(node, ArrayNode):
                self._drop_chunks_outside(existing, node)
            self.nodes.put(node)

    def _updated_node(
        self, path: str, data: bytes, metadata: ArrayMetadata | None, existing: Node | None
    ) -> Node:
        if metadata is None:
            return GroupNode(existing.id if existing else new_node_id(), path, data)
        if not isinstance(existing, ArrayNode) or len(existing.shape) != len(metadata.shape):
            # another rank makes it another array: its chunks can mean nothing in the new grid
            self._forget(existing)
            return ArrayNode(new_node_id(), path, data, metadata.shape, metadata.dimension_names)
        return ArrayNode(
            existing.id,
            path,
            data,
            metadata.shape,
            metadata.dimension_names,
            existing.manifests,
        )

    def _drop_chunks_outside(self, before: ArrayNode, after: ArrayNode) -> None:
        """Delete the chunks that a smaller grid has no place for, so that growing shows none."""
        if before.id != after.id:
            return
        if all(new >= old for old, new in zip(before.num_chunks, after.num_chunks, strict=True)):
            return
        index = self.table(before).index
        outside = (index >= np.array(after.num_chunks, np.uint64)).any(axis=1)
        if outside.any():
            self.changes.edits_of(before).set_table(deletions(index[outside]))

    def delete_node(self, path: str) -> None:
        """Delete a node; what is below it stays."""
        with self.lock:
            self.check_can_edit()
            self._forget(self.nodes.find(path))
            self.nodes.remove(path)

    def delete_tree(self, path: str) -> None:
        """Delete a node and everything below it."""
        with self.lock:
            self.check_can_edit()
            for doomed in [*self.nodes.paths_below(path), path]:
                self._forget(self.nodes.find(doomed))
                self.nodes.remove(doomed)

    def _forget(self, node: Node | None) -> None:
        if node is not None:
            self.changes.forget_chunks(node.id)

    def _check_place(self, path: str, *, is_array: bool) -> None:
        """Refuse a new node where it would make an array hold other nodes."""
        for above in ancestors_of(path):
            if isinstance(self.nodes.find(above), ArrayNode):
                raise InvalidInputError(
                    f"{path} cannot be created below {above}, which is an array; "
                    "choose another path, or delete the array first",
                    kind=ErrorKind.NOT_A_GROUP,
                )
        if is_array and self.nodes.paths_below(path):
            raise AlreadyExistsError(
                f"there are nodes below {path}, so it cannot become an array; delete them first",
                kind=ErrorKind.NODE_ALREADY_EXISTS,
            )

    # -- chunk references -----------------------------------------------------------------------

    def get_array(self, path: str) -> ArrayNode:
        """Return the array at a path."""
        node = self.nodes.find(path)
        if node is None:
            raise NodeNotFoundError(f"there is no array at {path}; create it before its chunks")
        return expect_array(node)

    def check_chunk(self, path: str, index: tuple[int, ...]) -> None:
        """Refuse a chunk that no array at this path has a place for."""
        self._array_with_chunk(path, index)

    def _array_with_chunk(self, path: str, index: tuple[int, ...]) -> ArrayNode:
        array = self.get_array(path)
        if not array.has_chunk(index):
            raise _outside_grid(f"chunk {index}", array)
        return array

    def find_chunk(self, path: str, index: tuple[int, ...]) -> FoundChunk | None:
        """Return where a chunk is; None if it, or its array, is not there."""
        changes = self.changes
        node = self.nodes.find(path)
        if not isinstance(node, ArrayNode):
            return None
        return find_chunk(self.context.assets, changes, node, index)

    def put_ref(self, path: str, index: tuple[int, ...], ref: ChunkRef) -> None:
        """Set one chunk reference."""
        with self.lock:
            self.check_can_edit()
            self.changes.edits_of(self._array_with_chunk(path, index)).set(index, ref)

    def put_table(self, path: str, table: ChunkTable) -> None:
        """Set many chunk references, all inside the grid."""
        with self.lock:
            self.check_can_edit()
            array = self.get_array(path)
            for (_, end), count in zip(table.extents, array.num_chunks, strict=True):
                if end > count:
                    raise _outside_grid(f"the box of chunks {table.extents}", array)
            self.changes.edits_of(array).set_table(table)

    def delete_chunk(self, path: str, index: tuple[int, ...]) -> None:
        """Delete one chunk; one that is not there is left in peace."""
        with self.lock:
            self.check_can_edit()
            if self.find_chunk(path, index) is not None:
                self.changes.edits_of(self.get_array(path)).set(index, None)

    def delete_chunks(self, path: str, index: UInt32) -> None:
        """Delete many chunks, given in ascending order."""
        self.put_table(path, deletions(index))

    def table(self, array: ArrayNode) -> ChunkTable:
        """Return all chunk references of an array."""
        with self.lock:
            return current_table(self.context.assets, self.changes, array)

    # -- chunk bytes ----------------------------------------------------------------------------

    def read(self, found: FoundChunk, byte_range: ByteRange | None) -> bytes:
        """Return the bytes of a chunk, or a range of them."""
        match found.ref:
            case NativeRef() as ref:
                return self.context.assets.load_chunk(ref, byte_range or (0, ref.length))
            case InlineRef(data):
                return data if byte_range is None else data[slice(*byte_range)]
            case VirtualRef() as ref:
                return self.context.reader.read(ref, byte_range, _hint(found))

    async def read_async(self, found: FoundChunk, byte_range: ByteRange | None) -> bytes:
        """Return the bytes of a chunk, awaiting the store they are in."""
        match found.ref:
            case NativeRef() as ref:
                return await self.context.assets.load_chunk_async(
                    ref, byte_range or (0, ref.length)
                )
            case VirtualRef() as ref:
                return await self.context.reader.read_async(ref, byte_range, _hint(found))
            case InlineRef():
                return self.read(found, byte_range)

    def write(self, data: bytes) -> ChunkRef:
        """Keep the bytes of a chunk, inline or as an object, and return where."""
        self.check_can_edit()
        if len(data) <= self.context.inline_threshold_bytes:
            return InlineRef(data)
        return self.context.assets.save_chunk(data)

    async def write_async(self, data: bytes) -> ChunkRef:
        """Keep the bytes of a chunk, awaiting the store."""
        self.check_can_edit()
        if len(data) <= self.context.inline_threshold_bytes:
            return InlineRef(data)
        return await self.context.assets.save_chunk_async(data)

    # -- virtual locations ----------------------------------------------------------------------

    def stored_locations(
        self, locations: pa.ChunkedArray, *, relative: bool | None, validate: bool
    ) -> pa.ChunkedArray:
        """Return virtual locations as they are stored, relative to a container or absolute."""
        if relative and self.context.timeline.spec == 1:
            raise needs_spec2("a relative location")
        containers = self.context.reader.containers
        return containers.stored_texts(locations, relative=relative, validate=validate)

    def refused_locations(
        self, locations: pa.ChunkedArray, *, relative: bool | None, validate: bool
    ) -> npt.NDArray[np.bool_]:
        """Tell for which locations `stored_locations` raises."""
        containers = self.context.reader.containers
        return containers.refused(locations, relative=relative, validate=validate)

    def absolute_locations(self, locations: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return stored virtual locations as absolute ones."""
        return self.context.reader.containers.expand_all(locations)

    def place_of(self, location: str) -> str:
        """Return a virtual location in words, with its container if there is one."""
        return describe_place(self.context.reader.containers, location)


_ALL_COPIES: "weakref.WeakSet[WorkingCopy]" = weakref.WeakSet()


def _renew_locks() -> None:
    """Give a forked child free locks: their holders are threads that it does not have."""
    for copy in list(_ALL_COPIES):
        copy.lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)


def _load_copy(
    context: Context, snapshot_id: SnapshotId, mode: SessionMode, changes: ChangeSet
) -> WorkingCopy:
    return WorkingCopy(context, context.assets.load_snapshot(snapshot_id), mode, changes)


def _read_only_session(kind: ErrorKind) -> ReadOnlyError | SessionStateError:
    message = (
        "this session is read-only; open one with repo.writable_session(branch) "
        "(a session becomes read-only when it commits)"
    )
    if kind is ErrorKind.READ_ONLY_SESSION:
        return ReadOnlyError(message, kind=kind)
    return SessionStateError(message, kind=kind)


def _hint(found: FoundChunk) -> RowHint | None:
    return None if found.table is None else RowHint(found.table, found.row)


def _outside_grid(what: str, array: ArrayNode) -> InvalidInputError:
    return InvalidInputError(
        f"{what} is outside the grid {array.num_chunks} of {array.path}; resize the array first",
        kind=ErrorKind.INVALID_CHUNK_INDEX,
    )


def _other_kind_exists(existing: Node) -> AlreadyExistsError:
    noun = "an array" if isinstance(existing, ArrayNode) else "a group"
    return AlreadyExistsError(
        f"{existing.path} is {noun}; delete it before creating another kind of node there",
        kind=ErrorKind.NODE_ALREADY_EXISTS,
    )
