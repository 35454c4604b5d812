"""An archive as people declare it: where its files are, how they combine, and where they go."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from icestream.errors import InvalidInputError
from icestream.ingest.declaration.name_patterns import format_fault, groups_of, pattern_fault
from icestream.ingest.declaration.source_places import SourcePlace
from icestream.ingest.declaration.steps import step_fault
from icestream.ingest.times.encodings import parse_time_units
from icestream.model.config_nodes import Fault
from icestream.model.manifest_sets import ChunkManifests
from icestream.parsers.file_contents import Loading
from icestream.parsers.parser_options import options_fault
from icestream.parsers.scanned_files import ScannedArray
from icestream.parsers.scanning import name_fault

AUTO = "auto"
"""The parser is found by the first bytes and the name of each file."""

_SMALL_CONSTANT = 4096
"""Elements that are read from every file just to compare them."""


class PlaceBy(StrEnum):
    """What tells where a file lies along a dimension."""

    COORDINATE = "coordinate"
    """The values of a coordinate in the file."""
    NAME = "name"
    """A part of the file's name."""
    ORDER = "order"
    """The names in order, numbers in them counted as numbers."""


class OnBroken(StrEnum):
    """What happens with a file that cannot be read or expressed."""

    SET_ASIDE = "set-aside"
    FAIL = "fail"


class OnChanged(StrEnum):
    """What happens when a file is another than the one that was ingested."""

    UPDATE = "update"
    KEEP = "keep"
    FAIL = "fail"


class OnVanished(StrEnum):
    """What happens when a file that was ingested is gone."""

    KEEP = "keep"
    REMOVE = "remove"
    FAIL = "fail"


class OnMismatch(StrEnum):
    """What happens when files do not agree about a variable."""

    FAIL = "fail"
    ERA = "era"
    MATERIALISE = "materialise"
    SET_ASIDE = "set-aside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A dimension along which files are put one after the other."""

    dimension: str
    by: PlaceBy = PlaceBy.COORDINATE
    coordinate: str | None = None
    """Path or name of the coordinate; None is that of the dimension."""
    pattern: str | None = None
    """Expression for the file's name, or the URL if it has a `/`; a named group is the position.

    The group has the name of the dimension or `value`; groups `year`, `month`, `day`, `hour`,
    `minute` and `second` are a date.
    """
    format: str | None = None
    """How the group is read: `integer`, `number`, `text`, or a date format such as `%Y%m%d`."""
    step: str | None = None
    """The distance of neighbours, such as `1 day`: missing files then leave room."""
    new: bool = False
    """Files do not have the dimension: each file is one position along it."""

    @property
    def coordinate_path(self) -> str:
        """The path of the coordinate along this dimension."""
        name = self.coordinate or self.dimension
        return name if name.startswith("/") else f"/{name}"

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the axis, which is at `path` in the document."""
        if not self.dimension:
            yield Fault(f"{path}.dimension", "is missing")
        yield from self._naming_faults(path)
        if self.coordinate is not None and self.by is not PlaceBy.COORDINATE and not self.new:
            yield Fault(f"{path}.coordinate", "is for `by: coordinate` only; leave it out")
        if self.new and self.by is PlaceBy.COORDINATE:
            reason = "a dimension that files lack has no coordinate in them; use `by: name`"
            yield Fault(f"{path}.new", reason)
        fault = self.step and step_fault(self.step)
        if fault:
            yield Fault(f"{path}.step", fault)
        elif self.step and self.by is PlaceBy.ORDER:
            yield Fault(f"{path}.step", "files in order have no distances; leave it out")

    def _naming_faults(self, path: str) -> Iterator[Fault]:
        if self.by is not PlaceBy.NAME:
            for key, value in {"pattern": self.pattern, "format": self.format}.items():
                if value is not None:
                    yield Fault(f"{path}.{key}", "is for `by: name` only; leave it out")
            return
        if self.pattern is None:
            yield Fault(f"{path}.pattern", "is missing: files are placed by their names")
            return
        fault = pattern_fault(self.pattern, self.dimension)
        if fault:
            yield Fault(f"{path}.pattern", fault)
            return
        fault = format_fault(self.format, groups_of(self.pattern), self.dimension)
        if fault:
            yield Fault(f"{path}.format", fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """How files become arrays. Files that hold different variables are merged."""

    along: tuple[Axis, ...] = ()
    """Dimensions along which files are concatenated."""
    constant: tuple[str, ...] = ()
    """Virtual variables that are known to be the same in all files: names, paths, or with `*`."""
    group_per_file: str | None = None
    """Expression as for an axis, whose group `group` names the group that a file becomes."""

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the combination, which is at `path` in the document."""
        names = [axis.dimension for axis in self.along]
        for i, axis in enumerate(self.along):
            at = f"{path}.along[{i}]"
            yield from axis.faults(at)
            if axis.dimension in names[:i]:
                yield Fault(f"{at}.dimension", f"{axis.dimension!r} is there already")
            if axis.by is PlaceBy.ORDER and len(names) > 1:
                yield Fault(f"{at}.by", "`order` is for a single dimension; use `by: name`")
        if self.group_per_file is None:
            return
        at = f"{path}.group-per-file"
        if self.along:
            yield Fault(at, "files become groups or are put along dimensions; leave out one")
        fault = pattern_fault(self.group_per_file, "group")
        if fault:
            yield Fault(at, fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What happens when files are not as hoped for."""

    on_broken: OnBroken = OnBroken.SET_ASIDE
    on_changed: OnChanged = OnChanged.UPDATE
    on_vanished: OnVanished = OnVanished.KEEP
    on_mismatch: OnMismatch = OnMismatch.FAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserChoice:
    """Which parser reads the files."""

    name: str = AUTO
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the parser, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The repository that an archive becomes."""

    repository: str
    """URL or path."""
    branch: str = "main"
    group: str = "/"
    chunk_manifests: ChunkManifests | None = None
    """Manifest sets and rules; None leaves those of the repository in force."""
    splits: Mapping[str, int] = field(default_factory=dict)
    """Chunks per manifest along dimensions."""

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield what is wrong with the target, which is at `path` in the document."""
        if not self.repository:
            yield Fault(f"{path}.repository", "is missing")
        if not self.branch:
            yield Fault(f"{path}.branch", "is empty; leave it out for main")
        if not self.group.startswith("/"):
            yield Fault(f"{path}.group", f"{self.group!r} does not start with /")
        for dimension, size in self.splits.items():
            if size < 1:
                yield Fault(f"{path}.splits.{dimension}", f"{size} is not a positive number")


@dataclass(frozen=True, slots=True)
class ArchiveLoading(Loading):
    """Also small variables that should be the same in all files, so that they can be compared."""

    along: frozenset[str] = frozenset()
    """Dimensions along which files are put."""
    compares_constants: bool = True
    """Not where files lack a dimension: there any variable may be meant to get it; nor where
    each becomes a group of its own."""
    drop: tuple[str, ...] = ()
    """Variables that are left out."""

    def wants(self, path: str, array: ScannedArray) -> bool:
        """Tell whether the values of an array are asked for."""
        if any_matches(self.drop, path):
            return False
        is_small = self.compares_constants and math.prod(array.shape) <= _SMALL_CONSTANT
        is_constant = is_small and self.along.isdisjoint(array.dimension_names)
        return is_constant or Loading.wants(self, path, array)


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A collection of files, declared once; every run makes the repository follow it."""

    name: str
    sources: tuple[str, ...]
    """URLs of folders, or with `*`, `?` and `**` in them, of files, on any store."""
    target: Target
    exclude: tuple[str, ...] = ()
    """The same that is left out; without a scheme or slash in front, the ends of URLs."""
    access: tuple[SourcePlace, ...] = ()
    """How files are reached where that does not follow from their URLs and the repository."""
    container: str | None = None
    """Name of the virtual chunk container that covers the files; None is any that does."""
    parser: ParserChoice = field(default_factory=ParserChoice)
    combine: Combination = field(default_factory=Combination)
    loaded: tuple[str, ...] = ()
    """Variables that are copied besides the coordinates of dimensions, named in the same way."""
    drop: tuple[str, ...] = ()
    """Variables that are left out, named in the same way."""
    time_units: str | None = None
    """What times are stored in, such as `hours since 1970-01-01`; None is found from the files."""
    policies: Policies = field(default_factory=Policies)
    ledger: str | None = None
    """URL or path of the ledger's workspace; None is beside the repository."""

    @property
    def loading(self) -> Loading:
        """Which values are read while a file is scanned."""
        axes = self.combine.along
        return ArchiveLoading(
            patterns=(*self.loaded, *(axis.coordinate_path for axis in axes)),
            along=frozenset(axis.dimension for axis in axes),
            compares_constants=not (self.combine.group_per_file or any(a.new for a in axes)),
            drop=self.drop,
        )

    def faults(self) -> Iterator[Fault]:
        """Yield everything that is wrong with the declaration, by its path in the document."""
        if not re.fullmatch(r"[\w.-]+", self.name):
            yield Fault("name", f"{self.name!r} is not of letters, digits, `-`, `_` and `.`")
        if not self.sources:
            yield Fault("sources", "is missing: give at least one folder or URL with wildcards")
        for i, source in enumerate(self.sources):
            if not source:
                yield Fault(f"sources[{i}]", "is empty")
        try:
            parse_time_units(self.time_units or "days since 1970-01-01")
        except InvalidInputError as error:
            yield Fault("time-units", error.message)
        for i, place in enumerate(self.access):
            yield from place.faults(f"access[{i}]")
        yield from self._parser_faults()
        yield from self.combine.faults("combine")
        yield from self.target.faults("target")

    def _parser_faults(self) -> Iterator[Fault]:
        unknown = name_fault(self.parser.name)
        if unknown:
            yield Fault("parser", unknown)
            return
        fault = options_fault(self.parser.name, self.parser.options)
        if fault:
            yield Fault("parser.options", fault)


def any_matches(patterns: tuple[str, ...], path: str) -> bool:
    """Tell whether a variable is meant: by its path, its name, or a pattern of either."""
    name = path.rpartition("/")[2]
    return any(
        fnmatchcase(path if pattern.startswith("/") else name, pattern) for pattern in patterns
    )
