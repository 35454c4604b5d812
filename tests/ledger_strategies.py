"""Any metadata block that can be written, for hypothesis; and the seeded ids of kamu's tests."""

import struct
from typing import Any

from hypothesis import strategies as st

from icestream.ledger.blocks.attributes import ExtraAttributes
from icestream.ledger.blocks.data_types import (
    DataField,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import MetadataBlock, MetadataEvent
from icestream.ledger.blocks.hashes import LOGICAL_CODE, PHYSICAL_CODE, Multihash
from icestream.ledger.blocks.shapes import (
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
    union_of,
)
from icestream.ledger.blocks.times import Timestamp

EVENT_TYPES = union_of(MetadataEvent).variants

_RANGES = {"Q": (0, 2**64 - 1), "I": (0, 2**32 - 1), "i": (-(2**31), 2**31 - 1)}
_DATA_TYPES = union_of(DataType)
_texts = st.text(st.characters(codec="utf-8"), max_size=8)
_hashes = st.builds(
    Multihash,
    st.sampled_from([PHYSICAL_CODE, LOGICAL_CODE, 0x12]),
    st.binary(min_size=1, max_size=32),
)
_plain_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=4,
)
_extras = st.dictionaries(_texts.map(lambda text: f"example.org/x{text}"), _plain_json, max_size=2)
timestamps = st.builds(
    Timestamp,
    st.integers(1, 9999),
    st.integers(1, 365),
    st.integers(0, 86_399),
    st.sampled_from([0, 1, 999, 1000, 123_000_000, 123_456_000, 999_999_999]),
)


def blocks() -> st.SearchStrategy[MetadataBlock]:
    """Return blocks of all thirteen events; not all of them fit into a chain."""
    return values(Record(MetadataBlock))


def events(kind: type | None = None) -> st.SearchStrategy[Any]:
    """Return events, of one type or of any."""
    return values(union_of(MetadataEvent) if kind is None else Record(kind))


def values(wire: Wire) -> st.SearchStrategy[Any]:
    """Return values that fit a field."""
    match wire:
        case Many(item=item):
            return st.lists(values(item), max_size=3).map(tuple)
        case OneOf() if wire == _DATA_TYPES:
            return data_types
        case OneOf(variants=variants):
            return st.one_of([values(Record(cls)) for cls in variants])
        case Record(cls=cls):
            return st.deferred(lambda: _records(cls))
        case Number() | Choice():
            return _numbers(wire)
        case _:
            return _leaves(wire)


def _numbers(wire: Number | Choice) -> st.SearchStrategy[Any]:
    if isinstance(wire, Choice):
        return st.sampled_from(wire.members)
    is_flag = wire.format == "?"
    return st.booleans() if is_flag else st.just(0) | st.integers(*_RANGES[wire.format])


def _leaves(wire: Wire) -> st.SearchStrategy[Any]:
    match wire:
        case Text():
            return _texts
        case Moment():
            return timestamps
        case Extra():
            return _extras.map(ExtraAttributes.of)
        case Binary(cls=cls) if cls is Multihash:
            return _hashes
        case Binary(cls=cls) if cls is DatasetId:
            return st.builds(DatasetId, st.binary(min_size=32, max_size=32))
        case _:
            return st.binary(max_size=16)


def _records(cls: type) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{field.name: _parts(field) for field in shape_of(cls).fields})


def _parts(field: Field) -> st.SearchStrategy[Any]:
    return st.none() | values(field.wire) if field.is_optional else values(field.wire)


def _nested_types(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return types that are made of others."""
    fields = st.builds(
        DataField, name=_texts, type=inner, extra=st.none() | _extras.map(ExtraAttributes.of)
    )
    lengths = st.none() | st.integers(0, 2**64 - 1)
    return st.one_of(
        st.builds(DataTypeList, item_type=inner, fixed_length=lengths),
        st.builds(
            DataTypeMap,
            key_type=inner,
            value_type=inner,
            keys_sorted=st.none() | st.booleans(),
        ),
        st.builds(DataTypeOption, inner=inner),
        st.builds(DataTypeStruct, fields=st.lists(fields, max_size=3).map(tuple)),
    )


_NESTED = (DataTypeList, DataTypeMap, DataTypeOption, DataTypeStruct)
data_types = st.recursive(
    st.one_of([_records(cls) for cls in _DATA_TYPES.variants if cls not in _NESTED]),
    _nested_types,
    max_leaves=4,
)


def seeded_dataset_id(seed: str) -> DatasetId:
    """Return what kamu's tests use for ids: random numbers (xoshiro256++) of a text, no keys."""
    state = [
        int.from_bytes(part, "little")
        for part in struct.unpack("8s8s8s8s", seed.encode().ljust(32, b"\0"))
    ]
    return DatasetId(b"".join(_next_random(state) for _ in range(4)))


def _next_random(state: list[int]) -> bytes:
    number = (_rotate(state[0] + state[3], 23) + state[0]) % 2**64
    shifted = state[1] << 17
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted % 2**64
    state[3] = _rotate(state[3], 45)
    return number.to_bytes(8, "little")


def _rotate(number: int, bits: int) -> int:
    number %= 2**64
    return (number << bits | number >> 64 - bits) % 2**64
