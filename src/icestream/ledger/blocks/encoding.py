"""From metadata blocks to bytes: the canonical flatbuffers of the Open Data Fabric.

Equal blocks must have equal bytes, because their hash is their name. The order in which parts
are written is therefore fixed: for each table its variable-size parts first, depth first and in
the order of the schema, then its slots in the same order.
"""

import struct
from collections.abc import Sequence
from typing import Any

from flatbuffers import Builder, number_types
from flatbuffers.builder import BuilderSizeError

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.events import MetadataBlock
from icestream.ledger.blocks.hashes import Multihash, sha3_256
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
    Text,
    Wire,
    shape_of,
)
from icestream.ledger.blocks.times import Timestamp

MANIFEST_KIND = 0x400000
"""The multicodec number of a metadata block."""
CURRENT_VERSION = 3
"""The version that is written."""

TIMESTAMP = struct.Struct("<iHxxII")
"""Year, day of the year, seconds since midnight, nanoseconds."""

_TIMESTAMP_ALIGNMENTS = {2: 1, 3: 4}
"""Version 2 laid out timestamps as if they were bytes; that is all that sets it apart."""
_FLAGS: dict[str, Any] = {
    "Q": number_types.Uint64Flags,
    "I": number_types.Uint32Flags,
    "i": number_types.Int32Flags,
    "h": number_types.Int16Flags,
    "?": number_types.BoolFlags,
}


def encode_block(block: MetadataBlock, *, version: int = CURRENT_VERSION) -> bytes:
    """Return the bytes of a block, wrapped in a manifest.

    Version 2 is for tests: a chain keeps the bytes that it received, and adds version 3.

    >>> from icestream.ledger import SetInfo, Timestamp, block_hash, decode_block
    >>> block = MetadataBlock(
    ...     system_time=Timestamp.parse("2024-05-01T12:00:00Z"),
    ...     sequence_number=0,
    ...     event=SetInfo(description="sea ice"),
    ... )
    >>> data = encode_block(block)
    >>> decode_block(data) == block
    True
    >>> str(block_hash(data))[:9]
    'f16207e5c'

    Raises:
        InvalidInputError: A value does not fit its field.
    """
    alignment = _TIMESTAMP_ALIGNMENTS.get(version)
    if alignment is None:
        raise InvalidInputError(f"version {version} of metadata blocks cannot be written")
    try:
        content = _BlockWriter(alignment).write(block)
        return _write_manifest(content, version)
    except (TypeError, ValueError, BuilderSizeError) as error:
        raise InvalidInputError(
            f"block {block.sequence_number} cannot be written: {error}"
        ) from error


def block_hash(data: bytes) -> Multihash:
    """Return the hash that a block of these bytes is stored under."""
    return sha3_256(data)


def _write_manifest(content: bytes, version: int) -> bytes:
    builder = Builder(len(content) + 64)
    place = builder.CreateByteVector(content)
    builder.StartObject(3)
    builder.PrependInt64Slot(0, MANIFEST_KIND, 0)
    builder.PrependInt32Slot(1, version, 0)
    builder.PrependUOffsetTRelativeSlot(2, place, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


class _BlockWriter:
    """Writes tables from the inside out; what is written is known by its place."""

    def __init__(self, timestamp_alignment: int) -> None:
        self._builder = Builder(512)
        self._timestamp_alignment = timestamp_alignment

    def write(self, block: MetadataBlock) -> bytes:
        """Return the buffer whose root is a block."""
        self._builder.Finish(self._table(block, 0))
        return bytes(self._builder.Output())

    def _table(self, value: Any, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise ValueError(f"tables nest deeper than {MAX_DEPTH} levels")
        shape = shape_of(type(value))
        stored = [
            (field, self._part(field.wire, part, depth))
            for field in shape.fields
            if (part := getattr(value, field.name)) is not None or not field.is_optional
        ]
        self._builder.StartObject(shape.n_slots)
        for field, part in stored:
            self._slot(field, part)
        return self._place()

    def _part(self, wire: Wire, value: Any, depth: int) -> Any:
        """Write what lies outside of its table; return what the table has to hold."""
        match wire:
            case Number() | Moment():
                return value
            case Choice(members=members):
                return members.index(value)
            case OneOf(variants=variants):
                return variants.index(type(value)) + 1, self._table(value, depth + 1)
            case Many(item=item):
                return self._vector([self._item(item, part, depth) for part in value])
            case _:
                return self._item(wire, value, depth)

    def _item(self, wire: Wire, value: Any, depth: int) -> int:
        """Write a string, bytes or a table; return its place."""
        match wire:
            case Text():
                return self._string(value)
            case Binary(cls=cls):
                if not isinstance(value, cls):
                    raise TypeError(f"{value!r} is no {cls.__name__}")
                data = value if isinstance(value, bytes) else value.to_bytes()
                place: int = self._builder.CreateByteVector(data)
                return place
            case Extra():
                text = self._string(value.entries)
                self._builder.StartObject(1)
                self._builder.PrependUOffsetTRelativeSlot(0, text, 0)
                return self._place()
            case OneOf():
                union = self._part(wire, value, depth)
                self._builder.StartObject(2)
                self._union_slots(0, *union)
                return self._place()
            case _:
                return self._table(value, depth + 1)

    def _slot(self, field: Field, part: Any) -> None:
        """Fill a slot of the open table."""
        match field.wire:
            case Number(format=code) | Choice(format=code):
                # a plain zero is left out; where absence has a meaning even zero is written
                default = None if field.is_optional else 0
                self._builder.PrependSlot(_FLAGS[code], field.slot, part, default)
            case Moment():
                self._builder.PrependStructSlot(field.slot, self._timestamp(part), 0)
            case OneOf():
                self._union_slots(field.slot, *part)
            case _:
                self._builder.PrependUOffsetTRelativeSlot(field.slot, part, 0)

    def _union_slots(self, slot: int, tag: int, place: int) -> None:
        self._builder.PrependUint8Slot(slot, tag, 0)
        self._builder.PrependUOffsetTRelativeSlot(slot + 1, place, 0)

    def _timestamp(self, moment: Timestamp) -> int:
        builder = self._builder
        builder.Prep(self._timestamp_alignment, TIMESTAMP.size)
        builder.Place(moment.nanoseconds, number_types.Uint32Flags)
        builder.Place(moment.seconds, number_types.Uint32Flags)
        builder.Pad(2)
        builder.Place(moment.day_of_year, number_types.Uint16Flags)
        builder.Place(moment.year, number_types.Int32Flags)
        place: int = builder.Offset()
        return place

    def _vector(self, places: Sequence[int]) -> int:
        self._builder.StartVector(4, len(places), 4)
        for place in reversed(places):
            self._builder.PrependUOffsetTRelative(place)
        vector: int = self._builder.EndVector()
        return vector

    def _string(self, text: str) -> int:
        place: int = self._builder.CreateString(text)
        return place

    def _place(self) -> int:
        """Close the open table."""
        place: int = self._builder.EndObject()
        return place
