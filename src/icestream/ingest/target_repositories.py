"""The repository that an archive goes to: opened, or made, with what the declaration asks of it."""

import re
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy

from icestream.errors import AlreadyExistsError, InvalidInputError, RepositoryNotFoundError
from icestream.ingest.declaration.archives import Archive
from icestream.ingest.source_patterns import parse_source
from icestream.model.config import RepositoryConfig
from icestream.model.containers import VirtualChunkContainer
from icestream.model.manifest_conditions import (
    AnyDimCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from icestream.model.manifest_config import ManifestConfig, ManifestSplittingConfig
from icestream.repository.repository import Repository
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import Storage
from icestream.storage.urls import StorageUrl


def open_target(archive: Archive, storage: Storage | None = None) -> Repository:
    """Return the repository of an archive; one that is not there is created.

    What the declaration asks for is stored in its configuration: containers for sources that none
    covers, manifest sets and splits. So whoever writes to the repository keeps to it.

    Args:
        archive: The declaration.
        storage: Of the repository; by default what its address and the environment say.

    Raises:
        InvalidInputError: The container that the declaration names does not cover a source.
    """
    storage = storage or StorageUrl(address=archive.target.repository).storage()
    repository = _open_or_create(storage, archive)
    config = _asked_for(repository.config, archive)
    if config != repository.config:
        repository = repository.reopen(config)
        repository.save_config()
    if archive.target.branch not in repository.list_branches():
        tip = repository.lookup_branch("main")
        with suppress(AlreadyExistsError):  # another run makes it at the same moment
            repository.create_branch(archive.target.branch, tip)
    return repository


def stand_in(archive: Archive) -> Repository:
    """Return an empty repository in memory, as `open_target` would create it."""
    return open_target(archive, InMemoryStorage())


def _open_or_create(storage: Storage, archive: Archive) -> Repository:
    try:
        return Repository.open(storage)
    except RepositoryNotFoundError:
        with suppress(AlreadyExistsError):  # likewise
            return Repository.create(storage, _asked_for(RepositoryConfig(), archive))
        return Repository.open(storage)


def prefix_of(source: str) -> str:
    """Return the URL of a folder that everything is in that a source means."""
    url = parse_source(source).covering_url
    # without wildcards it may be a file or a folder, and containers have folders
    return url if url.endswith("/") else url.rpartition("/")[0] + "/"


def _asked_for(config: RepositoryConfig, archive: Archive) -> RepositoryConfig:
    config = deepcopy(config)
    for container in _missing_containers(config, archive):
        config.set_virtual_chunk_container(container)
    if archive.target.chunk_manifests is not None:
        config.chunk_manifests = archive.target.chunk_manifests
    if archive.target.splits:
        sizes: dict[AnyDimCondition, int] = {
            ManifestSplitDimCondition.DimensionName(f"^{re.escape(name)}$"): size
            for name, size in archive.target.splits.items()
        }
        rules = {ManifestSplitCondition.AnyArray(): sizes}
        config.manifest = config.manifest or ManifestConfig()
        config.manifest.splitting = ManifestSplittingConfig.from_dict(rules)
    return config


def _missing_containers(
    config: RepositoryConfig, archive: Archive
) -> Iterator[VirtualChunkContainer]:
    """Yield containers for sources that none of the declared ones covers."""
    declared = config.list_virtual_chunk_containers()
    named = config.get_virtual_chunk_container(archive.container) if archive.container else None
    prefixes = list(dict.fromkeys(map(prefix_of, archive.sources)))
    if named is not None:
        for prefix in prefixes:
            if not prefix.startswith(named.url_prefix):
                raise InvalidInputError(
                    f"the container {archive.container} is for {named.url_prefix}, which does not "
                    f"cover {prefix}; name another, or leave `container` out"
                )
        return
    if archive.container is not None and len(prefixes) > 1:
        raise InvalidInputError(
            f"one container {archive.container} cannot cover {' and '.join(prefixes)}; declare it "
            "in the repository's configuration, or leave `container` out"
        )
    for prefix in prefixes:
        covering = next((one for one in declared if prefix.startswith(one.url_prefix)), None)
        if covering is None:
            yield _reaching(prefix, archive)
        elif archive.container is not None:
            raise InvalidInputError(
                f"the repository has no container {archive.container}: {prefix} is covered by that "
                f"of {covering.url_prefix} (name: {covering.name}); name it, or leave `container` "
                "out"
            )


def _reaching(prefix: str, archive: Archive) -> VirtualChunkContainer:
    """Return a container that reaches a prefix as the section `access` says."""
    places = [place for place in archive.access if prefix.startswith(place.prefix)]
    if not places:
        return VirtualChunkContainer.of(prefix=prefix, name=archive.container)
    container = max(places, key=lambda place: len(place.prefix)).container()
    container.name = archive.container
    return container
