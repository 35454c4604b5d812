"""What a parser yields, and how parsers are called."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy.typing as npt

from icestream.model.paths import name_of
from icestream.parsers.scanned_files import ScannedArray, ScanProblem
from icestream.parsers.source_files import SourceFile


@dataclass(frozen=True, slots=True)
class Loading:
    """Which arrays are read while a file is open."""

    coordinates: bool = True
    """Those that have one dimension, and its name."""
    patterns: tuple[str, ...] = ()
    """Names, paths (they begin with a slash), or patterns of either with `*` and `?`."""

    def wants(self, path: str, array: ScannedArray) -> bool:
        """Tell whether the values of an array are asked for."""
        name = name_of(path)
        if self.coordinates and array.dimension_names == (name,):
            return True
        return any(
            fnmatchcase(path if pattern.startswith("/") else name, pattern)
            for pattern in self.patterns
        )


@dataclass(slots=True)
class FileContents:
    """Groups, arrays and problems of one file, as a parser finds them."""

    groups: dict[str, Mapping[str, Any]] = field(default_factory=lambda: {"/": {}})
    arrays: dict[str, ScannedArray] = field(default_factory=dict)
    values: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    """Of arrays that the parser has read itself; others are read through their references."""
    problems: list[ScanProblem] = field(default_factory=list)

    def report(self, path: str, faults: Mapping[str, str]) -> None:
        """Note why some attributes of a group or array are missing."""
        self.problems += [
            ScanProblem(f"the attribute {name!r} cannot be kept: {fault}", path, is_fatal=False)
            for name, fault in faults.items()
        ]


type Parser = Callable[[SourceFile, Loading], FileContents]
"""Reads the headers of one file."""


def wanted_paths(arrays: Mapping[str, ScannedArray], loading: Loading) -> Iterator[str]:
    """Yield the paths of the arrays whose values are asked for."""
    return (path for path, array in arrays.items() if loading.wants(path, array))


def without(paths: Iterable[str], known: Mapping[str, Any]) -> list[str]:
    """Return the paths that are not known yet."""
    return [path for path in paths if path not in known]
