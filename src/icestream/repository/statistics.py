"""How many bytes the chunks of a repository take."""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable, UInt8, UInt64
from icestream.model.ids import OBJECT_ID_SIZE
from icestream.repository.context import Context
from icestream.repository.manifest_walks import (
    WalkLimits,
    manifest_files_of,
    reachable_from_refs,
    walk_manifests,
)
from icestream.repository.row_sets import RowSet, pack_rows

_NUMBER_SIZE = 8


@dataclass(frozen=True, slots=True)
class ChunkStorageStats:
    """Bytes of chunks, by how the chunks are kept."""

    native_bytes: int = 0
    """Chunk objects of the repository, each counted once."""
    virtual_bytes: int = 0
    """Ranges of other people's files, each counted once."""
    inlined_bytes: int = 0
    """Chunks inside manifests, counted in every manifest that has them."""

    def non_virtual_bytes(self) -> int:
        """Return the bytes that the repository itself keeps."""
        return self.native_bytes + self.inlined_bytes

    def total_bytes(self) -> int:
        """Return the bytes of all chunks, wherever they are kept."""
        return self.native_bytes + self.virtual_bytes + self.inlined_bytes

    def __add__(self, other: "ChunkStorageStats") -> "ChunkStorageStats":
        return ChunkStorageStats(
            self.native_bytes + other.native_bytes,
            self.virtual_bytes + other.virtual_bytes,
            self.inlined_bytes + other.inlined_bytes,
        )


def chunk_storage_stats(context: Context, limits: WalkLimits) -> ChunkStorageStats:
    """Count the chunks of all snapshots that branches and tags reach."""
    snapshot_ids = reachable_from_refs(context.timeline)
    files = manifest_files_of(context.assets, snapshot_ids, limits)
    census = _Census()
    for manifest in walk_manifests(context.assets, files.values(), limits):
        for table in manifest.arrays.values():
            census.count(table)
    return census.finish()


class _Census:
    """What was counted so far: ranges of objects as rows of bytes, so that none counts twice."""

    def __init__(self) -> None:
        self._native = RowSet(OBJECT_ID_SIZE + 2 * _NUMBER_SIZE)
        self._virtual = RowSet(3 * _NUMBER_SIZE)
        self._inlined_bytes = 0

    def count(self, table: ChunkTable) -> None:
        """Count the references of one array."""
        native = table.kind == ChunkType.native
        if table.chunk_id is not None and native.any():
            ranges = (table.byte_offset[native], table.length[native])
            self._native.add(pack_rows(table.chunk_id[native], *ranges))
        virtual = table.kind == ChunkType.virtual
        if table.location_code is not None and virtual.any():
            places = _location_hashes(table)[table.location_code[virtual]]
            self._virtual.add(pack_rows(places, table.byte_offset[virtual], table.length[virtual]))
        if table.inline is not None:
            self._inlined_bytes += _total_length(table)

    def finish(self) -> ChunkStorageStats:
        """Return the sums."""
        virtual = _numbers(self._virtual.rows(), 2 * _NUMBER_SIZE)
        return ChunkStorageStats(
            _object_bytes(self._native.rows()), int(virtual.sum()), self._inlined_bytes
        )


def _location_hashes(table: ChunkTable) -> UInt64:
    """Return a number per distinct location that tells locations apart across manifests."""
    digests = [
        blake2b(location.encode(), digest_size=_NUMBER_SIZE).digest()
        for location in table.locations.to_pylist()
    ]
    return np.frombuffer(b"".join(digests), np.uint64)


def _total_length(table: ChunkTable) -> int:
    """Return how many bytes the inline chunks of a table have."""
    assert table.inline is not None  # noqa: S101  the caller asked
    _, offsets, _ = table.inline.buffers()
    ends = np.frombuffer(offsets, np.int64)[table.inline.offset :][: len(table.inline) + 1]
    return int(ends[-1] - ends[0]) if len(ends) else 0


def _object_bytes(rows: UInt8) -> int:
    """Return the bytes of chunk objects, as far as they are used; several chunks may share one."""
    if not len(rows):
        return 0
    ids = rows[:, :OBJECT_ID_SIZE]
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (ids[1:] != ids[:-1]).any(axis=1)
    ends = _numbers(rows, OBJECT_ID_SIZE) + _numbers(rows, OBJECT_ID_SIZE + _NUMBER_SIZE)
    return int(np.maximum.reduceat(ends, np.flatnonzero(is_first)).sum())


def _numbers(rows: UInt8, start: int) -> npt.NDArray[np.uint64]:
    """Return a column of numbers out of packed rows."""
    return np.ascontiguousarray(rows[:, start : start + _NUMBER_SIZE]).view(np.uint64).ravel()
