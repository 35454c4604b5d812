"""How a run reaches the files of its archive: to list them, to scan them, to read them.

The same rules hold as for reading virtual chunks (`icestream.virtual.access`). Who declares an
archive consents to reading its sources and what its section `access` names, and to nothing else:
a file that leads elsewhere, as kerchunk references do, does not take credentials along.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from icestream.credentials import containers_credentials
from icestream.errors import AccessError
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.source_patterns import parse_source
from icestream.model.container_sets import ContainerSet
from icestream.model.containers import VirtualChunkContainer
from icestream.model.locations import spelled
from icestream.model.object_stores import ObjectStoreConfig
from icestream.parsers.source_files import absolute_url
from icestream.repository.repository import Repository
from icestream.storage.local_files import LocalFiles
from icestream.storage.places import place_of
from icestream.storage.protocol import Storage
from icestream.virtual.access import Access
from icestream.virtual.resolver import Resolver

type Authorize = Mapping[str, Any]
"""Credentials by prefix or by name of a container, as for `authorize_virtual_chunk_access`."""

_NOWHERE = LocalFiles("/")
"""Stands for the storage of a repository that is not there yet; lends no credentials."""


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """Clients for the sources of an archive; it pickles, and its text shows no secrets."""

    prefixes: tuple[str, ...]
    """What may be read."""
    resolver: Resolver = field(repr=False, compare=False)

    @classmethod
    def of(
        cls,
        archive: Archive,
        *,
        authorize: Authorize | None = None,
        repository: Repository | None = None,
        storage: Storage | None = None,
    ) -> Self:
        """Return the access to the sources of an archive.

        Args:
            archive: Its sources and its section `access` may be read.
            authorize: Credentials, as for `authorize_virtual_chunk_access`; its prefixes may be
                read too. Without any, those of the repository at the same place, else those of
                the environment.
            repository: Whose containers say how to reach files; without it, what the environment
                offers.
            storage: Where the repository is, if not where that one is.

        Raises:
            InvalidInputError: A source, a place or a key is none.
        """
        given = access_containers(archive)
        prefixes = tuple(dict.fromkeys(_prefixes(archive)))
        consents = {**dict.fromkeys(prefixes), **containers_credentials(authorize or {})}
        if storage is None:
            storage = _NOWHERE if repository is None else repository.storage
        endpoint = place_of(storage).endpoint_url
        access = Access.of(consents, given, own_endpoints=() if endpoint is None else (endpoint,))
        containers = _containers(given, list(consents), repository)
        return cls(prefixes, Resolver(containers, access, storage))

    def find_object(self, url: str) -> tuple[Storage, str]:
        """Return the client that reads a URL, and the key of the object in it; for `scan_file`.

        Raises:
            AccessError: No container covers it, or it may not be read.
            InvalidInputError: It names no object, or not unmistakably.
        """
        try:
            target = self.resolver.resolve(absolute_url(url))
        except AccessError as error:
            raise AccessError(
                f"{error.message}; for an archive, name the prefix in `access` of its declaration",
                kind=error.kind,
            ) from error
        return target.storage, target.key


def access_containers(archive: Archive) -> list[VirtualChunkContainer]:
    """Return the containers that the section `access` of an archive stands for."""
    return [place.container() for place in archive.access]


def _prefixes(archive: Archive) -> Iterable[str]:
    yield from (parse_source(source).covering_url for source in archive.sources)
    yield from (place.prefix for place in archive.access)


def _containers(
    given: list[VirtualChunkContainer], consents: list[str], repository: Repository | None
) -> ContainerSet:
    if repository is None:
        folders = [prefix for prefix in consents if spelled(prefix).startswith("file://")]
        root = ObjectStoreConfig.LocalFileSystem("/")
        stored, has_defaults = [VirtualChunkContainer(folder, root) for folder in folders], True
    else:
        stored = repository.config.list_virtual_chunk_containers()
        has_defaults = repository.config.default_containers
    others = [c for c in stored if not any(mine.replaces(c) for mine in given)]
    return ContainerSet.of([*given, *others], defaults=has_defaults)
