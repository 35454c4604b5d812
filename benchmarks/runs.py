"""One library doing one case: what all operations share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import zarr

from benchmarks.cases import Case, chunks_folder, repository_folder, virtual_folder
from benchmarks.libraries import Library
from benchmarks.server_address import ServerAddress

BRANCH = "main"
DATA = "data"
CHUNKS = "chunks"
CHUNK_ITEMS = 512
"""Items of 8 bytes: chunks of 4 kB."""

Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class Run:
    """One library doing one case, with its files below `work`."""

    library: Library
    case: Case
    work: Path
    server: ServerAddress | None = None

    @property
    def repository(self) -> Path:
        """The folder of the repository with the references of the case."""
        return repository_folder(self.work, self.library.name, self.case)

    @property
    def chunks(self) -> Path:
        """The folder of the repository with the native chunks of the case."""
        return chunks_folder(self.work, self.library.name, self.case)

    @property
    def virtual(self) -> Path:
        """The folder of the repository with the virtual chunks of the case."""
        return virtual_folder(self.work, self.library.name, self.case)


def open_array(session: Any, name: str) -> zarr.Array[Any]:
    """Return an array of a session."""
    array = zarr.open_group(session.store, mode="r")[name]
    assert isinstance(array, zarr.Array)
    return array


def warm(session: Any) -> None:
    """Bring the manifest of the big array into memory, by asking for one chunk."""
    assert int(session.chunk_type(f"/{DATA}", [1, 2, 3])) > 0, "the chunk was never written"


def load_pandas() -> None:
    """Let pyarrow import pandas, which it does at its first array: no part of what is measured."""
    pa.array([0])
