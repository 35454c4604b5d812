"""YAML as icechunk reads and writes it: core schema of YAML 1.2, with tags for enum variants.

PyYAML parses and emits; resolving scalars and building values is done here, because PyYAML
follows YAML 1.1 (`yes` is a boolean, `010` a number) and lets aliases unfold without limit.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from yaml.nodes import Node, ScalarNode

from icestream.errors import ErrorKind, FormatError

MAX_BYTES = 4 * 1024 * 1024
"""Documents beyond this size are refused: the Python parser would take minutes."""

MAX_DEPTH = 128
_MIN_VISITS = 1000
_NO_DOCUMENT = object()
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_STANDARD = "tag:yaml.org,2002:"
_CORE_SCALARS: Mapping[str, re.Pattern[str]] = {
    "null": re.compile(r"(?:~|null|Null|NULL|)"),
    "bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)"),
    "int": re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+"),
    "float": re.compile(
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    ),
}


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value with a tag of its own: the variant of an enumeration and what it carries."""

    tag: str
    value: Any = None


def load_yaml(data: bytes, *, name: str) -> Any:
    """Return the value of a document: None, bool, int, float, str, list, dict or `Tagged`.

    An empty document is an empty mapping.

    Raises:
        FormatError: The bytes are not one YAML document, are too large or unfold beyond measure.
    """
    return _load(data, name, _Builder.document)


def load_yaml_stream(data: bytes, *, name: str) -> list[Any]:
    """Return the values of all documents of a stream.

    Raises:
        FormatError: The bytes are no YAML documents, are too large or unfold beyond measure.
    """
    return _load(data, name, lambda builder: list(builder.documents()))


def _load[T](data: bytes, name: str, build: "Callable[[_Builder], T]") -> T:
    if len(data) > MAX_BYTES:
        _fail(name, f"{len(data)} bytes are more than {MAX_BYTES}")
    try:
        text = data.decode()
        return build(_Builder(name, len(text), yaml.parse(text, Loader=_PARSER)))
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(
            f"{name}: no valid YAML: {reason}", kind=ErrorKind.CONFIG_DESERIALIZATION
        ) from error


def dump_yaml(tree: Any) -> bytes:
    """Return the document of a tree of plain types and `Tagged` values, none of them shared."""
    text: str = yaml.dump(
        tree,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=MAX_BYTES,
    )
    return text.encode()


class _Builder:
    """From the events of a parser to values; aliases are copied, and counted."""

    def __init__(self, name: str, size: int, events: Iterator[Event]) -> None:
        self._name = name
        self._events = events
        self._visits_left = size + _MIN_VISITS
        self._anchors: dict[str, tuple[Any, int]] = {}
        """What an anchor names, and how many values that is."""

    def document(self) -> Any:
        """Return the value of the only document."""
        values = self.documents()
        value = next(values, _NO_DOCUMENT)
        if value is _NO_DOCUMENT:
            return {}
        if next(values, _NO_DOCUMENT) is not _NO_DOCUMENT:
            _fail(self._name, "there is more than one document")
        return value

    def documents(self) -> Iterator[Any]:
        """Yield the value of each document."""
        next(self._events)  # the start of the stream
        while not isinstance(next(self._events), StreamEndEvent):
            self._anchors.clear()
            yield self._value(next(self._events), 0)
            next(self._events)  # the end of the document

    def _value(self, event: Event, depth: int) -> Any:
        if isinstance(event, AliasEvent):
            return self._alias(event)
        visits_left = self._visits_left
        self._visit(1)
        if depth > MAX_DEPTH:
            _fail(self._name, f"values nest deeper than {MAX_DEPTH} levels{_place(event)}")
        tag, value = self._content(event, depth)
        if tag and tag.startswith("!") and tag != "!":
            value = Tagged(tag[1:], value)
        if isinstance(event, NodeEvent) and event.anchor is not None:
            self._anchors[event.anchor] = value, visits_left - self._visits_left
        return value

    def _content(self, event: Event, depth: int) -> tuple[str | None, Any]:
        """Return the tag of a value and the value without it."""
        match event:
            case ScalarEvent():
                return event.tag, self._scalar(event)
            case SequenceStartEvent():
                return event.tag, [self._value(item, depth + 1) for item in self._children()]
            case MappingStartEvent():
                return event.tag, self._mapping(depth)
            case _:
                return None, _fail(self._name, f"{event} is no value{_place(event)}")

    def _mapping(self, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for event in self._children():
            if not isinstance(event, ScalarEvent):
                _fail(self._name, f"a key is no scalar{_place(event)}")
            key = self._text(event)
            if key in mapping:
                _fail(self._name, f"{key!r} is there twice{_place(event)}")
            mapping[key] = self._value(next(self._events), depth + 1)
        return mapping

    def _children(self) -> Iterator[Event]:
        """Yield events until the one that ends the list or mapping."""
        return itertools.takewhile(
            lambda event: not isinstance(event, CollectionEndEvent), self._events
        )

    def _alias(self, event: AliasEvent) -> Any:
        if event.anchor not in self._anchors:
            _fail(self._name, f"alias {event.anchor!r} names nothing before it{_place(event)}")
        value, visits = self._anchors[event.anchor]
        self._visit(visits)
        return deepcopy(value)

    def _scalar(self, event: ScalarEvent) -> Any:
        text = self._text(event)
        kind = (event.tag or "").removeprefix(_STANDARD)
        if event.style in {None, ""} and kind not in _CORE_SCALARS and kind != "str":
            found = (name for name, form in _CORE_SCALARS.items() if form.fullmatch(text))
            kind = next(found, "str")
        try:
            return _scalar(kind, text)
        except ValueError as error:
            _fail(self._name, f"{error}{_place(event)}")

    def _text(self, event: ScalarEvent) -> str:
        text: str = event.value
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            _fail(self._name, f"half of a surrogate pair{_place(event)}")
        return text

    def _visit(self, count: int) -> None:
        self._visits_left -= count
        if self._visits_left < 0:
            _fail(self._name, "its aliases unfold beyond measure")


def _scalar(kind: str, text: str) -> Any:
    match kind:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text, 0)
        case "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        case _:
            return text


def _place(event: Event) -> str:
    return f" in line {event.start_mark.line + 1}" if event.start_mark else ""


def _fail(name: str, reason: str) -> NoReturn:
    raise FormatError(f"{name}: {reason}", kind=ErrorKind.CONFIG_DESERIALIZATION)


class _Dumper(yaml.SafeDumper):
    """Emits tags of variants."""

    def choose_scalar_style(self) -> str:
        # Numbers stay plain behind a tag: icechunk reads `!Included '1'` as text.
        event = self.event
        if isinstance(event, ScalarEvent) and str(event.tag).startswith("!") and not event.style:
            return ""
        return super().choose_scalar_style()


def _represent_text(dumper: yaml.SafeDumper, text: str) -> ScalarNode:
    # PyYAML loses line separators other than the newline, unless they are escaped
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar(f"{_STANDARD}str", text, style=style)


def _represent_tagged(dumper: yaml.SafeDumper, data: Tagged) -> Node:
    node = dumper.represent_data(data.value)
    if isinstance(node, ScalarNode) and isinstance(data.value, str):
        node.style = node.style or "'"
    node.tag = f"!{data.tag}"
    return node


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(Tagged, _represent_tagged)
for _kind, _form in _CORE_SCALARS.items():
    # beside those of YAML 1.1: a text that either version would read as something else is quoted
    _Dumper.add_implicit_resolver(_STANDARD + _kind, re.compile(rf"^(?:{_form.pattern})$"), None)
