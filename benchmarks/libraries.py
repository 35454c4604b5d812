"""The two libraries behind the few calls in which they differ."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.server_address import ServerAddress

ICECHUNK = "icechunk"
ICESTREAM = "icestream"


@dataclass(frozen=True, slots=True)
class Place:
    """Where foreign objects are, in the words of one library."""

    prefix: str
    store: Any
    credentials: Any


@dataclass(frozen=True, slots=True)
class Library:
    """One of the libraries; repositories, sessions and stores have the same methods in both."""

    name: str
    module: Any
    repository: Any
    storage: Any

    def create(self, folder: Path, place: Place | None = None) -> Any:
        """Return a new repository in a folder of the local disk."""
        return self.repository.create(self.storage(str(folder)), **self._options(place))

    def open(self, folder: Path, place: Place | None = None) -> Any:
        """Return the repository in a folder, allowed to read virtual chunks of a place."""
        return self.repository.open(self.storage(str(folder)), **self._options(place))

    def files_in(self, folder: Path) -> Place:
        """Return the files of a folder as a place."""
        return Place(
            f"file://{folder}/",
            self.module.local_filesystem_store(str(folder)),
            self.module.Credentials.LocalFileSystemAccess(),
        )

    def bucket_on(self, server: ServerAddress) -> Place:
        """Return the bucket of a server as a place."""
        return Place(
            f"s3://{server.bucket}/",
            self.module.s3_store(
                region="us-east-1",
                endpoint_url=server.endpoint_url,
                allow_http=True,
                s3_compatible=True,
                force_path_style=True,
            ),
            self.module.s3_credentials(
                access_key_id=server.access_key_id, secret_access_key=server.secret_access_key
            ),
        )

    def _options(self, place: Place | None) -> dict[str, Any]:
        if place is None:
            return {}
        config = self.module.RepositoryConfig()
        container = self.module.VirtualChunkContainer(place.prefix, place.store)
        config.set_virtual_chunk_container(container)
        consent = self.module.containers_credentials({place.prefix: place.credentials})
        return {"config": config, "authorize_virtual_chunk_access": consent}


def load_library(name: str) -> Library:
    """Import a library, and nothing of the other."""
    module = importlib.import_module(name)
    # icestream imports what is behind a name when it is first used: here, not in a measured step
    return Library(name, module, module.Repository, module.local_filesystem_storage)
