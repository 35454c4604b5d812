"""Which manifest an array's references go to, and which manifests are loaded ahead of reading.

A manifest set is a group of manifests with limits; rules send arrays to sets, and what does not
fit goes on to another set, at last to `default`. All sizes are numbers of references.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from icestream.model.config_nodes import BOOLEAN, POSITIVE_U32, TEXT, Fault, Integer, Rule
from icestream.model.manifest_conditions import compiled

DEFAULT_SET = "default"
"""The set that always exists and takes every array."""

DEFAULT_MAX_MANIFEST_SIZE = 1_000_000
"""Of the set `default`, unless it is packed by the number of arrays."""

ROOT = "chunk-manifests"
"""The key of these settings in a document, where all their faults are."""

_CHUNK_COUNT = Integer(0, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class ManifestSet:
    """A group of manifests with common limits."""

    name: str
    max_manifest_size: int | None = None
    """References in one manifest; either this or `arrays_per_manifest` is given."""
    arrays_per_manifest: int | None = None
    """How many arrays share a manifest, whatever their size."""
    cardinality: int | None = 1
    """How many manifests the set may have; None is any number, and always so for `default`."""
    overflow_to: str | None = None
    """The set for arrays that do not fit here; None is `default`."""
    split_oversized: bool | None = None
    """Of `default` only: whether an array beyond the size is cut into several manifests."""

    def __post_init__(self) -> None:
        """Leave the number of manifests of `default` open, where it is not given."""
        if self.is_default and self.cardinality == 1:
            object.__setattr__(self, "cardinality", None)

    @property
    def is_default(self) -> bool:
        """Whether this is the set that takes every array."""
        return self.name == DEFAULT_SET

    def completed(self) -> Self:
        """Return the set with everything filled in that has a default."""
        if not self.is_default:
            return replace(self, overflow_to=self.overflow_to or DEFAULT_SET)
        size = self.max_manifest_size
        if size is None and self.arrays_per_manifest is None:
            size = DEFAULT_MAX_MANIFEST_SIZE
        return replace(self, max_manifest_size=size)

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the set alone, which is at `path` in the document."""
        if not self.name or not isinstance(self.name, str):
            yield Fault(path, f"{self.name!r} is not the name of a set")
        yield from _setting_faults(self, _SET_RULES, path)
        yield from self._packing_faults(path)
        if self.is_default:
            yield from self._default_faults(path)
        elif self.split_oversized is not None:
            reason = "is for the set default only: the others send on what does not fit"
            yield Fault(f"{path}.split-oversized", reason)

    def _packing_faults(self, path: str) -> Iterator[Fault]:
        whole = self.completed()
        given = [whole.max_manifest_size is not None, whole.arrays_per_manifest is not None]
        if all(given):
            yield Fault(path, "has both max-manifest-size and arrays-per-manifest; leave out one")
        elif not any(given):
            yield Fault(path, "has neither max-manifest-size nor arrays-per-manifest; give one")

    def _default_faults(self, path: str) -> Iterator[Fault]:
        if self.cardinality is not None:
            yield Fault(f"{path}.cardinality", "the set default takes any number of manifests")
        if self.overflow_to is not None:
            yield Fault(f"{path}.overflow-to", "the set default takes every array")
        if self.split_oversized and self.arrays_per_manifest is not None:
            yield Fault(f"{path}.split-oversized", "needs max-manifest-size")


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """Numbers of chunks from `start` up to, but without, `stop`; None is an open end."""

    start: int | None = None
    stop: int | None = None

    def contains(self, count: int) -> bool:
        """Tell whether a number of chunks is in the range."""
        return (self.start or 0) <= count and (self.stop is None or count < self.stop)

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the range, which is at `path` in the document."""
        bounds = {f"{path}[{i}]": bound for i, bound in enumerate((self.start, self.stop))}
        wrong = [
            fault
            for at, bound in bounds.items()
            if bound is not None
            for fault in _CHUNK_COUNT.faults(bound, at)
        ]
        yield from wrong
        if not wrong and self.stop is not None and (self.start or 0) >= self.stop:
            reason = f"no number is from {self.start or 0} up to, but without, {self.stop}"
            yield Fault(path, reason)


@dataclass(frozen=True, slots=True)
class ManifestRule:
    """The arrays that fulfil all conditions go to a set."""

    target: str
    path: str | None = None
    """An expression for the whole absolute path of the array."""
    metadata_chunks: ChunkRange | None = None
    """How many chunks the shape of the array has room for."""
    initialized_chunks: ChunkRange | None = None
    """How many chunks of the array have a reference."""

    def matches_path(self, path: str) -> bool:
        """Tell whether the condition on the path holds, or there is none."""
        return self.path is None or is_whole_match(self.path, path)

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the rule alone, which is at `path` in the document."""
        yield from _setting_faults(self, _RULE_RULES, path)
        if not self.target:
            yield Fault(f"{path}.target", "is missing")


@dataclass(frozen=True, slots=True)
class ManifestPreload:
    """Which manifests are loaded in the background as soon as a session opens."""

    max_manifest_size: int = 50_000
    """Larger manifests are not loaded."""
    max_manifests: int = 1
    """No more than this many are loaded."""
    arrays: tuple[str, ...] = (".*/time", ".*/latitude", ".*/longitude")
    """Expressions for the whole absolute path of arrays; without any, nothing is loaded."""

    def selects(self, path: str) -> bool:
        """Tell whether the manifests of the array at `path` are to be loaded."""
        return any(is_whole_match(regex, path) for regex in self.arrays)

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the settings, which are at `path` in the document."""
        yield from _setting_faults(self, _PRELOAD_RULES, path)


@dataclass(frozen=True, slots=True)
class ChunkManifests:
    """Sets, the rules that send arrays to them, and what is loaded ahead of reading.

    Without sets and rules, those of `DEFAULT_CHUNK_MANIFESTS` are in force.
    """

    sets: tuple[ManifestSet, ...] = ()
    """In order: of sets that could be filled at the same time, the first comes first."""
    rules: tuple[ManifestRule, ...] = ()
    """In order: the first that is for an array decides; without one, it goes to `default`."""
    preload: ManifestPreload | None = None
    """Takes the place of `manifest.preload`; None leaves it in force."""

    @staticmethod
    def default() -> "ChunkManifests":
        """Return what is in force when nothing is set, and the preloading that goes with it."""
        return DEFAULT_CHUNK_MANIFESTS

    def completed(self) -> Self:
        """Return the settings in force: with the set `default`, and without unset overflows."""
        if not self.sets and not self.rules:
            return replace(self, sets=_DEFAULT_SETS, rules=_DEFAULT_RULES)
        sets = tuple(one.completed() for one in self.sets)
        if not any(one.is_default for one in sets):
            sets = (*sets, ManifestSet(DEFAULT_SET).completed())
        return replace(self, sets=sets)

    def merge(self, other: Self) -> Self:
        """Return the settings with those of `other` taking precedence.

        Sets and rules belong together and are replaced together; preloading is replaced alone.
        """
        packing = other if other.sets or other.rules else self
        preload = self.preload if other.preload is None else other.preload
        return replace(packing, preload=preload)

    def faults(self, path: str = ROOT) -> Iterator[Fault]:
        """Yield everything that is wrong with these settings, which are at `path`."""
        if not all(isinstance(one, ManifestSet) for one in self.sets):
            yield Fault(f"{path}.sets", f"{self.sets!r} are not all a ManifestSet")
            return
        yield from self._set_faults(path)
        names = {one.name for one in self.sets} | {DEFAULT_SET}
        for i, rule in enumerate(self.rules):
            at = f"{path}.rules[{i}]"
            yield from _Nested(ManifestRule).faults(rule, at)
            target: object = getattr(rule, "target", None)
            if target and isinstance(target, str) and target not in names:
                yield Fault(f"{at}.target", f"there is no set {target!r}")
        if self.preload is not None:
            yield from _Nested(ManifestPreload).faults(self.preload, f"{path}.preload")

    def _set_faults(self, path: str) -> Iterator[Fault]:
        places: dict[str, str] = {}
        for i, one in enumerate(self.sets):
            at = f"{path}.sets[{i}].{one.name}"
            yield from one.faults(at)
            first = places.setdefault(one.name, at)
            if first != at:
                yield Fault(at, f"there is already {first}")
        yield from _overflow_faults({one.name: one for one in self.sets}, places)


class ChunkManifestsRule:
    """Settings of manifest sets; their faults are where people write them."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if isinstance(value, ChunkManifests):
            yield from value.faults(ROOT)
        else:
            yield Fault(path, f"{value!r} is not a ChunkManifests")


def is_whole_match(regex: str, path: str) -> bool:
    """Tell whether an expression matches a whole path; one that is invalid never does."""
    expression = compiled(regex)
    return not isinstance(expression, str) and expression.fullmatch(path) is not None


def _overflow_faults(sets: Mapping[str, ManifestSet], places: Mapping[str, str]) -> Iterator[Fault]:
    looping: set[str] = set()
    for name, one in sets.items():
        at = f"{places[name]}.overflow-to"
        target = one.overflow_to
        if isinstance(target, str) and target not in {*sets, DEFAULT_SET}:
            yield Fault(at, f"there is no set {target!r}")
        loop = _loop_from(name, sets)
        if loop and name not in looping:
            looping.update(loop)
            yield Fault(at, f"arrays would go round in a loop: {' -> '.join([*loop, name])}")


def _loop_from(name: str, sets: Mapping[str, ManifestSet]) -> list[str]:
    """Return the sets on the way from a set back to itself; none if there is no such way."""
    way = [name]
    while True:
        current = sets.get(way[-1])
        target = current.overflow_to if current is not None else None
        if target == name:
            return way
        if not isinstance(target, str) or target in way:
            return []
        way.append(target)


@dataclass(frozen=True, slots=True)
class _Nested:
    """A value that knows its own faults."""

    type: type[ChunkRange | ManifestRule | ManifestPreload]

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if isinstance(value, self.type):
            yield from value.faults(path)
        else:
            yield Fault(path, f"{value!r} is not a {self.type.__name__}")


class _Regex:
    """A regular expression."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if not isinstance(value, str):
            yield from TEXT.faults(value, path)
            return
        reason = compiled(value)
        if isinstance(reason, str):
            yield Fault(path, reason)


class _Regexes:
    """Several regular expressions, each the `path` of an item."""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the value."""
        if not isinstance(value, tuple):
            yield Fault(path, f"{value!r} is not a tuple of texts")
            return
        for i, regex in enumerate(value):
            yield from _Regex().faults(regex, f"{path}[{i}].path")


_SET_RULES: Mapping[str, Rule] = {
    "max_manifest_size": POSITIVE_U32,
    "arrays_per_manifest": POSITIVE_U32,
    "cardinality": POSITIVE_U32,
    "overflow_to": TEXT,
    "split_oversized": BOOLEAN,
}
_RULE_RULES: Mapping[str, Rule] = {
    "target": TEXT,
    "path": _Regex(),
    "metadata_chunks": _Nested(ChunkRange),
    "initialized_chunks": _Nested(ChunkRange),
}
_PRELOAD_RULES: Mapping[str, Rule] = {
    "max_manifest_size": POSITIVE_U32,
    "max_manifests": POSITIVE_U32,
    "arrays": _Regexes(),
}


def _setting_faults(
    part: ManifestSet | ManifestRule | ManifestPreload, rules: Mapping[str, Rule], path: str
) -> Iterator[Fault]:
    for setting in fields(part):
        value = getattr(part, setting.name)
        if value is not None and setting.name in rules:
            yield from rules[setting.name].faults(value, f"{path}.{key_of(setting.name)}")


def key_of(name: str) -> str:
    """Return the key that a setting has in documents."""
    return name.replace("_", "-")


_DEFAULT_SETS = (
    ManifestSet("coordinates", max_manifest_size=50_000, overflow_to=DEFAULT_SET),
    ManifestSet(DEFAULT_SET).completed(),
)
_DEFAULT_RULES = (ManifestRule("coordinates", path=".*", metadata_chunks=ChunkRange(0, 5000)),)

DEFAULT_CHUNK_MANIFESTS = ChunkManifests(_DEFAULT_SETS, _DEFAULT_RULES, ManifestPreload())
"""Small arrays share one manifest, and the others are packed up to a million references."""
