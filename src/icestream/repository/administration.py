"""Status, metadata and features of a repository as a whole."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model import ops_log
from icestream.model.feature_flags import FeatureFlag
from icestream.model.ops_log import RepoStatus, UpdateType
from icestream.model.repo_info import FEATURE_FLAGS, RepoInfo
from icestream.repository.async_twins import async_twin
from icestream.repository.core import RepositoryCore
from icestream.repository.spec2 import EXTENSION_COPY_KEY


class Administration(RepositoryCore):
    """The part of a repository that its owners use."""

    def get_status(self) -> RepoStatus:
        """Return whether the repository accepts writes."""
        return self._repo_info_timeline("the status of a repository").load().status

    get_status_async = async_twin(get_status)

    @property
    def status(self) -> RepoStatus:
        """Whether the repository accepts writes."""
        return self.get_status()

    def set_status(self, status: RepoStatus) -> None:
        """Open or close the repository for writing."""
        self._repo_info_timeline("setting the status").update(
            lambda info: (replace(info, status=status), ops_log.RepoStatusChanged(status)),
            even_if_read_only=True,
        )

    set_status_async = async_twin(set_status)

    def get_metadata(self) -> dict[str, Any]:
        """Return the metadata of the repository."""
        return _visible(self._repo_info_timeline("repository metadata").load().metadata)

    get_metadata_async = async_twin(get_metadata)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the repository."""
        return self.get_metadata()

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the metadata of the repository."""
        self._change_metadata(lambda _: metadata)

    set_metadata_async = async_twin(set_metadata)

    def update_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Set some keys of the metadata, keep the others, and return all."""
        return _visible(self._change_metadata(lambda old: {**old, **metadata}).metadata)

    update_metadata_async = async_twin(update_metadata)

    def _change_metadata(self, change: Any) -> RepoInfo:
        def apply(info: RepoInfo) -> tuple[RepoInfo, UpdateType]:
            kept = {k: v for k, v in info.metadata.items() if k == EXTENSION_COPY_KEY}
            changed = {**change(_visible(info.metadata)), **kept}
            return replace(info, metadata=changed), ops_log.MetadataChanged()

        return self._repo_info_timeline("repository metadata").update(apply)

    def feature_flags(self) -> list[FeatureFlag]:
        """Return all features that can be switched."""
        return _flags(self._repo_info_timeline("feature flags").load())

    feature_flags_async = async_twin(feature_flags)

    def enabled_feature_flags(self) -> list[FeatureFlag]:
        """Return the features that are on."""
        return [flag for flag in self.feature_flags() if flag.enabled]

    enabled_feature_flags_async = async_twin(enabled_feature_flags)

    def disabled_feature_flags(self) -> list[FeatureFlag]:
        """Return the features that are off."""
        return [flag for flag in self.feature_flags() if not flag.enabled]

    disabled_feature_flags_async = async_twin(disabled_feature_flags)

    def set_feature_flag(self, name: str, setting: bool | None) -> None:  # noqa: FBT001  the peer's signature
        """Switch a feature on, off, or (None) back to its default."""
        flag_id = FEATURE_FLAGS.get(name)
        if flag_id is None:
            raise InvalidInputError(
                f"there is no feature {name!r}; known: {', '.join(FEATURE_FLAGS)}",
                kind=ErrorKind.INVALID_FEATURE_FLAG,
            )
        self._repo_info_timeline("feature flags").update(
            lambda info: (
                info.with_flag(flag_id, setting),
                ops_log.FeatureFlagChanged(flag_id, setting),
            )
        )

    set_feature_flag_async = async_twin(set_feature_flag)


def _visible(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without what belongs to the configuration."""
    return {key: value for key, value in metadata.items() if key != EXTENSION_COPY_KEY}


def _flags(info: RepoInfo) -> list[FeatureFlag]:
    settings: Mapping[int, bool] = {
        **dict.fromkeys(info.enabled_flags, True),
        **dict.fromkeys(info.disabled_flags, False),
    }
    return [
        FeatureFlag(id=flag_id, name=name, default_enabled=True, setting=settings.get(flag_id))
        for name, flag_id in FEATURE_FLAGS.items()
    ]
