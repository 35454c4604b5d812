"""The logical hash of a table, "arrow0": equal for equal records, whoever wrote their file.

Every leaf column has a hasher of its own that is fed its type, then its values in row order; one
hasher for the record is fed the names, then the digests of the columns. Nothing in it depends on
batches, row groups, string or list encodings or nullability.

A value is turned into bytes by Arrow: `encoded_values` gives an array of binaries, one per row,
whose data buffer is what is hashed. Fixed width columns without nulls are hashed as they lie in
memory.
"""

import hashlib
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.hashes import LOGICAL_CODE, Multihash

_ROWS_AT_ONCE = 1 << 18
"""Rows that are turned into bytes together: bounds the memory, and hides the cost of a call."""

_NULL = pa.scalar(b"\x00", pa.large_binary())
_NOTHING = pa.scalar(b"", pa.large_binary())
_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}
_DAY_UNIT, _MILLISECOND_UNIT = 0, 1


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column that has values of its own; structs have none."""

    path: str
    column: pa.ChunkedArray


def logical_hash(table: pa.Table, *, threads: int = 1) -> Multihash:
    """Return the logical hash of a table: SHA3-256 over names, types and values.

    Args:
        table: Its row order, column order, timestamp units and time zone names all matter.
        threads: How many columns are hashed at once.

    Raises:
        InvalidInputError: A column has a type, or nulls in a struct, that the hash is not
            defined for.

    Examples:
        >>> cities = pa.table({"city": ["B", "A"]})
        >>> logical_hash(cities) == logical_hash(cities.cast(pa.schema({"city": pa.large_utf8()})))
        True
    """
    record = hashlib.sha3_256()
    for name, level in _names(table.schema, 0):
        encoded = name.encode()
        record.update(struct.pack("<Q", len(encoded)) + encoded + struct.pack("<Q", level))
    for digest in _digests(list(_leaves(table)), threads):
        record.update(digest)
    return Multihash(LOGICAL_CODE, record.digest())


def require_hashable(schema: pa.Schema) -> None:
    """Refuse columns that no logical hash is defined for.

    Raises:
        InvalidInputError: Names the first such column, its type and what to do about it.
    """
    for _ in _leaves(schema.empty_table()):
        pass


def _names(fields: Any, level: int) -> Iterator[tuple[str, int]]:
    for field in fields:
        yield field.name, level
        if pa.types.is_struct(field.type):
            yield from _names(field.type.fields, level + 1)


def _leaves(table: pa.Table) -> Iterator[_Leaf]:
    for name, column in zip(table.column_names, table.columns, strict=True):
        yield from _leaves_of(_Leaf(name, column))


def _leaves_of(leaf: _Leaf) -> Iterator[_Leaf]:
    if not pa.types.is_struct(leaf.column.type):
        _type_prefix(leaf.column.type, leaf.path)
        yield leaf
        return
    if leaf.column.null_count:
        raise InvalidInputError(
            f"column {leaf.path!r} is a struct with {leaf.column.null_count} nulls, for which no "
            "logical hash is defined; make its fields null instead"
        )
    for index, field in enumerate(leaf.column.type.fields):
        children = [chunk.field(index) for chunk in leaf.column.chunks]
        column = pa.chunked_array(children, type=field.type)
        yield from _leaves_of(_Leaf(f"{leaf.path}.{field.name}", column))


def _digests(leaves: list[_Leaf], threads: int) -> list[bytes]:
    if threads == 1:
        return [_digest(leaf) for leaf in leaves]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(_digest, leaves))


def _digest(leaf: _Leaf) -> bytes:
    hasher = hashlib.sha3_256(_type_prefix(leaf.column.type, leaf.path))
    for piece in _pieces(leaf.column):
        hasher.update(_stream(piece))
    return hasher.digest()


# types


def _type_prefix(kind: pa.DataType, path: str) -> bytes:
    """Return what the hasher of a column begins with."""
    if _is_list(kind):
        if pa.types.is_struct(kind.value_type):
            raise _unsupported(kind, path)
        return struct.pack("<H", 11) + _type_prefix(kind.value_type, path)
    prefix = _number_prefix(kind) or _text_prefix(kind) or _time_prefix(kind)
    if prefix is None:
        raise _unsupported(kind, path)
    return prefix


def _number_prefix(kind: pa.DataType) -> bytes | None:
    if pa.types.is_integer(kind):
        return struct.pack("<HBQ", 1, pa.types.is_signed_integer(kind), kind.bit_width)
    if pa.types.is_floating(kind):
        return struct.pack("<HQ", 2, kind.bit_width)
    if pa.types.is_decimal(kind):
        # a negative scale is written as its two's complement, which is what `q` does
        return struct.pack("<HQQq", 6, kind.bit_width, kind.precision, kind.scale)
    return struct.pack("<H", 5) if pa.types.is_boolean(kind) else None


def _text_prefix(kind: pa.DataType) -> bytes | None:
    if _is_binary(kind):
        return struct.pack("<H", 3)
    return struct.pack("<H", 4) if _is_string(kind) else None


def _time_prefix(kind: pa.DataType) -> bytes | None:
    if pa.types.is_date(kind):
        unit = _DAY_UNIT if pa.types.is_date32(kind) else _MILLISECOND_UNIT
        return struct.pack("<HQH", 7, kind.bit_width, unit)
    if pa.types.is_time(kind):
        return struct.pack("<HQH", 8, kind.bit_width, _UNITS[kind.unit])
    if not pa.types.is_timestamp(kind):
        return None
    zone = None if kind.tz is None else kind.tz.encode()
    zone_bytes = b"\x00" if zone is None else struct.pack("<Q", len(zone)) + zone
    return struct.pack("<HH", 9, _UNITS[kind.unit]) + zone_bytes


def _unsupported(kind: pa.DataType, path: str) -> InvalidInputError:
    remedy = (
        "cast it to the type that its values have"
        if pa.types.is_null(kind) or pa.types.is_dictionary(kind)
        else "cast it to numbers, texts, times or lists of these"
    )
    return InvalidInputError(
        f"column {path!r} has type {kind}, for which no logical hash is defined; {remedy}"
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _is_string(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


# values


def _pieces(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the column in arrays of a good size, whatever its chunks are."""
    chunks = [
        chunk.slice(start, _ROWS_AT_ONCE)
        for chunk in column.chunks
        for start in range(0, len(chunk), _ROWS_AT_ONCE)
    ]
    if len(column) >= len(chunks) * (_ROWS_AT_ONCE // 16):
        yield from chunks
        return
    for group in batched(chunks, 4096, strict=False):
        yield pa.concat_arrays(group)


def _stream(array: pa.Array) -> Any:
    """Return the bytes of all rows, one after the other."""
    if array.null_count == 0 and _is_fixed(array.type):
        return memoryview(_raw(array))
    encoded = encoded_values(array)
    offsets = _offsets(encoded)
    return memoryview(encoded.buffers()[2] or b"")[offsets[0] : offsets[-1]]


def encoded_values(array: pa.Array) -> pa.LargeBinaryArray:
    """Return the bytes of each row; there are no nulls in what is returned."""
    if pa.types.is_boolean(array.type):
        array = pc.add(array.cast(pa.uint8()), pa.scalar(1, pa.uint8()))
    if _is_fixed(array.type):
        offsets = np.arange(len(array) + 1, dtype=np.int64) * (array.type.bit_width // 8)
        return _binaries(array, offsets, _raw(array)).fill_null(_NULL)
    if _is_list(array.type):
        return _encoded_lists(array)
    values = array.cast(pa.large_binary())
    return _with_lengths(pc.binary_length(values), values)


def _encoded_lists(array: pa.Array) -> pa.LargeBinaryArray:
    """Return the bytes of lists: those of their items, which lie side by side already."""
    lists = array.cast(pa.large_list(array.type.value_type))
    items = encoded_values(lists.values)
    joined = _binaries(lists, _offsets(items)[lists.offsets.to_numpy()], items.buffers()[2])
    return _with_lengths(pc.list_value_length(lists), joined)


def _with_lengths(lengths: pa.Array, values: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Put the length of each value before it; a null becomes one zero byte."""
    prefixes = encoded_values(lengths.cast(pa.int64()))
    return pc.binary_join_element_wise(
        prefixes, values, _NOTHING, null_handling="replace", null_replacement=b""
    )


def _is_fixed(kind: pa.DataType) -> bool:
    """Tell whether values are hashed as they lie in memory."""
    return bool(
        pa.types.is_primitive(kind) or pa.types.is_decimal(kind)
    ) and not pa.types.is_boolean(kind)


def _offsets(values: pa.LargeBinaryArray) -> Any:
    if len(values) == 0:
        return np.zeros(1, np.int64)
    every = np.frombuffer(values.buffers()[1], np.int64)
    return every[values.offset : values.offset + len(values) + 1]


def _raw(array: pa.Array) -> pa.Buffer:
    """Return the values of an array as they lie in memory, those of nulls included."""
    width = array.type.bit_width // 8
    return array.buffers()[1].slice(array.offset * width, len(array) * width)


def _binaries(like: pa.Array, offsets: Any, data: pa.Buffer) -> pa.LargeBinaryArray:
    """Return parts of a buffer as an array that is null where another one is."""
    bitmap = None
    if like.null_count:
        bitmap = pa.py_buffer(np.packbits(np.asarray(like.is_valid()), bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets), data]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(like), buffers)
