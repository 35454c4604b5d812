"""A snapshot with uncommitted changes over it: what sessions and their zarr stores work on."""

import threading
from enum import Enum
from typing import Any

import numpy as np

from icestream.errors import (
    AccessError,
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
)
from icestream.model.change_sets import ChangeSet, relink
from icestream.model.chunk_refs import ChunkRef, InlineRef, NativeRef, VirtualRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import SnapshotId, new_node_id
from icestream.model.node_views import NodeView
from icestream.model.nodes import ArrayMetadata, ArrayNode, GroupNode, Node, parse_node_metadata
from icestream.model.paths import ancestors_of
from icestream.model.snapshots import Snapshot, expect_array
from icestream.repository.chunk_index import current_table, find_chunk_ref
from icestream.repository.chunk_moves import deletions
from icestream.repository.context import Context
from icestream.zarr_store.protocol import ByteRange


class SessionMode(Enum):
    """What a session may do."""

    readonly = 0
    writable = 1
    rearrange = 2


class WorkingCopy:
    """One snapshot and the changes made on it. Edits are thread-safe."""

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

    def __reduce__(self) -> tuple[Any, tuple[Context, SnapshotId, SessionMode, ChangeSet]]:
        return _load_copy, (self.context, self.snapshot.id, self.mode, self.changes)

    @property
    def read_only(self) -> bool:
        """Tell whether edits are refused."""
        return self.mode is SessionMode.readonly

    @property
    def reads_inline(self) -> bool:
        """Tell whether reading a chunk is cheaper than awaiting it."""
        return self.context.assets.storage.reads_inline

    def start_over(self, snapshot: Snapshot) -> None:
        """Drop all changes and show another snapshot."""
        self.changes.nodes.clear()
        self.changes.chunks.clear()
        self.replace_base(snapshot)

    def replace_base(self, snapshot: Snapshot) -> None:
        """Lay the changes over another snapshot."""
        self.snapshot = snapshot
        relink(self.changes, snapshot.nodes)
        self.nodes = NodeView(snapshot.nodes, self.changes.nodes)

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

    def put_metadata(self, path: str, data: bytes) -> None:
        """Create a node or change its zarr.json."""
        self.check_can_edit()
        metadata = parse_node_metadata(data, path)
        with self.lock:
            existing = self.nodes.find(path)
            if existing is None:
                self._check_no_array_above(path)
            elif isinstance(existing, ArrayNode) is (metadata is None):
                raise _other_kind_exists(existing)
            self.nodes.put(self._updated_node(path, data, metadata, existing))

    def _updated_node(
        self, path: str, data: bytes, metadata: ArrayMetadata | None, existing: Node | None
    ) -> Node:
        if metadata is None:
            return GroupNode(existing.id if existing else new_node_id(), path, data)
        if not isinstance(existing, ArrayNode) or len(existing.shape) != len(metadata.shape):
            # another rank makes it another array: its chunks can mean nothing in the new grid
            self._forget(existing)
            return ArrayNode(new_node_id(), path, data, metadata.shape, metadata.dimension_names)
        array = ArrayNode(
            existing.id,
            path,
            data,
            metadata.shape,
            metadata.dimension_names,
            existing.manifests,
        )
        self._drop_chunks_outside(existing, array)
        return array

    def _drop_chunks_outside(self, before: ArrayNode, after: ArrayNode) -> None:
        """Delete the chunks that a smaller grid has no place for, so that growing shows none."""
        if all(new >= old for old, new in zip(before.num_chunks, after.num_chunks, strict=True)):
            return
        index = self.table(before).index
        outside = (index >= np.array(after.num_chunks, np.uint64)).any(axis=1)
        if outside.any():
            self.changes.edits_of(before).set_table(deletions(index[outside]))

    def delete_node(self, path: str) -> None:
        """Delete a node; what is below it stays."""
        self.check_can_edit()
        with self.lock:
            self._forget(self.nodes.find(path))
            self.nodes.remove(path)

    def delete_tree(self, path: str) -> None:
        """Delete a node and everything below it."""
        self.check_can_edit()
        with self.lock:
            for doomed in [*self.nodes.paths_below(path), path]:
                self._forget(self.nodes.find(doomed))
                self.nodes.remove(doomed)

    def _forget(self, node: Node | None) -> None:
        if node is not None:
            self.changes.forget_chunks(node.id)

    def _check_no_array_above(self, path: str) -> None:
        for above in ancestors_of(path):
            if isinstance(self.nodes.find(above), ArrayNode):
                raise InvalidInputError(
                    f"{path} cannot be created below {above}, which is an array",
                    kind=ErrorKind.NOT_A_GROUP,
                )

    # -- chunk references -----------------------------------------------------------------------

    def get_array(self, path: str) -> ArrayNode:
        """Return the array at a path."""
        node = self.nodes.find(path)
        if node is None:
            raise NodeNotFoundError(f"there is no array at {path}; create it before its chunks")
        return expect_array(node)

    def find_ref(self, path: str, index: tuple[int, ...]) -> ChunkRef | None:
        """Return where a chunk is; None if it, or its array, is not there."""
        node = self.nodes.find(path)
        if not isinstance(node, ArrayNode):
            return None
        return find_chunk_ref(self.context.assets, self.changes, node, index)

    def put_ref(self, array: ArrayNode, index: tuple[int, ...], ref: ChunkRef | None) -> None:
        """Set one chunk reference; None deletes the chunk."""
        self.check_can_edit()
        if not array.has_chunk(index):
            raise InvalidInputError(
                f"chunk {index} is outside the grid {array.num_chunks} of {array.path}; "
                "resize the array first",
                kind=ErrorKind.INVALID_CHUNK_INDEX,
            )
        with self.lock:
            self.changes.edits_of(array).set(index, ref)

    def put_table(self, array: ArrayNode, table: ChunkTable) -> None:
        """Set many chunk references, all inside the grid."""
        self.check_can_edit()
        for axis, ((_, end), count) in enumerate(zip(table.extents, array.num_chunks, strict=True)):
            if end > count:
                raise InvalidInputError(
                    f"chunk index {end - 1} of dimension {axis} is outside the grid "
                    f"{array.num_chunks} of {array.path}; resize the array first",
                    kind=ErrorKind.INVALID_CHUNK_INDEX,
                )
        with self.lock:
            self.changes.edits_of(array).set_table(table)

    def table(self, array: ArrayNode) -> ChunkTable:
        """Return all chunk references of an array."""
        with self.lock:
            return current_table(self.context.assets, self.changes, array)

    # -- chunk bytes ----------------------------------------------------------------------------

    def read(self, ref: ChunkRef, byte_range: ByteRange | None) -> bytes:
        """Return the bytes of a chunk, or a range of them."""
        match ref:
            case NativeRef():
                return self.context.assets.load_chunk(ref, byte_range or (0, ref.length))
            case InlineRef(data):
                return data if byte_range is None else data[slice(*byte_range)]
            case VirtualRef():
                raise _virtual_reads_are_not_authorised(ref)

    async def read_async(self, ref: ChunkRef, byte_range: ByteRange | None) -> bytes:
        """Return the bytes of a chunk, awaiting the store they are in."""
        if isinstance(ref, NativeRef):
            return await self.context.assets.load_chunk_async(ref, byte_range or (0, ref.length))
        return self.read(ref, byte_range)

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

    def check_location(self, location: str) -> None:
        """Refuse a virtual location that no container covers."""
        containers = self.context.config.virtual_chunk_containers or {}
        if not any(location.startswith(c.url_prefix) for c in containers.values()):
            raise InvalidInputError(
                f"no virtual chunk container covers {location}; add one with "
                "config.set_virtual_chunk_container(...), or pass validate_containers=False",
                kind=ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK,
            )


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


def _other_kind_exists(existing: Node) -> AlreadyExistsError:
    noun = "an array" if isinstance(existing, ArrayNode) else "a group"
    return AlreadyExistsError(
        f"{existing.path} is {noun}; delete it before creating another kind of node there",
        kind=ErrorKind.NODE_ALREADY_EXISTS,
    )


def _virtual_reads_are_not_authorised(ref: VirtualRef) -> AccessError:
    return AccessError(
        f"the chunk lies in {ref.location}, which this session is not authorised to read; "
        "open the repository with authorize_virtual_chunk_access naming a prefix that covers it"
    )
