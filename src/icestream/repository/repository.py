"""A versioned Zarr hierarchy under one storage prefix."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from enum import IntEnum
from typing import Any, Self

from icestream.errors import (
    ErrorKind,
    InvalidInputError,
    RepositoryNotFoundError,
    SnapshotNotFoundError,
)
from icestream.model.attribution import Attribution
from icestream.model.config import RepositoryConfig
from icestream.model.conflicts import ConflictSolver
from icestream.model.ids import SnapshotId
from icestream.model.times import micros_of
from icestream.repository import lifecycle, stored_configs
from icestream.repository.administration import Administration
from icestream.repository.assembly import OpenOptions
from icestream.repository.async_twins import async_classmethod, async_twin
from icestream.repository.dependencies import Dependencies
from icestream.repository.history import History
from icestream.repository.inspection import Inspection
from icestream.repository.maintenance import Maintenance
from icestream.repository.manifest_advice import ManifestAdvisor
from icestream.repository.preloading import Preload, likely_version
from icestream.repository.references import References
from icestream.repository.session import Session
from icestream.repository.working_copy import SessionMode
from icestream.storage.protocol import Storage
from icestream.virtual.access import CredentialNeed
from icestream.virtual.read_settings import ReadSettings
from icestream.zarr_store.store import IcestreamStore


class SpecVersion(IntEnum):
    """Versions of the Icechunk format."""

    v1 = 1
    v2 = 2

    @staticmethod
    def current() -> "SpecVersion":
        """Return the version that new repositories get."""
        return SpecVersion.v2


class Repository(
    References,
    History,
    Administration,
    Maintenance,
    Inspection,
    Dependencies,
    ManifestAdvisor,
):
    """A repository: branches and tags over snapshots, read and written through sessions."""

    def __init__(self, opened: lifecycle.OpenRepository) -> None:
        super().__init__(opened.context)
        self._opened = opened

    def __repr__(self) -> str:
        return f"<icestream.Repository {self.storage!r}, format version {int(self.spec_version)}>"

    def __getstate__(self) -> dict[str, Any]:
        return {"_opened": self._opened}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_opened"])  # type: ignore[misc]  # unpickling is another construction

    # -- lifecycle ------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Mapping[str, Any] | None = None,
        spec_version: SpecVersion | int | None = None,
        check_clean_root: bool = True,
        attribution: Attribution | None = None,
    ) -> Self:
        """Create a repository at a place that holds nothing yet.

        Raises:
            AlreadyExistsError: There is a repository.
            InvalidInputError: There are other objects, and `check_clean_root` is True.
            StorageError: The store ignores preconditions, so that commits could be lost.
        """
        wanted = SpecVersion(spec_version or SpecVersion.current())
        options = OpenOptions(config, authorize_virtual_chunk_access, attribution)
        return cls(
            lifecycle.create(storage, options, spec=int(wanted), check_clean_root=check_clean_root)
        )

    create_async = async_classmethod(create.__func__)  # type: ignore[attr-defined]  # below the decorator

    @classmethod
    def open(
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Mapping[str, Any] | None = None,
        attribution: Attribution | None = None,
    ) -> Self:
        """Open a repository; `config` overrides what is stored, for this instance only.

        Raises:
            RepositoryNotFoundError: There is none.
        """
        options = OpenOptions(config, authorize_virtual_chunk_access, attribution)
        return cls(lifecycle.open_(storage, options))

    open_async = async_classmethod(open.__func__)  # type: ignore[attr-defined]  # noqa: A003  below the decorator

    @classmethod
    def open_or_create(
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Mapping[str, Any] | None = None,
        create_version: SpecVersion | int | None = None,
        check_clean_root: bool = True,
        attribution: Attribution | None = None,
    ) -> Self:
        """Open the repository if there is one, else create it."""
        try:
            return cls.open(storage, config, authorize_virtual_chunk_access, attribution)
        except RepositoryNotFoundError:
            return cls.create(
                storage,
                config,
                authorize_virtual_chunk_access,
                create_version,
                check_clean_root,
                attribution,
            )

    open_or_create_async = async_classmethod(open_or_create.__func__)  # type: ignore[attr-defined]  # below the decorator

    @staticmethod
    def exists(storage: Storage, storage_settings: Any = None) -> bool:  # noqa: ARG004  the peer's signature
        """Tell whether there is a repository."""
        return stored_configs.find_spec(storage) is not None

    exists_async = staticmethod(async_twin(exists))

    @staticmethod
    def fetch_spec_version(storage: Storage, storage_settings: Any = None) -> SpecVersion | None:  # noqa: ARG004  the peer's signature
        """Return the format version of the repository, None if there is none."""
        spec = stored_configs.find_spec(storage)
        return None if spec is None else SpecVersion(spec)

    fetch_spec_version_async = staticmethod(async_twin(fetch_spec_version))

    @staticmethod
    def fetch_config(storage: Storage) -> RepositoryConfig | None:
        """Return the stored configuration without opening the repository."""
        return lifecycle.fetch_config(storage)

    fetch_config_async = staticmethod(async_twin(fetch_config))

    def reopen(
        self,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the repository opened again, with other settings where they are given."""
        mine = self._opened.options
        options = OpenOptions(
            config if config is not None else mine.config,
            mine.authorize_virtual_chunk_access
            if authorize_virtual_chunk_access is None
            else authorize_virtual_chunk_access,
            mine.attribution,
        )
        return type(self)(lifecycle.open_(self.storage, options))

    reopen_async = async_twin(reopen)

    # -- what it is -----------------------------------------------------------------------------

    @property
    def storage(self) -> Storage:
        """Where the repository lies."""
        return self._context.assets.storage

    @property
    def config(self) -> RepositoryConfig:
        """The configuration in use; change it and `save_config` to keep it."""
        return self._context.config

    @property
    def spec_version(self) -> SpecVersion:
        """The format version."""
        return SpecVersion(self._context.timeline.spec)

    @property
    def attribution(self) -> Attribution:
        """The labels given when the repository was opened."""
        return self._opened.options.attribution or Attribution()

    @property
    def authorized_virtual_container_prefixes(self) -> set[str]:
        """The prefixes that virtual chunks may be read from."""
        return set(self._opened.options.authorize_virtual_chunk_access or {})

    def required_credentials(self) -> list[CredentialNeed]:
        """Return what reading the virtual chunks of this repository takes: one line per container.

        Each says where the container leads, which kinds of credentials fit, whether reading there
        is authorised, and where the credentials would come from. Nothing is read for it.
        """
        reader = self._context.reader
        return reader.access.needs(reader.containers.declared)

    def template_location(self, name: str, arguments: Sequence[str | None]) -> str:
        """Return the location that fills the template of a container, to be set as a reference.

        None and missing arguments take the container's default, surplus ones are ignored.
        """
        return self._context.reader.containers.template_location(name, arguments)

    def match_template(self, location: str) -> tuple[str | None, tuple[str, ...]] | None:
        """Return the name of the container whose template makes a location, and the arguments."""
        found = self._context.reader.containers.match_template(location)
        return None if found is None else (found[0].name, found[1])

    def with_read_settings(self, settings: ReadSettings) -> Self:
        """Return the repository with other limits for merging and reading ahead."""
        reader = self._context.reader.with_settings(settings)
        context = replace(self._context, reader=reader)
        return type(self)(replace(self._opened, context=context))

    def save_config(self, *, allow_container_removal: bool = False) -> None:
        """Store the configuration for everyone.

        Raises:
            ConflictError: Somebody stored another one since this repository was opened.
        """
        self._opened = lifecycle.save_config(
            self._opened, allow_container_removal=allow_container_removal
        )
        self._context = self._opened.context

    save_config_async = async_twin(save_config)

    def config_history(self) -> list[RepositoryConfig]:
        """Return the configurations that were stored before, newest first."""
        return stored_configs.config_history(self._context)

    def set_default_commit_metadata(self, metadata: dict[str, Any]) -> None:
        """Give every later commit this metadata, unless the commit says otherwise."""
        self._context = replace(self._context, commit_metadata=dict(metadata))
        self._opened = replace(self._opened, context=self._context)

    def default_commit_metadata(self) -> dict[str, Any]:
        """Return the metadata that every commit gets."""
        return dict(self._context.commit_metadata)

    # -- sessions -------------------------------------------------------------------------------

    def readonly_session(
        self,
        branch: str | None = None,
        *,
        tag: str | None = None,
        snapshot_id: str | None = None,
        as_of: datetime | None = None,
        check_virtual_chunks: bool = True,
    ) -> Session:
        """Return a session that reads one version: of a branch, a tag, an id, or a moment.

        Without `check_virtual_chunks` it returns the bytes of foreign objects that were changed
        after references to them were made, whatever they are.
        """
        context = self._context if check_virtual_chunks else self._context.unchecked()
        preload = Preload(context)
        if as_of is None:
            preload.guess(likely_version(context.timeline, branch, tag, snapshot_id))
            version = self._resolve_one(branch, tag, snapshot_id)
        else:
            version = self._resolve_moment(branch, tag, snapshot_id, as_of)
        snapshot = context.assets.load_snapshot(version)
        preload.follow(version)
        return Session(context, snapshot, preload=preload)

    readonly_session_async = async_twin(readonly_session)

    def writable_session(self, branch: str) -> Session:
        """Return a session that edits the newest version of a branch."""
        return self._session_on(branch, SessionMode.writable)

    writable_session_async = async_twin(writable_session)

    def rearrange_session(self, branch: str) -> Session:
        """Return a session that moves and renames nodes."""
        return self._session_on(branch, SessionMode.rearrange, "move_node")

    rearrange_session_async = async_twin(rearrange_session)

    @contextmanager
    def transaction(
        self,
        branch: str,
        *,
        message: str,
        metadata: dict[str, Any] | None = None,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1_000,
    ) -> Iterator[IcestreamStore]:
        """Yield the store of a writable session, and commit it when the block ends well."""
        session = self.writable_session(branch)
        yield session.store
        session.commit(message, metadata, rebase_with=rebase_with, rebase_tries=rebase_tries)

    def _session_on(self, branch: str, mode: SessionMode, feature: str | None = None) -> Session:
        preload = Preload(self._context)
        preload.guess(self._context.timeline.known.branches.get(branch))
        self._context.assets.storage.check_conditional_writes()
        tip = self._context.timeline.writable_tip(branch, feature)
        snapshot = self._context.assets.load_snapshot(tip)
        preload.follow(tip)
        return Session(self._context, snapshot, branch=branch, mode=mode, preload=preload)

    def _resolve_moment(
        self, branch: str | None, tag: str | None, snapshot_id: str | None, as_of: datetime
    ) -> SnapshotId:
        if branch is None or tag is not None or snapshot_id is not None:
            raise InvalidInputError(
                "as_of goes with a branch, and with nothing else", kind=ErrorKind.INVALID_ARGUMENT
            )
        moment = micros_of(as_of)
        tip = self._context.timeline.branch_tip(branch)
        for entry in self._context.timeline.ancestry(tip):
            if entry.flushed_at <= moment:
                return entry.id
        raise SnapshotNotFoundError(
            f"branch {branch!r} has no version as old as {as_of}",
            kind=ErrorKind.NO_SNAPSHOT_AT_TIME,
        )
