"""Manifests: files of chunk references of one or more arrays."""

from collections.abc import Mapping
from dataclasses import dataclass

from icestream.model.chunk_stacks import StackedTables
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import ManifestId, NodeId

_TABLE_BYTES = 2048
"""What a table takes even if it is empty: objects of Python, NumPy and Arrow."""
_SEARCH_KEY_BYTES = 8
"""Per reference, made when a reference is first looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """The decoded content of one manifest file."""

    id: ManifestId
    arrays: Mapping[NodeId, ChunkTable]

    @property
    def num_refs(self) -> int:
        """References of all arrays together."""
        if isinstance(self.arrays, StackedTables):
            return self.arrays.num_refs
        return sum(len(table) for table in self.arrays.values())

    @property
    def num_bytes(self) -> int:
        """Memory that the references take, or will once they have been searched."""
        if isinstance(self.arrays, StackedTables):
            held = self.arrays.held_tables()
            return sum(map(_memory_bytes, held)) + _TABLE_BYTES * (len(self.arrays) - len(held))
        tables = self.arrays.values()
        pools = {id(pool): pool for table in tables for pool in (table.locations, table.etags)}
        texts = sum(pool.nbytes for pool in pools.values() if len(pool))
        return sum(map(_memory_bytes, tables)) + int(texts)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """What a snapshot records about one manifest file."""

    id: ManifestId
    size_bytes: int
    """Exact size of the stored file: readers fetch that many bytes."""
    num_refs: int


@dataclass(frozen=True, slots=True)
class LocationCompression:
    """How virtual locations are compressed inside a manifest; see the Icechunk specification."""

    min_num_chunks: int = 1000
    max_training_samples: int = 100
    max_dictionary_bytes: int = 2048
    level: int = 3


def _memory_bytes(table: ChunkTable) -> int:
    """Return the memory of a table without its pools of texts, which others may share."""
    columns = (
        table.index,
        table.kind,
        table.byte_offset,
        table.length,
        table.location_code,
        table.etag_code,
        table.last_modified,
        table.chunk_id,
    )
    held = sum(column.nbytes for column in columns if column is not None)
    if table.inline is not None:
        # `nbytes` of Arrow is 20 times slower, and a slice keeps all of its buffer alive
        held += table.inline.get_total_buffer_size()
    return _TABLE_BYTES + _SEARCH_KEY_BYTES * len(table) + int(held)
