"""References of one array as bytes: what travels between executors, one blob per file and array.

A blob is an Arrow stream with one batch. Columns that apply to no row are left out, and texts are
dictionaries, so that a location stands there once however many chunks are in the file.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import OBJECT_ID_SIZE
from icestream.model.text_pools import NO_POOL, Int32

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_NUMBERS = ("kind", "byte_offset", "length", "last_modified")
_TEXTS = {"location": ("location_code", "locations"), "etag": ("etag_code", "etags")}


def encode_references(table: ChunkTable) -> bytes:
    """Return a table as bytes."""
    columns: dict[str, pa.Array] = {"index": _rows_of_numbers(table.index)}
    for name in _NUMBERS:
        values = getattr(table, name)
        if values is not None:
            columns[name] = pa.array(np.ascontiguousarray(values))
    for name, (code, pool) in _TEXTS.items():
        codes = getattr(table, code)
        if codes is not None:
            columns[name] = _dictionary(codes, getattr(table, pool))
    if table.chunk_id is not None:
        columns["chunk_id"] = _rows_of_bytes(table.chunk_id)
    if table.inline is not None:
        columns["inline"] = table.inline
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_references(data: bytes) -> ChunkTable:
    """Return the table of a blob."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        batch = reader.read_next_batch()
    columns: dict[str, Any] = {
        name: batch.column(name).to_numpy() for name in _NUMBERS if name in batch.schema.names
    }
    for name, (code, pool) in _TEXTS.items():
        if name in batch.schema.names:
            columns[code], columns[pool] = _codes_and_pool(batch.column(name))
    if "chunk_id" in batch.schema.names:
        columns["chunk_id"] = _bytes_of_rows(batch.column("chunk_id"))
    if "inline" in batch.schema.names:
        columns["inline"] = batch.column("inline")
    return ChunkTable(index=_numbers_of_rows(batch.column("index")), **columns)


def _rows_of_numbers(index: npt.NDArray[np.uint32]) -> pa.Array:
    if not index.shape[1]:  # a scalar: its one chunk has no coordinates
        return pa.nulls(len(index))
    values = pa.array(np.ascontiguousarray(index).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(values, index.shape[1])


def _numbers_of_rows(column: pa.Array) -> npt.NDArray[np.uint32]:
    if pa.types.is_null(column.type):
        return np.empty((len(column), 0), np.uint32)
    values: npt.NDArray[np.uint32] = column.flatten().to_numpy()
    return values.reshape(len(column), column.type.list_size)


def _dictionary(codes: Int32, pool: pa.ChunkedArray) -> pa.Array:
    indices = pa.array(np.ascontiguousarray(codes), mask=codes < 0)
    texts = pool.combine_chunks() if pool.num_chunks != 1 else pool.chunk(0)
    return pa.DictionaryArray.from_arrays(indices, texts)


def _codes_and_pool(column: pa.DictionaryArray) -> tuple[Int32, pa.ChunkedArray]:
    codes = column.indices
    codes = codes.fill_null(-1) if codes.null_count else codes
    texts = column.dictionary
    return codes.to_numpy(), pa.chunked_array([texts]) if len(texts) else NO_POOL


def _rows_of_bytes(ids: npt.NDArray[np.uint8]) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(ids).tobytes())
    return pa.Array.from_buffers(pa.binary(OBJECT_ID_SIZE), len(ids), [None, data])


def _bytes_of_rows(column: pa.Array) -> npt.NDArray[np.uint8]:
    start = column.offset * OBJECT_ID_SIZE
    values = np.frombuffer(column.buffers()[1], np.uint8)
    return values[start : start + len(column) * OBJECT_ID_SIZE].reshape(-1, OBJECT_ID_SIZE)
