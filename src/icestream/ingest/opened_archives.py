"""An archive with everything that its runs need at hand."""

from dataclasses import dataclass, field, replace
from typing import Self

from icestream.errors import NotFoundError, RepositoryNotFoundError
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.listing import list_sources
from icestream.ingest.publishing.ledger_side import (
    ArchiveLedger,
    find_ledger,
    ledger_address,
    open_ledger,
)
from icestream.ingest.source_access import Authorize, SourceAccess
from icestream.ingest.target_repositories import open_target, stand_in
from icestream.ledger.workspace import Workspace
from icestream.model.container_sets import ContainerSet
from icestream.repository.lifecycle import check_root
from icestream.repository.repository import Repository
from icestream.storage.protocol import Storage
from icestream.storage.urls import StorageUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where an archive keeps its things, and what opens them, where its declaration cannot say it.

    What is left out follows from the addresses of the declaration and from the environment.
    """

    repository: Storage | None = None
    ledger: Storage | None = None
    """Of the workspace."""
    authorize: Authorize | None = field(default=None, repr=False)
    """Credentials for sources, as for `authorize_virtual_chunk_access`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedArchive:
    """An archive, its sources, its repository and its ledger."""

    archive: Archive
    repository: Repository
    """One that stands in for it, as long as it is awaited."""
    ledger: ArchiveLedger
    access: SourceAccess
    awaited: Storage | None = None
    """Where the repository is to be created; None if it is there."""

    def established(self) -> Self:
        """Return the archive with its repository, which is created if it is not there."""
        if self.awaited is None:
            return self
        return replace(self, repository=open_target(self.archive, self.awaited), awaited=None)

    @property
    def containers(self) -> ContainerSet:
        """Those of the repository: how locations are stored there."""
        return self.repository._context.reader.containers  # noqa: SLF001  bulk references need them

    @property
    def is_local(self) -> bool:
        """Whether all sources are on this machine."""
        return all(prefix.startswith("file://") for prefix in self.access.prefixes)


def open_archive(archive: Archive, places: Places | None = None) -> OpenedArchive:
    """Open everything that a run needs; a ledger that is not there is created.

    A repository that is not there is only awaited: `established` creates it, when it is known that
    files make a dataset.

    Raises:
        NotFoundError: A source has no files, and there is no repository yet: nothing is created.
        InvalidInputError: There is something else where the repository is to be.
    """
    places = places or Places()
    storage = places.repository or StorageUrl(address=archive.target.repository).storage()
    is_there = Repository.exists(storage)
    if not is_there:
        # a source that is mistyped shall not even leave a ledger behind
        list_sources(archive, SourceAccess.of(archive, authorize=places.authorize))
        check_root(storage)
    repository = open_target(archive, storage) if is_there else stand_in(archive)
    ledger_storage = places.ledger or StorageUrl(address=ledger_address(archive)).storage()
    return OpenedArchive(
        archive=archive,
        repository=repository,
        ledger=open_ledger(Workspace(ledger_storage), archive),
        access=SourceAccess.of(
            archive, authorize=places.authorize, repository=repository, storage=storage
        ),
        awaited=None if is_there else storage,
    )


def find_archive(archive: Archive, places: Places | None = None) -> OpenedArchive:
    """Open what runs have made; nothing is created or changed.

    Raises:
        NotFoundError: There was no run yet.
    """
    places = places or Places()
    address = StorageUrl(address=archive.target.repository)
    try:
        repository = Repository.open(places.repository or address.storage())
    except RepositoryNotFoundError as error:
        raise no_run_yet(archive) from error
    storage = places.ledger or StorageUrl(address=ledger_address(archive)).storage()
    ledger = find_ledger(Workspace(storage), archive)
    if ledger is None:
        raise no_run_yet(archive)
    return OpenedArchive(
        archive=archive,
        repository=repository,
        ledger=ledger,
        access=SourceAccess.of(archive, authorize=places.authorize, repository=repository),
    )


def no_run_yet(archive: Archive) -> NotFoundError:
    """Return that there is nothing to tell of an archive, or to undo."""
    return NotFoundError(
        f"the archive {archive.name} was never ingested: `icestream archive run` does that"
    )
