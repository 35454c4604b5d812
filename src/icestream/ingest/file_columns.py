"""The facts of many files as columns, in the order of their URLs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.coordinate_pools import (
    NOWHERE,
    CoordinatePool,
    Lengths,
    padded_shapes,
    pool_of,
)
from icestream.ingest.facts import DIGEST_SIZE, ArrayForm, Coordinate, FileFacts
from icestream.ingest.row_numbers import Codes, Rows

__all__ = [
    "NOWHERE",
    "UNKNOWN_TIME",
    "ArrayColumns",
    "Codes",
    "FileColumns",
    "Lengths",
    "Rows",
    "gather",
]

UNKNOWN_TIME = -1
"""When a file was changed, where the store does not tell."""

Digests = npt.NDArray[np.uint8]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ArrayColumns:
    """One array in all files that have it.

    Forms, contents and values are there once, in the order of the first files that have them.
    """

    files: Rows
    """Ascending rows of files."""
    form: Codes
    """Of each file, in `forms`."""
    forms: tuple[ArrayForm, ...]
    metadata: tuple[Mapping[str, Any], ...]
    """Of each form, from the first file that has it."""
    shape: Lengths
    """(n, highest rank), `NOWHERE` beyond the rank of a form."""
    num_references: Lengths
    content: Codes
    """Of each file, in `contents`: equal for equal inline content, `NOWHERE` if not inline."""
    contents: Digests
    """(n, 16) digests."""
    value: Codes
    """Of each file, in `values`; `NOWHERE` where it was not loaded."""
    values: CoordinatePool
    """Distinct values of files, if the array is copied."""

    @property
    def is_copied(self) -> bool:
        """Whether the values are copied rather than referred to."""
        return len(self.values) > 0

    def take(self, rows: Rows | npt.NDArray[np.bool_]) -> "ArrayColumns":
        """Return the array in some of its files; codes stay as they are."""
        return ArrayColumns(
            files=self.files[rows],
            form=self.form[rows],
            forms=self.forms,
            metadata=self.metadata,
            shape=self.shape[rows],
            num_references=self.num_references[rows],
            content=self.content[rows],
            contents=self.contents,
            value=self.value[rows],
            values=self.values,
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FileColumns:
    """All files of an archive."""

    urls: tuple[str, ...]
    """In order, each once."""
    arrays: Mapping[str, ArrayColumns]
    """By path, in order."""
    groups: Mapping[str, Mapping[str, Any]]
    """Attributes by path, in order, from the first file that has the group."""
    group_file: Mapping[str, int]
    """The row of that file, by path."""
    sizes: Lengths
    """Bytes of each file."""
    etags: pa.LargeStringArray
    """Of each file when it was read, null where the store has none."""
    last_modified: Lengths
    """Microseconds since the epoch, `UNKNOWN_TIME` where the store does not tell."""
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
    group_file: dict[str, int] = {}
    for row, file in enumerate(files):
        for path in file.groups:
            group_file.setdefault(path, row)
        for path in file.arrays:
            builder = builders.get(path)
            if builder is None:
                builder = builders[path] = _ArrayBuilder()
            builder.add(row, file, path)
    return FileColumns(
        urls=urls,
        arrays={path: builders[path].finish() for path in sorted(builders)},
        groups={path: files[group_file[path]].groups[path] for path in sorted(group_file)},
        group_file={path: group_file[path] for path in sorted(group_file)},
        sizes=np.array([file.identity.size for file in files], np.int64),
        etags=pa.array([file.identity.etag for file in files], pa.large_string()),
        last_modified=np.array([_micros(file.identity.last_modified) for file in files], np.int64),
        num_references=np.array([file.num_references for file in files], np.int64),
        num_referenced_bytes=np.array([file.num_referenced_bytes for file in files], np.int64),
        faults={
            (row, path): file.faults[path]
            for row, file in enumerate(files)
            for path in sorted(file.faults)
        },
    )


def _micros(moment: datetime | None) -> int:
    return UNKNOWN_TIME if moment is None else (moment - _EPOCH) // _MICRO


class _ArrayBuilder:
    """Collects one array over files: two files that say the same share a code."""

    def __init__(self) -> None:
        self._files: list[int] = []
        self._shapes: list[tuple[int, ...]] = []
        self._num_references: list[int] = []
        self._form: list[int] = []
        self._content: list[int] = []
        self._value: list[int] = []
        self._forms: dict[ArrayForm, int] = {}
        self._contents: dict[bytes, int] = {}
        self._keys: dict[tuple[Any, str | None], int] = {}
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
        self._num_references.append(array.num_references)
        self._form.append(form)
        self._content.append(
            NOWHERE if content is None else self._contents.setdefault(content, len(self._contents))
        )
        self._value.append(self._value_code(file.values.get(path)))

    def _value_code(self, coordinate: Coordinate | None) -> int:
        if coordinate is None:
            return NOWHERE
        calendar = None if coordinate.time is None else coordinate.time.calendar
        code = self._keys.setdefault((coordinate.key, calendar), len(self._keys))
        if code == len(self._values):
            self._values.append(coordinate)
        return code

    def finish(self) -> ArrayColumns:
        """Return the columns."""
        contents = np.frombuffer(b"".join(self._contents), np.uint8)
        return ArrayColumns(
            files=np.array(self._files, np.intp),
            form=np.array(self._form, np.int32),
            forms=tuple(self._forms),
            metadata=tuple(self._metadata),
            shape=padded_shapes(self._shapes),
            num_references=np.array(self._num_references, np.int64),
            content=np.array(self._content, np.int32),
            contents=contents.reshape(-1, DIGEST_SIZE),
            value=np.array(self._value, np.int32),
            values=pool_of(self._values),
        )
