"""The zarr store of a session."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from icestream.errors import ErrorKind, InvalidInputError, ReadOnlyError, SessionStateError
from icestream.model.chunk_refs import ChunkRef, InlineRef
from icestream.model.containers import VirtualChunkSpec
from icestream.model.paths import absolute
from icestream.zarr_store.chunk_batches import ChunkBatch, iter_batches
from icestream.zarr_store.keys import ChunkKey, MetadataKey, ZarrV2Key, parse_key, prefix_path
from icestream.zarr_store.listing import iter_keys, iter_names
from icestream.zarr_store.protocol import ByteRange, StoreSession
from icestream.zarr_store.virtual_refs import (
    Checksum,
    grid_index,
    table_of_columns,
    table_of_specs,
    virtual_ref,
)


class IcestreamStore(Store):
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
        self._is_open = True

    @classmethod
    async def open(cls, *args: Any, **kwargs: Any) -> Self:
        """Return the store: there is nothing to open."""
        return cls(*args, **kwargs)

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

    __hash__ = object.__hash__

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
        if found is None or isinstance(found, bytes) or self._nodes.reads_inline:
            return self._buffer(found, prototype, byte_range)
        span = _span(byte_range, _length(found))
        data = await self._nodes.read_async(found, span)
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key without an event loop."""
        return self._buffer(self._find(key), prototype, byte_range)

    def _find(self, key: str) -> bytes | ChunkRef | None:
        match parse_key(key):
            case ChunkKey(path, index):
                return self._nodes.find_ref(path, index)
            case MetadataKey(path):
                node = self._nodes.nodes.find(path)
                return None if node is None else node.user_data
            case ZarrV2Key():
                return None

    def _buffer(
        self,
        found: bytes | ChunkRef | None,
        prototype: BufferPrototype | None,
        byte_range: ByteRequest | None,
    ) -> Buffer | None:
        if found is None:
            return None
        if isinstance(found, bytes):
            span = _span(byte_range, len(found))
            data = found if span is None else found[slice(*span)]
        else:
            data = self._nodes.read(found, _span(byte_range, _length(found)))
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Return ranges of several keys."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        """Tell whether a key has a value."""
        try:
            return self._find(key) is not None
        except InvalidInputError:
            return False

    async def getsize(self, key: str) -> int:
        """Return the length of a value, without reading it."""
        found = self._find(key)
        if found is None:
            raise FileNotFoundError(key)
        return len(found) if isinstance(found, bytes) else _length(found)

    # -- writing --------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Set the value of a key."""
        data = self._bytes_to_write(key, value)
        match self._writable_key(key):
            case MetadataKey(path):
                self._nodes.put_metadata(path, data)
            case ChunkKey(path, index):
                array = self._nodes.get_array(path)
                if self._nodes.reads_inline:
                    self._put_chunk_sync(path, index, data)
                else:
                    _check_chunk(key, data)
                    self._nodes.put_ref(array, index, await self._nodes.write_async(data))

    def set_sync(self, key: str, value: Buffer) -> None:
        """Set the value of a key without an event loop."""
        data = self._bytes_to_write(key, value)
        match self._writable_key(key):
            case MetadataKey(path):
                self._nodes.put_metadata(path, data)
            case ChunkKey(path, index):
                self._put_chunk_sync(path, index, data)

    def _put_chunk_sync(self, path: str, index: tuple[int, ...], data: bytes) -> None:
        array = self._nodes.get_array(path)
        _check_chunk(path, data)
        if not array.has_chunk(index):
            self._nodes.put_ref(array, index, None)
        self._nodes.put_ref(array, index, self._nodes.write(data))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Set the value of a key that has none."""
        if not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Delete a key; one that is absent is left in peace."""
        self.delete_sync(key)

    def delete_sync(self, key: str) -> None:
        """Delete a key without an event loop."""
        self._check_writable()
        match parse_key(key):
            case MetadataKey(path):
                self._nodes.delete_node(path)
            case ChunkKey(path, index):
                if self._nodes.find_ref(path, index) is not None:
                    self._nodes.put_ref(self._nodes.get_array(path), index, None)
            case ZarrV2Key():
                return

    async def delete_dir(self, prefix: str) -> None:
        """Delete everything below a prefix."""
        self._check_writable()
        path = prefix_path(prefix)
        if self._nodes.nodes.find(path) is not None or self._nodes.nodes.paths_below(path):
            self._nodes.delete_tree(path)
            return
        async for key in self.list_prefix(prefix.rstrip("/") + "/"):
            self.delete_sync(key)

    async def clear(self) -> None:
        """Delete everything."""
        await self.delete_dir("")

    def _writable_key(self, key: str) -> MetadataKey | ChunkKey:
        self._check_writable()
        parsed = parse_key(key)
        if isinstance(parsed, ZarrV2Key):
            raise SessionStateError(
                f"{key!r} is metadata of Zarr version 2; this store holds version 3 only, "
                "create arrays with zarr_format=3",
                kind=ErrorKind.UNIMPLEMENTED,
            )
        return parsed

    def _bytes_to_write(self, key: str, value: Buffer) -> bytes:
        if not isinstance(value, Buffer):
            raise TypeError(
                f"the value of {key!r} must be a zarr Buffer, got an instance of {type(value)}"
            )
        return value.to_bytes()

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnlyError(
                "this store is read-only; use the store of repo.writable_session(branch)",
                kind=ErrorKind.READ_ONLY_STORE,
            )

    # -- listing --------------------------------------------------------------------------------

    async def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield all keys that start with a prefix."""
        for keys in iter_keys(self._nodes, prefix):
            for key in keys:
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below a prefix."""
        for name in iter_names(self._nodes, prefix):
            yield name

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the length of all values below a prefix."""
        return sum([await self.getsize(key) async for key in self.list_prefix(prefix)])

    # -- virtual references ---------------------------------------------------------------------

    def set_virtual_ref(
        self,
        key: str,
        location: str,
        offset: int,
        length: int,
        validate_containers: bool = True,
        checksum: Checksum | None = None,
        *,
        validate_container: bool | None = None,
    ) -> None:
        """Let a chunk be a range of a foreign object.

        `checksum` is its ETag, or the time after which it must not have changed.
        `validate_container` is another spelling of `validate_containers`.
        """
        parsed = self._writable_key(key)
        if not isinstance(parsed, ChunkKey):
            raise InvalidInputError(f"{key!r} does not name a chunk", kind=ErrorKind.INVALID_KEY)
        ref = virtual_ref(location, offset, length, checksum)
        if validate_containers if validate_container is None else validate_container:
            self._nodes.check_location(location)
        self._nodes.put_ref(self._nodes.get_array(parsed.path), parsed.index, ref)

    def set_virtual_refs(
        self,
        array_path: str,
        chunks: Sequence[VirtualChunkSpec],
        *,
        validate_containers: bool = True,
    ) -> None:
        """Let chunks of an array be ranges of foreign objects: all of them, or none on error."""
        self._check_writable()
        array = self._nodes.get_array(absolute(array_path))
        table = table_of_specs(array, chunks)
        self._check_locations(table.locations, validate_containers)
        self._nodes.put_table(array, table)

    def set_virtual_refs_arr(
        self,
        array_path: str,
        chunk_grid_shape: tuple[int, ...],
        locations: Sequence[str] | pa.Array | pa.ChunkedArray,
        offsets: npt.NDArray[np.uint64],
        lengths: npt.NDArray[np.uint64],
        *,
        validate_containers: bool = True,
        arr_offset: tuple[int, ...] | None = None,
        checksum: Checksum | Sequence[Any] | npt.NDArray[Any] | pa.Array | None = None,
    ) -> None:
        """Let a box of chunks be ranges of foreign objects, given as columns in C order.

        `locations` may be an Arrow array, best dictionary-encoded; `checksum` one value for all,
        or a column of ETags or epoch seconds.
        """
        self._check_writable()
        array = self._nodes.get_array(absolute(array_path))
        index = grid_index(array, chunk_grid_shape, arr_offset, len(locations))
        table = table_of_columns(index, locations, offsets, lengths, checksum=checksum)
        self._check_locations(table.locations, validate_containers)
        self._nodes.put_table(array, table)

    async def set_virtual_ref_async(self, *args: Any, **kwargs: Any) -> None:
        """Await `set_virtual_ref`, which only touches memory."""
        self.set_virtual_ref(*args, **kwargs)

    async def set_virtual_refs_async(self, *args: Any, **kwargs: Any) -> None:
        """Await `set_virtual_refs`, which only touches memory."""
        self.set_virtual_refs(*args, **kwargs)

    async def set_virtual_refs_arr_async(self, *args: Any, **kwargs: Any) -> None:
        """Await `set_virtual_refs_arr`, which only touches memory."""
        self.set_virtual_refs_arr(*args, **kwargs)

    def _check_locations(self, locations: pa.ChunkedArray, wanted: bool) -> None:
        if wanted:
            for location in locations.to_pylist():
                self._nodes.check_location(location)

    async def array_chunk_iterator(
        self, array_path: str, batch_size: int = 100_000
    ) -> AsyncIterator[ChunkBatch]:
        """Yield the chunk references of an array in batches of columns."""
        table = self._nodes.table(self._nodes.get_array(absolute(array_path)))
        for batch in iter_batches(table, batch_size):
            yield batch


def _store_of(session: Any, read_only: bool) -> IcestreamStore:
    store: IcestreamStore = session.store
    return store.with_read_only(read_only)


def _length(ref: ChunkRef) -> int:
    return len(ref.data) if isinstance(ref, InlineRef) else ref.length


def _check_chunk(key: str, data: bytes) -> None:
    if not data:
        raise InvalidInputError(
            f"a chunk has at least one byte, none were given for {key}; delete the chunk instead",
            kind=ErrorKind.ZERO_LENGTH_CHUNK,
        )


def _span(byte_range: ByteRequest | None, length: int) -> ByteRange | None:
    """Return the half-open range that a request means for a value of this length."""
    match byte_range:
        case None:
            return None
        case RangeByteRequest(start, end):
            start = min(start, length)
            return start, max(start, min(end, length))
        case OffsetByteRequest(offset):
            return min(offset, length), length
        case SuffixByteRequest(suffix):
            return max(length - suffix, 0), length
        case _:
            raise InvalidInputError(
                f"{byte_range!r} is not a byte range", kind=ErrorKind.INVALID_BYTE_RANGE
            )
