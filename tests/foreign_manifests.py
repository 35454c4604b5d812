"""Manifests as other software writes and reads them: one reference at a time.

Nothing here shares code with the codec under test.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import zstandard

from icestream.codec.header import FileType, encode_header

MANIFEST_ID = b"manifest-id."
NODE = b"node-id."

Ref = dict[str, Any]
"""index, and any of inline, offset, length, chunk_id, location, etag, modified, compressed."""

_REF_SLOTS = {
    "index": 0,
    "inline": 1,
    "offset": 2,
    "length": 3,
    "chunk_id": 4,
    "location": 5,
    "etag": 6,
    "modified": 7,
    "compressed": 8,
    "unknown": 11,
}


def file_of(body: bytes, *, file_type: FileType = FileType.MANIFEST, spec: int = 2) -> bytes:
    """Return a file with this flatbuffer in it."""
    return encode_header(file_type, spec) + zstandard.ZstdCompressor().compress(body)


def manifest_body(
    arrays: Sequence[tuple[bytes, Sequence[Ref]]],
    *,
    algorithm: int | None = 0,
    dictionary: bytes | None = None,
    without: Sequence[str] = (),
) -> bytes:
    """Return the flatbuffer of a manifest, in the order given, `without` some required fields."""
    builder = flatbuffers.Builder(1024)
    tables = [_array(builder, node_id, refs, without) for node_id, refs in arrays]
    vector = _offsets(builder, tables)
    dictionary_at = None if dictionary is None else builder.CreateByteVector(dictionary)
    builder.StartObject(5)
    if algorithm is not None:
        builder.ForceDefaults(True)
        builder.PrependUint8Slot(3, algorithm, 1)
    if dictionary_at is not None:
        builder.PrependUOffsetTRelativeSlot(2, dictionary_at, 0)
    if "arrays" not in without:
        builder.PrependUOffsetTRelativeSlot(1, vector, 0)
    if "id" not in without:
        _put_bytes(builder, 0, MANIFEST_ID)
    builder.Finish(builder.EndObject(), file_identifier=b"Ichk")
    return bytes(builder.Output())


def _array(
    builder: flatbuffers.Builder, node_id: bytes, refs: Sequence[Ref], without: Sequence[str]
) -> int:
    tables = [_ref(builder, ref) for ref in refs]
    vector = _offsets(builder, tables)
    builder.StartObject(3)
    if "refs" not in without:
        builder.PrependUOffsetTRelativeSlot(1, vector, 0)
    if "node_id" not in without:
        _put_bytes(builder, 0, node_id)
    return int(builder.EndObject())


def _ref(builder: flatbuffers.Builder, ref: Ref) -> int:
    vectors = {name: _vector(builder, name, ref[name]) for name in ref if name in _VECTORS}
    builder.StartObject(12)
    for name, value in ref.items():
        slot = _REF_SLOTS[name]
        if name in vectors:
            builder.PrependUOffsetTRelativeSlot(slot, vectors[name], 0)
        elif name == "chunk_id":
            _put_bytes(builder, slot, value)
        elif name == "modified":
            builder.PrependUint32Slot(slot, value, 0)
        else:
            builder.PrependUint64Slot(slot, value, 0)
    return int(builder.EndObject())


_VECTORS = frozenset({"index", "inline", "location", "etag", "compressed"})


def _vector(builder: flatbuffers.Builder, name: str, value: Any) -> int:
    if name == "index":
        builder.StartVector(4, len(value), 4)
        for item in reversed(value):
            builder.PrependUint32(item)
        return int(builder.EndVector())
    if isinstance(value, str):
        return int(builder.CreateString(value))
    return int(builder.CreateByteVector(value))


def _offsets(builder: flatbuffers.Builder, tables: Sequence[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return int(builder.EndVector())


def _put_bytes(builder: flatbuffers.Builder, slot: int, value: bytes) -> None:
    builder.Prep(4, len(value))
    for byte in reversed(value):
        builder.PrependByte(byte)
    builder.PrependStructSlot(slot, builder.Offset(), 0)


# -- reading --------------------------------------------------------------------------------


class Walker:
    """A reader that follows every offset and asserts what the verifier of readers asserts."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def number(self, at: int, code: str) -> int:
        size = struct.calcsize(code)
        assert at % size == 0, f"{code} at {at} is not aligned"
        assert 0 <= at <= len(self.body) - size
        return int(struct.unpack_from("<" + code, self.body, at)[0])

    def fields(self, table: int) -> dict[int, int]:
        """Return the position of each field that is present, by slot."""
        vtable = table - self.number(table, "i")
        size = self.number(vtable, "H")
        offsets = [self.number(vtable + at, "H") for at in range(4, size, 2)]
        assert max(offsets, default=0) < self.number(vtable + 2, "H")
        return {slot: table + offset for slot, offset in enumerate(offsets) if offset}

    def target(self, at: int) -> int:
        offset = self.number(at, "I")
        assert offset > 0
        return at + offset

    def vector(self, at: int, item_size: int) -> tuple[int, int]:
        start = self.target(at)
        count = self.number(start, "I")
        assert start + 4 + count * item_size <= len(self.body)
        return start + 4, count

    def bytes(self, at: int) -> bytes:
        start, count = self.vector(at, 1)
        return self.body[start : start + count]

    def text(self, at: int) -> str:
        start, count = self.vector(at, 1)
        assert self.body[start + count] == 0, "a string is not terminated"
        return self.body[start : start + count].decode()

    def tables(self, at: int) -> list[int]:
        start, count = self.vector(at, 4)
        return [self.target(start + 4 * i) for i in range(count)]

    def numbers(self, at: int) -> tuple[int, ...]:
        start, count = self.vector(at, 4)
        return tuple(self.number(start + 4 * i, "I") for i in range(count))

    def root(self) -> dict[int, int]:
        assert self.body[4:8] == b"Ichk"
        return self.fields(self.target(0))


def read_manifest(body: bytes) -> dict[bytes, list[Ref]]:
    """Return every reference of a manifest, in the order of the file."""
    walker = Walker(body)
    arrays: dict[bytes, list[Ref]] = {}
    for table in walker.tables(walker.root()[1]):
        fields = walker.fields(table)
        node_id = body[fields[0] : fields[0] + 8]
        assert node_id not in arrays
        arrays[node_id] = [_read_ref(walker, ref) for ref in walker.tables(fields[1])]
    return arrays


def _read_ref(walker: Walker, table: int) -> Ref:
    fields = walker.fields(table)
    read: Mapping[str, Any] = {
        "index": walker.numbers,
        "inline": walker.bytes,
        "offset": lambda at: walker.number(at, "Q"),
        "length": lambda at: walker.number(at, "Q"),
        "chunk_id": lambda at: walker.body[at : at + 12],
        "location": walker.text,
        "etag": walker.text,
        "modified": lambda at: walker.number(at, "I"),
        "compressed": walker.bytes,
    }
    return {
        name: read[name](fields[slot])
        for name, slot in _REF_SLOTS.items()
        if slot in fields and name in read
    }
