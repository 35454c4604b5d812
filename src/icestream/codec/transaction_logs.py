"""Transaction log files: encode and decode, chunk coordinates as matrices."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from icestream.codec.column_writing import (
    IDENTIFIER,
    FrameWriter,
    VectorPlan,
    encode_vtable,
    plan_vectors,
    write_uoffsets,
    write_vectors,
)
from icestream.codec.columns import BLOCK_ROWS, FlatColumns, Int64, Positions, Tables, root_table
from icestream.codec.header import FileType, decode_body, encode_header
from icestream.codec.index_columns import IndexColumn
from icestream.codec.text_columns import as_texts
from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.changed_indexes import ChangedIndexes, merged
from icestream.model.chunk_tables import UInt32, is_strictly_ascending, lexicographic_order
from icestream.model.ids import NODE_ID_SIZE, OBJECT_ID_SIZE, NodeId, SnapshotId, id_text
from icestream.model.transaction_logs import Move, TransactionLog

# spec, TransactionLog: slots 1 to 6; arrays come before groups among the updated nodes
_ID_LISTS = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_arrays",
    "updated_groups",
)
_CHUNKS_SLOT = 7
_MOVES_SLOT = 8
_ROOT_AT = 32
_ROOT_BYTES = 48
_RECORD_WORDS = 5
"""Of a chunk before its coordinates: vtable (two), its distance, that of the coordinates, rank."""
_SMALL_SECTION_ROWS = 64
"""An array with so few chunks is copied from a template: calls cost more than bytes there."""
_ARRAY_RECORD_BYTES = 24
_MOVE_SLOTS = 4
_MOVE_RECORD = np.dtype(
    {
        "names": ["vtable", "soffset", "from", "to", "node_id", "node_type"],
        "formats": ["V12", "<i4", "<u4", "<u4", "V8", "u1"],
        "offsets": [0, 12, 16, 20, 24, 32],
        "itemsize": 36,
    }
)


# -- encoding -----------------------------------------------------------------------------


ChunkParts = Mapping[NodeId, Sequence[ChangedIndexes]]
"""Chunks that were changed, array by array, in parts that have none in common."""


def encode_transaction_log(
    log: TransactionLog,
    *,
    spec: int,
    level: int = 1,
    parts: ChunkParts = MappingProxyType({}),
) -> bytes:
    """Return the file of a transaction log.

    Args:
        log: What was changed.
        spec: The version of the format.
        level: How hard to compress.
        parts: Chunks of arrays that have none in the log: decoded bit by bit, never all at once.

    Raises:
        InvalidInputError: The log has moves, which spec 1 cannot express, or is too large.
    """
    if spec == 1 and log.moved_nodes:
        raise InvalidInputError(
            "spec 1 cannot record moved nodes; upgrade the repository to spec 2",
            kind=ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION,
        )
    chunks = {node_id: _Chunks.of(index) for node_id, index in log.updated_chunks.items()}
    chunks |= {node_id: _Chunks.of_parts(some) for node_id, some in parts.items() if any(some)}
    plan = _plan_log(log, chunks, spec)
    writer = FrameWriter(encode_header(FileType.TRANSACTION_LOG, spec), plan.size, level)
    _write_head(writer, log, plan)
    for section in plan.sections:
        _write_section(writer, section)
    if plan.moves is not None:
        _write_moves(writer, _ordered_moves(log), plan.moves)
    return writer.finish()


def logged_chunk_bytes(rank: int) -> int:
    """Return what one changed chunk takes in the flatbuffer of a log."""
    return 4 * (1 + _RECORD_WORDS + rank)


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The changed chunks of one array."""

    rows: int
    rank: int
    blocks: Iterable[UInt32]
    """All together the sorted index; iterated once."""

    @classmethod
    def of(cls, index: UInt32) -> "_Chunks":
        rows, rank = map(int, index.shape)
        return cls(rows, rank, [index])

    @classmethod
    def of_parts(cls, parts: Sequence[ChangedIndexes]) -> "_Chunks":
        return cls(sum(map(len, parts)), parts[0].rank, merged(parts))


@dataclass(frozen=True, slots=True)
class _Section:
    """Where the coordinates of one array go."""

    node_id: NodeId
    chunks: _Chunks
    list_at: int

    @property
    def records_at(self) -> int:
        return self.list_at + 4 + 4 * self.chunks.rows

    @property
    def end(self) -> int:
        return self.records_at + 4 * (_RECORD_WORDS + self.chunks.rank) * self.chunks.rows


@dataclass(frozen=True, slots=True)
class _MovesPlan:
    at: int
    paths: VectorPlan
    """The old paths of all moves, then the new ones."""
    path_starts: Int64

    @property
    def records_at(self) -> int:
        return self.at + 4 + 4 * (len(self.paths.values) // 2)

    @property
    def paths_at(self) -> int:
        return self.records_at + _MOVE_RECORD.itemsize * (len(self.paths.values) // 2)

    @property
    def end(self) -> int:
        return self.paths_at + self.paths.size


@dataclass(frozen=True, slots=True)
class _LogPlan:
    lists_at: list[int]
    """Position of each list of node ids."""
    chunks_at: int
    sections: list[_Section]
    moves: _MovesPlan | None
    size: int


def _plan_log(log: TransactionLog, chunks: Mapping[NodeId, _Chunks], spec: int) -> _LogPlan:
    lists_at, end = [], _ROOT_AT + _ROOT_BYTES
    for name in _ID_LISTS:
        lists_at.append(end)
        end += 4 + NODE_ID_SIZE * len(getattr(log, name))
    chunks_at = end
    end += 4 + (4 + _ARRAY_RECORD_BYTES) * len(chunks)
    sections = []
    for node_id in sorted(chunks):
        section = _Section(node_id, chunks[node_id], end)
        sections.append(section)
        end = section.end
    moves = None
    if spec > 1:
        ordered = _ordered_moves(log)
        paths = [m.from_path for m in ordered] + [m.to_path for m in ordered]
        column = pa.chunked_array([pa.array(paths, pa.large_string())])
        moves = _MovesPlan(end, *plan_vectors(column, terminated=True))
        end = moves.end
    return _LogPlan(lists_at, chunks_at, sections, moves, end)


def _write_head(writer: FrameWriter, log: TransactionLog, plan: _LogPlan) -> None:
    """Write the root table, the lists of node ids and the list of arrays."""
    targets = [*plan.lists_at, plan.chunks_at]
    if plan.moves is not None:
        targets.append(plan.moves.at)
    fields_at = [_ROOT_AT + 16 + 4 * i for i in range(len(targets))]
    offsets = [to - at for to, at in zip(targets, fields_at, strict=True)]
    vtable = encode_vtable([4, *(at - _ROOT_AT for at in fields_at)], _ROOT_BYTES)
    writer.write(struct.pack("<I4s", _ROOT_AT, IDENTIFIER) + vtable)
    writer.pad_to(_ROOT_AT)
    writer.write(struct.pack("<i12s", _ROOT_AT - 8, log.id))
    writer.write(np.array(offsets, "<u4"))
    writer.pad_to(_ROOT_AT + _ROOT_BYTES)
    for name in _ID_LISTS:
        node_ids = sorted(getattr(log, name))
        writer.write(struct.pack("<I", len(node_ids)) + b"".join(node_ids))
    _write_arrays(writer, plan)


def _write_arrays(writer: FrameWriter, plan: _LogPlan) -> None:
    """Write the list of arrays that have updated chunks; a vtable stands before each table."""
    vtable = encode_vtable((4, 12), 16)
    first = writer.position + 4 + 4 * len(plan.sections) + len(vtable)
    write_uoffsets(writer, first, _ARRAY_RECORD_BYTES, len(plan.sections))
    for section in plan.sections:
        table_at = writer.position + len(vtable)
        to_list = section.list_at - (table_at + 12)
        writer.write(vtable + struct.pack("<i8sI", len(vtable), section.node_id, to_list))


def _write_section(writer: FrameWriter, section: _Section) -> None:
    rows, rank = section.chunks.rows, section.chunks.rank
    if rows <= _SMALL_SECTION_ROWS:
        words = _section_template(rows, rank).copy()
        coordinates = words[1 + rows :].reshape(rows, _RECORD_WORDS + rank)[:, _RECORD_WORDS:]
        np.concatenate(list(section.chunks.blocks), out=coordinates)
        writer.write(words.view(np.uint8))
        return
    record_bytes = 4 * (_RECORD_WORDS + rank)
    write_uoffsets(writer, section.records_at + 8, record_bytes, rows)
    records = _record_templates(min(BLOCK_ROWS, rows), rank)
    for index in _in_blocks(section.chunks.blocks):
        block = records[: len(index)]
        block[:, _RECORD_WORDS:] = index
        writer.write(block.reshape(-1).view(np.uint8))


def _in_blocks(parts: Iterable[UInt32]) -> Iterator[UInt32]:
    for part in parts:
        for start in range(0, len(part), BLOCK_ROWS):
            yield part[start : start + BLOCK_ROWS]


def _record_templates(rows: int, rank: int) -> UInt32:
    """Return vtable, table and coordinates of chunks, with the coordinates left open."""
    vtable = np.frombuffer(encode_vtable((4,), 8).ljust(8, b"\0"), "<u4")
    records = np.zeros((rows, _RECORD_WORDS + rank), "<u4")
    records[:, :_RECORD_WORDS] = [*vtable, 8, 4, rank]
    return records


@lru_cache(maxsize=256)
def _section_template(rows: int, rank: int) -> UInt32:
    """Return the list of an array's chunks and their records: offsets are relative."""
    numbers = np.arange(rows, dtype=np.int64)
    offsets = 4 * (rows - numbers) + 8 + 4 * (_RECORD_WORDS + rank) * numbers
    return np.concatenate(
        [[rows], offsets, _record_templates(rows, rank).reshape(-1)], dtype="<u4", casting="unsafe"
    )


def _ordered_moves(log: TransactionLog) -> list[Move]:
    """Return the moves by target, compared name by name, as the spec wants them."""
    return sorted(log.moved_nodes, key=lambda move: move.to_path.split("/"))


def _write_moves(writer: FrameWriter, moves: list[Move], plan: _MovesPlan) -> None:
    n, stride = len(moves), _MOVE_RECORD.itemsize
    write_uoffsets(writer, plan.records_at + 12, stride, n)
    records = np.zeros(n, _MOVE_RECORD)
    records["vtable"] = np.void(encode_vtable((4, 8, 12, 20), 24))
    records["soffset"] = 12
    at = plan.records_at + stride * np.arange(n)
    paths = plan.paths_at + plan.path_starts
    records["from"] = paths[:n] - (at + 16)
    records["to"] = paths[n:] - (at + 20)
    records["node_id"] = np.frombuffer(b"".join(move.node_id for move in moves), "V8")
    # spec, MoveOperation: 0 = group, 1 = array
    records["node_type"] = [move.is_array for move in moves]
    writer.write(records.view(np.uint8))
    write_vectors(writer, plan.paths)


# -- decoding -----------------------------------------------------------------------------


def decode_transaction_log(
    data: bytes, *, name: str, expected_id: SnapshotId | None = None
) -> TransactionLog:
    """Return the transaction log in a file.

    Args:
        data: The whole file.
        name: What to call the file in errors.
        expected_id: The id of the snapshot that the log must be about.

    Raises:
        FormatError: The file is damaged, or not a transaction log of a known spec version.
    """
    _spec, body = decode_body(data, FileType.TRANSACTION_LOG, name=name)
    flat = FlatColumns(body, name)
    root = root_table(flat, _MOVES_SLOT + 1)
    log_id = SnapshotId(flat.gather_bytes(root.require(0, "id"), OBJECT_ID_SIZE).tobytes())
    if expected_id is not None and log_id != expected_id:
        raise flat.wrong(f"carries the id {id_text(log_id)}, expected {id_text(expected_id)}")
    id_lists = {
        list_name: _decode_ids(flat, root.require(slot, list_name))
        for slot, list_name in enumerate(_ID_LISTS, start=1)
    }
    return TransactionLog(
        id=log_id,
        **id_lists,
        updated_chunks=_decode_chunks(flat, root.require(_CHUNKS_SLOT, "updated_chunks")),
        moved_nodes=tuple(_decode_moves(flat, root)),
    )


def _decode_ids(flat: FlatColumns, at: Positions) -> frozenset[NodeId]:
    first, count = flat.vector(at, NODE_ID_SIZE)
    flat.charge(count * NODE_ID_SIZE)
    if not count:
        return frozenset()
    ids = flat.gather_bytes(Positions(count, first, NODE_ID_SIZE), NODE_ID_SIZE)
    return frozenset(NodeId(node_id.tobytes()) for node_id in ids)


def _decode_chunks(flat: FlatColumns, at: Positions) -> dict[NodeId, UInt32]:
    chunks: dict[NodeId, UInt32] = {}
    for _, tables in flat.table_vector(at, 2):
        node_ids = flat.gather_bytes(tables.require(0, "node_id"), NODE_ID_SIZE)
        lists = tables.require(1, "chunks").as_array()
        for row, list_at in enumerate(lists.tolist()):
            node_id = NodeId(node_ids[row].tobytes())
            if node_id in chunks:
                raise flat.wrong(f"lists the array {id_text(node_id)} twice")
            chunks[node_id] = _decode_index(flat, Positions(1, list_at))
    return chunks


def _decode_index(flat: FlatColumns, at: Positions) -> UInt32:
    _, count = flat.vector(at, 4)
    column = IndexColumn(flat, count)
    for rows, tables in flat.table_vector(at, 1):
        column.add(rows, flat.follow(tables.require(0, "coords")))
    index = column.finish()
    if is_strictly_ascending(index):
        return index
    order = lexicographic_order(index)
    index = index if order is None else index[order]
    is_new = np.append(True, (index[1:] != index[:-1]).any(axis=1))
    return index.compress(is_new, axis=0)


def _decode_moves(flat: FlatColumns, root: Tables) -> Iterable[Move]:
    moves = root.find(_MOVES_SLOT)
    if moves is None:
        return
    for _, tables in flat.table_vector(moves.positions, _MOVE_SLOTS):
        node_ids = flat.gather_bytes(tables.require(2, "node_id"), NODE_ID_SIZE)
        sources = _decode_texts(flat, tables.require(0, "from"))
        targets = _decode_texts(flat, tables.require(1, "to"))
        node_types = np.zeros(len(node_ids), np.uint8)
        node_type = tables.find(3)
        if node_type is not None:
            node_types[node_type.rows] = flat.gather(node_type.positions, "u1")
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            is_array = bool(node_types[row])
            yield Move(source, target, NodeId(node_ids[row].tobytes()), is_array)


def _decode_texts(flat: FlatColumns, at: Positions) -> list[str]:
    texts: list[str] = as_texts(flat, flat.view_vectors(flat.follow(at))).to_pylist()
    return texts
