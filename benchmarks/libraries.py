"""The two libraries behind the few calls in which they differ."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ICECHUNK = "icechunk"
ICESTREAM = "icestream"


@dataclass(frozen=True, slots=True)
class Library:
    """One of the libraries; repositories, sessions and stores have the same methods in both."""

    name: str
    repository: Any
    storage: Any

    def create(self, folder: Path) -> Any:
        """Return a new repository in a folder of the local disk."""
        return self.repository.create(self.storage(str(folder)))

    def open(self, folder: Path) -> Any:
        """Return the repository in a folder."""
        return self.repository.open(self.storage(str(folder)))


def load_library(name: str) -> Library:
    """Import a library, and nothing of the other."""
    if name == ICECHUNK:
        icechunk = importlib.import_module("icechunk")
        return Library(name, icechunk.Repository, icechunk.local_filesystem_storage)
    repository = importlib.import_module("icestream.repository.repository")
    factories = importlib.import_module("icestream.storage.factories")
    return Library(name, repository.Repository, factories.local_filesystem_storage)
