"""Arrays whose references are in many files, with what is recorded of each."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable, concat, dense_index
from icestream.model.text_pools import NO_POOL, encode_texts
from icestream.parsers.file_contents import FileContents
from icestream.parsers.file_references import inline_chunks
from icestream.parsers.manifest_columns import ManifestColumns
from icestream.parsers.referenced_objects import Checksums, checksums_of
from icestream.parsers.scanned_files import ScannedArray, ScanProblem
from icestream.parsers.source_files import SourceFile


def add_arrays(
    contents: FileContents,
    source: SourceFile,
    found: Mapping[str, tuple[dict[str, Any], ManifestColumns]],
) -> None:
    """Add arrays, given by path as metadata and references; every file is asked for once."""
    locations = {
        text for _, columns in found.values() for text in columns.distinct_locations.to_pylist()
    }
    checksums, faults = checksums_of(source, locations)
    contents.problems += [ScanProblem(fault, is_fatal=False) for fault in faults]
    for path, (document, columns) in found.items():
        contents.arrays[path] = ScannedArray(document, _table(columns, checksums))


def _table(columns: ManifestColumns, checksums: Checksums) -> ChunkTable:
    """Return the chunks of a manifest that are in files, or inlined."""
    rank = len(columns.grid)
    inlined = inline_chunks(dict(columns.inlined), rank)
    has_file: npt.NDArray[np.bool_] = columns.locations.is_valid().to_numpy(zero_copy_only=False)
    if not math.prod(columns.grid) or not has_file.any():
        return inlined
    rows = np.flatnonzero(has_file)
    codes = columns.codes[rows]
    pool = columns.distinct_locations
    texts: list[str] = pool.to_pylist()
    etags = [checksums[text][0] for text in texts]
    seconds = np.array([checksums[text][1] for text in texts], np.uint32)[codes]
    etag_code, etag_pool = _etag_codes(etags, codes)
    located = ChunkTable(
        index=dense_index(columns.grid)[rows],
        kind=np.full(len(rows), ChunkType.virtual, np.uint8),
        byte_offset=columns.offsets[rows].astype(np.uint64),
        length=columns.lengths[rows].astype(np.uint64),
        location_code=codes.astype(np.int32),
        locations=pa.chunked_array([pool]),
        etag_code=etag_code,
        etags=etag_pool,
        last_modified=seconds if seconds.any() else None,
    )
    return concat([located, inlined])


def _etag_codes(
    etags: list[str | None], codes: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32] | None, pa.ChunkedArray]:
    of_location, pool = encode_texts(etags)
    return (None, NO_POOL) if of_location is None else (of_location[codes], pool)
