"""The work of a run in this process: nothing to start, for archives that one machine can scan."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import batched

from icestream.ingest.engines.protocol import (
    Destinations,
    ScannedReferences,
    ScanResult,
    WriteJob,
    merged_scans,
)
from icestream.ingest.engines.routing import RoutedBlob, route
from icestream.ingest.engines.scanning import (
    FILES_PER_BATCH,
    FileToScan,
    ReferenceBlob,
    ScanJob,
    ScannedBatch,
    scan_batch,
)
from icestream.ingest.progress import Progress
from icestream.model.chunk_tables import ChunkTable
from icestream.repository.staged.cells import WrittenCell
from icestream.repository.staged.writing import write_cell


@dataclass(slots=True, eq=False)
class _KeptBlobs:
    """References of a scan, in memory."""

    blobs: list[ReferenceBlob]

    def close(self) -> None:
        self.blobs = []


class SerialEngine:
    """Does the work of runs in this process and, for the scans, in children of it.

    Args:
        workers: Files that are scanned at a time; as many as there are cores, if None.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or os.cpu_count() or 1

    def __repr__(self) -> str:
        return f"SerialEngine({self._workers})"

    def scan(
        self, urls: Sequence[str], job: ScanJob, progress: Progress, *, first_ordinal: int = 0
    ) -> ScanResult:
        """Scan files; the ordinal of each is its position, counted from `first_ordinal`."""
        files = (FileToScan(first_ordinal + i, url) for i, url in enumerate(urls))
        size = max(1, min(FILES_PER_BATCH, -(-len(urls) // self._workers)))
        found: list[ScannedBatch] = []
        with ThreadPoolExecutor(self._workers) as pool:
            for batch in pool.map(partial(scan_batch, job=job), batched(files, size, strict=False)):
                num_references = sum(blob.num_references for blob in batch.blobs)
                num_files = len(batch.files) + len(batch.failures)
                progress.advance(
                    num_files, references=num_references, set_aside=len(batch.failures)
                )
                found.append(batch)
        blobs = [blob for batch in found for blob in batch.blobs]
        return merged_scans(((batch.files, batch.failures) for batch in found), _KeptBlobs(blobs))

    def collect(
        self, references: Iterable[ScannedReferences], destinations: Destinations
    ) -> list[tuple[int, ChunkTable]]:
        """Return references at their places, by the number of their task: for few of them."""
        return [(blob.task, blob.table()) for blob in _routed(references, destinations)]

    def write_cells(
        self,
        references: Iterable[ScannedReferences],
        job: WriteJob,
        extra: Sequence[RoutedBlob],
        progress: Progress,
    ) -> list[WrittenCell]:
        """Write the manifest of every task, with references of scans and some that are at hand."""
        additions: defaultdict[int, list[RoutedBlob]] = defaultdict(list)
        for blob in (*extra, *_routed(references, job.destinations)):
            additions[blob.task].append(blob)
        written = []
        for task, cell in enumerate(job.tasks):
            tables = [blob.table() for blob in additions.pop(task, ())]
            written.append(write_cell(job.assets, cell, tables, spec=job.spec))
            progress.advance(references=sum(map(len, tables)))
        return written

    def map[T, R](self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply a function to items, one after the other."""
        return [work(item) for item in items]


def _routed(
    references: Iterable[ScannedReferences], destinations: Destinations
) -> Iterator[RoutedBlob]:
    for kept in references:
        if isinstance(kept, _KeptBlobs):
            for blob in kept.blobs:
                yield from route(blob, destinations.get(blob.path, ()))
