"""The configuration of a repository as it is stored, with what icechunk dropped restored."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from icestream.assets import layout
from icestream.assets.assets import Assets, AssetSettings
from icestream.codec.configs import (
    decode_config_flex,
    decode_config_yaml,
    encode_config_flex,
    encode_config_yaml,
    encode_extension,
    with_extension,
)
from icestream.codec.refs import branch_path
from icestream.errors import (
    ErrorKind,
    InvalidInputError,
    NotFoundError,
    RepositoryNotFoundError,
)
from icestream.model import ops_log
from icestream.model.config import RepositoryConfig
from icestream.model.repo_info import MAIN_BRANCH
from icestream.repository.context import Context
from icestream.repository.spec1 import RefTimeline
from icestream.repository.spec2 import RepoInfoTimeline
from icestream.repository.timeline import KnownRefs, StoredConfig, Timeline
from icestream.storage.protocol import ObjectInfo, Storage
from icestream.storage.retries import RetryPolicy


def find_spec(storage: Storage) -> int | None:
    """Return the format version of the repository at a place, None if there is none."""
    for spec, path in ((2, layout.REPO_INFO), (1, branch_path(MAIN_BRANCH))):
        try:
            storage.head(path)
        except NotFoundError:
            continue
        return spec
    return None


@dataclass(frozen=True, slots=True)
class FoundRepository:
    """What is learnt of a repository when it is opened."""

    spec: int
    config: StoredConfig
    known: KnownRefs | None = None


def find_repository(storage: Storage) -> FoundRepository:
    """Return the format version of the repository at a place, and its stored configuration."""
    assets = Assets(storage, AssetSettings())
    timelines: tuple[Timeline, ...] = (
        RepoInfoTimeline(assets, retry=RetryPolicy(), kept_updates=1),
        RefTimeline(assets, retry=RetryPolicy()),
    )
    try:
        return FoundRepository(2, timelines[0].load_config(), timelines[0].known)
    except NotFoundError:
        if find_spec(storage) == 1:
            return FoundRepository(1, timelines[1].load_config())
    raise RepositoryNotFoundError(
        f"there is no repository at {storage!r}; create one with Repository.create"
    )


def decode_stored(storage: Storage, stored: StoredConfig, spec: int) -> RepositoryConfig:
    """Return the stored configuration, with what icechunk dropped when it saved one."""
    config = _decode(stored.data, spec)
    if encode_extension(config) is not None:
        return config
    extension = stored.extension
    if extension is None and spec == 1 and config.storage is not None:
        # only icechunk stores the settings of the machine it ran on; the backup is what it replaced
        backups = _backups_of_version_1(storage)
        extension = encode_extension(_decode(next(backups, None), spec))
    if extension is None:
        return config
    warnings.warn(
        "icechunk saved the configuration without the settings that only icestream knows; "
        "they are taken from a copy. Call save_config() to store them again",
        UserWarning,
        stacklevel=2,
    )
    return with_extension(config, extension, name=f"copy of settings in {layout.REPO_INFO}")


def encode_stored(config: RepositoryConfig, spec: int) -> StoredConfig:
    """Return a configuration as it is stored."""
    if spec == 1:
        return StoredConfig(encode_config_yaml(config))
    return StoredConfig(encode_config_flex(config), extension=encode_extension(config))


def encode_if_set(config: RepositoryConfig, spec: int) -> StoredConfig:
    """Return a configuration as it is stored: nothing, if nothing is set."""
    return StoredConfig() if config == RepositoryConfig() else encode_stored(config, spec)


def check_keeps_containers(before: RepositoryConfig, after: RepositoryConfig) -> None:
    """Refuse to drop containers that chunks may need."""
    lost = (before.virtual_chunk_containers or {}).keys() - (
        after.virtual_chunk_containers or {}
    ).keys()
    if lost:
        raise InvalidInputError(
            f"saving would drop the containers {', '.join(sorted(lost))}, and chunks below them "
            "could not be read any more; pass allow_container_removal=True if that is meant",
            kind=ErrorKind.INVALID_CONFIG,
        )


def config_history(context: Context) -> list[RepositoryConfig]:
    """Return the configurations that were stored before the one of today, newest first."""
    previous = context.timeline.load_config().data
    history: list[RepositoryConfig] = []
    for data in _earlier_configs(context):
        if data != previous:
            history.append(_decode(data, context.timeline.spec))
        previous = data
    return history


def _earlier_configs(context: Context) -> Iterator[bytes | None]:
    timeline = context.timeline
    if not isinstance(timeline, RepoInfoTimeline):
        yield from _backups_of_version_1(context.assets.storage)
        return
    starts = (ops_log.ConfigChanged, ops_log.RepoInitialized, ops_log.RepoMigrated)
    for update in timeline.updates():
        if isinstance(update.kind, starts) and update.backup_path is not None:
            try:
                yield context.assets.load_backup(update.backup_path).config
            except NotFoundError:
                # backups may be cleaned away; the history then ends earlier
                return


def _backups_of_version_1(storage: Storage) -> Iterator[bytes]:
    prefix = f"{layout.BACKUPS}{layout.CONFIG}."
    backups = [info for info in storage.list(layout.BACKUPS) if info.path.startswith(prefix)]
    yield from (storage.get(info.path) for info in sorted(backups, key=_newest_first))


def _newest_first(backup: ObjectInfo) -> tuple[str, float]:
    """Return the sort key of a backup: the time in its name, then its own within a millisecond."""
    return backup.path.rpartition(".")[0], -backup.last_modified.timestamp()


def _decode(data: bytes | None, spec: int) -> RepositoryConfig:
    if data is None:
        return RepositoryConfig()
    if spec == 1:
        return decode_config_yaml(data, name=layout.CONFIG)
    return decode_config_flex(data, name=f"configuration in {layout.REPO_INFO}")
