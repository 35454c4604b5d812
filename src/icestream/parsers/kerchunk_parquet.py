"""References of kerchunk in Parquet: a folder with a table for each array, read as columns."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from virtualizarr.parsers.zarr.common import metadata_as_v3
from zarr.core.buffer import default_buffer_prototype
from zarr.core.metadata.v2 import ArrayV2Metadata

from icestream.errors import ErrorKind, NotFoundError, SourceError
from icestream.model.paths import ancestors_of
from icestream.parsers.file_contents import FileContents, Loading
from icestream.parsers.manifest_columns import ManifestColumns
from icestream.parsers.manifest_tables import add_arrays
from icestream.parsers.scanned_files import ScanProblem
from icestream.parsers.source_files import SourceFile, absolute_url

_SCHEMA = pa.schema(
    {
        "path": pa.large_string(),
        "offset": pa.int64(),
        "size": pa.int64(),
        "raw": pa.large_binary(),
    }
)


def scan_kerchunk_parquet(source: SourceFile, loading: Loading) -> FileContents:
    """Return the arrays that a folder of kerchunk references describes."""
    del loading  # values are read through the references
    summary = json.loads(source.read_below(".zmetadata"))
    metadata: Mapping[str, Any] = summary["metadata"]
    contents = FileContents()
    contents.groups["/"] = metadata.get(".zattrs", {})
    found = {}
    for name in _named(metadata, ".zarray"):
        path = f"/{name}"
        contents.groups |= {group: {} for group in ancestors_of(path) if group != "/"}
        attributes = metadata.get(f"{name}/.zattrs", {})
        try:
            document = _document(metadata[f"{name}/.zarray"], attributes)
            found[path] = document, _columns(source, name, document, summary["record_size"])
        except SourceError as error:
            contents.problems.append(ScanProblem(str(error), path))
    for name in _named(metadata, ".zgroup"):
        contents.groups[f"/{name}"] = metadata.get(f"{name}/.zattrs", {})
    add_arrays(contents, source, found)
    return contents


def _named(metadata: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Yield the names of the nodes below the root of which there is metadata of one kind."""
    return (key.removesuffix(f"/{kind}") for key in metadata if key.endswith(f"/{kind}"))


def _document(layout: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    second = ArrayV2Metadata.from_dict({**layout, "attributes": dict(attributes)})
    buffers = metadata_as_v3(second).to_buffer_dict(default_buffer_prototype())
    document: dict[str, Any] = json.loads(buffers["zarr.json"].to_bytes())
    document["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "/"}}
    return document


def _columns(
    source: SourceFile, name: str, document: Mapping[str, Any], record_size: int
) -> ManifestColumns:
    """Return the references of an array, one row for each chunk of its grid."""
    chunk_shape = document["chunk_grid"]["configuration"]["chunk_shape"]
    grid = tuple(
        -(-length // chunk) for length, chunk in zip(document["shape"], chunk_shape, strict=True)
    )
    count = math.prod(grid)
    parts = [
        _part(source, f"{name}/refs.{number}.parq", min(record_size, count - start))
        for number, start in enumerate(range(0, count, record_size))
    ]
    table = pa.concat_tables(parts) if parts else _SCHEMA.empty_table()
    paths, sizes = table["path"], table["size"].fill_null(0).to_numpy()
    if pc.any(pc.and_(paths.is_valid(), pc.equal(table["size"], 0))).as_py():
        raise SourceError(
            "some of its chunks are whole files, whose lengths the references do not say",
            kind=ErrorKind.UNIMPLEMENTED,
        )
    raw = table["raw"]
    rows = np.flatnonzero(raw.is_valid().to_numpy())
    indexes = np.stack(np.unravel_index(rows, grid), axis=1).tolist() if grid else [()] * len(rows)
    inlined = dict(zip(map(tuple, indexes), raw.drop_null().to_pylist(), strict=True))
    return ManifestColumns(
        grid=grid,
        locations=_absolute(paths.combine_chunks()),
        offsets=table["offset"].fill_null(0).to_numpy().astype(np.uint64),
        lengths=sizes.astype(np.uint64),
        inlined=inlined,
    )


def _absolute(paths: pa.Array) -> pa.DictionaryArray:
    """Return paths as URLs, each kept once; those without a scheme are local files."""
    encoded = paths.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    urls = [absolute_url(text) for text in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(urls, pa.large_string()))


def _part(source: SourceFile, name: str, rows: int) -> pa.Table:
    """Return the first rows of one table; where there is none, no chunk was written."""
    try:
        content = source.read_below(name)
    except NotFoundError:
        return pa.table({field.name: pa.nulls(rows, field.type) for field in _SCHEMA})
    table = pq.read_table(pa.BufferReader(content))
    columns = {
        field.name: table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in _SCHEMA
    }
    return pa.table(columns, schema=_SCHEMA).slice(0, rows)
