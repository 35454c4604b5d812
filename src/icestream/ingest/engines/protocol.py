"""Who does the work of a run: scans files, keeps their references, writes manifests."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from icestream.assets.assets import Assets
from icestream.ingest.engines.routing import Destination, RoutedBlob
from icestream.ingest.engines.scanning import ScanFailure, ScanJob
from icestream.ingest.file_columns import FileColumns
from icestream.ingest.file_merging import merge_columns
from icestream.ingest.progress import Progress
from icestream.model.chunk_tables import ChunkTable
from icestream.repository.staged.cells import CellTask, WrittenCell

type Destinations = Mapping[str, tuple[Destination, ...]]
"""By path of the array in the files."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WriteJob:
    """Manifests to write; it travels to executors."""

    assets: Assets
    spec: int
    tasks: tuple[CellTask, ...]
    destinations: Destinations
    """Numbers of tasks in them are positions in `tasks`."""


class ScannedReferences(Protocol):
    """References of scanned files, wherever the engine keeps them."""

    def close(self) -> None:
        """Let go of them."""


@dataclass(frozen=True, slots=True, eq=False)
class ScanResult:
    """What a scan found."""

    files: FileColumns
    failures: tuple[ScanFailure, ...]
    references: ScannedReferences


class Engine(Protocol):
    """Does the work of a run, here or elsewhere."""

    def scan(
        self, urls: Sequence[str], job: ScanJob, progress: Progress, *, first_ordinal: int = 0
    ) -> ScanResult:
        """Scan files; the ordinal of each is its position, counted from `first_ordinal`."""

    def collect(
        self, references: Iterable[ScannedReferences], destinations: Destinations
    ) -> list[tuple[int, ChunkTable]]:
        """Return references at their places, by the number of their task: for few of them."""

    def write_cells(
        self,
        references: Iterable[ScannedReferences],
        job: WriteJob,
        extra: Sequence[RoutedBlob],
        progress: Progress,
    ) -> list[WrittenCell]:
        """Write the manifest of every task, with references of scans and some that are at hand."""

    def map[T, R](self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply a function to a few items."""


def merged_scans(
    batches: Iterable[tuple[FileColumns, Sequence[ScanFailure]]], references: ScannedReferences
) -> ScanResult:
    """Return what all batches of a scan found."""
    files: list[FileColumns] = []
    failures: list[ScanFailure] = []
    for scanned, failed in batches:
        files.append(scanned)
        failures += failed
    return ScanResult(merge_columns(files), tuple(failures), references)
