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
from icestream.codec.columns import Int64
from icestream.codec.header import FileType, encode_header
from icestream.codec.location_dictionary import CompressedLocations, compress_locations
from icestream.codec.manifest_records import (
    Bools,
    RecordLayout,
    Targets,
    find_forms,
    plan_records,
    write_records,
)
from icestream.codec.shared_texts import SharedTexts, share_texts
from icestream.errors import InvalidInputError
from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable
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
class _Section:
    """Where the references of one array go, and what they point at."""

    table: ChunkTable
    refs_at: int
    records_at: int
    layout: RecordLayout | None
    """None for an array without references."""
    targets: Targets


@dataclass(frozen=True, slots=True)
class _Plan:
    sections: list[_Section]
    heap: _Heap
    dictionary_at: int | None


def _plan_manifest(tables: list[ChunkTable], compression: LocationCompression | None) -> _Plan:
    locations = share_texts([(t.location_code, t.locations) for t in tables])
    etags = share_texts([(t.etag_code, t.etags) for t in tables])
    _check_apparent_size(tables, locations.row_bytes + etags.row_bytes)
    compressed = compress_locations(locations.texts, compression)
    masks = [_compressed_entries(locations, compressed, i) for i in range(len(tables))]
    layouts = [_plan_layout(table, mask) for table, mask in zip(tables, masks, strict=True)]
    places, end = _place_sections(tables, layouts)
    heap = _Heap(end)
    dictionary_at = _add_dictionary(heap, compressed)
    location_at = _add_locations(heap, locations.texts, compressed)
    etag_at = heap.add(etags.texts, terminated=True)
    sections = [
        _Section(
            table,
            *places[i],
            layouts[i],
            Targets(
                locations.by_entry(i, location_at),
                masks[i],
                etags.by_entry(i, etag_at),
                _add_inline(heap, table),
            ),
        )
        for i, table in enumerate(tables)
    ]
    return _Plan(sections, heap, dictionary_at)


def _check_apparent_size(tables: list[ChunkTable], text_bytes: int) -> None:
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
    tables: list[ChunkTable], layouts: list[RecordLayout | None]
) -> tuple[list[tuple[int, int]], int]:
    """Return the positions of each array's list of references and of its records, and the end."""
    places = []
    end = _LIST_AT + 4 + (4 + _ARRAY_BYTES) * len(tables)
    for table, layout in zip(tables, layouts, strict=True):
        refs_at = align(end, 4)
        records_at = align(refs_at + 4 + 4 * len(table), 8)
        places.append((refs_at, records_at))
        end = refs_at + 4 if layout is None else records_at + layout.stride * len(table)
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
    writer.pad_to(section.refs_at)
    if section.layout is None:
        writer.write(bytes(4))
        return
    first = section.records_at + section.layout.table_at
    write_uoffsets(writer, first, section.layout.stride, len(section.table))
    writer.pad_to(section.records_at)
    write_records(writer, section.table, section.layout, section.targets)


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
            _encode_list(node_ids, [section.refs_at for section in plan.sections]),
        )
    )


def _encode_list(node_ids: list[NodeId], refs_at: list[int]) -> bytes:
    n = len(node_ids)
    rows = np.arange(n)
    tables = np.zeros(n, _ARRAY_TABLE)
    at = _LIST_AT + 4 + 4 * n + _ARRAY_BYTES * rows
    tables["soffset"] = at - _ARRAY_VTABLE_AT
    tables["node_id"] = np.frombuffer(b"".join(node_ids), f"V{NODE_ID_SIZE}")
    tables["refs"] = np.array(refs_at, np.int64) - (at + 12)
    offsets = at - (_LIST_AT + 4 + 4 * rows)
    return struct.pack("<I", n) + offsets.astype("<u4").tobytes() + tables.tobytes()
