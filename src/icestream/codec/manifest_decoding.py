"""Manifest files to columns, whoever wrote them."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.codec.columns import Field, FlatColumns, Int64, Positions, Tables, root_table
from icestream.codec.header import FileType, decode_body
from icestream.codec.index_columns import IndexColumn
from icestream.codec.location_dictionary import LocationExpander
from icestream.codec.text_columns import TextColumn
from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_stacks import (
    SMALL_TABLE_ROWS,
    ChunkStack,
    StackedTable,
    StackedTables,
)
from icestream.model.chunk_tables import (
    ChunkTable,
    UInt8,
    UInt32,
    UInt64,
    is_strictly_ascending,
    lexicographic_order,
    replace_columns,
)
from icestream.model.ids import NODE_ID_SIZE, OBJECT_ID_SIZE, ManifestId, NodeId, id_text
from icestream.model.manifests import Manifest

_MANIFEST_SLOTS = 4
_ARRAY_SLOTS = 2
_REF_SLOTS = 9
_ROW_BYTES = 41
_ZSTD_DICTIONARY = 1
_NO_REFERENCES = ChunkTable.empty(0)


def decode_manifest(data: bytes, *, name: str, expected_id: ManifestId | None = None) -> Manifest:
    """Return the references in a manifest file.

    Args:
        data: The whole file.
        name: What to call the file in errors.
        expected_id: The id that the file must carry.

    Raises:
        FormatError: The file is damaged, or not a manifest of a known spec version.
    """
    _spec, body = decode_body(data, FileType.MANIFEST, name=name)
    flat = FlatColumns(body, name)
    root = root_table(flat, _MANIFEST_SLOTS)
    manifest_id = ManifestId(flat.gather_bytes(root.require(0, "id"), OBJECT_ID_SIZE).tobytes())
    if expected_id is not None and manifest_id != expected_id:
        raise flat.wrong(f"carries the id {id_text(manifest_id)}, expected {id_text(expected_id)}")
    expander = LocationExpander(flat, _location_dictionary(flat, root))
    node_ids, refs = _list_arrays(flat, root)
    tables = _decode_arrays(flat, refs, expander) if node_ids else []
    return Manifest(manifest_id, StackedTables(dict(zip(node_ids, tables, strict=True))))


def _list_arrays(flat: FlatColumns, root: Tables) -> tuple[list[NodeId], Positions]:
    """Return the ids of all arrays, and where each keeps the offset to its references."""
    node_ids: list[NodeId] = []
    refs = [np.empty(0, np.int64)]
    for _, tables in flat.table_vector(root.require(1, "arrays"), _ARRAY_SLOTS):
        ids = flat.gather_bytes(tables.require(0, "node_id"), NODE_ID_SIZE)
        node_ids += np.ascontiguousarray(ids).view(f"V{NODE_ID_SIZE}")[:, 0].tolist()
        refs.append(tables.require(1, "refs").as_array())
    if len(set(node_ids)) < len(node_ids):
        node_id, _ = Counter(node_ids).most_common(1)[0]
        raise flat.wrong(f"lists the array {id_text(node_id)} twice")
    return node_ids, Positions.of(np.concatenate(refs))


def _location_dictionary(flat: FlatColumns, root: Tables) -> bytes | None:
    """Return the dictionary that compressed locations need, None when there is none."""
    algorithm = root.find(3)
    if algorithm is not None and int(flat.gather(algorithm.positions, "u1")[0]) != _ZSTD_DICTIONARY:
        return None
    dictionary = root.find(2)
    if dictionary is None:
        return None
    first, size = flat.vector(dictionary.positions, 1)
    return flat.gather_bytes(Positions(1, first), size).tobytes()


def _decode_arrays(
    flat: FlatColumns, refs: Positions, expander: LocationExpander
) -> list[ChunkTable | StackedTable]:
    """Return the references of each array: many small ones are decoded together."""
    first, counts = flat.vectors(refs, 4)
    flat.charge(int(counts.sum()) * _ROW_BYTES)
    decoded: list[ChunkTable | StackedTable] = [_NO_REFERENCES] * len(counts)
    is_small = counts < (SMALL_TABLE_ROWS if len(counts) > 1 else 1)
    for i in np.flatnonzero(~is_small).tolist():
        offsets = Positions(int(counts[i]), int(first[i]), 4)
        decoded[i] = _sorted(flat, _decode_rows(flat, offsets, expander))
    small = np.flatnonzero(is_small & (counts > 0))
    if not len(small):
        return decoded
    ranks = _ranks(flat, first[small])
    for rank in np.unique(ranks):
        chosen = small[ranks == rank]
        stack = _decode_stack(flat, first[chosen], counts[chosen], expander)
        for number, i in enumerate(chosen.tolist()):
            decoded[i] = StackedTable(stack, number)
    return decoded


def _ranks(flat: FlatColumns, offsets: Int64) -> UInt32:
    """Return the rank of the references that these offsets point at."""
    tables = Tables(flat, Positions.of(flat.follow(Positions.of(offsets)).as_array()), 1)
    return flat.gather(flat.follow(tables.require(0, "index")), "<u4")


def _decode_stack(
    flat: FlatColumns, first: Int64, counts: Int64, expander: LocationExpander
) -> ChunkStack:
    """Decode arrays of one rank whose lists of references start at these positions."""
    n = int(counts.sum())
    before = np.cumsum(counts) - counts
    offsets = np.repeat(first - 4 * before, counts) + 4 * np.arange(n)
    rows = _decode_rows(flat, Positions(n, listed=offsets), expander, arrays=len(counts))
    numbers = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
    rows = replace_columns(rows, index=np.column_stack([numbers, rows.index]))
    return ChunkStack.of(_sorted(flat, rows), counts)


def _decode_rows(
    flat: FlatColumns, offsets: Positions, expander: LocationExpander, arrays: int = 1
) -> ChunkTable:
    """Return the references that these offsets point at."""
    columns = _Columns(flat, offsets.count, arrays, expander)
    for rows, tables in flat.linked_tables(offsets, _REF_SLOTS):
        columns.add(rows, tables)
    return columns.finish()


def _sorted(flat: FlatColumns, table: ChunkTable) -> ChunkTable:
    """Return the rows in order: what a writer left unsorted is not lost."""
    if is_strictly_ascending(table.index):
        return table
    order = lexicographic_order(table.index)
    table = table if order is None else table.take(order)
    if not is_strictly_ascending(table.index):
        raise flat.wrong("has two references for one chunk")
    return table


class _Columns:
    """The columns of some arrays while their references are being read, block by block."""

    def __init__(
        self, flat: FlatColumns, count: int, arrays: int, expander: LocationExpander
    ) -> None:
        self._flat = flat
        self._expander = expander
        self._count = count
        self._index = IndexColumn(flat, count, arrays)
        self._kind = np.zeros(count, np.uint8)
        self._byte_offset: UInt64 = np.zeros(count, np.uint64)
        self._length: UInt64 = np.zeros(count, np.uint64)
        self._last_modified: UInt32 | None = None
        self._chunk_id: UInt8 | None = None
        self._locations = TextColumn(flat, count)
        self._etags = TextColumn(flat, count)
        self._inline: list[pa.Array] = []

    def add(self, rows: slice, tables: Tables) -> None:
        """Read one block of rows."""
        self._index.add(rows, self._flat.follow(tables.require(0, "index")))
        kind = self._add_kinds(rows, tables)
        is_virtual = kind == ChunkType.virtual
        is_inline = kind == ChunkType.inline
        self._add_numbers(self._byte_offset[rows], tables.find(2), "<u8", ~is_inline)
        self._add_numbers(self._length[rows], tables.find(3), "<u8", ~is_inline)
        self._add_ids(rows, tables)
        self._add_inline(rows, tables, is_inline)
        if is_virtual.any():
            self._add_virtual(rows, tables, is_virtual)

    def finish(self) -> ChunkTable:
        """Return what was read."""
        location_code, locations = self._locations.finish()
        etag_code, etags = self._etags.finish()
        return ChunkTable(
            index=self._index.finish(),
            kind=self._kind,
            byte_offset=self._byte_offset,
            length=self._length,
            location_code=location_code,
            locations=locations,
            etag_code=etag_code,
            etags=etags,
            last_modified=self._last_modified,
            chunk_id=self._chunk_id,
            inline=self._finish_inline(),
        )

    def _add_kinds(self, rows: slice, tables: Tables) -> UInt8:
        """Tell references apart by the fields they have; the spec tests them in this order."""
        kind = self._kind[rows]
        for slot, chunk_type in (
            (1, ChunkType.inline),
            (5, ChunkType.virtual),
            (8, ChunkType.virtual),
            (4, ChunkType.native),
        ):
            field = tables.find(slot)
            if field is not None:
                kind[field.rows] = chunk_type
        if not kind.all():
            raise self._flat.wrong("has a reference that is neither inline, native nor virtual")
        return kind

    def _add_numbers(
        self,
        column: npt.NDArray[np.uint64] | npt.NDArray[np.uint32],
        field: Field | None,
        dtype: str,
        applies: npt.NDArray[np.bool_],
    ) -> None:
        if field is None:
            return
        column[field.rows] = self._flat.gather(field.positions, dtype)
        if not applies.all():
            column[~applies] = 0

    def _add_ids(self, rows: slice, tables: Tables) -> None:
        field = tables.find(4)
        if field is None:
            return
        if self._chunk_id is None:
            self._chunk_id = np.zeros((self._count, OBJECT_ID_SIZE), np.uint8)
        ids = self._flat.gather_bytes(field.positions, OBJECT_ID_SIZE)
        self._chunk_id[rows][field.rows] = ids

    def _add_inline(self, rows: slice, tables: Tables, applies: npt.NDArray[np.bool_]) -> None:
        n = len(applies)
        field = tables.find(1)
        if field is None or not applies.any():
            return
        chosen, positions = _restrict(field, applies)
        views = self._flat.view_vectors(self._flat.follow(positions)).cast(pa.large_binary())
        before = rows.start - sum(len(part) for part in self._inline)
        if before:
            self._inline.append(pa.nulls(before, pa.large_binary()))
        if len(chosen) == n:
            self._inline.append(views)
            return
        places = np.full(n, -1, np.int64)
        places[chosen] = np.arange(len(chosen))
        self._inline.append(views.take(pa.array(places, mask=places < 0)))

    def _finish_inline(self) -> pa.LargeBinaryArray | None:
        if not self._inline:
            return None
        missing = self._count - sum(len(part) for part in self._inline)
        return pa.concat_arrays([*self._inline, pa.nulls(missing, pa.large_binary())])

    def _add_virtual(self, rows: slice, tables: Tables, is_virtual: npt.NDArray[np.bool_]) -> None:
        modified = tables.find(7)
        if modified is not None:
            if self._last_modified is None:
                self._last_modified = np.zeros(self._count, np.uint32)
            self._add_numbers(self._last_modified[rows], modified, "<u4", is_virtual)
        self._add_texts(self._etags, rows, tables.find(6), is_virtual)
        compressed = tables.find(8)
        is_plain = is_virtual
        if compressed is not None:
            is_plain = is_virtual.copy()
            is_plain[compressed.rows] = False
            self._add_texts(
                self._locations, rows, compressed, is_virtual, expand=self._expander.expand
            )
        self._add_texts(self._locations, rows, tables.find(5), is_plain)

    def _add_texts(
        self,
        column: TextColumn,
        rows: slice,
        field: Field | None,
        applies: npt.NDArray[np.bool_],
        *,
        expand: Callable[[pa.Array], pa.Array] | None = None,
    ) -> None:
        if field is None:
            return
        chosen, positions = _restrict(field, applies)
        if len(chosen):
            column.add(rows.start + chosen, self._flat.follow(positions), expand)


def _restrict(field: Field, applies: npt.NDArray[np.bool_]) -> tuple[Int64, Positions]:
    """Return the rows of a field that apply, and where they keep it."""
    rows = np.arange(len(applies))[field.rows]
    keep = applies[field.rows]
    if keep.all():
        return rows, field.positions
    return rows[keep], field.positions.select(np.flatnonzero(keep))
