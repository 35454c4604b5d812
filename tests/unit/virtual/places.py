"""Foreign objects in memory, and readers of them."""

import threading
from collections.abc import Callable
from datetime import datetime

import numpy as np
import pyarrow as pa

from icestream.model.chunk_refs import ChunkType, VirtualRef
from icestream.model.chunk_tables import ChunkTable, dense_index
from icestream.model.container_sets import ContainerSet
from icestream.model.containers import VirtualChunkContainer
from icestream.model.locations import ObjectAddress
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import ByteRange, Storage
from icestream.testing.doubles import WrappedStorage
from icestream.virtual.access import Access, Grant
from icestream.virtual.read_settings import ReadSettings
from icestream.virtual.reader import VirtualReader
from icestream.virtual.sequences import RowHint


class ForeignStorage(WrappedStorage):
    """A bucket of somebody else: remembers the ranges that are read, and may hold them up."""

    def __init__(self, *, inline: bool = False) -> None:
        super().__init__(InMemoryStorage())
        self.reads_inline = inline
        self.ranges: list[ByteRange | None] = []
        self.gate = threading.Event()
        self.gate.set()
        self.fault: Callable[[ByteRange | None], None] = lambda _: None

    @property
    def bytes_read(self) -> int:
        """Bytes of all ranges."""
        return sum(end - start for start, end in filter(None, self.ranges))

    def get(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        self._note(byte_range)
        return super().get(path, byte_range)

    def get_if_unchanged(
        self,
        path: str,
        byte_range: ByteRange | None = None,
        *,
        etag: str | None = None,
        not_after: datetime | None = None,
    ) -> bytes:
        self._note(byte_range)
        return super().get_if_unchanged(path, byte_range, etag=etag, not_after=not_after)

    def _note(self, byte_range: ByteRange | None) -> None:
        self.ranges.append(byte_range)
        assert self.gate.wait(10), "nobody opened the gate"
        self.fault(byte_range)


class World:
    """Buckets by name; opens them as containers, and counts how often."""

    def __init__(self, **buckets: Storage) -> None:
        self.buckets = buckets
        self.opened: list[tuple[str, str, str | None]] = []

    def open(
        self, container: VirtualChunkContainer, grant: Grant, address: ObjectAddress, own: Storage
    ) -> Storage:
        """Open a bucket."""
        del own
        self.opened.append((container.url_prefix, address.bucket, grant.key))
        return self.buckets[address.bucket]


LOCATION = "s3://bucket/data.bin"


def reader_of(storage: Storage, settings: ReadSettings | None = None) -> VirtualReader:
    """Return a reader of everything in a bucket named `bucket`."""
    world = World(bucket=storage)
    return VirtualReader(
        ContainerSet.of([]), Access.of({"s3": None}), InMemoryStorage(), settings, opener=world.open
    )


def table_of(
    count: int, size: int, *, gap: int = 0, locations: tuple[str, ...] = (LOCATION,)
) -> ChunkTable:
    """Return references one behind the other, dealt out to the locations in turn."""
    order = np.arange(count)
    within = (order // len(locations)).astype(np.uint64)
    return ChunkTable(
        index=dense_index([count]),
        kind=np.broadcast_to(np.uint8(ChunkType.virtual), count),
        byte_offset=within * np.uint64(size + gap),
        length=np.broadcast_to(np.uint64(size), count),
        location_code=(order % len(locations)).astype(np.int32),
        locations=pa.chunked_array([pa.array(locations, pa.large_string())]),
    )


def virtual_ref(table: ChunkTable, row: int) -> VirtualRef:
    """Return a row as a reference."""
    ref = table.ref(row)
    assert isinstance(ref, VirtualRef)
    return ref


async def read_row(reader: VirtualReader, table: ChunkTable, row: int) -> bytes:
    """Read a chunk as a session does."""
    return await reader.read_async(virtual_ref(table, row), None, RowHint(table, row))
