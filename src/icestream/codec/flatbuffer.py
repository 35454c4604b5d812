"""FlatBuffers by hand: a reader that trusts no offset and a writer that shares its layouts.

The file formats here have few tables, but files may have very many rows of them and may come
from anyone. Generated accessors are slow in Python and do not verify; this module does both jobs
with one `struct` call per value and one check per vtable.

See the FlatBuffers internals document, https://flatbuffers.dev/internals, for the layout.
"""

import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from icestream.errors import ErrorKind, FormatError

FILE_IDENTIFIER = b"Ichk"

_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_read_i32 = _I32.unpack_from
_read_u32 = _U32.unpack_from

_SOFFSET_SIZE = 4
_SMALLEST_BUFFER = 8
_ABSENT = (0,)
_NOTHING = (2**63,)
"""Stands for a table that could not be unpacked: no vtable is that far away."""

_TABLE_COST = 64
_VECTOR_COST = 16
_FREE_BUDGET = 2**22
_BUDGET_PER_BYTE = 16
_MAX_MICROS = 253_402_300_799_999_999
_MAX_BUFFER_BYTES = 2**31 - 1


class Field(NamedTuple):
    """One slot of a table."""

    name: str
    format: str
    """A `struct` format, or `&` for an offset to a string, vector or table."""
    is_required: bool

    @property
    def is_offset(self) -> bool:
        """Whether the slot holds an offset."""
        return self.format == "&"

    @property
    def code(self) -> str:
        """The `struct` format of what is stored in the table."""
        return "I" if self.is_offset else self.format

    @property
    def size(self) -> int:
        """Bytes in the table."""
        return struct.calcsize(f"<{self.code}")

    @property
    def alignment(self) -> int:
        """What its position must be a multiple of; ids are loose bytes."""
        return 1 if self.format.endswith("s") else self.size


class TableType:
    """A table of the schema, declared as `name format` per slot, with `!` where required.

    >>> TableType("Ref", "name &!", "snapshot_index I").fields[0].is_required
    True
    """

    def __init__(self, name: str, *fields: str) -> None:
        self.name = name
        self.fields = tuple(_parse_field(field) for field in fields)
        self._layouts: dict[int | tuple[int, ...], WriteLayout] = {}

    def layout_of(self, values: tuple[Any, ...]) -> "WriteLayout":
        """Return how to write a table of these values, some of which may be None."""
        key = (len(values), *[v is None for v in values]) if None in values else len(values)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = _plan_layout(self, values)
        return layout


def _parse_field(declaration: str) -> Field:
    name, code = declaration.split()
    return Field(name, code.rstrip("!"), code.endswith("!"))


# -- reading --------------------------------------------------------------------------------------


_Unpack = Callable[[bytes, int], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class _ReadLayout:
    """Where tables that use one vtable have their fields, as one `struct` for all of them."""

    vtable: int
    size: int
    unpack_from: _Unpack
    picks: tuple[tuple[int, int], ...]
    """Per slot its index in what is unpacked, and its offset in the table if it holds an offset."""


class FlatReader:
    """Reads one flatbuffer; whatever its bytes say, only FormatError is raised.

    Tables, strings and vectors are positions (int), 0 where absent: `read` turns a table into
    the values of its slots, in which offsets are resolved to such positions.

    A budget bounds the work: offsets may share what they point at, so that a small buffer could
    otherwise spell out a huge value.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self._data = data
        self._size = len(data)
        self._budget = _FREE_BUDGET + _BUDGET_PER_BYTE * len(data)
        self._layouts: dict[tuple[int, TableType], _ReadLayout] = {}
        self._latest: dict[TableType, _ReadLayout] = {}

    def read_root(self, table: TableType) -> list[Any]:
        """Return the values of the root table."""
        if self._size < _SMALLEST_BUFFER:
            raise self.wrong(table.name, f"{self._size} bytes are too few for a flatbuffer")
        return self.read(_read_u32(self._data, 0)[0], table)

    def read(self, position: int, table: TableType) -> list[Any]:
        """Return a value per slot of a table: number, bytes of a struct, position; 0 if absent."""
        # most tables use the vtable of the one before: guess, and let the table confirm
        layout = self._latest.get(table) or self._find_layout(position, table)
        try:
            stored = layout.unpack_from(self._data, position)
        except struct.error:
            stored = _NOTHING
        if position - stored[0] != layout.vtable:
            layout = self._find_layout(position, table)
            stored = layout.unpack_from(self._data, position)
        stored += _ABSENT
        return [stored[i] + position + at if at else stored[i] for i, at in layout.picks]

    def vector(self, start: int, label: str, item_size: int = 1, *, cost: int = 1) -> bytes:
        """Return the bytes of all items of a vector; `cost` is the work that a byte makes."""
        size = self._count(start, label, item_size) * item_size
        self._budget -= size * cost + _VECTOR_COST
        return self._data[start + 4 : start + 4 + size]

    def string(self, start: int, label: str) -> str:
        """Return a string."""
        try:
            return str(self.vector(start, label), "utf-8")
        except UnicodeDecodeError as error:
            raise self.wrong(label, f"is not UTF-8 ({error})") from error

    def positions(self, start: int, label: str) -> list[int]:
        """Return where the tables or strings of a vector of offsets are."""
        end = start + 4 + 4 * self._count(start, label, 4)
        self._budget -= (end - start) * (_TABLE_COST // 4)
        data = self._data
        return [place + _read_u32(data, place)[0] for place in range(start + 4, end, 4)]

    def check_micros(self, micros: int, label: str) -> int:
        """Return a time, in microseconds since the epoch, if it is one."""
        if micros > _MAX_MICROS:
            raise self.wrong(label, f"{micros} microseconds is after the year 9999")
        return micros

    def wrong(self, label: str, what: str) -> FormatError:
        """Return the error for a broken rule of the format."""
        return FormatError(f"{self.name}: {label}: {what}")

    def _count(self, start: int, label: str, item_size: int) -> int:
        """Return how many items a vector has, all of which are in bounds."""
        try:
            count: int = _read_u32(self._data, start)[0]
        except struct.error as error:
            raise self.wrong(label, f"the vector at {start} is out of bounds") from error
        if start + 4 + count * item_size > self._size:
            raise self.wrong(label, f"the vector at {start} is out of bounds")
        if self._budget < 0:
            raise self.wrong(label, "offsets spell out far more than the file has bytes for")
        return count

    def _find_layout(self, position: int, table: TableType) -> _ReadLayout:
        """Return the layout that the table at `position` names, if it fits there."""
        try:
            vtable = position - _read_i32(self._data, position)[0]
        except struct.error as error:
            raise self.wrong(table.name, f"the table at {position} is out of bounds") from error
        layout = self._layouts.get((vtable, table))
        if layout is None:
            layout = self._layouts[vtable, table] = self._read_vtable(vtable, table)
        if position + layout.size > self._size:
            raise self.wrong(table.name, f"the table at {position} is out of bounds")
        self._latest[table] = layout
        return layout

    def _read_vtable(self, vtable: int, table: TableType) -> _ReadLayout:
        if not 0 <= vtable <= self._size - 4:
            raise self.wrong(table.name, f"the vtable at {vtable} is out of bounds")
        size, table_size = struct.unpack_from("<HH", self._data, vtable)
        if min(size, table_size) < _SOFFSET_SIZE or size % 2 or vtable + size > self._size:
            raise self.wrong(table.name, f"the vtable at {vtable} is damaged")
        # slots of a newer schema are ignored, those that an older one lacks are absent
        n_stored = min(size // 2 - 2, len(table.fields))
        offsets = struct.unpack_from(f"<{n_stored}H", self._data, vtable + 4)
        try:
            unpack_from, picks = _plan_reading(table, table_size, offsets)
        except ValueError as error:
            raise self.wrong(table.name, f"the vtable at {vtable} {error}") from error
        return _ReadLayout(vtable, table_size, unpack_from, picks)


@lru_cache(maxsize=512)
def _plan_reading(
    table: TableType, table_size: int, offsets: tuple[int, ...]
) -> tuple[_Unpack, tuple[tuple[int, int], ...]]:
    """Return how to unpack a table whose fields lie at these offsets, and what to pick."""
    places = sorted((offset, slot) for slot, offset in enumerate(offsets) if offset)
    codes, end = ["<i"], _SOFFSET_SIZE
    picks = [(-1, 0)] * len(table.fields)
    for offset, slot in places:
        field = table.fields[slot]
        if not end <= offset <= table_size - field.size:
            raise ValueError(f"puts the field {field.name} outside the table or over another")
        picks[slot] = (len(codes), offset if field.is_offset else 0)
        codes.append(f"{offset - end}x{field.code}")
        end = offset + field.size
    missing = [
        field.name
        for field, pick in zip(table.fields, picks, strict=True)
        if field.is_required and pick == (-1, 0)
    ]
    if missing:
        raise ValueError(f"lacks required fields: {', '.join(missing)}")
    return struct.Struct("".join(codes)).unpack_from, tuple(picks)


# -- writing --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class WriteLayout:
    """Where the fields of a table go, given which of them are present."""

    vtable: bytes
    size: int
    pack: Callable[..., bytes]
    order: tuple[tuple[int, int], ...]
    """Per stored field its slot, and its offset in the table if it holds an offset, else 0."""
    has_u64: bool


def _plan_layout(table: TableType, values: tuple[Any, ...]) -> WriteLayout:
    """Lay out the present fields, the most aligned first, behind the offset to the vtable."""
    present = [
        (slot, field)
        for slot, (field, value) in enumerate(zip(table.fields, values, strict=False))
        if value is not None
    ]
    present.sort(key=lambda item: -item[1].alignment)
    offsets = [0] * (1 + max((slot for slot, _ in present), default=-1))
    order, codes, size = [], [], _SOFFSET_SIZE
    for slot, field in present:
        offsets[slot] = size
        order.append((slot, size if field.is_offset else 0))
        codes.append(field.code)
        size += field.size
    padding = -size % 4
    size += padding
    vtable = struct.pack(f"<{len(offsets) + 2}H", 2 * len(offsets) + 4, size, *offsets)
    return WriteLayout(
        vtable=vtable + bytes(-len(vtable) % 4),
        size=size,
        pack=struct.Struct(f"<i{''.join(codes)}{padding}x").pack,
        order=tuple(order),
        has_u64=any(field.alignment == 8 for _, field in present),  # noqa: PLR2004  bytes
    )


class FlatWriter:
    """Writes one flatbuffer from its end to its start, so that every offset points forward.

    What is written gets a handle: its distance from the end. Handles stay valid while more is
    written in front, and the offset from one place to another is the difference of the two.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0  # always a multiple of 4
        self._vtables: dict[WriteLayout, int] = {}
        self._strings: dict[str, int] = {}

    def table(self, table: TableType, *values: Any) -> int:
        """Write a table from a value per slot: number, bytes of a struct, handle, None if absent.

        Slots at the end may be left out.
        """
        layout = table.layout_of(values)
        vtable = self._vtables.get(layout)
        if vtable is None:
            vtable = self._vtables[layout] = self._push(layout.vtable)
        start = self._size + layout.size
        if layout.has_u64 and not start & 4:
            # the first u64 follows the 4 bytes of the offset to the vtable
            start = self._push(b"\0\0\0\0") + layout.size
        stored = [
            start - offset - values[slot] if offset else values[slot]
            for slot, offset in layout.order
        ]
        try:
            self._pieces.append(layout.pack(vtable - start, *stored))
        except struct.error as error:
            raise _unfit(f"a value does not fit the table {table.name} ({error})") from error
        self._size = start
        return start

    def string(self, text: str) -> int:
        """Write a string once, however often it is asked for."""
        handle = self._strings.get(text)
        if handle is None:
            handle = self._strings[text] = self._write_string(text)
        return handle

    def vector(self, items: bytes) -> int:
        """Write a vector of bytes."""
        return self._push(_U32.pack(len(items)) + items + bytes(-len(items) % 4))

    def structs(
        self, packer: struct.Struct, rows: Collection[tuple[Any, ...]], *, alignment: int = 4
    ) -> int:
        """Write a vector of structs."""
        try:
            items = b"".join([packer.pack(*row) for row in rows])
        except struct.error as error:
            raise _unfit(f"a value does not fit its field ({error})") from error
        padding = -(self._size + len(items)) % alignment
        return self._push(_U32.pack(len(rows)) + items + bytes(padding))

    def offsets(self, handles: Sequence[int]) -> int:
        """Write a vector of offsets to tables or strings."""
        count = len(handles)
        first = self._size + 4 * count
        return self._push(
            struct.pack(
                f"<{count + 1}I",
                count,
                *[
                    place - handle
                    for place, handle in zip(range(first, self._size, -4), handles, strict=True)
                ],
            )
        )

    def finish(self, root: int) -> bytes:
        """Return the buffer whose root table has the handle `root`."""
        if self._size % 8:
            self._push(b"\0\0\0\0")
        size = self._size + 8
        if size > _MAX_BUFFER_BYTES:
            raise _unfit(f"a file of {size} bytes is beyond what the format can hold")
        self._push(struct.pack("<I4s", size - root, FILE_IDENTIFIER))
        self._pieces.reverse()
        return b"".join(self._pieces)

    def _write_string(self, text: str) -> int:
        try:
            encoded = text.encode()
        except UnicodeEncodeError as error:
            raise _unfit(f"{text!r} cannot be written as UTF-8") from error
        # readers of the repo info before icechunk 2.2 insist on the final zero byte
        padding = 1 + -(len(encoded) + 1) % 4
        return self._push(_U32.pack(len(encoded)) + encoded + bytes(padding))

    def _push(self, piece: bytes) -> int:
        self._pieces.append(piece)
        self._size += len(piece)
        return self._size


def _unfit(what: str) -> FormatError:
    return FormatError(what, kind=ErrorKind.SERIALIZATION)
