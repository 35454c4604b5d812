"""FlexBuffers: the schemaless encoding of metadata values and configurations in spec 2.

The format is that of the FlatBuffers project. Children come before their parents; the root is at
the end: its slot, one byte with its packed type, one byte with the width of its slot. A packed
type is `type << 2 | log2(width)`.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NoReturn

from icestream.errors import ErrorKind, FormatError, InvalidInputError

MAX_DEPTH = 128
"""Nesting that is read or written; the limit of the usual JSON readers."""

_VISITS_PER_BYTE = 8
"""A buffer may share parts, but not so that it unfolds into a multiple of its own size."""

_MIN_VISITS = 64
_MIN_SIZE = 3
_WIDTHS = (1, 2, 4, 8)
_MAX_UNSIGNED = 2**64 - 1
_MIN_SIGNED = -(2**63)


class FlexType(IntEnum):
    """Type codes; vectors of one scalar type and the fixed vectors follow by arithmetic."""

    NULL = 0
    INT = 1
    UINT = 2
    FLOAT = 3
    KEY = 4
    STRING = 5
    INDIRECT_INT = 6
    INDIRECT_UINT = 7
    INDIRECT_FLOAT = 8
    MAP = 9
    VECTOR = 10
    VECTOR_INT = 11
    VECTOR_UINT = 12
    VECTOR_FLOAT = 13
    VECTOR_KEY = 14
    VECTOR_STRING = 15
    FIXED_FIRST = 16
    FIXED_LAST = 24
    BLOB = 25
    BOOL = 26
    VECTOR_BOOL = 36


_SCALAR_CODES: Mapping[int, Mapping[int, str]] = {
    FlexType.INT: {1: "b", 2: "h", 4: "i", 8: "q"},
    FlexType.UINT: {1: "B", 2: "H", 4: "I", 8: "Q"},
    FlexType.FLOAT: {4: "f", 8: "d"},
}
_NUMBERS = (FlexType.INT, FlexType.UINT, FlexType.FLOAT)
_TYPED_VECTORS: Mapping[int, int] = {
    FlexType.VECTOR_INT: FlexType.INT,
    FlexType.VECTOR_UINT: FlexType.UINT,
    FlexType.VECTOR_FLOAT: FlexType.FLOAT,
    FlexType.VECTOR_BOOL: FlexType.BOOL,
}
_VECTORS_OF = {scalar: vector for vector, scalar in _TYPED_VECTORS.items()}
_FIXED_LENGTHS = (2, 3, 4)


def decode_flex(
    data: bytes | memoryview, *, name: str, kind: ErrorKind = ErrorKind.DESERIALIZATION
) -> Any:
    """Return the value in a FlexBuffer: None, bool, int, float, str, bytes, list or dict.

    `name` and `kind` are for the error.

    Raises:
        FormatError: The bytes are not a FlexBuffer, nest too deep, or unfold beyond measure.
    """
    return _FlexReader(bytes(data), name, kind).root()


def encode_flex(value: Any) -> bytes:
    """Return the FlexBuffer of a tree of None, bool, int, float, str, sequences and mappings.

    Raises:
        InvalidInputError: The tree holds something else, or nests too deep.
    """
    return _FlexWriter().document(value)


# -- reading --------------------------------------------------------------------------------------


class _FlexReader:
    """Cursor-free reader: every method takes the position that it reads."""

    def __init__(self, data: bytes, name: str, kind: ErrorKind) -> None:
        self._data = data
        self._name = name
        self._kind = kind
        self._visits_left = _VISITS_PER_BYTE * len(data) + _MIN_VISITS
        self._keys: dict[int, str] = {}
        self._strings: dict[tuple[int, int], str] = {}

    def root(self) -> Any:
        if len(self._data) < _MIN_SIZE:
            self._fail(f"{len(self._data)} bytes are too few for a FlexBuffer")
        width, packed = self._data[-1], self._data[-2]
        if width not in _WIDTHS:
            self._fail(f"the root is {width} bytes wide instead of 1, 2, 4 or 8")
        return self._value(len(self._data) - 2 - width, width, packed, 0)

    def _value(self, at: int, width: int, packed: int, depth: int) -> Any:
        """Return the value whose slot of `width` bytes is at `at`."""
        self._visit(1)
        kind, target_width = packed >> 2, 1 << (packed & 3)
        if kind in _SCALAR_CODES:
            return self._scalars(at, width, kind, 1)[0]
        if kind == FlexType.NULL:
            return None
        if kind == FlexType.BOOL:
            return self._unsigned(at, width) != 0
        return self._pointed(self._target(at, width), target_width, kind, depth)

    def _pointed(self, at: int, width: int, kind: int, depth: int) -> Any:
        """Return the value that is not in its slot but at `at`."""
        match kind:
            case FlexType.KEY:
                return self._key(at)
            case FlexType.STRING:
                return self._string(at, width)
            case FlexType.INDIRECT_INT | FlexType.INDIRECT_UINT | FlexType.INDIRECT_FLOAT:
                return self._scalars(at, width, kind - 5, 1)[0]
            case FlexType.BLOB:
                length = self._length(at, width, 1)
                self._visit(length)
                return self._data[at : at + length]
            case FlexType.MAP | FlexType.VECTOR:
                return self._container(at, width, kind, depth + 1)
            case _:
                return self._typed_vector(at, width, kind)

    def _container(self, at: int, width: int, kind: int, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self._fail(f"values nest deeper than {MAX_DEPTH} levels")
        keys = self._map_keys(at, width) if kind == FlexType.MAP else None
        length = self._length(at, width, width + 1)
        types_at = at + length * width
        if keys is not None and len(keys) != length:
            self._fail(f"the map at byte {at} has {len(keys)} keys and {length} values")
        values = [
            self._value(at + i * width, width, self._data[types_at + i], depth)
            for i in range(length)
        ]
        return values if keys is None else dict(zip(keys, values, strict=True))

    def _map_keys(self, at: int, width: int) -> list[str]:
        keys_slot = at - 3 * width
        if keys_slot < 0:
            self._fail(f"the map at byte {at} has no room for its keys")
        keys_width = self._unsigned(keys_slot + width, width)
        if keys_width not in _WIDTHS:
            self._fail(f"the keys of the map at byte {at} are {keys_width} bytes wide")
        keys = self._key_vector(self._target(keys_slot, width), keys_width)
        if len(set(keys)) != len(keys):
            self._fail(f"the map at byte {at} has a key twice")
        return keys

    def _typed_vector(self, at: int, width: int, kind: int) -> list[Any]:
        if kind in {FlexType.VECTOR_KEY, FlexType.VECTOR_STRING}:
            # the deprecated vector of strings lost their widths; they are read as keys
            return self._key_vector(at, width)
        if FlexType.FIXED_FIRST <= kind <= FlexType.FIXED_LAST:
            fixed = kind - FlexType.FIXED_FIRST
            return self._scalars(at, width, _NUMBERS[fixed % 3], fixed // 3 + 2)
        if kind not in _TYPED_VECTORS:
            self._fail(f"type {kind} is unknown")
        scalar = _TYPED_VECTORS[kind]
        length = self._length(at, width, width)
        if scalar is FlexType.BOOL:
            return [number != 0 for number in self._scalars(at, width, FlexType.UINT, length)]
        return self._scalars(at, width, scalar, length)

    def _key_vector(self, at: int, width: int) -> list[str]:
        length = self._length(at, width, width)
        self._visit(length)
        return [self._key(self._target(at + i * width, width)) for i in range(length)]

    def _key(self, at: int) -> str:
        if at not in self._keys:
            end = self._data.find(0, at)
            if end < 0:
                self._fail(f"the key at byte {at} does not end")
            self._visit(end - at)
            self._keys[at] = self._text(at, end)
        return self._keys[at]

    def _string(self, at: int, width: int) -> str:
        if (at, width) not in self._strings:
            length = self._length(at, width, 1)
            self._visit(length)
            self._strings[at, width] = self._text(at, at + length)
        return self._strings[at, width]

    def _text(self, start: int, end: int) -> str:
        try:
            return self._data[start:end].decode()
        except UnicodeDecodeError:
            self._fail(f"the text at byte {start} is not UTF-8")

    def _length(self, at: int, width: int, item_size: int) -> int:
        """Return the length that stands before `at`, if so many items fit in the buffer."""
        if at < width:
            self._fail(f"there is no room for the length of the value at byte {at}")
        length = self._unsigned(at - width, width)
        if length * item_size > len(self._data) - at:
            self._fail(f"{length} items at byte {at} do not fit in {len(self._data)} bytes")
        return length

    def _target(self, at: int, width: int) -> int:
        """Return the position that the offset at `at` points back to."""
        target = at - self._unsigned(at, width)
        if target < 0:
            self._fail(f"the offset at byte {at} points before the buffer")
        return target

    def _unsigned(self, at: int, width: int) -> int:
        if at < 0 or at + width > len(self._data):
            self._fail(f"{width} bytes at byte {at} are outside the buffer")
        return int.from_bytes(self._data[at : at + width], "little")

    def _scalars(self, at: int, width: int, kind: int, count: int) -> list[Any]:
        self._visit(count)
        code = _SCALAR_CODES[kind].get(width)
        if code is None:
            self._fail(f"the number at byte {at} has a width of {width} bytes")
        if at < 0 or at + width * count > len(self._data):
            self._fail(f"{count} numbers at byte {at} are outside the buffer")
        return list(struct.unpack_from(f"<{count}{code}", self._data, at))

    def _visit(self, count: int) -> None:
        self._visits_left -= count
        if self._visits_left < 0:
            self._fail("its parts refer to each other so often that it has no end")

    def _fail(self, reason: str) -> NoReturn:
        raise FormatError(f"{self._name}: {reason}", kind=self._kind)


# -- writing --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Slot:
    """A value to put into its parent: the number itself, or the position of what was written."""

    kind: int
    width: int
    """Bytes of the number, or width of the lengths and slots at the position."""
    number: float | None = None
    position: int = 0

    def width_at(self, end: int, index: int) -> int:
        """Return the width needed as slot number `index` of a vector that starts after `end`."""
        if self.number is not None:
            return self.width
        return next(
            width
            for width in _WIDTHS
            if _aligned(end, width) + index * width - self.position < 1 << (8 * width)
        )

    def packed(self, parent_width: int) -> int:
        """Return the packed type in a parent whose slots are `parent_width` wide."""
        width = self.width if self.number is None else max(self.width, parent_width)
        return self.kind << 2 | width.bit_length() - 1


@dataclass(slots=True)
class _FlexWriter:
    """Appends children before parents; each method returns the slot for the parent."""

    _out: bytearray = field(default_factory=bytearray)
    _keys: dict[str, _Slot] = field(default_factory=dict)

    def document(self, value: Any) -> bytes:
        root = self._write(value, 0)
        width = root.width_at(len(self._out), 0)
        self._align(width)
        self._put_slot(root, width)
        self._out += bytes((root.packed(width), width))
        return bytes(self._out)

    def _write(self, value: Any, depth: int) -> _Slot:
        if depth > MAX_DEPTH:
            raise InvalidInputError(
                f"the value nests deeper than {MAX_DEPTH} levels; flatten it",
                kind=ErrorKind.SERIALIZATION,
            )
        match value:
            case None:
                return _Slot(FlexType.NULL, 1, 0)
            case bool():
                return _Slot(FlexType.BOOL, 1, int(value))
            case int() | float():
                return _number(value)
            case str():
                return self._string(value)
            case Mapping():
                return self._map(value, depth)
            case Sequence() if not isinstance(value, bytes | bytearray | memoryview):
                return self._list([self._write(item, depth + 1) for item in value])
            case _:
                raise InvalidInputError(
                    f"a {type(value).__name__} cannot be stored; use None, bool, int, float, str, "
                    "lists and dicts with text keys",
                    kind=ErrorKind.SERIALIZATION,
                )

    def _list(self, slots: list[_Slot]) -> _Slot:
        """Write a vector; one of a single scalar type needs no type bytes, a short one no length.

        The Rust builder does the same.
        """
        kinds = {slot.kind for slot in slots}
        kind = _VECTORS_OF.get(kinds.pop()) if len(kinds) == 1 else None
        if kind is None:
            return self._vector(slots, FlexType.VECTOR)
        if kind is not FlexType.VECTOR_BOOL and len(slots) in _FIXED_LENGTHS:
            return self._fixed_vector(slots)
        return self._vector(slots, kind)

    def _fixed_vector(self, slots: list[_Slot]) -> _Slot:
        width = max(slot.width for slot in slots)
        self._align(width)
        position = len(self._out)
        for slot in slots:
            self._put_slot(slot, width)
        kind = FlexType.FIXED_FIRST + 3 * (len(slots) - 2) + _NUMBERS.index(slots[0].kind)
        return _Slot(kind, width, position=position)

    def _map(self, value: Mapping[str, Any], depth: int) -> _Slot:
        entries = sorted(
            (_key_utf8(key), key) for key in value
        )  # FlexBuffers: keys sorted by bytes
        keys = self._vector([self._key(key) for _, key in entries], FlexType.VECTOR_KEY)
        slots = [self._write(value[key], depth + 1) for _, key in entries]
        return self._vector(slots, FlexType.MAP, keys)

    def _vector(self, slots: list[_Slot], kind: int, keys: _Slot | None = None) -> _Slot:
        """Write length, slots and types, for a map after the reference to its keys."""
        end = len(self._out)
        prefix = 1 if keys is None else 3
        width = max(
            _unsigned_width(len(slots)),
            keys.width_at(end, 0) if keys else 1,
            *(slot.width_at(end, prefix + i) for i, slot in enumerate(slots)),
            1,
        )
        self._align(width)
        if keys is not None:
            self._put_slot(keys, width)
            self._put_unsigned(keys.width, width)
        self._put_unsigned(len(slots), width)
        position = len(self._out)
        for slot in slots:
            self._put_slot(slot, width)
        if kind in {FlexType.VECTOR, FlexType.MAP}:
            self._out += bytes(slot.packed(width) for slot in slots)
        return _Slot(kind, width, position=position)

    def _key(self, key: str) -> _Slot:
        if key not in self._keys:
            self._keys[key] = _Slot(FlexType.KEY, 1, position=len(self._out))
            self._out += _utf8(key) + b"\0"
        return self._keys[key]

    def _string(self, text: str) -> _Slot:
        content = _utf8(text)
        width = _unsigned_width(len(content))
        self._align(width)
        self._put_unsigned(len(content), width)
        position = len(self._out)
        self._out += content + b"\0"
        return _Slot(FlexType.STRING, width, position=position)

    def _align(self, width: int) -> None:
        self._out += bytes(_aligned(len(self._out), width) - len(self._out))

    def _put_slot(self, slot: _Slot, width: int) -> None:
        if slot.number is None:
            self._put_unsigned(len(self._out) - slot.position, width)
        elif slot.kind in _SCALAR_CODES:
            self._out += struct.pack(f"<{_SCALAR_CODES[slot.kind][width]}", slot.number)
        else:
            self._put_unsigned(int(slot.number), width)

    def _put_unsigned(self, number: int, width: int) -> None:
        self._out += number.to_bytes(width, "little")


def _number(value: Any) -> _Slot:
    if isinstance(value, float):
        return _Slot(FlexType.FLOAT, 4 if _fits_single(value) else 8, value)
    if not _MIN_SIGNED <= value <= _MAX_UNSIGNED:
        raise InvalidInputError(
            f"{value} does not fit in 64 bits; store it as text", kind=ErrorKind.SERIALIZATION
        )
    if value >= 0:
        return _Slot(FlexType.UINT, _unsigned_width(value), value)
    return _Slot(FlexType.INT, _unsigned_width(2 * ~value + 1), value)


def _fits_single(value: float) -> bool:
    try:
        return struct.pack("<d", *struct.unpack("<f", struct.pack("<f", value))) == struct.pack(
            "<d", value
        )
    except OverflowError:
        return False


def _unsigned_width(number: int) -> int:
    return next(width for width in _WIDTHS if number < 1 << (8 * width))


def _aligned(position: int, width: int) -> int:
    return -(-position // width) * width


def _key_utf8(key: Any) -> bytes:
    if not isinstance(key, str) or "\0" in key:
        raise InvalidInputError(
            f"{key!r} cannot be a key; keys are texts without NUL", kind=ErrorKind.SERIALIZATION
        )
    return _utf8(key)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{text!r} is not valid Unicode: {error.reason}", kind=ErrorKind.SERIALIZATION
        ) from error
