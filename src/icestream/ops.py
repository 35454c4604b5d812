"""Administration, under the public names of the icechunk package."""

from icestream.model.ops_log import Update, UpdateType
from icestream.repository.garbage import GCSummary
from icestream.repository.statistics import ChunkStorageStats

__all__ = ["ChunkStorageStats", "GCSummary", "Update", "UpdateType"]
