"""The references that both libraries are given."""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.cases import Checksums, Inputs, Shape

CHUNKS_PER_FILE = 10_000
CHECKSUM = datetime(2026, 1, 1, tzinfo=UTC)

type ChecksumColumn = datetime | pa.Array | npt.NDArray[np.uint32] | None

_ARCHIVE = "s3://climate-archive-eu-central-1/reanalysis/hourly/single-levels"


@dataclass(frozen=True, slots=True)
class ReferenceColumns:
    """References in C order of a grid of rank 3."""

    grid_shape: tuple[int, int, int]
    locations: pa.DictionaryArray | list[str]
    offsets: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint64]
    checksum: ChecksumColumn = CHECKSUM


def build_columns(
    references: int,
    shape: Shape,
    inputs: Inputs,
    *,
    first: int = 0,
    checksums: Checksums = Checksums.ONE,
) -> ReferenceColumns:
    """Return references number `first` and following; lengths are random, 20 to 60 kB."""
    random = np.random.default_rng(first)
    lengths = random.integers(20_000, 60_000, references, dtype=np.uint64)
    build = _in_files if shape is Shape.FILE else _in_objects
    codes, texts, offsets = build(np.arange(first, first + references), lengths)
    locations: pa.DictionaryArray | list[str]
    if inputs is Inputs.ARROW:
        locations = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(texts))
    else:
        locations = [texts[code] for code in codes.tolist()]
    checksum = _checksum_column(checksums, codes, len(texts))
    return ReferenceColumns(grid_of(references), locations, offsets, lengths, checksum)


def grid_of(references: int) -> tuple[int, int, int]:
    """Return the grid that holds so many chunks."""
    return references // 100, 10, 10


def _in_files(
    rows: npt.NDArray[np.int64], lengths: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int32], list[str], npt.NDArray[np.uint64]]:
    files = rows // CHUNKS_PER_FILE
    first_file = int(files[0])
    texts = [_file_url(number) for number in range(first_file, int(files[-1]) + 1)]
    ends = np.cumsum(lengths)
    starts = ends - lengths
    first_rows = np.maximum(files * CHUNKS_PER_FILE - int(rows[0]), 0)
    return (files - first_file).astype(np.int32), texts, starts - starts[first_rows]


def _in_objects(
    rows: npt.NDArray[np.int64], lengths: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int32], list[str], npt.NDArray[np.uint64]]:
    texts = [_object_url(row) for row in rows.tolist()]
    return np.arange(len(rows), dtype=np.int32), texts, np.zeros_like(lengths)


def _checksum_column(
    checksums: Checksums, codes: npt.NDArray[np.int32], objects: int
) -> ChecksumColumn:
    """Return what is recorded of each object, once per reference."""
    random = np.random.default_rng(objects)
    match checksums:
        case Checksums.NONE:
            return None
        case Checksums.ONE:
            return CHECKSUM
        case Checksums.ETAGS:
            digits = random.bytes(16 * objects).hex()
            etags = pa.array([digits[32 * i : 32 * (i + 1)] for i in range(objects)])
            return etags.take(pa.array(codes))
        case Checksums.SECONDS:
            seconds = int(CHECKSUM.timestamp()) - random.integers(0, 10**8, objects)
            return seconds.astype(np.uint32)[codes]


def _file_url(number: int) -> str:
    """Return a URL of 117 characters."""
    return f"{_ARCHIVE}/v2.1/{1940 + number // 12}/era5-2m-temperature-{number:07d}.nc".ljust(
        117, "x"
    )


def _object_url(row: int) -> str:
    """Return a URL of about 110 characters, like that of a chunk in a Zarr store."""
    return (
        f"{_ARCHIVE}/v2.1/era5-2m-temperature.zarr/t2m/c/{row // 100}/{row // 10 % 10}/{row % 10}"
    )
