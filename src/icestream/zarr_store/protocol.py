"""What a zarr store needs of a session."""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.model.chunk_refs import ChunkRef
from icestream.model.chunk_tables import ChunkTable, UInt32
from icestream.model.node_views import NodeView
from icestream.model.nodes import ArrayNode

ByteRange = tuple[int, int]


class FoundChunk(NamedTuple):
    """Where a chunk is, and which row of which table says so: its neighbours are read ahead."""

    ref: ChunkRef
    table: ChunkTable | None = None
    row: int = -1


class StoreSession(Protocol):
    """Nodes and chunks of one version, read and edited by path and index.

    Edits go by path, not by node: the node is looked up when the edit happens, so that an array
    that was deleted or resized meanwhile is noticed.
    """

    @property
    def read_only(self) -> bool:
        """Tell whether edits are refused."""

    @property
    def reads_inline(self) -> bool:
        """Tell whether reading a native chunk is cheaper than awaiting it."""

    @property
    def nodes(self) -> NodeView:
        """All nodes, uncommitted edits included."""

    def put_metadata(self, path: str, data: bytes) -> None:
        """Create a node or change its zarr.json."""

    def delete_node(self, path: str) -> None:
        """Delete a node; what is below it stays."""

    def delete_tree(self, path: str) -> None:
        """Delete a node and everything below it."""

    def get_array(self, path: str) -> ArrayNode:
        """Return the array at a path, or raise NodeNotFoundError."""

    def check_chunk(self, path: str, index: tuple[int, ...]) -> None:
        """Refuse a chunk that no array at this path has a place for."""

    def find_chunk(self, path: str, index: tuple[int, ...]) -> FoundChunk | None:
        """Return where a chunk is; None if it, or its array, is not there."""

    def put_ref(self, path: str, index: tuple[int, ...], ref: ChunkRef) -> None:
        """Set one chunk reference."""

    def put_table(self, path: str, table: ChunkTable) -> None:
        """Set many chunk references."""

    def delete_chunk(self, path: str, index: tuple[int, ...]) -> None:
        """Delete one chunk; one that is not there is left in peace."""

    def delete_chunks(self, path: str, index: UInt32) -> None:
        """Delete many chunks, given in ascending order."""

    def table(self, array: ArrayNode) -> ChunkTable:
        """Return all chunk references of an array."""

    def read(self, found: FoundChunk, byte_range: ByteRange | None) -> bytes:
        """Return the bytes of a chunk, or a range of them."""

    async def read_async(self, found: FoundChunk, byte_range: ByteRange | None) -> bytes:
        """Return the bytes of a chunk, awaiting the store they are in."""

    def write(self, data: bytes) -> ChunkRef:
        """Keep the bytes of a chunk, inline or as an object, and return where."""

    async def write_async(self, data: bytes) -> ChunkRef:
        """Keep the bytes of a chunk, awaiting the store."""

    def stored_locations(
        self, locations: pa.ChunkedArray, *, relative: bool | None, validate: bool
    ) -> pa.ChunkedArray:
        """Return virtual locations as they are stored, relative to a container or absolute.

        Raises:
            InvalidInputError: One is malformed, or `validate` and no container covers it.
        """

    def refused_locations(
        self, locations: pa.ChunkedArray, *, relative: bool | None, validate: bool
    ) -> npt.NDArray[np.bool_]:
        """Tell for which locations `stored_locations` raises."""

    def absolute_locations(self, locations: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return stored virtual locations as absolute ones."""

    def place_of(self, location: str) -> str:
        """Return a virtual location in words, with its container if there is one."""
