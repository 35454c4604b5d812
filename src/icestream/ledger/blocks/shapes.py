"""The schema of blocks, read off their dataclasses.

The order of fields is the order of slots in the binary form and of keys in documents; the order
in which a union names its members gives their tags. What Python has no type for, the width of
numbers, is listed here. Encoding, decoding and documents all follow these shapes.
"""

from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, TypeAliasType, Union, get_args, get_origin, get_type_hints

from icestream.ledger.blocks.attributes import ExtraAttributes
from icestream.ledger.blocks.data_types import DataTypeDecimal, TimeUnit
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.sources import FetchStepMqtt
from icestream.ledger.blocks.times import Timestamp

type Wire = Number | Choice | Text | Binary | Moment | Extra | Record | OneOf | Many

MAX_DEPTH = 64
"""Tables nest no deeper; only types of columns can nest at all."""

_NARROW_NUMBERS = {
    (DataTypeDecimal, "precision"): "I",
    (DataTypeDecimal, "scale"): "i",
    (FetchStepMqtt, "port"): "i",
}
"""Every other number has 64 bits and no sign."""

_NARROW_CHOICES: dict[type[StrEnum], str] = {TimeUnit: "h"}
"""Every other enumeration has 32 bits."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number or boolean, as a `struct` format."""

    format: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A member of an enumeration, stored as its position in it."""

    members: tuple[StrEnum, ...]
    format: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""


@dataclass(frozen=True, slots=True)
class Binary:
    """Bytes; hashes and ids know how to become them."""

    cls: type[Multihash | DatasetId | bytes]


@dataclass(frozen=True, slots=True)
class Moment:
    """A timestamp: a struct of 16 bytes inside its table."""


@dataclass(frozen=True, slots=True)
class Extra:
    """Extra attributes: a JSON object, in the binary form a text in a table of its own."""


@dataclass(frozen=True, slots=True)
class Record:
    """A table."""

    cls: type


@dataclass(frozen=True, slots=True)
class OneOf:
    """A union: one of several tables, whose tags count from 1."""

    name: str
    variants: tuple[type, ...]

    def kind_of(self, variant: type) -> str:
        """Return what a variant is called in documents."""
        return variant.__name__.removeprefix(self.name)


@dataclass(frozen=True, slots=True)
class Many:
    """A vector of strings, tables or unions."""

    item: Wire


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table."""

    name: str
    key: str
    """Its name in documents."""
    slot: int
    """Its number in the binary form; a union takes two, of which this is the first."""
    wire: Wire
    is_optional: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """A table."""

    fields: tuple[Field, ...]
    n_slots: int


_SHAPES: dict[type, Shape] = {}


def shape_of(cls: type) -> Shape:
    """Return the shape of a table."""
    shape = _SHAPES.get(cls)
    if shape is None:
        shape = _SHAPES[cls] = _read_shape(cls)
    return shape


def union_of(alias: TypeAliasType) -> OneOf:
    """Return the union that a type alias names."""
    value = alias.__value__
    variants = get_args(value) if isinstance(value, UnionType) else (value,)
    return OneOf(alias.__name__, variants)


def _read_shape(cls: type) -> Shape:
    hints = get_type_hints(cls)
    shape, slot = [], 0
    for field in fields(cls):
        wire = _wire_of(hints[field.name], _NARROW_NUMBERS.get((cls, field.name), "Q"))
        is_optional = field.default is not MISSING
        shape.append(Field(field.name, _camel(field.name), slot, wire, is_optional))
        slot += 2 if isinstance(wire, OneOf) else 1
    return Shape(tuple(shape), slot)


_LEAVES: dict[type, Wire] = {
    str: Text(),
    bool: Number("?"),
    bytes: Binary(bytes),
    Multihash: Binary(Multihash),
    DatasetId: Binary(DatasetId),
    Timestamp: Moment(),
    ExtraAttributes: Extra(),
}


def _wire_of(hint: Any, number_format: str) -> Wire:
    hint = _without_none(hint)
    if isinstance(hint, TypeAliasType):
        return union_of(hint)
    if get_origin(hint) is tuple:
        return Many(_wire_of(get_args(hint)[0], number_format))
    if hint is int:
        return Number(number_format)
    if hint in _LEAVES:
        return _LEAVES[hint]
    if issubclass(hint, StrEnum):
        return Choice(tuple(hint), _NARROW_CHOICES.get(hint, "i"))
    return Record(hint)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in {Union, UnionType}:
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    return hint


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
