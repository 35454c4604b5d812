"""Creating and opening repositories, and their stored configuration."""

from copy import deepcopy
from dataclasses import dataclass, replace

from icestream.assets import layout
from icestream.codec.refs import branch_path, encode_ref
from icestream.errors import (
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    RepositoryNotFoundError,
)
from icestream.model.config import RepositoryConfig, validate
from icestream.model.ids import INITIAL_SNAPSHOT_ID
from icestream.model.repo_info import MAIN_BRANCH, initial_repo_info
from icestream.model.snapshots import initial_snapshot
from icestream.model.times import now_micros
from icestream.model.transaction_logs import TransactionLog
from icestream.repository.assembly import OpenOptions, assemble, with_settings
from icestream.repository.context import Context
from icestream.repository.spec2 import EXTENSION_COPY_KEY
from icestream.repository.stored_configs import (
    check_keeps_containers,
    decode_stored,
    encode_if_set,
    encode_stored,
    find_repository,
    find_spec,
)
from icestream.repository.timeline import StoredConfig
from icestream.storage.protocol import Storage, Version

_FIRST_WRITTEN = {
    layout.snapshot_path(INITIAL_SNAPSHOT_ID),
    layout.transaction_log_path(INITIAL_SNAPSHOT_ID),
}
"""What is there of a repository whose creation was cut off, or is still going on."""


@dataclass(frozen=True, slots=True)
class OpenRepository:
    """An open repository: its context, how it was opened, and the configuration it found."""

    context: Context
    options: OpenOptions
    stored: StoredConfig
    persisted: RepositoryConfig
    """What is stored, decoded; the configuration in use may differ."""


def open_(storage: Storage, options: OpenOptions) -> OpenRepository:
    """Open the repository at a place."""
    storage = with_settings(storage, options.config)
    found = find_repository(storage)
    persisted = decode_stored(storage, found.config, found.spec)
    given = options.config
    if given is not None:
        validate(given)
    config = persisted.merge(given) if given is not None else persisted
    context = assemble(
        storage, config, options, spec=found.spec, persisted=persisted, known=found.known
    )
    return OpenRepository(context, options, found.config, deepcopy(persisted))


def create(
    storage: Storage, options: OpenOptions, *, spec: int, check_clean_root: bool
) -> OpenRepository:
    """Create a repository; the object that makes it one is written last, and never over another."""
    config = options.config or RepositoryConfig()
    validate(config)
    storage = with_settings(storage, config)
    storage.check_conditional_writes()
    check_root(storage, check_clean_root=check_clean_root)
    context = assemble(storage, config, options, spec=spec, persisted=config)
    try:
        stored = _create_v2(context) if spec == 2 else _create_v1(context)  # noqa: PLR2004  the format version
    except AlreadyExistsError as error:
        raise _repository_exists(storage) from error
    return OpenRepository(context, options, stored, deepcopy(config))


def _create_v2(context: Context) -> StoredConfig:
    now = now_micros()
    context.assets.save_snapshot(initial_snapshot(now), spec=2)
    context.assets.save_log(TransactionLog(id=INITIAL_SNAPSHOT_ID), spec=2)
    config = encode_if_set(context.config, 2)
    info = initial_repo_info(now, config.data)
    if config.extension is not None:
        info = replace(info, metadata={EXTENSION_COPY_KEY: config.extension})
    context.assets.create_repo_info(info)
    return config


def _create_v1(context: Context) -> StoredConfig:
    storage = context.assets.storage
    context.assets.save_snapshot(initial_snapshot(now_micros()), spec=1)
    config = encode_if_set(context.config, 1)
    version = None if config.data is None else _create_v1_config(storage, config.data)
    storage.put_if_absent(
        branch_path(MAIN_BRANCH), encode_ref(INITIAL_SNAPSHOT_ID), content_type="application/json"
    )
    return replace(config, version=version)


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


def check_root(storage: Storage, *, check_clean_root: bool = True) -> None:
    """Make sure that a repository can be created at a place: there is none, nor anything else."""
    if find_spec(storage) is not None:
        raise _repository_exists(storage)
    if check_clean_root and any(info.path not in _FIRST_WRITTEN for info in storage.list("")):
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


def fetch_config(storage: Storage) -> RepositoryConfig | None:
    """Return the stored configuration, None if nothing is stored or there is no repository."""
    try:
        found = find_repository(storage)
    except RepositoryNotFoundError:
        return None
    if found.config.data is None:
        return None
    return decode_stored(storage, found.config, found.spec)


def save_config(opened: OpenRepository, *, allow_container_removal: bool) -> OpenRepository:
    """Store the configuration of an open repository for everyone."""
    config, timeline = opened.context.config, opened.context.timeline
    storage = opened.context.assets.storage
    validate(config)
    if not allow_container_removal:
        check_keeps_containers(opened.persisted, config)
    stored = timeline.save_config(encode_stored(config, timeline.spec), opened.stored)
    context = assemble(storage, config, opened.options, spec=timeline.spec, persisted=config)
    context = replace(context, commit_metadata=opened.context.commit_metadata)
    return replace(opened, stored=stored, context=context, persisted=deepcopy(config))
