"""Creating and opening repositories, and their stored configuration."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from icestream.assets import layout
from icestream.assets.assets import Assets, AssetSettings
from icestream.codec.configs import (
    decode_config_flex,
    decode_config_yaml,
    encode_config_flex,
    encode_config_yaml,
)
from icestream.codec.refs import branch_path, encode_ref
from icestream.errors import (
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    NotFoundError,
    RepositoryNotFoundError,
)
from icestream.model import ops_log
from icestream.model.config import RepositoryConfig, validate
from icestream.model.ids import INITIAL_SNAPSHOT_ID
from icestream.model.repo_info import MAIN_BRANCH, initial_repo_info
from icestream.model.snapshots import initial_snapshot
from icestream.model.times import now_micros
from icestream.model.transaction_logs import TransactionLog
from icestream.repository.assembly import OpenOptions, assemble, with_settings
from icestream.repository.context import Context
from icestream.repository.spec1 import RefTimeline
from icestream.repository.spec2 import RepoInfoTimeline
from icestream.repository.timeline import StoredConfig, Timeline
from icestream.storage.protocol import ObjectInfo, Storage, Version
from icestream.storage.retries import RetryPolicy


@dataclass(frozen=True, slots=True)
class OpenRepository:
    """An open repository: its context, how it was opened, and the configuration it found."""

    context: Context
    options: OpenOptions
    stored: StoredConfig


def find_spec(storage: Storage) -> int | None:
    """Return the format version of the repository at a place, None if there is none."""
    for spec, path in ((2, layout.REPO_INFO), (1, branch_path(MAIN_BRANCH))):
        try:
            storage.head(path)
        except NotFoundError:
            continue
        return spec
    return None


def open_(storage: Storage, options: OpenOptions) -> OpenRepository:
    """Open the repository at a place."""
    storage = with_settings(storage, options.config)
    spec, stored = _load_stored(storage)
    persisted = _decode_config(stored[0], spec)
    given = options.config
    if given is not None:
        validate(given)
    config = persisted.merge(given) if given is not None else persisted
    return OpenRepository(
        assemble(storage, config, options, spec=spec, persisted=persisted), options, stored
    )


def create(
    storage: Storage, options: OpenOptions, *, spec: int, check_clean_root: bool
) -> OpenRepository:
    """Create a repository; the object that makes it one is written last, and never over another."""
    config = options.config or RepositoryConfig()
    validate(config)
    storage = with_settings(storage, config)
    storage.check_conditional_writes()
    _check_root(storage, check_clean_root=check_clean_root)
    context = assemble(storage, config, options, spec=spec, persisted=config)
    try:
        stored = _create_v2(context) if spec == 2 else _create_v1(context)  # noqa: PLR2004  the format version
    except AlreadyExistsError as error:
        raise _repository_exists(storage) from error
    return OpenRepository(context, options, stored)


def _create_v2(context: Context) -> StoredConfig:
    now = now_micros()
    context.assets.save_snapshot(initial_snapshot(now), spec=2)
    context.assets.save_log(TransactionLog(id=INITIAL_SNAPSHOT_ID), spec=2)
    config = _encode_if_set(context.config, 2)
    context.assets.create_repo_info(initial_repo_info(now, config))
    return config, None


def _create_v1(context: Context) -> StoredConfig:
    storage = context.assets.storage
    context.assets.save_snapshot(initial_snapshot(now_micros()), spec=1)
    config = _encode_if_set(context.config, 1)
    version = None if config is None else _create_v1_config(storage, config)
    storage.put_if_absent(
        branch_path(MAIN_BRANCH), encode_ref(INITIAL_SNAPSHOT_ID), content_type="application/json"
    )
    return config, version


def _create_v1_config(storage: Storage, config: bytes) -> Version:
    """Write `config.yaml`; the same one may be there from a creation that was cut off."""
    try:
        return storage.put_if_absent(layout.CONFIG, config, content_type="application/yaml")
    except AlreadyExistsError as error:
        stored, version = storage.get_versioned(layout.CONFIG)
        if stored == config:
            return version
        raise InvalidInputError(
            f"{storage!r} holds a {layout.CONFIG} of another repository; delete it first",
            kind=ErrorKind.PARENT_DIRECTORY_NOT_CLEAN,
        ) from error


def _encode_if_set(config: RepositoryConfig, spec: int) -> bytes | None:
    return None if config == RepositoryConfig() else _encode_config(config, spec)


def _check_root(storage: Storage, *, check_clean_root: bool) -> None:
    if find_spec(storage) is not None:
        raise _repository_exists(storage)
    if check_clean_root and next(iter(storage.list("")), None) is not None:
        raise InvalidInputError(
            f"{storage!r} holds other objects; choose an empty prefix, or pass "
            "check_clean_root=False if they may stay beside the repository",
            kind=ErrorKind.PARENT_DIRECTORY_NOT_CLEAN,
        )


def _repository_exists(storage: Storage) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a repository at {storage!r}; open it with Repository.open",
        kind=ErrorKind.REPOSITORY_ALREADY_EXISTS,
    )


# -- the stored configuration ---------------------------------------------------------------------


def fetch_config(storage: Storage) -> RepositoryConfig | None:
    """Return the stored configuration, None if nothing is stored or there is no repository."""
    try:
        spec, stored = _load_stored(storage)
    except RepositoryNotFoundError:
        return None
    return None if stored[0] is None else _decode_config(stored[0], spec)


def save_config(opened: OpenRepository, *, allow_container_removal: bool) -> OpenRepository:
    """Store the configuration of an open repository for everyone."""
    config, timeline = opened.context.config, opened.context.timeline
    validate(config)
    if not allow_container_removal:
        _check_keeps_containers(_decode_config(opened.stored[0], timeline.spec), config)
    stored = timeline.save_config(lambda spec: _encode_config(config, spec), opened.stored)
    storage = opened.context.assets.storage
    context = assemble(storage, config, opened.options, spec=timeline.spec, persisted=config)
    context = replace(context, commit_metadata=opened.context.commit_metadata)
    return replace(opened, stored=stored, context=context)


def _check_keeps_containers(before: RepositoryConfig, after: RepositoryConfig) -> None:
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
    spec = context.timeline.spec
    current, _ = context.timeline.load_config()
    history: list[RepositoryConfig] = []
    previous = current
    for data in _stored_configs(context):
        if data != previous:
            history.append(_decode_config(data, spec))
        previous = data
    return history


def _stored_configs(context: Context) -> Iterator[bytes | None]:
    timeline, storage = context.timeline, context.assets.storage
    if not isinstance(timeline, RepoInfoTimeline):
        prefix = f"{layout.BACKUPS}{layout.CONFIG}."
        backups = [o for o in storage.list(layout.BACKUPS) if o.path.startswith(prefix)]
        yield from (storage.get(o.path) for o in sorted(backups, key=_newest_first))
        return
    starts = (ops_log.ConfigChanged, ops_log.RepoInitialized, ops_log.RepoMigrated)
    for update in timeline.updates():
        if isinstance(update.kind, starts) and update.backup_path is not None:
            try:
                yield context.assets.load_backup(update.backup_path).config
            except NotFoundError:
                # backups may be cleaned away; the history then ends earlier
                return


def _newest_first(backup: ObjectInfo) -> tuple[str, float]:
    """Return the sort key of a backup: the time in its name, then its own within a millisecond."""
    return backup.path.rpartition(".")[0], -backup.last_modified.timestamp()


def _load_stored(storage: Storage) -> tuple[int, StoredConfig]:
    """Return the format version and the stored configuration."""
    assets = Assets(storage, AssetSettings())
    timelines: tuple[Timeline, ...] = (
        RepoInfoTimeline(assets, retry=RetryPolicy(), kept_updates=1),
        RefTimeline(assets, retry=RetryPolicy()),
    )
    try:
        return 2, timelines[0].load_config()
    except NotFoundError:
        if find_spec(storage) == 1:
            return 1, timelines[1].load_config()
    raise RepositoryNotFoundError(
        f"there is no repository at {storage!r}; create one with Repository.create"
    )


def _decode_config(data: bytes | None, spec: int) -> RepositoryConfig:
    if data is None:
        return RepositoryConfig()
    if spec == 1:
        return decode_config_yaml(data, name=layout.CONFIG)
    return decode_config_flex(data, name=f"configuration in {layout.REPO_INFO}")


def _encode_config(config: RepositoryConfig, spec: int) -> bytes:
    return encode_config_yaml(config) if spec == 1 else encode_config_flex(config)
