"""Many datasets under one prefix, known by names.

    datasets/<id>/        a dataset, in a folder named by its id without `did:odf:`
    aliases/<account>/<name>    in lower case: which dataset the name means; `_` is no account

An alias is written once its dataset is complete, and only if nobody has it: so a name always leads
to a dataset, and to one only.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from icestream.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    NotFoundError,
)
from icestream.ledger.blocks.dataset_ids import PREFIX, DatasetId, new_dataset_id
from icestream.ledger.blocks.events import SetTransform
from icestream.ledger.blocks.names import DatasetAlias, NamePattern
from icestream.ledger.blocks.snapshots import DatasetSnapshot
from icestream.ledger.chain.layout import ALIAS, HEAD
from icestream.ledger.dataset import Dataset
from icestream.storage.protocol import DeleteResult, ObjectInfo, Storage
from icestream.storage.subfolders import SubfolderStorage

_DATASETS = "datasets/"
_ALIASES = "aliases/"
_NO_ACCOUNT = "_"
_SECOND = timedelta(seconds=1)
"""Some stores cut times to seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetEntry:
    """A dataset of a workspace, and its name there."""

    alias: DatasetAlias
    dataset_id: DatasetId


class Workspace:
    """The datasets under one prefix of a storage.

    >>> from icestream.storage import in_memory_storage
    >>> workspace = Workspace(in_memory_storage())
    >>> cities = workspace.create("acme/cities")
    >>> [str(entry.alias) for entry in workspace.datasets("acme/%")]
    ['acme/cities']
    >>> workspace.open("ACME/Cities").dataset_id == cities.dataset_id
    True
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __repr__(self) -> str:
        return f"Workspace({self._storage!r})"

    @property
    def storage(self) -> Storage:
        """Where the workspace lies."""
        return self._storage

    def dataset_storage(self, dataset_id: DatasetId) -> Storage:
        """Return where the dataset of an id lies, or would lie."""
        return SubfolderStorage(self._storage, _DATASETS + _folder(dataset_id))

    # -- finding ----------------------------------------------------------------------------------

    def find(self, name: str | DatasetAlias | DatasetId) -> DatasetId:
        """Return the id of the dataset of a name; an id stands for itself.

        Raises:
            NotFoundError: There is none.
            InvalidInputError: The text is neither a name nor an id.
        """
        if isinstance(name, DatasetId):
            return name
        if isinstance(name, str) and name.startswith(PREFIX):
            return DatasetId.parse(name)
        alias = DatasetAlias.parse(name) if isinstance(name, str) else name
        if entry := self._find_entry(_alias_key(alias)):
            return entry.dataset_id
        raise NotFoundError(
            f"there is no dataset {alias} in {self._storage!r}: list what is there, or create it"
        )

    def open(self, name: str | DatasetAlias | DatasetId) -> Dataset:
        """Open the dataset of a name, or of an id.

        Raises:
            NotFoundError: There is none.
        """
        return Dataset.open(self.dataset_storage(self.find(name)))

    def datasets(self, pattern: str | None = None) -> list[DatasetEntry]:
        """Return the datasets that have names, in the order of their names.

        Args:
            pattern: Only those whose names match; `%` stands for any characters.

        Raises:
            InvalidInputError: The pattern has characters that no name has.
        """
        wanted = None if pattern is None else NamePattern(pattern)
        entries = (self._find_entry(info.path) for info in self._storage.list(_ALIASES))
        found = [
            entry
            for entry in entries
            if entry is not None and (wanted is None or wanted.matches(str(entry.alias)))
        ]
        return sorted(found, key=lambda entry: entry.alias)

    def inputs_of(self, dataset: Dataset, *, missing_ok: bool = False) -> list[Dataset]:
        """Open the datasets that the transform of a dataset reads.

        Args:
            dataset: A derivative dataset; any other reads none.
            missing_ok: Whether to leave out those that are not in this workspace.

        Raises:
            NotFoundError: One is not in this workspace.
        """
        transform = dataset.state.transform
        found: list[Dataset] = []
        for given in () if transform is None else transform.inputs:
            try:
                found.append(self.open(given.dataset_ref))
            except NotFoundError:
                if not missing_ok:
                    raise
        return found

    # -- creating ---------------------------------------------------------------------------------

    def create(self, definition: DatasetSnapshot | str) -> Dataset:
        """Create a dataset; its transform may name datasets that are here.

        Raises:
            AlreadyExistsError: The name is taken.
            InvalidInputError: The definition is wrong, or inputs do not exist.
        """
        alias = _alias_of(definition)
        if self._find_entry(_alias_key(alias)) is not None:
            raise _taken(alias)
        dataset_id = new_dataset_id()
        storage = self.dataset_storage(dataset_id)
        created = Dataset.create(
            storage, definition, dataset_id=dataset_id, resolve_input=self._resolve
        )
        try:
            self._storage.put_if_absent(_alias_key(alias), _encode_entry(alias, dataset_id))
        except AlreadyExistsError as error:
            _delete_all(storage)
            raise _taken(alias) from error
        return created

    def create_all(self, definitions: Iterable[DatasetSnapshot]) -> list[Dataset]:
        """Create datasets, those that others read first.

        Nothing is created if a name is taken.

        Returns:
            In the order in which they were created.

        Raises:
            AlreadyExistsError: A name is taken.
            InvalidInputError: Two have one name, or read each other in a circle.
        """
        ordered = inputs_first(list(definitions))
        for definition in ordered:
            if self._find_entry(_alias_key(definition.name)) is not None:
                raise _taken(definition.name)
        return [self.create(definition) for definition in ordered]

    def rename(self, name: str, new_name: str) -> None:
        """Give a dataset another name; metadata refer to it by id, so nothing else changes.

        Raises:
            NotFoundError: There is none of the old name.
            AlreadyExistsError: The new name is taken.
        """
        dataset_id = self.find(DatasetAlias.parse(name))
        old, new = (_alias_key(DatasetAlias.parse(text)) for text in (name, new_name))
        entry = _encode_entry(DatasetAlias.parse(new_name), dataset_id)
        if old == new:
            self._storage.put(new, entry)
        else:
            try:
                self._storage.put_if_absent(new, entry)
            except AlreadyExistsError as error:
                raise _taken(DatasetAlias.parse(new_name)) from error
            self._storage.delete_many([old])
        self.dataset_storage(dataset_id).put(ALIAS, new_name.encode())

    def delete(self, name: str) -> None:
        """Delete a dataset, its name first; datasets that read it cannot go on.

        Raises:
            NotFoundError: There is none.
        """
        alias = DatasetAlias.parse(name)
        dataset_id = self.find(alias)
        self._storage.delete_many([_alias_key(alias)])
        _delete_all(self.dataset_storage(dataset_id))

    # -- care -------------------------------------------------------------------------------------

    def find_abandoned(self, older_than: datetime) -> list[ObjectInfo]:
        """List what is left of datasets that have no name: creations and deletions cut off.

        Args:
            older_than: Datasets with younger objects are spared: they may be about to get a name.
        """
        # in this order: what gets its name meanwhile is seen
        folders: dict[str, list[ObjectInfo]] = {}
        for info in self._storage.list(_DATASETS):
            folders.setdefault(info.path.removeprefix(_DATASETS).partition("/")[0], []).append(info)
        named = {_folder(entry.dataset_id) for entry in self.datasets()}
        return [
            info
            for folder, infos in folders.items()
            if folder not in named
            and max(info.last_modified for info in infos) + _SECOND <= older_than
            for info in infos
        ]

    def delete_abandoned(self, older_than: datetime) -> DeleteResult:
        """Delete what `find_abandoned` lists."""
        return self._storage.delete_many(info.path for info in self.find_abandoned(older_than))

    def _resolve(self, alias: DatasetAlias) -> DatasetId | None:
        entry = self._find_entry(_alias_key(alias))
        return None if entry is None else entry.dataset_id

    def _find_entry(self, key: str) -> DatasetEntry | None:
        try:
            data = self._storage.get(key)
        except NotFoundError:
            return None
        try:
            document = json.loads(data)
            return DatasetEntry(
                alias=DatasetAlias.parse(document["alias"]),
                dataset_id=DatasetId.parse(document["dataset_id"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError(
                f"{key} names no dataset: {error}; delete it, and give the dataset its name again"
            ) from error


def inputs_first(definitions: Sequence[DatasetSnapshot]) -> list[DatasetSnapshot]:
    """Return definitions in an order in which each comes after those that it reads.

    Raises:
        InvalidInputError: Two have one name, or some read each other in a circle.
    """
    waiting = {definition.name: definition for definition in definitions}
    if len(waiting) < len(definitions):
        raise InvalidInputError("two of the definitions have one name: rename one of them")
    ordered: list[DatasetSnapshot] = []
    while waiting:
        ready = [
            definition
            for definition in waiting.values()
            if not any(name in waiting for name in _inputs(definition))
        ]
        if not ready:
            names = ", ".join(map(str, waiting))
            raise InvalidInputError(
                f"these datasets read each other in a circle: {names}; let one of them read others"
            )
        ordered += ready
        for definition in ready:
            del waiting[definition.name]
    return ordered


def _inputs(definition: DatasetSnapshot) -> Iterator[DatasetAlias]:
    transforms = (event for event in definition.metadata if isinstance(event, SetTransform))
    for given in chain.from_iterable(transform.inputs for transform in transforms):
        if not given.dataset_ref.startswith(PREFIX):
            yield DatasetAlias.parse(given.dataset_ref)


def _alias_of(definition: DatasetSnapshot | str) -> DatasetAlias:
    return DatasetAlias.parse(definition) if isinstance(definition, str) else definition.name


def _alias_key(alias: DatasetAlias) -> str:
    # below an account in any case: a file system has no room for both `a` and `a/b`
    return f"{_ALIASES}{alias.account or _NO_ACCOUNT}/{alias.name}".lower()


def _folder(dataset_id: DatasetId) -> str:
    return str(dataset_id).removeprefix(PREFIX)


def _encode_entry(alias: DatasetAlias, dataset_id: DatasetId) -> bytes:
    return json.dumps({"alias": str(alias), "dataset_id": str(dataset_id)}).encode()


def _delete_all(storage: Storage) -> None:
    storage.delete_many([HEAD])  # first: without it the rest is no dataset any more
    storage.delete_many([info.path for info in storage.list()])


def _taken(alias: DatasetAlias) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a dataset {alias} already: open it, or choose another name"
    )
