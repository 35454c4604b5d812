"""What a commit did, in numbers."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from icestream.model.manifests import ManifestFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStatistics:
    """What a commit did to manifests."""

    manifests_read: int
    """Those whose references had to be packed again."""
    manifests_written: int
    manifests_linked: int
    """Those that the new snapshot refers to as they were."""
    references_written: int
    manifest_bytes_written: int

    def with_staged(self, files: Collection[ManifestFile]) -> "CommitStatistics":
        """Return the numbers with manifests, linked by the commit, that were written for it."""
        return replace(
            self,
            manifests_written=self.manifests_written + len(files),
            manifests_linked=self.manifests_linked - len(files),
            references_written=self.references_written + sum(file.num_refs for file in files),
            manifest_bytes_written=self.manifest_bytes_written
            + sum(file.size_bytes for file in files),
        )
