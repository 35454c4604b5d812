"""Expiring, collecting, rewriting and counting."""

import warnings
from datetime import datetime
from typing import Any, Literal

from icestream.codec.configs import encode_config_flex
from icestream.codec.flexbuffers import decode_flex
from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.change_sets import ChangeSet
from icestream.model.config import RepositoryConfig
from icestream.model.effective_config import effective
from icestream.model.ids import id_text
from icestream.model.manifest_config import ManifestConfig, ManifestSplittingConfig
from icestream.model.snapshots import RESERVED_KEY
from icestream.model.times import micros_of
from icestream.repository import commits, statistics
from icestream.repository.async_twins import async_twin
from icestream.repository.core import RepositoryCore
from icestream.repository.expiration import ExpirationRule, expire
from icestream.repository.garbage import GCOptions, GCSummary, collect_garbage
from icestream.repository.manifest_walks import WalkLimits
from icestream.repository.statistics import ChunkStorageStats

CommitMethod = Literal["new_commit", "amend"]

_MIB = 1024 * 1024


class Maintenance(RepositoryCore):
    """The part of a repository that keeps it small."""

    def expire_snapshots(
        self,
        older_than: datetime,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
        dry_run: bool = False,
    ) -> set[str]:
        """Take snapshots written before a moment out of the history, and return their ids.

        The root and the newest snapshot of main stay, and so do the snapshots of other branches
        and tags, unless these may be deleted. `garbage_collect` then frees the storage.

        Args:
            older_than: A snapshot written at this moment stays.
            delete_expired_branches: Delete branches whose newest snapshot is older.
            delete_expired_tags: Delete tags whose snapshot is older.
            dry_run: Change nothing, only tell.
        """
        rule = ExpirationRule(
            older_than=micros_of(older_than),
            delete_branches=delete_expired_branches,
            delete_tags=delete_expired_tags,
            dry_run=dry_run,
        )
        return {id_text(snapshot_id) for snapshot_id in expire(self._context, rule)}

    expire_snapshots_async = async_twin(expire_snapshots)

    def garbage_collect(  # noqa: PLR0913  the peer's signature
        self,
        delete_object_older_than: datetime,
        *,
        dry_run: bool = False,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * _MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * _MIB,
        max_concurrent_manifest_fetches: int = 500,
        max_concurrent_deletes: int = 10,
        max_consecutive_delete_failures: int = 50,
        max_concurrent_listings: int | None = None,
    ) -> GCSummary:
        """Delete objects that no branch, tag or young snapshot uses.

        Memory: the manifests in flight as limited below, one decoded manifest, and 12 bytes per
        chunk in use.

        Args:
            delete_object_older_than: Younger objects stay. Choose a moment before the start of
                the longest running write: what it uploads is in no snapshot until it commits.
            dry_run: Delete nothing, only count.
            max_snapshots_in_memory: Snapshots fetched together.
            max_compressed_manifest_mem_bytes: Size of manifest files fetched together.
            max_decoded_manifest_mem_bytes: Changes nothing: one manifest is decoded at a time.
            max_concurrent_manifest_fetches: Manifests fetched together.
            max_concurrent_deletes: Requests to delete, of 1000 objects each, made together.
            max_consecutive_delete_failures: Give up after this many failed requests in a row.
            max_concurrent_listings: Changes nothing: one kind of object is listed at a time.

        Raises:
            ConflictError: The repository changed during every attempt.
            StorageError: Deleting failed too many times in a row.
        """
        del max_decoded_manifest_mem_bytes, max_concurrent_listings
        micros_of(delete_object_older_than)  # refuses times without a zone
        options = GCOptions(
            older_than=delete_object_older_than,
            dry_run=dry_run,
            limits=WalkLimits(
                snapshots=max_snapshots_in_memory,
                compressed_manifest_bytes=max_compressed_manifest_mem_bytes,
                manifest_fetches=max_concurrent_manifest_fetches,
            ),
            max_concurrent_deletes=max_concurrent_deletes,
            max_consecutive_delete_failures=max_consecutive_delete_failures,
        )
        return collect_garbage(self._context, options)

    garbage_collect_async = async_twin(garbage_collect)

    def chunk_storage_stats(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * _MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * _MIB,
        max_concurrent_manifest_fetches: int = 500,
    ) -> ChunkStorageStats:
        """Return the bytes of all chunks that branches and tags reach, each counted once.

        Arguments limit memory as in `garbage_collect`.
        """
        del max_decoded_manifest_mem_bytes
        limits = WalkLimits(
            snapshots=max_snapshots_in_memory,
            compressed_manifest_bytes=max_compressed_manifest_mem_bytes,
            manifest_fetches=max_concurrent_manifest_fetches,
        )
        return statistics.chunk_storage_stats(self._context, limits)

    chunk_storage_stats_async = async_twin(chunk_storage_stats)

    def total_chunks_storage(self, **limits: int) -> int:
        """Return the bytes of native chunks; deprecated, as in the icechunk package."""
        warnings.warn(
            "total_chunks_storage() counts native chunks only; "
            "use chunk_storage_stats().native_bytes, or its total_bytes()",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.chunk_storage_stats(**limits).native_bytes

    total_chunks_storage_async = async_twin(total_chunks_storage)

    def rewrite_manifests(
        self,
        message: str,
        *,
        branch: str,
        metadata: dict[str, Any] | None = None,
        commit_method: CommitMethod = "new_commit",
    ) -> str:
        """Write the manifests of all arrays anew, as the configuration now says, and commit that.

        Args:
            message: The commit message.
            branch: The branch to commit to.
            metadata: Metadata of the commit.
            commit_method: A new commit, or "amend" to replace the newest one.

        Raises:
            ConflictError: The branch moved meanwhile.
        """
        methods = {"new_commit": commits.commit, "amend": commits.amend}
        if commit_method not in methods:
            raise InvalidInputError(
                f"commit_method is {commit_method!r}; use one of {', '.join(methods)}",
                kind=ErrorKind.INVALID_COMMIT_CONFIGURATION,
            )
        tip = self._context.timeline.branch_tip(branch)
        request = commits.CommitRequest(
            base=self._context.assets.load_snapshot(tip),
            changes=ChangeSet(),
            branch=branch,
            message=message,
            metadata=self._rewrite_metadata(metadata or {}),
            rewrite_all=True,
        )
        return id_text(methods[commit_method](self._context, request).snapshot.id)

    rewrite_manifests_async = async_twin(rewrite_manifests)

    def _rewrite_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Return commit metadata with a note of the splitting rules in force."""
        merged = {**self._context.commit_metadata, **metadata}
        notes = {"splitting_config": _splitting_document(self._context.config)}
        return {**merged, RESERVED_KEY: {**merged.get(RESERVED_KEY, {}), **notes}}


def _splitting_document(config: RepositoryConfig) -> Any:
    """Return the splitting rules in force, as they are stored in configurations."""
    rules = ManifestSplittingConfig(effective(config).manifest.splitting.split_sizes)
    document = encode_config_flex(RepositoryConfig(manifest=ManifestConfig(splitting=rules)))
    return decode_flex(document, name="configuration")["manifest"]["splitting"]
