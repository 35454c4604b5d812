"""The repositories of a derived array: open already, or opened by their addresses."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from icestream.errors import AlreadyExistsError, InvalidInputError, RepositoryNotFoundError
from icestream.ingest.array_derivation.declarations import ArrayDerivation
from icestream.repository.repository import Repository
from icestream.storage.protocol import Storage
from icestream.storage.urls import StorageUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlaces:
    """Repositories that are open already, with their credentials; None are opened by address."""

    input: Repository | None = None
    output: Repository | None = None
    authorize: tuple[str, ...] = ()
    """Prefixes that virtual chunks of the input may be read from, if it is opened here."""

    def open_input(self, derivation: ArrayDerivation) -> Repository:
        """Return the repository of the input."""
        if self.input is not None:
            return self.input
        authorized: dict[str, Any] | None = dict.fromkeys(self.authorize) or None
        storage = StorageUrl(address=derivation.input.repository).storage()
        return Repository.open(storage, authorize_virtual_chunk_access=authorized)

    def open_output(self, derivation: ArrayDerivation, *, create: bool = True) -> Repository:
        """Return the repository of the output; one that is not there is created, with its branch.

        Raises:
            RepositoryNotFoundError: It is not there, and is not to be created.
        """
        if self.output is not None:
            return self.output
        storage = StorageUrl(address=derivation.output.repository).storage()
        if not create:
            return Repository.open(storage)
        repository = _open_or_create(storage)
        branch = derivation.output.branch
        if branch not in repository.list_branches():
            with suppress(AlreadyExistsError):  # another pull was faster
                repository.create_branch(branch, repository.lookup_branch("main"))
        return repository


def _open_or_create(storage: Storage) -> Repository:
    try:
        return Repository.open(storage)
    except RepositoryNotFoundError:
        try:
            return Repository.create(storage)
        except (AlreadyExistsError, InvalidInputError):
            if not Repository.exists(storage):
                raise
            return Repository.open(storage)  # another pull was faster
