"""The facts of many files as columns, in the order of their URLs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.facts import ArrayForm, Coordinate, FileFacts

Rows = npt.NDArray[np.intp]
Codes = npt.NDArray[np.int32]
Lengths = npt.NDArray[np.int64]

NOWHERE = -1
"""Where a column does not apply to a row."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayColumns:
    """One array in all files that have it."""

    files: Rows
    """Ascending rows of files."""
    form: Codes
    """Of each file, in `forms`."""
    forms: tuple[ArrayForm, ...]
    metadata: tuple[Mapping[str, Any], ...]
    """Of each form, from the first file that has it."""
    shape: Lengths
    """(n, highest rank), `NOWHERE` beyond the rank of a form."""
    content: Codes
    """Equal for files with equal inline content, `NOWHERE` where it is not inline."""
    value: Codes
    """Of each file, in `values`; `NOWHERE` where it was not loaded."""
    values: tuple[Coordinate, ...]
    """Distinct values of files, if the array is copied."""

    @property
    def is_copied(self) -> bool:
        """Whether the values are copied rather than referred to."""
        return bool(self.values)

    def take(self, rows: npt.NDArray[np.bool_]) -> "ArrayColumns":
        """Return the array in some of its files."""
        return ArrayColumns(
            self.files[rows],
            self.form[rows],
            self.forms,
            self.metadata,
            self.shape[rows],
            self.content[rows],
            self.value[rows],
            self.values,
        )


@dataclass(frozen=True, slots=True, eq=False)
class FileColumns:
    """All files of an archive."""

    urls: tuple[str, ...]
    """In order, each once."""
    arrays: Mapping[str, ArrayColumns]
    groups: Mapping[str, Mapping[str, Any]]
    """Attributes by path, from the first file that has the group."""
    sizes: Lengths
    """Bytes of each file."""
    num_references: Lengths
    num_referenced_bytes: Lengths
    faults: Mapping[tuple[int, str], str]
    """What is wrong with arrays, by row of the file and path."""

    def __len__(self) -> int:
        return len(self.urls)


def gather(facts: Iterable[FileFacts]) -> FileColumns:
    """Return the facts of files as columns; their order does not matter.

    Raises:
        InvalidInputError: A file is there twice.
    """
    files = sorted(facts, key=lambda file: file.url)
    urls = tuple(file.url for file in files)
    if len(set(urls)) < len(urls):
        twice = next(url for url, after in pairwise(urls) if url == after)
        raise InvalidInputError(f"{twice} is there twice", kind=ErrorKind.INVALID_ARGUMENT)
    builders: dict[str, _ArrayBuilder] = {}
    groups: dict[str, Mapping[str, Any]] = {}
    for row, file in enumerate(files):
        for path, attributes in file.groups.items():
            groups.setdefault(path, attributes)
        for path in file.arrays:
            builder = builders.get(path)
            if builder is None:
                builder = builders[path] = _ArrayBuilder()
            builder.add(row, file, path)
    return FileColumns(
        urls=urls,
        arrays={path: builders[path].finish() for path in sorted(builders)},
        groups=groups,
        sizes=np.array([file.identity.size for file in files], np.int64),
        num_references=np.array([file.num_references for file in files], np.int64),
        num_referenced_bytes=np.array([file.num_referenced_bytes for file in files], np.int64),
        faults={
            (row, path): fault
            for row, file in enumerate(files)
            for path, fault in file.faults.items()
        },
    )


class _ArrayBuilder:
    """Collects one array over files: two files that say the same share a code."""

    def __init__(self) -> None:
        self._files: list[int] = []
        self._shapes: list[tuple[int, ...]] = []
        self._form: list[int] = []
        self._content: list[int] = []
        self._value: list[int] = []
        self._forms: dict[ArrayForm, int] = {}
        self._contents: dict[bytes, int] = {}
        self._digests: dict[tuple[bytes, str | None], int] = {}
        self._values: list[Coordinate] = []
        self._metadata: list[Mapping[str, Any]] = []

    def add(self, row: int, file: FileFacts, path: str) -> None:
        """Add the array of one file."""
        array = file.arrays[path]
        form = self._forms.setdefault(array.form, len(self._forms))
        if form == len(self._metadata):
            self._metadata.append(array.metadata)
        content = array.content
        self._files.append(row)
        self._shapes.append(array.shape)
        self._form.append(form)
        self._content.append(
            NOWHERE if content is None else self._contents.setdefault(content, len(self._contents))
        )
        self._value.append(self._value_code(file.values.get(path)))

    def _value_code(self, coordinate: Coordinate | None) -> int:
        if coordinate is None:
            return NOWHERE
        calendar = None if coordinate.time is None else coordinate.time.calendar
        code = self._digests.setdefault((coordinate.digest, calendar), len(self._digests))
        if code == len(self._values):
            self._values.append(coordinate)
        return code

    def finish(self) -> ArrayColumns:
        """Return the columns."""
        return ArrayColumns(
            np.array(self._files, np.intp),
            np.array(self._form, np.int32),
            tuple(self._forms),
            tuple(self._metadata),
            _padded(self._shapes),
            np.array(self._content, np.int32),
            np.array(self._value, np.int32),
            tuple(self._values),
        )


def _padded(shapes: Sequence[tuple[int, ...]]) -> Lengths:
    rank = max(map(len, shapes))
    padding = (NOWHERE,) * rank
    return np.array([(*shape, *padding[len(shape) :]) for shape in shapes], np.int64).reshape(
        len(shapes), rank
    )
