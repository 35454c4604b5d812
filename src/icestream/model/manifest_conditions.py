"""Conditions on arrays and dimensions: which manifests to preload, and where to split them.

Conditions are values: frozen, hashable, picklable. `variant` is their name in documents.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Self, final

from icestream.model.config_nodes import TEXT, U32, Fault, joined

MAX_CONDITION_DEPTH = 64
"""Nesting of `or` and `and`; documents nest twice as deep."""

ANY_OF = "or"
ALL_OF = "and"
PATH_MATCHES = "path_matches"
NAME_MATCHES = "name_matches"
NUM_REFS = "num_refs"
ALWAYS = "true"
NEVER = "false"
ANY_ARRAY = "any_array"

COMPOUND_VARIANTS = frozenset({ANY_OF, ALL_OF})
REGEX_VARIANTS = frozenset({PATH_MATCHES, NAME_MATCHES})

_MAX_NUM_REFS = 2**32


@dataclass(frozen=True, slots=True, repr=False)
class ArrayCondition:
    """A condition on an array; made by the functions of its subclasses, never directly."""

    variants: ClassVar[frozenset[str]] = COMPOUND_VARIANTS | REGEX_VARIANTS

    variant: str
    conditions: "tuple[Self, ...]" = ()
    """The conditions that `or` and `and` combine."""
    regex: str = ""
    """The expression of `path_matches` and `name_matches`."""
    bounds: tuple[int | None, int | None] = (None, None)
    """First number of references that `num_refs` accepts, and first that it does not."""
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Keys that this version does not know, as they were read."""

    @classmethod
    def or_conditions(cls, conditions: Sequence[Self]) -> Self:
        """Match if any of the conditions does."""
        return cls(ANY_OF, conditions=tuple(conditions))

    @classmethod
    def and_conditions(cls, conditions: Sequence[Self]) -> Self:
        """Match if all of the conditions do."""
        return cls(ALL_OF, conditions=tuple(conditions))

    @classmethod
    def path_matches(cls, regex: str) -> Self:
        """Match if the expression is found in the absolute path of the array."""
        return cls(PATH_MATCHES, regex=regex)

    @classmethod
    def name_matches(cls, regex: str) -> Self:
        """Match if the expression is found in the name of the array."""
        return cls(NAME_MATCHES, regex=regex)

    def __or__(self, other: Self, /) -> Self:
        return self.or_conditions([self, other])

    def __and__(self, other: Self, /) -> Self:
        return self.and_conditions([self, other])

    def __repr__(self) -> str:
        arguments: object = ""
        if self.variant in COMPOUND_VARIANTS:
            return f"{type(self).__name__}.{self.variant}_conditions({list(self.conditions)!r})"
        if self.variant in REGEX_VARIANTS:
            arguments = repr(self.regex)
        elif self.variant == NUM_REFS:
            arguments = ", ".join(map(str, self.bounds))
        return f"{type(self).__name__}.{_FUNCTIONS.get(self.variant, self.variant)}({arguments})"

    def faults(self, path: str, depth: int = 0) -> Iterator[Fault]:
        """Yield what is wrong with the condition, which is at `path` in the document."""
        if depth > MAX_CONDITION_DEPTH:
            yield Fault(path, f"conditions nest deeper than {MAX_CONDITION_DEPTH} levels")
            return
        inner = joined(path, self.variant)
        for i, condition in enumerate(self.conditions):
            if isinstance(condition, type(self)):
                yield from condition.faults(f"{inner}[{i}]", depth + 1)
            else:
                yield Fault(f"{inner}[{i}]", f"{condition!r} is not a {type(self).__name__}")
        if self.variant in REGEX_VARIANTS:
            yield from regex_faults(self.regex, f"{inner}.regex")
        for name, bound in zip(("from", "to"), self.bounds, strict=True):
            if bound is not None and bound != _MAX_NUM_REFS:
                yield from U32.faults(bound, f"{inner}.{name}")


@final
@dataclass(frozen=True, slots=True, repr=False)
class ManifestPreloadCondition(ArrayCondition):
    """Which manifests are loaded as soon as a session opens."""

    variants = ArrayCondition.variants | {NUM_REFS, ALWAYS, NEVER}

    @staticmethod
    def num_refs(from_refs: int | None, to_refs: int | None) -> "ManifestPreloadCondition":
        """Match manifests with at least `from_refs` and fewer than `to_refs` references."""
        return ManifestPreloadCondition(NUM_REFS, bounds=(from_refs, to_refs))

    @staticmethod
    def true() -> "ManifestPreloadCondition":
        """Match every manifest."""
        return ManifestPreloadCondition(ALWAYS)

    @staticmethod
    def false() -> "ManifestPreloadCondition":
        """Match no manifest."""
        return ManifestPreloadCondition(NEVER)

    def matches(self, path: str, num_refs: int) -> bool:
        """Tell whether to preload a manifest of `num_refs` references of the array at `path`."""
        return _holds(self, path, num_refs)


@final
@dataclass(frozen=True, slots=True, repr=False)
class ManifestSplitCondition(ArrayCondition):
    """Which arrays have their references split over several manifests."""

    variants = ArrayCondition.variants | {ANY_ARRAY}

    @staticmethod
    def AnyArray() -> "ManifestSplitCondition":  # noqa: N802  the name that icechunk has
        """Match every array."""
        return ManifestSplitCondition(ANY_ARRAY)

    def matches(self, path: str) -> bool:
        """Tell whether the rule is for the array at `path`."""
        return _holds(self, path, 0)


_FUNCTIONS = {ANY_ARRAY: "AnyArray"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _DimCondition:
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Keys beside the condition that this version does not know, as they were read."""


class ManifestSplitDimCondition:
    """Which dimensions of an array a split size is for; the variants are nested classes."""

    @dataclass(frozen=True, slots=True)
    class Axis(_DimCondition):
        """The dimension with this number."""

        axis: int

    @dataclass(frozen=True, slots=True)
    class DimensionName(_DimCondition):
        """Dimensions in whose name the expression is found."""

        regex: str

    @dataclass(frozen=True, slots=True)
    class Any(_DimCondition):
        """Every dimension."""


AnyDimCondition = (
    ManifestSplitDimCondition.Axis
    | ManifestSplitDimCondition.DimensionName
    | ManifestSplitDimCondition.Any
)


def dim_matches(condition: AnyDimCondition, axis: int, name: str | None) -> bool:
    """Tell whether a split size is for the dimension with this number and name."""
    match condition:
        case ManifestSplitDimCondition.Axis():
            return condition.axis == axis
        case ManifestSplitDimCondition.DimensionName():
            return name is not None and regex_found(condition.regex, name)
        case ManifestSplitDimCondition.Any():
            return True


def regex_faults(regex: object, path: str) -> Iterator[Fault]:
    """Yield why the expression cannot be used.

    icechunk stores expressions unread, and in the syntax of Rust: stored ones are tolerated.
    """
    if not isinstance(regex, str):
        yield from TEXT.faults(regex, path)
        return
    reason = compiled(regex)
    if isinstance(reason, str):
        yield Fault(path, reason, tolerated=True)


def regex_found(regex: str, text: str) -> bool:
    """Tell whether the expression is found in the text; one that is invalid never is."""
    expression = compiled(regex)
    return isinstance(expression, re.Pattern) and expression.search(text) is not None


def _holds(condition: ArrayCondition, path: str, num_refs: int) -> bool:
    match condition.variant:
        case "or":
            return any(_holds(part, path, num_refs) for part in condition.conditions)
        case "and":
            return all(_holds(part, path, num_refs) for part in condition.conditions)
        case "path_matches":
            return regex_found(condition.regex, path)
        case "name_matches":
            return regex_found(condition.regex, path.rpartition("/")[2])
        case "num_refs":
            first, stop = condition.bounds
            return (first or 0) <= num_refs and (stop is None or num_refs < stop)
        case _:
            return condition.variant != NEVER


@lru_cache(maxsize=256)
def compiled(regex: str) -> re.Pattern[str] | str:
    """Return the compiled expression, or why there is none."""
    try:
        return re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        return f"{regex!r} is not a regular expression: {error}"
