"""The zarr store of a session."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from icestream.errors import ErrorKind, IcestreamError, InvalidInputError, ReadOnlyError
from icestream.model.chunk_refs import InlineRef, NativeRef
from icestream.virtual.fetcher import name_chunk
from icestream.zarr_store.byte_ranges import span_of
from icestream.zarr_store.keys import ChunkKey, MetadataKey, find_key, node_path, parse_key
from icestream.zarr_store.listing import (
    completed_prefix,
    find_chunk_directory,
    iter_keys,
    names_in,
    size_of,
)
from icestream.zarr_store.protocol import FoundChunk, StoreSession
from icestream.zarr_store.virtual_methods import VirtualMethods


class IcestreamStore(VirtualMethods, Store):
    """Zarr keys over the nodes and chunks of a session.

    Metadata and chunk references are looked up synchronously, they are in memory or one fetch
    away; only the bytes of chunks in remote stores are awaited.
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(self, session: Any, nodes: StoreSession, *, read_only: bool | None = None) -> None:
        super().__init__(read_only=nodes.read_only if read_only is None else read_only)
        self._session = session
        self._nodes = nodes

    @property
    def session(self) -> Any:
        """The session that this store reads and edits."""
        return self._session

    @property
    def read_only(self) -> bool:
        """Tell whether writes are refused: by this view, or because the session has committed."""
        return self._read_only or self._nodes.read_only

    @property
    def supports_consolidated_metadata(self) -> bool:
        """Tell zarr not to consolidate: the snapshot is one file already."""
        return False

    @property
    def _supports_sync_io(self) -> bool:
        """Tell zarr whether blocking reads are the cheap ones."""
        return self._nodes.reads_inline

    def with_read_only(self, read_only: bool = False) -> "IcestreamStore":
        """Return a view of the same session that refuses, or allows, writes."""
        return type(self)(self._session, self._nodes, read_only=read_only)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IcestreamStore) and bool(self._session == other._session)

    __hash__ = None  # type: ignore[assignment]  # equal stores may become unequal, as sessions do

    def __str__(self) -> str:
        return f"icestream://{self._session.snapshot_id}"

    def __repr__(self) -> str:
        return f"<IcestreamStore of {self._session!r}>"

    def __reduce__(self) -> tuple[Any, tuple[Any, bool]]:
        return _store_of, (self._session, self._read_only)

    # -- reading --------------------------------------------------------------------------------

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, or a range of it; None if there is none."""
        found = self._find(key)
        if (
            found is None
            or isinstance(found, bytes)
            or (self._nodes.reads_inline and isinstance(found.ref, NativeRef))
        ):
            return self._read(found, prototype, byte_range)
        span = span_of(byte_range, _length(found))
        try:
            data = await self._nodes.read_async(found, span)
        except IcestreamError as error:
            raise name_chunk(error, key) from error.__cause__
        return _as_buffer(data, prototype)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key without an event loop."""
        try:
            return self._read(self._find(key), prototype, byte_range)
        except IcestreamError as error:
            raise name_chunk(error, key) from error.__cause__

    def _find(self, key: str) -> bytes | FoundChunk | None:
        """Return the value of a key, or where it is; None for keys that cannot exist, too."""
        parsed = find_key(key)
        if isinstance(parsed, ChunkKey):
            found = self._nodes.find_chunk(parsed.path, parsed.coordinates)
            if found is not None and isinstance(found.ref, InlineRef):
                return found.ref.data
            return found
        node = None if parsed is None else self._nodes.nodes.find(parsed.path)
        return None if node is None else node.user_data

    def _read(
        self,
        found: bytes | FoundChunk | None,
        prototype: BufferPrototype | None,
        byte_range: ByteRequest | None,
    ) -> Buffer | None:
        if found is None:
            return None
        if isinstance(found, bytes):
            span = span_of(byte_range, len(found))
            return _as_buffer(found if span is None else found[slice(*span)], prototype)
        return _as_buffer(self._nodes.read(found, span_of(byte_range, _length(found))), prototype)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Return ranges of several keys, in the order asked for."""
        gets = [self.get(key, prototype, byte_range) for key, byte_range in key_ranges]
        return list(await asyncio.gather(*gets))

    async def exists(self, key: str) -> bool:
        """Tell whether a key has a value."""
        return self._find(key) is not None

    async def getsize(self, key: str) -> int:
        """Return the length of a value, without reading it.

        Raises:
            FileNotFoundError: There is none; zarr asks for this class.
        """
        found = self._find(key)
        if found is None:
            raise FileNotFoundError(key)
        return len(found) if isinstance(found, bytes) else _length(found)

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the length of all values in a directory and deeper, without reading any."""
        return size_of(self._nodes, prefix.rstrip("/"))

    # -- writing --------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Set the value of a key: the metadata of a node, or a chunk of an existing array.

        Raises:
            InvalidInputError: The key, the metadata or the chunk does not fit the hierarchy.
            NodeNotFoundError: The array of a chunk does not exist.
            ReadOnlyError: The store, or its session, only reads.
        """
        chunk = self._begin_set(key, value)
        if chunk is not None:
            ref = await self._nodes.write_async(value.to_bytes())
            self._nodes.put_ref(chunk.path, chunk.coordinates, ref)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Set the value of a key without an event loop."""
        chunk = self._begin_set(key, value)
        if chunk is not None:
            self._nodes.put_ref(chunk.path, chunk.coordinates, self._nodes.write(value.to_bytes()))

    def _begin_set(self, key: str, value: Buffer) -> ChunkKey | None:
        """Set metadata; for a chunk, check that it may be set, and return it."""
        self._check_writable()
        parsed = parse_key(key)
        if not isinstance(value, Buffer):
            raise InvalidInputError(f"the value of {key!r} is a {type(value)}, not a zarr Buffer")
        if isinstance(parsed, MetadataKey):
            self._nodes.put_metadata(parsed.path, value.to_bytes())
            return None
        self._nodes.check_chunk(parsed.path, parsed.coordinates)
        if not len(value):
            raise InvalidInputError(
                f"no bytes were given for the chunk {key!r}, and no chunk is empty; "
                "delete the key to clear the chunk",
                kind=ErrorKind.ZERO_LENGTH_CHUNK,
            )
        return parsed

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Set the value of a key that has none."""
        self._check_writable()
        if self._find(key) is None:
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Delete a key; one that is absent is left in peace.

        Without its metadata an array is gone, and its chunks with it.
        """
        self.delete_sync(key)

    def delete_sync(self, key: str) -> None:
        """Delete a key without an event loop."""
        self._check_writable()
        parsed = find_key(key)
        if isinstance(parsed, ChunkKey):
            self._nodes.delete_chunk(parsed.path, parsed.coordinates)
        elif parsed is not None:
            self._nodes.delete_node(parsed.path)

    async def delete_dir(self, prefix: str) -> None:
        """Delete everything in a directory and deeper."""
        self._check_writable()
        directory = prefix.rstrip("/")
        chunks = find_chunk_directory(self._nodes, directory)
        if chunks is not None:
            index = self._nodes.table(chunks.array).index
            self._nodes.delete_chunks(chunks.array.path, index[chunks.contains(index)])
            return
        path = node_path(directory)
        if path is not None:
            self._nodes.delete_tree(path)

    async def clear(self) -> None:
        """Delete everything."""
        self.sync_clear()

    def sync_clear(self) -> None:
        """Delete everything, without an event loop."""
        self._check_writable()
        self._nodes.delete_tree("/")

    def _check_writable(self) -> None:
        if self.read_only:
            # zarr's own words come first: its test suite looks for them
            raise ReadOnlyError(
                "store was opened in read-only mode and does not support writing; "
                "use the store of repo.writable_session(branch)",
                kind=ErrorKind.READ_ONLY_STORE,
            )

    # -- listing --------------------------------------------------------------------------------

    def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        return self.list_prefix("")

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield all keys that start with a prefix, or are in the node of that path."""
        for keys in iter_keys(self._nodes, completed_prefix(self._nodes, prefix)):
            for key in keys:
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly in a directory."""
        for name in names_in(self._nodes, prefix.rstrip("/")):
            yield name


def _store_of(session: Any, read_only: bool) -> IcestreamStore:
    store: IcestreamStore = session.store
    return store.with_read_only(read_only)


def _length(found: FoundChunk) -> int:
    return len(found.ref.data) if isinstance(found.ref, InlineRef) else found.ref.length


def _as_buffer(data: bytes, prototype: BufferPrototype | None) -> Buffer:
    return (prototype or default_buffer_prototype()).buffer.from_bytes(data)
