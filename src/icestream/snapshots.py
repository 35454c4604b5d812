"""History, under the public names of the icechunk package."""

from icestream.repository.ancestry_graphs import AncestryGraph
from icestream.repository.diffs import Diff
from icestream.repository.history import ManifestFileInfo, SnapshotInfo

__all__ = ["AncestryGraph", "Diff", "ManifestFileInfo", "SnapshotInfo"]
