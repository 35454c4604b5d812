"""An archive on disk that runs make a repository of, opened by both libraries."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import icechunk
import xarray as xr

from icestream.ingest.declaration.archives import Archive
from icestream.ingest.run_reports import RunReport
from icestream.ingest.runs import run_archive
from icestream.repository.repository import Repository
from icestream.storage import local_filesystem_storage


class ArchiveOnDisk:
    """A folder of files, and the repository that they become."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.files.mkdir(parents=True)
        self.repository = folder / "repository"
        self.prefix = f"{self.files.as_uri()}/"

    def run(self, archive: Archive) -> RunReport:
        """Run an archive in this process."""
        return run_archive(archive)

    def ours(self) -> Repository:
        """Open the repository with icestream."""
        return Repository.open(
            local_filesystem_storage(str(self.repository)),
            authorize_virtual_chunk_access={self.prefix: None},
        )

    def stores(self) -> Iterator[Any]:
        """Yield the content as we read it, and as icechunk does."""
        yield self.ours().readonly_session("main").store
        access: Any = {self.prefix: icechunk.credentials.LocalFileSystemAccess}
        theirs = icechunk.Repository.open(
            icechunk.local_filesystem_storage(str(self.repository)),
            authorize_virtual_chunk_access=access,
        )
        yield theirs.readonly_session("main").store


def opened(store: Any, **options: Any) -> xr.Dataset:
    """Return all values of a store."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr warns of codecs and types beyond its specification
        dataset: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks=None, **options).load()
    return dataset
