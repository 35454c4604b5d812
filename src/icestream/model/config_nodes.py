"""What every part of a configuration has in common: settings with rules, faults, merging.

A setting is a field annotated with its rule: `level: Annotated[int | None, U8] = None`. None means
unset. Keys of a document that this version does not know are kept in `extra`, so that they survive
loading, changing and saving.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Protocol, Self, get_type_hints


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a configuration."""

    path: str
    """Where it is in the document, e.g. `manifest.preload.preload_if.or[1].name_matches.regex`."""
    reason: str
    tolerated: bool = False
    """icechunk opens repositories with this fault: stored ones are read with a warning."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class Rule(Protocol):
    """What a setting may be when it is set."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number within bounds."""

    lowest: int
    highest: int
    tolerates_zero: bool = False
    """icechunk reads a zero here, although it cannot work with it."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if not isinstance(value, int) or isinstance(value, bool):
            yield Fault(path, f"{value!r} is not a whole number")
        elif not self.lowest <= value <= self.highest:
            zero = self.tolerates_zero and value == 0
            yield Fault(path, f"{value} is not in {self.lowest}..{self.highest}", tolerated=zero)


@dataclass(frozen=True, slots=True)
class Typed:
    """A value of one Python type, called `noun` in messages."""

    type: type
    noun: str

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if not isinstance(value, self.type):
            yield Fault(path, f"{value!r} is not {self.noun}")


@dataclass(frozen=True, slots=True)
class Choice:
    """A member of an enumeration that has names of its own in documents."""

    names: Mapping[str, Enum]

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if value not in self.names.values():
            yield Fault(path, f"{value!r} is not one of {', '.join(self.names)}")


@dataclass(frozen=True, slots=True)
class Part:
    """A nested part of the configuration."""

    type: "type[ConfigNode]"
    merged: bool = True
    """Whether merging goes field by field, or replaces the part."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if isinstance(value, self.type):
            yield from value.faults(path)
        else:
            yield Fault(path, f"{value!r} is not a {self.type.__name__}")


@dataclass(frozen=True, slots=True)
class PartList:
    """Several nested parts of one kind, in order."""

    type: "type[ConfigNode]"

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if not isinstance(value, tuple):
            yield Fault(path, f"{value!r} is not a tuple of {self.type.__name__}")
            return
        for i, part in enumerate(value):
            yield from Part(self.type).faults(part, f"{path}[{i}]")


U8 = Integer(0, 2**8 - 1)
U16 = Integer(0, 2**16 - 1)
U32 = Integer(0, 2**32 - 1)
U64 = Integer(0, 2**64 - 1)
I32 = Integer(-(2**31), 2**31 - 1)
POSITIVE_U16 = Integer(1, 2**16 - 1)
POSITIVE_U32 = Integer(1, 2**32 - 1)
POSITIVE_U64 = Integer(1, 2**64 - 1)
LIMIT_U16 = Integer(1, 2**16 - 1, tolerates_zero=True)
BOOLEAN = Typed(bool, "true or false")
TEXT = Typed(str, "a text")


@dataclass(slots=True, repr=False)
class ConfigNode:
    """A part of a configuration: equal by value, mutable, with a repr of what is set."""

    extra: dict[str, Any] = field(default_factory=dict, init=False)
    """Keys that this version does not know, as they were read."""

    def __repr__(self) -> str:
        named = ((name, getattr(self, name)) for name in rules(type(self)))
        given = ", ".join(f"{name}={value!r}" for name, value in named if value is not None)
        return f"{type(self).__name__}({given})"

    def faults(self, path: str = "") -> Iterator[Fault]:
        """Yield everything that is wrong with this part, which is at `path` in the document."""
        for name, rule in rules(type(self)).items():
            value = getattr(self, name)
            if value is not None:
                yield from rule.faults(value, joined(path, name))

    def merge(self, other: Self) -> Self:
        """Return a copy in which everything that `other` sets takes precedence."""
        merged = deepcopy(self)
        for name, rule in rules(type(self)).items():
            mine, theirs = getattr(self, name), deepcopy(getattr(other, name))
            if mine is not None and theirs is not None and isinstance(rule, Part) and rule.merged:
                theirs = mine.merge(theirs)
            if theirs is not None:
                setattr(merged, name, theirs)
        merged.extra.update(deepcopy(other.extra))
        return merged


def joined(path: str, name: str) -> str:
    """Return the path of a key below `path`; keys that are no plain words are quoted."""
    if not name.isidentifier():
        return f"{path}[{name!r}]"
    return f"{path}.{name}" if path else name


def rules(node_type: type[ConfigNode]) -> Mapping[str, Rule]:
    """Return the rule of each setting of a node type, in the order of its fields."""
    if node_type not in _RULES:
        hints = get_type_hints(node_type, include_extras=True)
        names = (f.name for f in fields(node_type) if hasattr(hints[f.name], "__metadata__"))
        _RULES[node_type] = {name: hints[name].__metadata__[0] for name in names}
    return _RULES[node_type]


_RULES: dict[type[ConfigNode], Mapping[str, Rule]] = {}
