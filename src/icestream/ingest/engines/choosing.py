"""An engine that is chosen by how much there is to do."""

from collections.abc import Callable, Iterable, Sequence

from icestream.ingest.engines.protocol import (
    Destinations,
    Engine,
    ScannedReferences,
    ScanResult,
    WriteJob,
)
from icestream.ingest.engines.routing import RoutedBlob
from icestream.ingest.engines.scanning import ScanJob
from icestream.ingest.progress import Progress
from icestream.model.chunk_tables import ChunkTable
from icestream.repository.staged.cells import WrittenCell

FEW_FILES = 200
"""Below this, the start of a large engine takes longer than the scan."""


class ChoosingEngine:
    """One of two engines for a whole run: the first scan tells which.

    The large one is made only where it is needed: a Spark takes seconds to start.
    """

    def __init__(
        self, small: Engine, make_large: Callable[[], Engine], *, few_files: int = FEW_FILES
    ) -> None:
        self._small = small
        self._make_large = make_large
        self._few_files = few_files
        self._chosen: Engine | None = None

    def scan(
        self, urls: Sequence[str], job: ScanJob, progress: Progress, *, first_ordinal: int = 0
    ) -> ScanResult:
        """Choose by the number of files, and scan them."""
        if self._chosen is None:
            self._chosen = self._small if len(urls) < self._few_files else self._make_large()
        return self._chosen.scan(urls, job, progress, first_ordinal=first_ordinal)

    def collect(
        self, references: Iterable[ScannedReferences], destinations: Destinations
    ) -> list[tuple[int, ChunkTable]]:
        """Return references at their places, by the number of their task."""
        return self._engine.collect(references, destinations)

    def write_cells(
        self,
        references: Iterable[ScannedReferences],
        job: WriteJob,
        extra: Sequence[RoutedBlob],
        progress: Progress,
    ) -> list[WrittenCell]:
        """Write the manifest of every task."""
        return self._engine.write_cells(references, job, extra, progress)

    def map[T, R](self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply a function to a few items."""
        return self._engine.map(work, items)

    @property
    def _engine(self) -> Engine:
        return self._chosen or self._small
