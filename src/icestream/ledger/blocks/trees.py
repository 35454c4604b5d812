"""Values as trees of plain JSON types, and back; the form that documents are written in."""

import base64
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Never

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ledger.blocks.attributes import ExtraAttributes
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
from icestream.ledger.blocks.spellings import OLD_KEYS, OLD_KINDS, REFUSED_KEYS, spellings_of
from icestream.ledger.blocks.times import Timestamp

_RANGES = {"Q": (0, 2**64 - 1), "I": (0, 2**32 - 1), "i": (-(2**31), 2**31 - 1)}
_KINDS: dict[type, str] = {
    dict: "a mapping",
    list: "a list",
    str: "a text",
    int: "an integer",
    bool: "true or false",
}


# -- writing --------------------------------------------------------------------------------------


def tree_of(wire: Wire, value: Any) -> Any:
    """Return the tree of a value."""
    match wire:
        case Many(item=item):
            return [tree_of(item, part) for part in value]
        case OneOf():
            return {"kind": wire.kind_of(type(value)), **_record_tree(value)}
        case Record():
            return _record_tree(value)
        case _:
            return _leaf_tree(wire, value)


def _leaf_tree(wire: Wire, value: Any) -> Any:
    match wire:
        case Number() | Text():
            return value
        case Extra():
            return value.to_dict()
        case Binary() if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        case _:
            return str(value)


def _record_tree(value: Any) -> dict[str, Any]:
    return {
        field.key: tree_of(field.wire, part)
        for field in shape_of(type(value)).fields
        if (part := getattr(value, field.name)) is not None
    }


# -- reading --------------------------------------------------------------------------------------


def value_of(wire: Wire, tree: Any, path: str, depth: int = 0) -> Any:
    """Return the value of a tree.

    Args:
        wire: What the value must be.
        tree: Its plain form.
        path: Where it is in its document, for errors.
        depth: How many values it is in.

    Raises:
        InvalidInputError: The tree has another form; the message says where.
    """
    match wire:
        case OneOf():
            return _union_value(wire, tree, path, depth)
        case Record(cls=cls):
            return _record_value(cls, _expect(dict, tree, path), path, depth)
        case Many(item=item):
            parts = enumerate(_expect(list, tree, path))
            return tuple(value_of(item, part, f"{path}[{i}]", depth) for i, part in parts)
        case Choice():
            return _choice_value(wire, tree, path)
        case Number(format=code):
            return _number_value(code, tree, path)
        case _:
            return _leaf_value(wire, tree, path)


def fail(path: str, reason: str, cause: Exception | None = None) -> Never:
    """Refuse what a document has at `path`."""
    raise InvalidInputError(f"{path}: {reason}", kind=ErrorKind.BAD_METADATA) from cause


def _union_value(union: OneOf, tree: Any, path: str, depth: int) -> Any:
    # a plain string is short for a member that needs no fields
    tree = {"kind": tree} if isinstance(tree, str) else _expect(dict, tree, path)
    if not isinstance(kind := tree.get("kind"), str):
        fail(path, f"kind is missing: one of {_list(map(union.kind_of, union.variants))}")
    variants = _named(tuple((union.kind_of(variant), variant) for variant in union.variants))
    variant = variants.get(kind)
    if variant is None:
        known = _list(map(union.kind_of, union.variants))
        fail(path, f"{kind!r} is no {union.name}: use one of {known}")
    fields = {key: part for key, part in tree.items() if key != "kind"}
    return _record_value(variant, fields, path, depth)


def _record_value(cls: type, tree: dict[str, Any], path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        fail(path, f"values nest deeper than {MAX_DEPTH} levels")
    fields = {field.key: field for field in shape_of(cls).fields}
    values: dict[str, Any] = {}
    for given_key, part in tree.items():
        field = _find_field(cls, fields, given_key, path)
        if field.name in values:
            fail(path, f"{given_key!r} and {field.key!r} are the same field")
        if part is not None:
            place = f"{path}.{given_key}"
            values[field.name] = value_of(field.wire, part, place, depth + 1)
    for field in fields.values():
        if field.name not in values and not field.is_optional:
            fail(path, f"{field.key!r} is missing")
    return cls(**values)


def _find_field(cls: type, fields: Mapping[str, Field], key: str, path: str) -> Field:
    if reason := REFUSED_KEYS.get(cls, {}).get(key):
        fail(f"{path}.{key}", reason)
    field = fields.get(OLD_KEYS.get(cls, {}).get(key, key))
    if field is None:
        known = f"known are {_list(fields)}" if fields else "there are none"
        fail(path, f"unknown field {key!r}: {known}")
    return field


def _choice_value(choice: Choice, tree: Any, path: str) -> Any:
    members = _named(tuple((str(member), member) for member in choice.members))
    member = members.get(_expect(str, tree, path))
    if member is None:
        fail(path, f"{tree!r} is none of {_list(map(str, choice.members))}")
    return member


def _number_value(code: str, tree: Any, path: str) -> Any:
    if code == "?":
        return _expect(bool, tree, path)
    if isinstance(tree, bool):
        fail(path, f"expected an integer, not {tree!r}")
    low, high = _RANGES[code]
    if not low <= _expect(int, tree, path) <= high:
        fail(path, f"{tree} is not between {low} and {high}")
    return tree


def _leaf_value(wire: Wire, tree: Any, path: str) -> Any:
    expected: type = dict if isinstance(wire, Extra) else str
    _expect(expected, tree, path)
    try:
        return _parser_of(wire)(tree)
    except ValueError as error:
        fail(path, str(error), error)


def _parser_of(wire: Wire) -> Callable[[Any], Any]:
    match wire:
        case Extra():
            return ExtraAttributes.of
        case Moment():
            return Timestamp.parse
        case Binary(cls=cls):
            return _decode_base64 if issubclass(cls, bytes) else cls.parse
        case _:
            return _check_text


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _check_text(text: str) -> str:
    text.encode()  # half of a surrogate pair could not be stored
    return text


def _expect[T](kind: type[T], tree: Any, path: str) -> T:
    if not isinstance(tree, kind):
        fail(path, f"expected {_KINDS[kind]}, not {_shown(tree)}")
    return tree


def _shown(tree: Any) -> str:
    return _KINDS.get(type(tree), "") if isinstance(tree, dict | list) else repr(tree)[:80]


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


@cache
def _named(members: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return members by every spelling of their names, earlier names included."""
    current = dict(members)
    earlier = {old: current[new] for old, new in OLD_KINDS.items() if new in current}
    return {
        spelling: member
        for name, member in (current | earlier).items()
        for spelling in spellings_of(name)
    }
