"""The repositories of archives whose cells queries read: open already, or opened by address."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from icestream.ingest.declaration.archives import Archive
from icestream.ingest.source_access import SourceAccess
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.repository.repository import Repository
from icestream.storage.urls import StorageUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePlaces:
    """Repositories that are open already, with their credentials; others are opened by address."""

    repositories: Mapping[DatasetId, Repository] = field(default_factory=dict)
    """By the ids of the datasets that tell of the files of archives."""
    authorize: tuple[str, ...] = ()
    """Prefixes and endpoints that virtual chunks may be read from, beside the sources that the
    archive declares, if the repository is opened here."""

    def open(self, dataset_id: DatasetId, archive: Archive) -> Repository:
        """Return the repository of an archive; credentials are those of the environment."""
        known = self.repositories.get(dataset_id)
        if known is not None:
            return known
        storage = StorageUrl(address=archive.target.repository).storage()
        consents = dict.fromkeys((*SourceAccess.of(archive).prefixes, *self.authorize))
        return Repository.open(storage, authorize_virtual_chunk_access=consents)
