"""What icechunk's own configuration cannot hold; stored under the one key `icestream`.

Containers that icechunk cannot have are stored there too, but are among the others in memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Self

from icestream.model.config_nodes import (
    BOOLEAN,
    POSITIVE_U32,
    U64,
    ConfigNode,
    Fault,
    Part,
    PartList,
)
from icestream.model.manifest_conditions import ManifestSplitCondition
from icestream.model.manifest_config import ManifestVirtualChunkLocationCompressionConfig
from icestream.model.manifest_sets import ChunkManifests, ChunkManifestsRule

EXTENSION_VERSION = 1
"""Of what is under the key; older ones are upgraded when they are read."""


class ArraysRule:
    """A condition on arrays."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if isinstance(value, ManifestSplitCondition):
            yield from value.faults(path)
        else:
            yield Fault(path, f"{value!r} is not a ManifestSplitCondition")


@dataclass(slots=True, repr=False)
class LocationCompressionRule(ConfigNode):
    """How locations of some arrays are compressed."""

    arrays: Annotated[ManifestSplitCondition | None, ArraysRule()] = None
    """Which arrays it is for; None is all."""
    enabled: Annotated[bool | None, BOOLEAN] = None
    """False stores the locations of these arrays as they are."""
    settings: Annotated[
        ManifestVirtualChunkLocationCompressionConfig | None,
        Part(ManifestVirtualChunkLocationCompressionConfig),
    ] = None
    """What differs from `manifest.virtual_chunk_location_compression`."""


@dataclass(slots=True, repr=False)
class ExtensionConfig(ConfigNode):
    """The settings that only this package has."""

    version: Annotated[int | None, POSITIVE_U32] = None
    """Of a newer version of this package that wrote them; None is this one."""
    default_containers: Annotated[bool | None, BOOLEAN] = None
    """Whether there are containers for the common platforms without declaring them."""
    location_compression: Annotated[
        tuple[LocationCompressionRule, ...] | None, PartList(LocationCompressionRule)
    ] = None
    """Rules in order; the first that is for an array decides."""
    chunk_manifests: Annotated[ChunkManifests | None, ChunkManifestsRule()] = None
    """Manifest sets, the rules for them, and preloading."""
    manifest_cache_bytes: Annotated[int | None, U64] = None
    """Memory for manifests that are kept; `caching.num_chunk_refs` limits them too."""

    def merge(self, other: Self) -> Self:
        """Return a copy in which everything that `other` sets takes precedence."""
        merged = ConfigNode.merge(self, other)
        mine, theirs = self.chunk_manifests, other.chunk_manifests
        if mine is not None and theirs is not None:
            merged.chunk_manifests = mine.merge(theirs)
        return merged
