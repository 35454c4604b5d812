"""Manifests: files of chunk references of one or more arrays."""

from collections.abc import Mapping
from dataclasses import dataclass

from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import ManifestId, NodeId


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """The decoded content of one manifest file."""

    id: ManifestId
    arrays: Mapping[NodeId, ChunkTable]

    @property
    def num_refs(self) -> int:
        """References of all arrays together."""
        return sum(len(table) for table in self.arrays.values())


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
