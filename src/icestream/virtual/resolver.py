"""From a location to the client that reads it: container, consent, credentials, one client each."""

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from icestream.model.container_sets import ContainerSet
from icestream.model.containers import VirtualChunkContainer
from icestream.model.locations import ObjectAddress
from icestream.storage.containers import open_container
from icestream.storage.protocol import Storage
from icestream.storage.retries import RetryPolicy
from icestream.virtual.access import Access, Grant

_MAX_TARGETS = 10_000
"""Locations that are remembered; archives with one object per chunk have millions."""


@dataclass(frozen=True, slots=True)
class Target:
    """One foreign object, and the client that reads it."""

    location: str
    """Absolute."""
    key: str
    """Path of the object in `storage`, which is rooted at its bucket."""
    storage: Storage
    container: VirtualChunkContainer
    grant: Grant


type StorageOpener = Callable[[VirtualChunkContainer, Grant, ObjectAddress, Storage], Storage]
"""Makes the client for the bucket of an address, given the storage of the repository."""


class Resolver:
    """Finds clients for locations; thread-safe, picklable, fresh after a fork.

    There is one client per container, bucket and credentials, made at the first read, once however
    many ask at the same moment.
    """

    def __init__(
        self,
        containers: ContainerSet,
        access: Access,
        repository_storage: Storage,
        opener: StorageOpener | None = None,
    ) -> None:
        self.containers = containers
        self.access = access
        self._repository_storage = repository_storage
        self._opener = opener or open_storage
        self._start_fresh()
        _live.add(self)

    def _start_fresh(self) -> None:
        self._targets: dict[str, Target] = {}
        self._storages: dict[tuple[str, str, str, str | None], Storage] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return Resolver, (self.containers, self.access, self._repository_storage, self._opener)

    def resolve(self, location: str) -> Target:
        """Return how to read a location, absolute or relative.

        Raises:
            AccessError: No container covers it, or the reader has not consented to read it.
            InvalidInputError: It names no object, or not unmistakably.
        """
        target = self._targets.get(location)
        return target if target is not None else self._find(location)

    def _find(self, location: str) -> Target:
        found = self.containers.resolve(location)
        grant = self.access.grant(found.container, found.location)
        storage = self._storage(found.container, grant, found.address)
        target = Target(found.location, found.address.key, storage, found.container, grant)
        if len(self._targets) >= _MAX_TARGETS:
            self._targets = {}
        self._targets[location] = target
        return target

    def _storage(
        self, container: VirtualChunkContainer, grant: Grant, address: ObjectAddress
    ) -> Storage:
        key = (container.key, address.scheme, address.bucket, grant.key)
        storage = self._storages.get(key)
        if storage is not None:
            return storage
        with self._lock:
            storage = self._storages.get(key)
            if storage is None:
                storage = self._opener(container, grant, address, self._repository_storage)
                self._storages[key] = storage
            return storage


def open_storage(
    container: VirtualChunkContainer, grant: Grant, address: ObjectAddress, own: Storage
) -> Storage:
    """Return a client for the bucket of an address; no request is sent."""
    settings = container.settings
    retries = None if settings is None or settings.retries is None else settings.retries
    return open_container(
        container.store,
        grant.credentials,
        bucket=address.bucket,
        scheme=address.scheme,
        like=own,
        retry=None if retries is None else RetryPolicy.of(retries),
    )


_live: "weakref.WeakSet[Resolver]" = weakref.WeakSet()


def _after_fork() -> None:
    for resolver in list(_live):
        resolver._start_fresh()  # noqa: SLF001  the module's own class


os.register_at_fork(after_in_child=_after_fork)
