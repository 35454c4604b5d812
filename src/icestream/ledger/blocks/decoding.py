"""From bytes to metadata blocks, whoever wrote them.

Blocks come from other people's stores: no offset is trusted, and the work is bounded by the size
of the block.
"""

import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from icestream.errors import ErrorKind, IntegrityError, InvalidInputError
from icestream.ledger.blocks.attributes import ExtraAttributes
from icestream.ledger.blocks.encoding import MANIFEST_KIND, TIMESTAMP
from icestream.ledger.blocks.events import MetadataBlock
from icestream.ledger.blocks.shapes import (
    MAX_DEPTH,
    Binary,
    Choice,
    Extra,
    Field,
    Many,
    Moment,
    Number,
    OneOf,
    Record,
    Text,
    Wire,
    shape_of,
)
from icestream.ledger.blocks.times import Timestamp

READABLE_VERSIONS = frozenset({2, 3})
"""Versions of the manifest that can be read."""

_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_U16 = struct.Struct("<H")
_NUMBERS = {code: struct.Struct(f"<{code}") for code in "QIih?qB"}

_FREE_BUDGET = 4096
_BUDGET_PER_BYTE = 16
_TABLE_COST = 8
_VTABLE_HEADER = 4


def decode_block(data: bytes, *, name: str = "metadata block") -> MetadataBlock:
    """Return the block of a buffer that `encode_block` or another writer has made.

    Args:
        data: All bytes of the object.
        name: What to call the object in errors.

    Raises:
        IntegrityError: The bytes are damaged, or of a version that cannot be read.
    """
    try:
        version, content = _read_manifest(data)
        if version not in READABLE_VERSIONS:
            raise _unreadable(version, name)
        return _read_root(content)
    except (struct.error, InvalidInputError, UnicodeDecodeError) as error:
        raise _damaged(name, error) from error


def manifest_version(data: bytes, *, name: str = "metadata block") -> int:
    """Return the version of the manifest around a block, readable or not.

    Raises:
        IntegrityError: The bytes are no manifest of a metadata block.
    """
    try:
        return _read_manifest(data)[0]
    except (struct.error, InvalidInputError) as error:
        raise _damaged(name, error) from error


def _unreadable(version: int, name: str) -> IntegrityError:
    what = (
        "such blocks have no sequence numbers and are refused"
        if version == 1
        else "it was written by a newer program, or is damaged"
    )
    return IntegrityError(
        f"{name} has version {version}, not 2 or 3: {what} (rule version-is-known)",
        kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
        rule="version-is-known",
    )


def _damaged(name: str, error: Exception) -> IntegrityError:
    return IntegrityError(
        f"{name} is damaged: {error} (rule blocks-are-whole)",
        kind=ErrorKind.DESERIALIZATION,
        rule="blocks-are-whole",
    )


def _read_manifest(data: bytes) -> tuple[int, bytes]:
    reader = _Reader(data)
    table = reader.root()
    kind = reader.number(table, 0, "q") or 0
    if kind != MANIFEST_KIND:
        raise InvalidInputError(f"its manifest is of kind {kind:#x}, not a metadata block")
    content = reader.target(table, 2)
    if content is None:
        raise InvalidInputError("its manifest is empty")
    return int(reader.number(table, 1, "i") or 0), reader.vector(content)


def _read_root(content: bytes) -> MetadataBlock:
    reader = _Reader(content)
    return reader.record(MetadataBlock, reader.root(), 0)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table whose vtable is in bounds."""

    position: int
    vtable: int
    n_slots: int


class _Reader:
    """Reads one flatbuffer; damage shows as struct.error, InvalidInputError or bad UTF-8."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._budget = _FREE_BUDGET + _BUDGET_PER_BYTE * len(data)

    def root(self) -> _Table:
        """Return the root table."""
        return self._table(_U32.unpack_from(self._data, 0)[0])

    def record[T](self, cls: type[T], table: _Table, depth: int) -> T:
        """Return the value of a table."""
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"tables nest deeper than {MAX_DEPTH} levels")
        values: dict[str, Any] = {}
        for field in shape_of(cls).fields:
            value = self._field(field, table, depth)
            if value is not None:
                values[field.name] = value
            elif not field.is_optional:
                raise InvalidInputError(f"{cls.__name__} lacks {field.key}")
        return cls(**values)

    def number(self, table: _Table, slot: int, code: str) -> int | None:
        """Return a number or boolean in a table, None if it is absent."""
        at = self._slot(table, slot)
        if at is None:
            return None
        number: int = _NUMBERS[code].unpack_from(self._data, at)[0]
        return number

    def target(self, table: _Table, slot: int) -> int | None:
        """Return where the string, vector or table of a slot is, None if it is absent."""
        at = self._slot(table, slot)
        return None if at is None else self._follow(at)

    def vector(self, start: int) -> bytes:
        """Return the bytes of a vector or string."""
        (count,) = _U32.unpack_from(self._data, start)
        start += _U32.size
        if start + count > len(self._data):
            raise InvalidInputError(f"a vector of {count} bytes at {start} is out of bounds")
        self._spend(count)
        return self._data[start : start + count]

    def _field(self, field: Field, table: _Table, depth: int) -> Any:
        slot = field.slot
        match field.wire:
            case Number(format=code):
                return self._or_zero(field, self.number(table, slot, code))
            case Choice(members=members, format=code):
                index = self._or_zero(field, self.number(table, slot, code))
                return None if index is None else _member(members, index, field)
            case Moment():
                at = self._slot(table, slot)
                return None if at is None else Timestamp(*TIMESTAMP.unpack_from(self._data, at))
            case OneOf() as union:
                return self._union(union, table, slot, depth)
            case wire:
                target = self.target(table, slot)
                return None if target is None else self._value(wire, target, depth)

    @staticmethod
    def _or_zero(field: Field, number: int | None) -> int | None:
        """Plain zeros are not stored; where absence has a meaning they are."""
        return 0 if number is None and not field.is_optional else number

    def _value(self, wire: Wire, target: int, depth: int) -> Any:
        match wire:
            case Text():
                return str(self.vector(target), "utf-8")
            case Binary(cls=cls):
                data = self.vector(target)
                return data if issubclass(cls, bytes) else cls.from_bytes(data)
            case Extra():
                return self._extra(self._table(target))
            case Record(cls=cls):
                return self.record(cls, self._table(target), depth + 1)
            case Many(item=item):
                return tuple(self._item(item, place, depth) for place in self._places(target))
            case _:
                raise InvalidInputError(f"{wire} has no place of its own")

    def _item(self, wire: Wire, target: int, depth: int) -> Any:
        if not isinstance(wire, OneOf):
            return self._value(wire, target, depth)
        value = self._union(wire, self._table(target), 0, depth)
        if value is None:
            raise InvalidInputError(f"an item of a list of {wire.name} is empty")
        return value

    def _union(self, union: OneOf, table: _Table, slot: int, depth: int) -> Any:
        tag = self.number(table, slot, "B")
        target = self.target(table, slot + 1)
        if not tag or target is None:
            return None
        if tag > len(union.variants):
            raise InvalidInputError(f"{tag} is no kind of {union.name}")
        return self.record(union.variants[tag - 1], self._table(target), depth + 1)

    def _extra(self, table: _Table) -> ExtraAttributes:
        target = self.target(table, 0)
        if target is None:
            raise InvalidInputError("extra attributes are empty")
        extra = ExtraAttributes(str(self.vector(target), "utf-8"))
        extra.to_dict()  # whoever asks for them later must find a JSON object
        return extra

    def _places(self, start: int) -> list[int]:
        """Return where the items of a vector of offsets are."""
        (count,) = _U32.unpack_from(self._data, start)
        start += _U32.size
        end = start + count * _U32.size
        if end > len(self._data):
            raise InvalidInputError(f"a vector of {count} items at {start} is out of bounds")
        self._spend(end - start)
        return [self._follow(at) for at in range(start, end, _U32.size)]

    def _table(self, position: int) -> _Table:
        self._spend(_TABLE_COST)
        vtable = position - _I32.unpack_from(self._data, position)[0]
        if vtable < 0:
            raise InvalidInputError(f"the table at {position} points out of bounds")
        (size,) = _U16.unpack_from(self._data, vtable)
        if size < _VTABLE_HEADER or vtable + size > len(self._data):
            raise InvalidInputError(f"the layout at {vtable} is out of bounds")
        return _Table(position, vtable, (size - _VTABLE_HEADER) // _U16.size)

    def _slot(self, table: _Table, slot: int) -> int | None:
        """Return where the value of a slot is, None if it is absent."""
        if slot >= table.n_slots:
            return None
        at = table.vtable + _VTABLE_HEADER + _U16.size * slot
        (offset,) = _U16.unpack_from(self._data, at)
        return table.position + offset if offset else None

    def _follow(self, at: int) -> int:
        target: int = at + _U32.unpack_from(self._data, at)[0]
        return target

    def _spend(self, cost: int) -> None:
        """Offsets may share what they point at: a small buffer must not spell out a huge value."""
        self._budget -= cost
        if self._budget < 0:
            raise InvalidInputError("its offsets spell out far more than it has bytes for")


def _member(members: tuple[StrEnum, ...], index: int, field: Field) -> StrEnum:
    if not 0 <= index < len(members):
        raise InvalidInputError(f"{index} is no {field.key}")
    return members[index]
