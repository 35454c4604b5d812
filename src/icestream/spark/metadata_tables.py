"""What a repository knows about itself, as tables: its versions, nodes, manifests, references."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ledger.dataset import Dataset
from icestream.ledger.history import HISTORY_SCHEMA
from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable
from icestream.model.ids import id_texts
from icestream.spark.arrow_types import in_spark_types
from icestream.spark.pinned import PinnedRepository
from icestream.storage.protocol import Storage

EVENTS = "events"
ROWS_PER_BATCH = 100_000
_TIME = pa.timestamp("us", "UTC")
_COUNTS = pa.list_(pa.int64())

_SNAPSHOTS = pa.schema(
    {
        "id": pa.string(),
        "parent_id": pa.string(),
        "written_at": _TIME,
        "message": pa.string(),
        "metadata": pa.string(),
    }
)
_NODES = pa.schema(
    {
        "path": pa.string(),
        "id": pa.string(),
        "node_type": pa.string(),
        "shape": _COUNTS,
        "num_chunks": _COUNTS,
        "dimension_names": pa.list_(pa.string()),
        "manifests": pa.int64(),
    }
)
_MANIFESTS = pa.schema(
    {
        "id": pa.string(),
        "set_name": pa.string(),
        "arrays": pa.list_(pa.string()),
        "references": pa.int64(),
        "size_bytes": pa.int64(),
    }
)
_SOURCES = pa.schema(
    {
        "location": pa.string(),
        "references": pa.int64(),
        "num_bytes": pa.int64(),
        "arrays": pa.int64(),
    }
)
_REFS = pa.schema(
    {
        "array": pa.string(),
        "chunk": pa.list_(pa.int64()),
        "kind": pa.string(),
        "location": pa.string(),
        "byte_offset": pa.int64(),
        "length": pa.int64(),
        "etag": pa.string(),
        "last_modified": _TIME,
        "chunk_id": pa.string(),
    }
)


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """One kind of table."""

    schema: pa.Schema
    read: Callable[[PinnedRepository, str | None], pa.Table]
    """Of a version; the second argument is the part, where the table has parts."""
    parts: Callable[[PinnedRepository], list[str]] | None = None
    """What tasks read separately; None if there is one for all."""


def find_table(name: str) -> MetadataTable:
    """Return the table of this name.

    Raises:
        InvalidInputError: There is none.
    """
    if name not in _TABLES:
        raise InvalidInputError(
            f"there is no table {name!r}; there are {', '.join([*_TABLES, EVENTS])}",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    return _TABLES[name]


def table_batches(
    table: MetadataTable, pinned: PinnedRepository, part: str | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, or of a part of it."""
    found = table.read(pinned, part)
    yield from found.cast(table.schema).to_batches(max_chunksize=ROWS_PER_BATCH)


EVENTS_SCHEMA = in_spark_types(HISTORY_SCHEMA)


def event_batches(storage: Storage) -> Iterator[pa.RecordBatch]:
    """Yield the blocks of the ledger dataset at a storage, a row for each."""
    history = Dataset.open(storage).history()
    yield from history.cast(EVENTS_SCHEMA, safe=False).to_batches(max_chunksize=ROWS_PER_BATCH)


# -- the tables -----------------------------------------------------------------------------------


def _snapshots(pinned: PinnedRepository, _: str | None) -> pa.Table:
    rows = [
        {
            "id": info.id,
            "parent_id": info.parent_id,
            "written_at": info.written_at,
            "message": info.message,
            "metadata": json.dumps(info.metadata, ensure_ascii=False, default=str),
        }
        for info in pinned.repository.ancestry(snapshot_id=pinned.snapshot_id)
    ]
    return pa.Table.from_pylist(rows, _SNAPSHOTS)


def _nodes(pinned: PinnedRepository, _: str | None) -> pa.Table:
    nodes = pinned.repository.inspect_snapshot(pinned.snapshot_id)["nodes"]
    return pa.Table.from_pylist([_node_row(node) for node in nodes], _NODES)


def _node_row(node: dict[str, Any]) -> dict[str, Any]:
    row = {name: node[name] for name in ("path", "id", "node_type")}
    if node["node_type"] != "array":
        return row
    sizes = node["shape"]
    return row | {
        "shape": [size["array_length"] for size in sizes],
        "num_chunks": [size["num_chunks"] for size in sizes],
        "dimension_names": [size.get("name") for size in sizes],
        "manifests": len(node["manifest_refs"]),
    }


def _manifests(pinned: PinnedRepository, _: str | None) -> pa.Table:
    found = pinned.repository.list_manifests(snapshot_id=pinned.snapshot_id)
    rows = [{name: getattr(one, name) for name in _MANIFESTS.names} for one in found]
    return pa.Table.from_pylist(rows, _MANIFESTS)


def _sources(pinned: PinnedRepository, _: str | None) -> pa.Table:
    return pinned.repository.dependencies(snapshot_id=pinned.snapshot_id).table


def _array_paths(pinned: PinnedRepository) -> list[str]:
    nodes = pinned.repository.inspect_snapshot(pinned.snapshot_id)["nodes"]
    return [node["path"] for node in nodes if node.get("manifest_refs")]


def _refs(pinned: PinnedRepository, array_path: str | None) -> pa.Table:
    if array_path is None:
        return _REFS.empty_table()
    table = pinned.session.reference_table(array_path)
    rows = len(table)
    kinds = pa.array([kind.name for kind in ChunkType])
    return pa.Table.from_arrays(
        [
            pa.repeat(array_path, rows),
            _indexes(table),
            kinds.take(pa.array(table.kind)),
            table.location_column(),
            pa.array(table.byte_offset),
            _lengths(table),
            table.etag_column(),
            _moments(table),
            _chunk_ids(table),
        ],
        names=_REFS.names,
    )


def _indexes(table: ChunkTable) -> pa.Array:
    ends = np.arange(len(table) + 1, dtype=np.int32) * table.rank
    return pa.ListArray.from_arrays(ends, table.index.astype(np.int64).reshape(-1))


def _moments(table: ChunkTable) -> pa.Array:
    if table.last_modified is None:
        return pa.nulls(len(table), _TIME)
    seconds = table.last_modified.astype(np.int64)
    return pa.array(seconds * 1_000_000, mask=seconds == 0).view(_TIME)


def _chunk_ids(table: ChunkTable) -> pa.Array:
    if table.chunk_id is None:
        return pa.nulls(len(table), pa.string())
    texts = pa.array(id_texts(np.ascontiguousarray(table.chunk_id)), pa.string())
    return pc.if_else(pa.array(table.kind == ChunkType.native), texts, pa.scalar(None, pa.string()))


def _lengths(table: ChunkTable) -> pa.Array:
    """Return how many bytes each chunk has; those in the manifest have no length of their own."""
    if table.inline is None:
        return pa.array(table.length)
    inside = pc.fill_null(pc.binary_length(table.inline).cast(pa.uint64()), 0)
    return pc.if_else(pa.array(table.kind == ChunkType.inline), inside, pa.array(table.length))


_TABLES = {
    "refs": MetadataTable(_REFS, _refs, _array_paths),
    "sources": MetadataTable(_SOURCES, _sources),
    "manifests": MetadataTable(_MANIFESTS, _manifests),
    "snapshots": MetadataTable(_SNAPSHOTS, _snapshots),
    "nodes": MetadataTable(_NODES, _nodes),
}
