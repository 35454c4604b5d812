"""What commands return; how it is shown is the business of `output`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with the same columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Record:
    """Named values."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Document:
    """A text for people, and the same for programs."""

    text: str
    data: Any
    exit_code: int = 0
    """With which the command ends, where it tells of something wrong."""


@dataclass(frozen=True, slots=True)
class Done:
    """Something happened; `values` says what to programs."""

    message: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """Documents that come one by one, each shown at once; programs get one line of JSON each.

    The command ends with the exit code of the last one.
    """

    documents: Iterator[Document]


Result = Table | Record | Document | Done | Stream
