"""What a zarr store needs of a session."""

from typing import Protocol

from icestream.model.chunk_refs import ChunkRef
from icestream.model.chunk_tables import ChunkTable
from icestream.model.node_views import NodeView
from icestream.model.nodes import ArrayNode

ByteRange = tuple[int, int]


class StoreSession(Protocol):
    """Nodes and chunks of one version, read and edited by path and index."""

    @property
    def read_only(self) -> bool:
        """Tell whether edits are refused."""

    @property
    def reads_inline(self) -> bool:
        """Tell whether reading a chunk is cheaper than awaiting it."""

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

    def find_ref(self, path: str, index: tuple[int, ...]) -> ChunkRef | None:
        """Return where a chunk is; None if it, or its array, is not there."""

    def put_ref(self, array: ArrayNode, index: tuple[int, ...], ref: ChunkRef | None) -> None:
        """Set one chunk reference; None deletes the chunk."""

    def put_table(self, array: ArrayNode, table: ChunkTable) -> None:
        """Set many chunk references."""

    def table(self, array: ArrayNode) -> ChunkTable:
        """Return all chunk references of an array."""

    def read(self, ref: ChunkRef, byte_range: ByteRange | None) -> bytes:
        """Return the bytes of a chunk, or a range of them."""

    async def read_async(self, ref: ChunkRef, byte_range: ByteRange | None) -> bytes:
        """Return the bytes of a chunk, awaiting the store they are in."""

    def write(self, data: bytes) -> ChunkRef:
        """Keep the bytes of a chunk, inline or as an object, and return where."""

    async def write_async(self, data: bytes) -> ChunkRef:
        """Keep the bytes of a chunk, awaiting the store."""

    def check_location(self, location: str) -> None:
        """Refuse a virtual location that no container covers."""
