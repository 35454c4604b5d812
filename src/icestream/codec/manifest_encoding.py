"""Columns to manifest files, streamed: the flatbuffer never exists as a whole.

Texts and inline bytes lie behind all records, because offsets point forward and texts are shared.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from icestream.codec.column_writing import (
    IDENTIFIER,
    FrameWriter,
    VectorPlan,
    align,
    encode_vtable,
    plan_vectors,
    write_uoffsets,
    write_vectors,
)
from icestream.codec.columns import BLOCK_ROWS, Int64
from icestream.codec.header import FileType, encode_header
from icestream.codec.location_dictionary import CompressedLocations, compress_locations
from icestream.codec.manifest_lists import ListPlan
from icestream.codec.manifest_records import (
    Bools,
    RecordLayout,
    Targets,
    encode_records,
    find_forms,
    plan_records,
)
from icestream.codec.shared_texts import SharedTexts, share_texts
from icestream.errors import InvalidInputError
from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_stacks import SMALL_TABLE_ROWS
from icestream.model.chunk_tables import ChunkTable, stack
from icestream.model.ids import NODE_ID_SIZE, ManifestId, NodeId
from icestream.model.manifests import LocationCompression

MAX_APPARENT_BYTES = 2**32
"""Readers count the bytes they visit, a shared text once per reference, and stop here."""

_ROW_APPARENT_BYTES = 96
"""At most what a reference counts without its coordinates and texts: 74 and its optional fields."""

# where the parts before the references lie; see the FlatBuffers internals for their structure
_ROOT_VTABLE_AT = 8
_ARRAY_VTABLE_AT = 20
_ROOT_AT = 28
_ROOT_TABLE = "<i12sIIB3x"
_LIST_AT = _ROOT_AT + struct.calcsize(_ROOT_TABLE)
_ARRAY_TABLE = np.dtype([("soffset", "<i4"), ("node_id", f"V{NODE_ID_SIZE}"), ("refs", "<u4")])
_ARRAY_BYTES = _ARRAY_TABLE.itemsize


def encode_manifest(
    manifest_id: ManifestId,
    arrays: Mapping[NodeId, ChunkTable],
    *,
    spec: int,
    level: int = 1,
    locations: LocationCompression | None = None,
) -> bytes:
    """Return the manifest file that holds the references of these arrays.

    Args:
        manifest_id: The id that the file is stored under.
        arrays: Node id to references; none of them a deletion.
        spec: Version of the format, 1 or 2.
        level: zstd level of the file.
        locations: Compress virtual locations with a dictionary, where that pays; spec 2 only.

    Raises:
        InvalidInputError: The references do not fit in one file that readers accept.
    """
    ordered = dict(sorted(arrays.items()))
    plan = _plan_manifest(list(ordered.values()), locations if spec > 1 else None)
    writer = FrameWriter(encode_header(FileType.MANIFEST, spec), plan.heap.end, level)
    writer.write(_encode_head(manifest_id, list(ordered), plan, spec))
    for section in plan.sections:
        _write_section(writer, section)
    for at, vectors in plan.heap.parts:
        writer.pad_to(at)
        write_vectors(writer, vectors)
    return writer.finish()


@dataclass(slots=True)
class _Heap:
    """The byte vectors and strings behind the records."""

    end: int
    parts: list[tuple[int, VectorPlan]] = field(default_factory=list)

    def add(self, values: pa.ChunkedArray, *, terminated: bool) -> Int64:
        """Append values and return the position of each."""
        if not len(values):
            return np.empty(0, np.int64)
        vectors, positions = plan_vectors(values, terminated=terminated)
        at = align(self.end, 4)
        self.parts.append((at, vectors))
        self.end = at + vectors.size
        positions += at
        return positions


@dataclass(frozen=True, slots=True)
class _Group:
    """Arrays whose references are written together."""

    arrays: list[int]
    """Their numbers in the manifest."""
    counts: Int64
    """How many references each of them has."""
    table: ChunkTable
    """The references of all of them, below each other."""


@dataclass(frozen=True, slots=True)
class _Section:
    """Where the references of a group go, and what they point at."""

    group: _Group
    at: int
    lists: ListPlan
    layout: RecordLayout | None
    """None for arrays without references."""
    targets: Targets


@dataclass(frozen=True, slots=True)
class _Plan:
    sections: list[_Section]
    heap: _Heap
    dictionary_at: int | None


def _group_tables(tables: list[ChunkTable]) -> list[_Group]:
    """Put small tables together that have the same columns, as many as make a block of rows."""
    groups: list[list[int]] = []
    open_groups: dict[tuple[int, ...], tuple[list[int], int]] = {}
    for i, table in enumerate(tables):
        key = _columns_of(table) if len(table) < SMALL_TABLE_ROWS else (i,)
        arrays, rows = open_groups.get(key, ([], BLOCK_ROWS + 1))
        rows += len(table)
        if rows > BLOCK_ROWS:
            arrays, rows = [], len(table)
            groups.append(arrays)
        arrays.append(i)
        open_groups[key] = arrays, rows
    return [_group([tables[i] for i in arrays], arrays) for arrays in groups]


def _group(tables: list[ChunkTable], arrays: list[int]) -> _Group:
    counts = np.array([len(table) for table in tables], np.int64)
    return _Group(arrays, counts, stack(tables) if counts[0] else tables[0])


def _columns_of(table: ChunkTable) -> tuple[int, ...]:
    """Return the rank and which columns there are; nothing for a table without rows."""
    if not len(table):
        return ()
    return (
        table.index.shape[1],
        table.location_code is None,
        table.etag_code is None,
        table.last_modified is None,
        table.chunk_id is None,
        table.inline is None,
    )


def _plan_manifest(tables: list[ChunkTable], compression: LocationCompression | None) -> _Plan:
    groups = _group_tables(tables)
    locations = share_texts([(g.table.location_code, g.table.locations) for g in groups])
    etags = share_texts([(g.table.etag_code, g.table.etags) for g in groups])
    _check_apparent_size(groups, locations.row_bytes + etags.row_bytes)
    compressed = compress_locations(locations.texts, compression)
    masks = [_compressed_entries(locations, compressed, i) for i in range(len(groups))]
    layouts = [_plan_layout(group.table, mask) for group, mask in zip(groups, masks, strict=True)]
    places, end = _place_sections(groups, layouts, _LIST_AT + 4 + (4 + _ARRAY_BYTES) * len(tables))
    heap = _Heap(end)
    dictionary_at = _add_dictionary(heap, compressed)
    location_at = _add_locations(heap, locations.texts, compressed)
    etag_at = heap.add(etags.texts, terminated=True)
    sections = [
        _Section(
            group,
            *places[i],
            layouts[i],
            Targets(
                locations.by_entry(i, location_at),
                masks[i],
                etags.by_entry(i, etag_at),
                _add_inline(heap, group.table),
            ),
        )
        for i, group in enumerate(groups)
    ]
    return _Plan(sections, heap, dictionary_at)


def _check_apparent_size(groups: list[_Group], text_bytes: int) -> None:
    tables = [group.table for group in groups]
    rows = sum(len(table) * (_ROW_APPARENT_BYTES + 4 * table.rank) for table in tables)
    if rows + text_bytes > MAX_APPARENT_BYTES:
        raise InvalidInputError(
            f"the manifest's references and their texts would count as {rows + text_bytes} bytes, "
            f"readers take {MAX_APPARENT_BYTES}; split it into several manifests"
        )


def _compressed_entries(
    locations: SharedTexts, compressed: CompressedLocations | None, column: int
) -> Bools | None:
    """Tell which entries of an array's location pool are compressed; unused ones count as such."""
    if compressed is None:
        return None
    entries = locations.entries[column]
    by_entry: Bools = locations.by_entry(column, compressed.is_compressed)
    return by_entry if entries is None else by_entry | (entries < 0)


def _plan_layout(table: ChunkTable, is_compressed: Bools | None) -> RecordLayout | None:
    return plan_records(table, find_forms(table, is_compressed)) if len(table) else None


def _place_sections(
    groups: list[_Group], layouts: list[RecordLayout | None], end: int
) -> tuple[list[tuple[int, ListPlan]], int]:
    """Return where the lists and records of each group start and how they lie, and the end."""
    places = []
    for group, layout in zip(groups, layouts, strict=True):
        lists = ListPlan.of(group.counts, 0 if layout is None else layout.stride)
        at = align(end, 8)
        places.append((at, lists))
        end = at + lists.size
    return places, end


def _add_dictionary(heap: _Heap, compressed: CompressedLocations | None) -> int | None:
    if compressed is None:
        return None
    vector = pa.chunked_array([pa.array([compressed.dictionary], pa.large_binary())])
    return int(heap.add(vector, terminated=False)[0])


def _add_locations(
    heap: _Heap, texts: pa.ChunkedArray, compressed: CompressedLocations | None
) -> Int64:
    """Append the locations, as strings or compressed, and return the position of each."""
    if compressed is None:
        return heap.add(texts, terminated=True)
    is_compressed = compressed.is_compressed
    positions = np.empty(len(texts), np.int64)
    positions[is_compressed] = heap.add(compressed.frames, terminated=False)
    positions[~is_compressed] = heap.add(texts.filter(pa.array(~is_compressed)), terminated=True)
    return positions


def _add_inline(heap: _Heap, table: ChunkTable) -> Int64:
    """Append the inline bytes of an array and return where each row's are; 0 for other rows."""
    if table.inline is None:
        return np.empty(0, np.int64)
    is_inline = table.kind == ChunkType.inline
    positions = np.zeros(len(table), np.int64)
    values = pa.chunked_array([table.inline.filter(pa.array(is_inline))])
    positions[is_inline] = heap.add(values, terminated=False)
    return positions


def _write_section(writer: FrameWriter, section: _Section) -> None:
    writer.pad_to(section.at)
    if section.layout is None:
        writer.write(bytes(section.lists.size))
        return
    group, layout = section.group, section.layout
    if len(group.arrays) == 1:
        records_at = section.at + int(section.lists.list_bytes[0])
        write_uoffsets(writer, records_at + layout.table_at, layout.stride, len(group.table))
        writer.pad_to(records_at)
        for block in encode_records(group.table, layout, section.targets, records_at):
            writer.write(block)
        return
    positions = section.at + section.lists.record_positions()
    for block in encode_records(group.table, layout, section.targets, positions):
        writer.write(section.lists.interleave(block, layout.table_at))


def _refs_positions(sections: list[_Section], num_arrays: int) -> Int64:
    """Return the position of each array's list of references."""
    positions = np.empty(num_arrays, np.int64)
    for section in sections:
        positions[section.group.arrays] = section.at + section.lists.starts
    return positions


def _encode_head(manifest_id: ManifestId, node_ids: list[NodeId], plan: _Plan, spec: int) -> bytes:
    """Return the root table and the list of arrays."""
    has_dictionary = plan.dictionary_at is not None
    # spec 1 knows neither the dictionary nor the algorithm, whose absence means "compressed"
    slots = (4, 16) if spec == 1 else (4, 16, 20 if has_dictionary else 0, 24)
    root = struct.pack(
        _ROOT_TABLE,
        _ROOT_AT - _ROOT_VTABLE_AT,
        manifest_id,
        _LIST_AT - (_ROOT_AT + 16),
        0 if plan.dictionary_at is None else plan.dictionary_at - (_ROOT_AT + 20),
        has_dictionary,
    )
    return b"".join(
        (
            struct.pack("<I4s", _ROOT_AT, IDENTIFIER),
            encode_vtable(slots, len(root)).ljust(_ARRAY_VTABLE_AT - _ROOT_VTABLE_AT, b"\0"),
            encode_vtable((4, 12), _ARRAY_BYTES),
            root,
            _encode_list(node_ids, _refs_positions(plan.sections, len(node_ids))),
        )
    )


def _encode_list(node_ids: list[NodeId], refs_at: Int64) -> bytes:
    n = len(node_ids)
    rows = np.arange(n)
    tables = np.zeros(n, _ARRAY_TABLE)
    at = _LIST_AT + 4 + 4 * n + _ARRAY_BYTES * rows
    tables["soffset"] = at - _ARRAY_VTABLE_AT
    tables["node_id"] = np.frombuffer(b"".join(node_ids), f"V{NODE_ID_SIZE}")
    tables["refs"] = refs_at - (at + 12)
    offsets = at - (_LIST_AT + 4 + 4 * rows)
    return struct.pack("<I", n) + offsets.astype("<u4").tobytes() + tables.tobytes()
