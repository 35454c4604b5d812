"""Files are scanned in batches: facts for the driver, references for executors later on."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import (
    AccessError,
    IcestreamError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from icestream.ingest.declaration.archives import Archive, any_matches
from icestream.ingest.facts import FileFacts, facts_of
from icestream.ingest.file_columns import FileColumns, gather
from icestream.ingest.reference_blobs import encode_references
from icestream.model.chunk_tables import ChunkTable, replace_columns, stack
from icestream.model.container_sets import ContainerSet
from icestream.parsers.isolation import ScanLimits, scan_file_isolated
from icestream.parsers.parser_options import with_options
from icestream.parsers.scanned_files import FileIdentity, ScannedFile
from icestream.parsers.source_files import FindObject

FILES_PER_BATCH = 64
"""Files whose facts travel together."""

_SMALL_TABLE = 4096
"""References of one file below which those of a batch share a blob."""
_LARGE_TABLE = 2**18
"""References of one file above which they are cut: one enormous file must not fill an executor."""
_UNREACHABLE = (StorageError, AccessError, NotFoundError)
"""A file that is gone since it was listed is for the next listing to tell."""
SEVERAL = -1
"""The ordinal of a blob that holds references of several files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanJob:
    """How files are scanned; it travels to executors."""

    archive: Archive
    containers: ContainerSet
    """Of the repository: how locations are stored there."""
    find_object: FindObject | None = None
    """How files are reached; None is what the environment offers."""
    limits: ScanLimits = field(default_factory=ScanLimits)
    threads: int = 1
    """Files at a time, for stores that take long to answer."""


class FileToScan(NamedTuple):
    """A file, and its number among those that are scanned together."""

    ordinal: int
    url: str


@dataclass(frozen=True, slots=True)
class ScanFailure:
    """A file that cannot become a part of the archive as it is."""

    url: str
    reason: str
    identity: FileIdentity | None = None
    """None if not even that could be found out."""
    is_unreachable: bool = False
    """Whether its store failed or refused, which says nothing of the file."""


@dataclass(frozen=True, slots=True)
class ReferenceBlob:
    """References of one array, of one file or of several small ones."""

    path: str
    """Of the array in the files."""
    ordinal: int
    """Of the file, or -1 for several."""
    ordinals: bytes
    """Of the file of each reference, as 32-bit numbers, if there are several."""
    extents: tuple[int, ...]
    """First and last index along each dimension, one after the other, if it is one file."""
    num_references: int
    payload: bytes

    def files_of_rows(self) -> npt.NDArray[np.int32]:
        """Return the ordinal of each reference's file."""
        return np.frombuffer(self.ordinals, np.int32)


@dataclass(frozen=True, slots=True)
class ScannedBatch:
    """Some files after their scan."""

    files: FileColumns
    failures: tuple[ScanFailure, ...]
    blobs: tuple[ReferenceBlob, ...]


def scan_batch(files: Sequence[FileToScan], job: ScanJob) -> ScannedBatch:
    """Scan files; one that cannot be read costs nothing but itself."""
    facts: list[FileFacts] = []
    failures: list[ScanFailure] = []
    tables: list[tuple[int, str, ChunkTable]] = []
    for file, scanned in zip(files, _scanned(files, job), strict=True):
        if isinstance(scanned, ScanFailure):
            failures.append(scanned)
            continue
        found = facts_of(scanned, job.archive)
        facts.append(found)
        # values that cannot be copied were read for nothing: their references count
        tables += _tables(file.ordinal, scanned, job, found.values.keys())
    return ScannedBatch(gather(facts), tuple(failures), tuple(blobs_of(tables)))


def _scanned(files: Sequence[FileToScan], job: ScanJob) -> Iterator[ScannedFile | ScanFailure]:
    if job.threads == 1:
        yield from (scan_one(file.url, job) for file in files)
        return
    with ThreadPoolExecutor(job.threads) as pool:
        yield from pool.map(lambda file: scan_one(file.url, job), files)


def opened_file(url: str, job: ScanJob) -> ScannedFile:
    """Scan a file as the declaration says."""
    choice = job.archive.parser
    return scan_file_isolated(
        url,
        parser=with_options(choice.name, choice.options),
        find_object=job.find_object,
        loading=job.archive.loading,
        limits=job.limits,
    )


def scan_one(url: str, job: ScanJob) -> ScannedFile | ScanFailure:
    """Scan a file, or say why it has to be set aside.

    Raises:
        InvalidInputError: The declaration is wrong, not the file.
    """
    try:
        scanned = opened_file(url, job)
    except InvalidInputError:
        raise  # the declaration is wrong, not the file
    except IcestreamError as error:
        return ScanFailure(url, error.message, is_unreachable=isinstance(error, _UNREACHABLE))
    missing = [
        problem
        for problem in scanned.problems
        if problem.is_fatal and not any_matches(job.archive.drop, problem.path or "")
    ]
    if missing:
        told = "; ".join(map(str, missing))
        remedy = "; leave it out with `drop`" if all(one.path for one in missing) else ""
        return ScanFailure(url, told + remedy, scanned.identity)
    return scanned


def _tables(
    ordinal: int, file: ScannedFile, job: ScanJob, copied: AbstractSet[str]
) -> Iterator[tuple[int, str, ChunkTable]]:
    """Yield the references of a file by array, with locations as the repository stores them."""
    known: dict[str, pa.ChunkedArray] = {}
    for path, array in file.arrays.items():
        table = array.references
        is_left_out = any_matches(job.archive.drop, path)
        if is_left_out or path in copied or not len(table):
            continue
        if len(table.locations):
            locations = _stored_locations(table.locations, known, job.containers)
            table = replace_columns(table, locations=locations)
        yield ordinal, path, table


def _stored_locations(
    pool: pa.ChunkedArray, known: dict[str, pa.ChunkedArray], containers: ContainerSet
) -> pa.ChunkedArray:
    """Return locations as the repository stores them; all arrays of a file have mostly one."""
    if len(pool) > 1:
        return containers.stored_texts(pool, relative=None, validate=True)
    location = pool[0].as_py()
    if location not in known:
        known[location] = containers.stored_texts(pool, relative=None, validate=True)
    return known[location]


def blobs_of(tables: Iterable[tuple[int, str, ChunkTable]]) -> Iterator[ReferenceBlob]:
    """Yield large tables by themselves, and the small ones of each array together."""
    small: defaultdict[tuple[str, int], list[tuple[int, ChunkTable]]] = defaultdict(list)
    for ordinal, path, table in tables:
        if len(table) >= _SMALL_TABLE:
            yield from (
                _blob_of_one(ordinal, path, table.take(slice(first, first + _LARGE_TABLE)))
                for first in range(0, len(table), _LARGE_TABLE)
            )
        else:
            small[path, table.rank].append((ordinal, table))
    for (path, _), members in small.items():
        if len(members) == 1:
            yield _blob_of_one(members[0][0], path, members[0][1])
        else:
            yield _blob_of_many(path, members)


def _blob_of_one(ordinal: int, path: str, table: ChunkTable) -> ReferenceBlob:
    extents = tuple(bound for lo, hi in table.extents for bound in (lo, hi - 1))
    return ReferenceBlob(path, ordinal, b"", extents, len(table), encode_references(table))


def _blob_of_many(path: str, members: Sequence[tuple[int, ChunkTable]]) -> ReferenceBlob:
    lengths = [len(table) for _, table in members]
    ordinals = np.repeat(np.array([ordinal for ordinal, _ in members], np.int32), lengths)
    table = stack([table for _, table in members])
    payload = encode_references(table)
    return ReferenceBlob(path, SEVERAL, ordinals.tobytes(), (), len(table), payload)
