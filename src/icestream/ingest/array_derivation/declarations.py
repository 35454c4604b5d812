"""A derived array as people declare it: of which array, along what, in which groups, how."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from icestream.codec.tree_reading import TreeReader
from icestream.codec.yaml_documents import dump_yaml, load_yaml
from icestream.errors import InvalidInputError
from icestream.ingest.declaration.documents import raise_faults
from icestream.ledger.blocks.names import DatasetAlias
from icestream.model.config_nodes import TEXT, Fault, Integer

_VERSION = 1
_KEYS = (
    *("version", "name", "input", "output", "along", "group", "steps", "function"),
    *("chunk-length",),
)
_PLACE_KEYS = ("repository", "branch", "array")
_COUNT = Integer(1, 2**31)
_IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class Period(StrEnum):
    """Spans of time that make a group."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"


class Reduction(StrEnum):
    """What can be made of the values of a group; missing ones do not count."""

    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    COUNT = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlace:
    """An array on a branch of a repository."""

    repository: str
    """URL or path."""
    array: str
    branch: str = "main"

    @property
    def group(self) -> str:
        """The path of the group that the array is in."""
        return "/" + self.array.strip("/").rpartition("/")[0]

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.array.strip("/").rpartition("/")[2]

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the place, which is at `path` in the document."""
        if not self.repository:
            yield Fault(f"{path}.repository", "is missing")
        if not self.name:
            yield Fault(f"{path}.array", "is missing: give the path of an array")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayDerivation:
    """An array whose values are made from groups of values of another one."""

    name: str
    """Of the dataset that records it."""
    input: ArrayPlace
    output: ArrayPlace
    along: str
    """The dimension along which values are grouped."""
    group: Period | None = None
    """By the time that the coordinate of the dimension tells; or by `steps`."""
    steps: int | None = None
    """So many neighbours make a group."""
    function: str = Reduction.MEAN.value
    """A `Reduction`, or `package.module:function`, which is called with a block and the axis."""
    chunk_length: int = 1
    """Of the output, along the dimension."""

    @property
    def versions_name(self) -> str:
        """The name of the dataset that records the versions of the input."""
        return f"{self.name}.versions"

    def _name_faults(self) -> Iterator[Fault]:
        try:
            DatasetAlias.parse(self.name)
            DatasetAlias.parse(self.versions_name)  # which is longer
        except InvalidInputError as error:
            yield Fault("name", error.message)

    def faults(self) -> Iterator[Fault]:
        """Yield everything that is wrong with the declaration, by its path in the document."""
        yield from self._name_faults()
        yield from self.input.faults("input")
        yield from self.output.faults("output")
        if not self.along:
            yield Fault("along", "is missing: name the dimension")
        if (self.group is None) == (self.steps is None):
            periods = ", ".join(period.value for period in Period)
            yield Fault("group", f"give either a group ({periods}) or a number of steps")
        if not _is_function(self.function):
            known = ", ".join(reduction.value for reduction in Reduction)
            reason = f"{self.function!r} is none of {known}, nor `package.module:function`"
            yield Fault("function", reason)
        here, there = self.input, self.output
        if (here.repository, here.branch) == (there.repository, there.branch) and (
            here.group == there.group
        ):
            reason = "in the group of the input the coordinates would clash; choose another group"
            yield Fault("output.array", reason)


def _is_function(text: str) -> bool:
    return text in {reduction.value for reduction in Reduction} or bool(
        _IMPORT_PATH.fullmatch(text)
    )


# -- as documents ---------------------------------------------------------------------------------


def decode_derivation(data: bytes, *, name: str = "derived array") -> ArrayDerivation:
    """Return the derived array that a YAML document declares.

    Raises:
        FormatError: It is not a YAML document.
        InvalidInputError: The declaration has faults; the message names all of them.
    """
    reader = TreeReader()
    tree = reader.mapping(load_yaml(data, name=name), "")
    _check_keys(reader, tree, "", _KEYS)
    _check_version(reader, tree)
    derivation = ArrayDerivation(
        name=_text(reader, tree, "name"),
        input=_place(reader, tree, "input"),
        output=_place(reader, tree, "output"),
        along=_text(reader, tree, "along"),
        group=_period(reader, tree),
        steps=_number(reader, tree, "steps"),
        function=_text(reader, tree, "function") or Reduction.MEAN.value,
        chunk_length=_number(reader, tree, "chunk-length") or 1,
    )
    raise_faults([*reader.faults, *derivation.faults()], name=name)
    return derivation


def encode_derivation(derivation: ArrayDerivation) -> bytes:
    """Return the YAML document of a derived array.

    Raises:
        InvalidInputError: The declaration has faults; the message names all of them.
    """
    raise_faults(list(derivation.faults()), name=derivation.name or "derived array")
    return dump_yaml(_tree(derivation))


def _tree(derivation: ArrayDerivation) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "version": _VERSION,
        "name": derivation.name,
        "input": _place_tree(derivation.input),
        "output": _place_tree(derivation.output),
        "along": derivation.along,
        "group": None if derivation.group is None else derivation.group.value,
        "steps": derivation.steps,
        "function": derivation.function,
        "chunk-length": derivation.chunk_length,
    }
    return {key: value for key, value in tree.items() if value is not None}


def _place_tree(place: ArrayPlace) -> dict[str, str]:
    return {"repository": place.repository, "branch": place.branch, "array": place.array}


def _place(reader: TreeReader, tree: dict[str, Any], key: str) -> ArrayPlace:
    found = reader.mapping(tree.get(key) or {}, key)
    _check_keys(reader, found, f"{key}.", _PLACE_KEYS)
    texts = {name: _text(reader, found, name, f"{key}.") for name in _PLACE_KEYS}
    return ArrayPlace(
        repository=texts["repository"], array=texts["array"], branch=texts["branch"] or "main"
    )


def _period(reader: TreeReader, tree: dict[str, Any]) -> Period | None:
    found = tree.get("group")
    known = {period.value: period for period in Period}
    if found is None or found in known:
        return known.get(found) if isinstance(found, str) else None
    reader.fault("group", f"{found!r} is not one of {', '.join(known)}")
    return Period.MONTH  # one fault is enough


def _text(reader: TreeReader, tree: dict[str, Any], key: str, path: str = "") -> str:
    found = tree.get(key)
    if found is None or not reader.follows(TEXT, found, path + key):
        return ""
    return str(found)


def _number(reader: TreeReader, tree: dict[str, Any], key: str) -> int | None:
    found = tree.get(key)
    return int(found) if found is not None and reader.follows(_COUNT, found, key) else None


def _check_keys(
    reader: TreeReader, tree: dict[str, Any], path: str, known: tuple[str, ...]
) -> None:
    for key in tree:
        if key not in known:
            reader.fault(f"{path}{key}", f"is unknown; there are {', '.join(known)}")


def _check_version(reader: TreeReader, tree: dict[str, Any]) -> None:
    version = tree.get("version", _VERSION)
    if reader.follows(_COUNT, version, "version") and version > _VERSION:
        reader.fault("version", f"{version} is of a newer icestream; this one knows {_VERSION}")
