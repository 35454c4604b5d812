"""What a commit did, in numbers."""

from dataclasses import dataclass


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
