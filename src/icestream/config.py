"""Configuration, under the public names of the icechunk package."""

import logging

from icestream.model.attribution import Attribution
from icestream.model.config import (
    CachingConfig,
    CompressionAlgorithm,
    CompressionConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
)
from icestream.model.extension_config import LocationCompressionRule
from icestream.model.feature_flags import FeatureFlag
from icestream.model.manifest_conditions import (
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from icestream.model.manifest_config import (
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
)
from icestream.model.manifest_sets import (
    ChunkManifests,
    ChunkRange,
    ManifestPreload,
    ManifestRule,
    ManifestSet,
)
from icestream.model.object_stores import ObjectStoreConfig

__all__ = [
    "Attribution",
    "CachingConfig",
    "ChunkManifests",
    "ChunkRange",
    "CompressionAlgorithm",
    "CompressionConfig",
    "FeatureFlag",
    "LocationCompressionRule",
    "ManifestConfig",
    "ManifestPreload",
    "ManifestPreloadCondition",
    "ManifestPreloadConfig",
    "ManifestRule",
    "ManifestSet",
    "ManifestSplitCondition",
    "ManifestSplitDimCondition",
    "ManifestSplittingConfig",
    "ManifestVirtualChunkLocationCompressionConfig",
    "ObjectStoreConfig",
    "RepoUpdateRetryConfig",
    "RepositoryConfig",
    "initialize_logs",
    "set_logs_filter",
]

_LOGGER = logging.getLogger("icestream")


def initialize_logs() -> None:
    """Send the log of this package to standard error; the library does so only when asked."""
    if not _LOGGER.handlers:
        _LOGGER.addHandler(logging.StreamHandler())


def set_logs_filter(log_filter_directive: str | None) -> None:
    """Set the lowest level that is logged, such as "debug"; None sets it back to warnings."""
    level = (log_filter_directive or "warning").rpartition("=")[2].upper()
    _LOGGER.setLevel({"WARN": "WARNING", "TRACE": "DEBUG"}.get(level, level))
