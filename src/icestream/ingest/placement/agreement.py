"""Do files agree about their arrays? If not: what differs, in which files, since when."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.ingest.file_columns import ArrayColumns, FileColumns, Rows
from icestream.ingest.placement.problems import Problem, ProblemKind, problem

_ABSENT = "absent"
_SHOWN_VARIANTS = 4
_REMEDY = (
    "declare on-mismatch: era for one group per consistent period, materialise to copy the files "
    "that differ, set-aside to leave them out, or drop: to leave the variable out"
)


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """One of several values that files have for the same thing."""

    text: str
    files: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Disagreement:
    """Something about an array that is not the same in all files."""

    path: str
    attribute: str
    variants: tuple[Variant, ...]
    """The most frequent first."""

    def problem(self, urls: Sequence[str]) -> Problem:
        """Return the disagreement for people: the values, each with a file that has it."""
        told = [
            f"{variant.text} in {len(variant.files)} files (such as {urls[variant.files[0]]})"
            for variant in self.variants[:_SHOWN_VARIANTS]
        ]
        more = len(self.variants) - len(told)
        texts = "; ".join(told) + (f"; and {more} other values" if more > 0 else "")
        others = np.sort(np.concatenate([variant.files for variant in self.variants[1:]]))
        reason = f"files differ in {self.attribute}: {texts}; {_REMEDY}"
        return problem(ProblemKind.MISMATCH, self.path, reason, urls=urls, rows=others.tolist())


def disagreements_of(files: FileColumns) -> tuple[Disagreement, ...]:
    """Return everything that files do not agree about, by array and attribute."""
    return tuple(
        found
        for path, array in files.arrays.items()
        if len(array.forms) > 1
        for found in _differences(path, array)
    )


def _differences(path: str, array: ArrayColumns) -> Iterator[Disagreement]:
    in_use = np.unique(array.form)
    parts: Mapping[int, Mapping[str, str]] = {int(i): array.forms[i].parts() for i in in_use}
    attributes = dict.fromkeys(key for part in parts.values() for key in part)
    for attribute in attributes:
        texts = {code: part.get(attribute, _ABSENT) for code, part in parts.items()}
        if len(set(texts.values())) > 1:
            yield Disagreement(path, attribute, _variants(array, texts))


def _variants(array: ArrayColumns, texts: Mapping[int, str]) -> tuple[Variant, ...]:
    distinct = list(dict.fromkeys(texts.values()))
    lookup = np.zeros(len(array.forms), np.intp)
    for code, text in texts.items():
        lookup[code] = distinct.index(text)
    held = lookup[array.form]
    variants = [Variant(text, array.files[held == i]) for i, text in enumerate(distinct)]
    return tuple(sorted(variants, key=lambda variant: (-len(variant.files), variant.files[0])))


def usual_forms(files: FileColumns) -> Mapping[str, int]:
    """Return the form of each array that most files have; of equal numbers, the first file's."""
    return {path: int(np.argmax(np.bincount(array.form))) for path, array in files.arrays.items()}


def unusual_files(files: FileColumns) -> Mapping[str, Rows]:
    """Return by array the files that have another form than the usual."""
    usual = usual_forms(files)
    found = {path: array.files[array.form != usual[path]] for path, array in files.arrays.items()}
    return {path: rows for path, rows in found.items() if len(rows)}


def eras_of(files: FileColumns, position: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return for each file the number of its era: the longest periods in which files agree.

    Arrays may be missing from files without ending an era. Files at one position are in one era,
    even if they do not agree: no period tells them apart.

    Args:
        files: The files.
        position: Of each file, anything that can be sorted.
    """
    places, place = np.unique(position, return_inverse=True)
    changes = [
        change for array in files.arrays.values() for change in _changes(array, place).tolist()
    ]
    starts = np.zeros(len(places), np.intp)
    last_start = 0
    for before, after in sorted(changes, key=lambda change: change[1]):
        if last_start <= before:
            last_start = after
            starts[after] = 1
    return np.cumsum(starts)[place]


def _changes(array: ArrayColumns, place: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return pairs of neighbouring places between which the form of an array changes."""
    order = np.argsort(place[array.files], kind="stable")
    places, forms = place[array.files][order], array.form[order]
    changed = np.flatnonzero((forms[1:] != forms[:-1]) & (places[1:] != places[:-1]))
    return np.stack([places[changed], places[changed + 1]], axis=1)
