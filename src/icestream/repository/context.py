"""What a repository hands to its sessions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from icestream.assets.assets import Assets
from icestream.model.config import RepositoryConfig
from icestream.repository.manifest_pieces import PackingConfig
from icestream.repository.timeline import Timeline
from icestream.storage.retries import RetryPolicy
from icestream.virtual.reader import VirtualReader


@dataclass(frozen=True, kw_only=True)
class Context:
    """Files, history and configuration of one open repository; picklable."""

    assets: Assets
    timeline: Timeline
    config: RepositoryConfig
    reader: VirtualReader
    """Reads virtual chunks, as far as the reader has consented."""
    inline_threshold_bytes: int
    packing: PackingConfig
    """How references are spread over manifests."""
    retry: RetryPolicy
    """How patiently a lost race is tried again."""
    commit_metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that every commit gets unless it says otherwise."""

    def unchecked(self) -> "Context":
        """Return the context with a reader that does not look for changes of foreign objects."""
        settings = replace(self.reader.settings, check_changes=False)
        return replace(self, reader=self.reader.with_settings(settings))
