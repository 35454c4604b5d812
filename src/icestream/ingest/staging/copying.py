"""A file of another form is copied into the array of the others, on an executor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icestream.assets.assets import Assets
from icestream.ingest.engines.scanning import ScanJob, opened_file
from icestream.ingest.materialising import materialise, reads_with
from icestream.model.chunk_refs import ChunkRef, InlineRef
from icestream.model.chunk_tables import ChunkTable
from icestream.parsers.source_files import find_with_environment


@dataclass(frozen=True, slots=True)
class CopyJob:
    """One array of one file."""

    url: str
    path: str
    """Of the array in the file."""
    metadata: Mapping[str, Any]
    """The document zarr.json of the whole array."""
    start: tuple[int, ...]
    """The first element of the file in the whole array."""


def copy_file(job: CopyJob, *, scan: ScanJob, assets: Assets, inline_threshold: int) -> ChunkTable:
    """Copy the values of one array of a file, and return references to the copies.

    Raises:
        SourceError: A value has no place in the whole array, or the file cannot be read.
    """
    scanned = opened_file(job.url, scan)

    def save(data: bytes) -> ChunkRef:
        return InlineRef(data) if len(data) <= inline_threshold else assets.save_chunk(data)

    find_object = scan.find_object or find_with_environment
    return materialise(
        scanned,
        job.path,
        job.metadata,
        job.start,
        save_chunk=save,
        read_chunk=reads_with(find_object),
    )
