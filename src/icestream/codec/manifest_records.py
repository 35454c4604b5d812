"""Chunk references as records of fixed size: a vtable, a table and an index vector each.

The vtable is repeated in every record: the distance to it is then constant, which compresses to
less than one shared vtable would, and rows of different form can follow each other in order.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from icestream.codec.column_writing import align, encode_vtable
from icestream.codec.columns import BLOCK_ROWS, Int64
from icestream.errors import InvalidInputError
from icestream.model.chunk_refs import ChunkType
from icestream.model.chunk_tables import ChunkTable, UInt8
from icestream.model.ids import OBJECT_ID_SIZE

Bools = npt.NDArray[np.bool_]
Records = npt.NDArray[np.void]


class Form(IntEnum):
    """References that have the same fields."""

    NATIVE = 0
    INLINE = 1
    VIRTUAL = 2
    VIRTUAL_ETAG = 3
    COMPRESSED = 4
    COMPRESSED_ETAG = 5


_TARGET_SLOTS = {
    Form.INLINE: 1,
    Form.VIRTUAL: 5,
    Form.VIRTUAL_ETAG: 5,
    Form.COMPRESSED: 8,
    Form.COMPRESSED_ETAG: 8,
}
_WITH_ETAG = frozenset({Form.VIRTUAL_ETAG, Form.COMPRESSED_ETAG})
_VIRTUAL = frozenset({Form.VIRTUAL, Form.COMPRESSED}) | _WITH_ETAG

_COMPRESSED = Form.COMPRESSED - Form.VIRTUAL

_FORM_OF_KIND = np.zeros(len(ChunkType), np.uint8)
_FORM_OF_KIND[ChunkType.inline] = Form.INLINE
_FORM_OF_KIND[ChunkType.virtual] = Form.VIRTUAL

_FORMATS = {
    "soffset": "<i4",
    "index_at": "<u4",
    "target": "<u4",
    "modified": "<u4",
    "etag": "<u4",
    "chunk_id": f"V{OBJECT_ID_SIZE}",
    "byte_offset": "<u8",
    "length": "<u8",
    "rank": "<u4",
}
"""The fields of a table, in order; `target` is what a reference points at, whatever its form."""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """How the records of one array look."""

    dtype: np.dtype[np.void]
    forms: tuple[Form, ...]
    vtables: Mapping[Form, bytes]

    @property
    def stride(self) -> int:
        """Bytes from one record to the next."""
        return self.dtype.itemsize

    @property
    def table_at(self) -> int:
        """Where in the record the table starts, behind the vtable."""
        return self.offset("soffset")

    def has(self, name: str) -> bool:
        """Tell whether records have this field."""
        return name in (self.dtype.names or ())

    def offset(self, name: str) -> int:
        """Return where in the record a field is."""
        fields = self.dtype.fields
        assert fields is not None  # noqa: S101  invariant: a structured type
        return int(fields[name][1])


def plan_records(table: ChunkTable, forms: Iterable[Form]) -> RecordLayout:
    """Choose the fields of an array's records: those that at least one row needs."""
    forms = tuple(sorted(forms))
    slots = {form: _slots(form, has_modified=table.last_modified is not None) for form in forms}
    vtable_bytes = align(max(4 + 2 * (max(fields) + 1) for fields in slots.values()), 4)
    needed = {"soffset"}.union(*(fields.values() for fields in slots.values()))
    offsets, end = {"vtable": 0}, vtable_bytes
    for name in (name for name in _FORMATS if name in needed):
        size = np.dtype(_FORMATS[name]).itemsize
        offsets[name] = align(end, 8 if size == 8 else 4)  # noqa: PLR2004  aligned to its own size
        end = offsets[name] + size
    table_bytes = end - vtable_bytes
    offsets |= {"rank": end, "index": end + 4}
    end += 4 + 4 * table.rank
    formats = _FORMATS | {"vtable": f"V{vtable_bytes}", "index": f"({table.rank},)<u4"}
    dtype = np.dtype(
        {
            "names": list(offsets),
            "formats": [formats[name] for name in offsets],
            "offsets": list(offsets.values()),
            "itemsize": align(end, 8 if "length" in needed else 4),
        }
    )
    vtables = {}
    for form, fields in slots.items():
        places = [
            offsets[fields[slot]] - vtable_bytes if slot in fields else 0
            for slot in range(max(fields) + 1)
        ]
        vtables[form] = encode_vtable(places, table_bytes).ljust(vtable_bytes, b"\0")
    return RecordLayout(dtype, forms, vtables)


def _slots(form: Form, *, has_modified: bool) -> dict[int, str]:
    """Return the slots of the fields that references of this form have (spec, ChunkRef)."""
    slots = {0: "index_at"}
    if form != Form.INLINE:
        slots |= {2: "byte_offset", 3: "length"}
    if form == Form.NATIVE:
        slots[4] = "chunk_id"
    else:
        slots[_TARGET_SLOTS[form]] = "target"
    if form in _WITH_ETAG:
        slots[6] = "etag"
    if form in _VIRTUAL and has_modified:
        slots[7] = "modified"
    return slots


@dataclass(frozen=True, slots=True)
class Targets:
    """Where the things are that the references of one array point at, as file positions."""

    locations: Int64
    """By entry of the location pool."""
    is_compressed: Bools | None
    """By entry of the location pool; None when no location is compressed."""
    etags: Int64
    """By entry of the ETag pool."""
    inline: Int64
    """By row."""


def find_forms(table: ChunkTable, is_compressed: Bools | None) -> set[Form]:
    """Return every form that rows of the table may have."""
    kinds = _kinds(table.kind)
    _check_columns(table, kinds)
    forms = {Form(_FORM_OF_KIND[kind]) for kind in kinds}
    if ChunkType.virtual not in kinds:
        return forms
    if table.etag_code is not None:
        forms.add(Form.VIRTUAL_ETAG)
        if kinds == {ChunkType.virtual} and int(table.etag_code.min()) >= 0:
            forms.remove(Form.VIRTUAL)
    if is_compressed is not None:
        virtual = forms & {Form.VIRTUAL, Form.VIRTUAL_ETAG}
        forms |= {Form(form + _COMPRESSED) for form in virtual}
        if is_compressed.all():
            forms -= virtual
    return forms


def _kinds(kind: UInt8) -> set[int]:
    if not kind.strides[0]:
        return {int(kind[0])}
    return {k for k in ChunkType if (kind == k).any()}


def _check_columns(table: ChunkTable, kinds: set[int]) -> None:
    if ChunkType.uninitialized in kinds:
        raise InvalidInputError("a manifest holds no deletions; remove them from the table first")
    needed = {
        ChunkType.native: table.chunk_id,
        ChunkType.inline: table.inline,
        ChunkType.virtual: table.location_code,
    }
    for kind, column in needed.items():
        if kind in kinds and column is None:
            raise InvalidInputError(f"the table lacks the column that {kind.name} chunks need")


def encode_records(
    table: ChunkTable, layout: RecordLayout, targets: Targets, positions: int | Int64
) -> Iterator[memoryview]:
    """Yield one record per row, in blocks; a block is valid until the next is asked for.

    Args:
        table: The rows.
        layout: How their records look.
        targets: What they point at.
        positions: Where in the file each record lies, or the first, if they lie side by side.
    """
    records = np.zeros(min(BLOCK_ROWS, len(table)), layout.dtype)
    records["soffset"] = layout.table_at
    records["index_at"] = layout.offset("rank") - layout.offset("index_at")
    records["rank"] = table.rank
    vtables = _vtables_by_form(layout)
    records["vtable"] = vtables[layout.forms[0]]
    for start in range(0, len(table), BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, len(table)))
        part = table.take(rows)
        block = records[: len(part)]
        if len(layout.forms) > 1:
            block["vtable"] = vtables[_row_forms(part, targets)]
        _fill_columns(block, layout, part)
        if isinstance(positions, int):
            at = positions + layout.stride * np.arange(rows.start, rows.stop, dtype=np.int64)
        else:
            at = positions[rows]
        _fill_offsets(block, layout, at, _row_targets(part, targets, rows))
        yield block.view(np.uint8).data


def _vtables_by_form(layout: RecordLayout) -> Records:
    width = layout.table_at
    blank = bytes(width)
    joined = b"".join(layout.vtables.get(form, blank) for form in Form)
    return np.frombuffer(joined, f"V{width}")


def _row_forms(part: ChunkTable, targets: Targets) -> UInt8:
    forms = _FORM_OF_KIND[part.kind]
    is_virtual = forms == Form.VIRTUAL
    if part.etag_code is not None:
        forms[is_virtual & (part.etag_code >= 0)] = Form.VIRTUAL_ETAG
    if targets.is_compressed is not None and part.location_code is not None:
        forms[is_virtual & targets.is_compressed[part.location_code]] += _COMPRESSED
    return forms


def _fill_columns(block: Records, layout: RecordLayout, part: ChunkTable) -> None:
    block["index"] = part.index
    if layout.has("byte_offset"):
        block["byte_offset"] = part.byte_offset
        block["length"] = part.length
    if layout.has("modified"):
        block["modified"] = part.last_modified
    if layout.has("chunk_id"):
        ids = np.ascontiguousarray(part.chunk_id, np.uint8)
        block["chunk_id"] = ids.view(f"V{OBJECT_ID_SIZE}")[:, 0]


def _row_targets(part: ChunkTable, targets: Targets, rows: slice) -> dict[str, Int64]:
    """Return where the things lie that each row points at; 0 where a row has no such thing."""
    found = {}
    if part.etag_code is not None:
        found["etag"] = targets.etags[part.etag_code]
    if part.location_code is None:
        return found | {"target": targets.inline[rows]}
    is_other = part.kind != ChunkType.virtual
    if bool((is_other < (part.location_code < 0)).any()):
        raise InvalidInputError("the table has a virtual chunk without a location")
    found["target"] = targets.locations[part.location_code]
    if is_other.any():
        others = targets.inline[rows] if len(targets.inline) else np.int64(0)
        found["target"] = np.where(is_other, others, found["target"])
    return found


def _fill_offsets(
    block: Records, layout: RecordLayout, records_at: Int64, targets: Mapping[str, Int64]
) -> None:
    """Fill the fields that say how far ahead of themselves something lies."""
    for name, positions in targets.items():
        if layout.has(name):
            block[name] = positions - (records_at + layout.offset(name))
