"""What stands in the way of an archive, said so that people can act on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from icestream.errors import ErrorKind, InvalidInputError

_SHOWN_FILES = 3
_SHOWN_PROBLEMS = 20


class ProblemKind(StrEnum):
    """Stable codes of problems."""

    MISMATCH = "mismatch"
    TOO_MANY_ERAS = "too-many-eras"
    NO_POSITION = "no-position"
    UNSORTED = "unsorted"
    OVERLAP = "overlap"
    DUPLICATE = "duplicate"
    OFF_STEP = "off-step"
    PARTIAL_CHUNK = "partial-chunk"
    UNALIGNED = "unaligned"
    UNEQUAL_VALUES = "unequal-values"
    UNCHECKED_CONSTANT = "unchecked-constant"
    UNREADABLE_VALUES = "unreadable-values"
    INEXPRESSIBLE = "inexpressible"


_OF_POSITIONS = {
    ProblemKind.OVERLAP,
    ProblemKind.PARTIAL_CHUNK,
    ProblemKind.UNALIGNED,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that keeps files from becoming arrays."""

    kind: ProblemKind
    subject: str
    """Path of the array or name of the dimension."""
    reason: str
    """What it is, and what would help."""
    files: tuple[str, ...] = ()
    """URLs of the first files that have it."""
    num_files: int = 0

    @property
    def is_of_positions(self) -> bool:
        """Whether chunks do not lie as they should, which wrong positions of files lead to."""
        return self.kind in _OF_POSITIONS

    def __str__(self) -> str:
        more = self.num_files - len(self.files)
        named = ", ".join(self.files) + (f" and {more} more" if more > 0 else "")
        return f"{self.subject}: {self.reason}" + (f" ({named})" if named else "")


def problem(
    kind: ProblemKind, subject: str, reason: str, *, urls: Sequence[str], rows: Sequence[int]
) -> Problem:
    """Return a problem of the files in some rows."""
    first = tuple(urls[row] for row in rows[:_SHOWN_FILES])
    return Problem(kind, subject, reason, first, len(rows))


def raise_problems(problems: Sequence[Problem], *, archive: str) -> None:
    """Raise one error that names all problems, if there are any.

    Raises:
        InvalidInputError: There are some.
    """
    if not problems:
        return
    told = "\n  ".join(map(str, problems[:_SHOWN_PROBLEMS]))
    more = len(problems) - _SHOWN_PROBLEMS
    rest = f"\n  and {more} more; `icestream archive scan` lists all" if more > 0 else ""
    raise InvalidInputError(
        f"the files of {archive} do not make one dataset:\n  {told}{rest}",
        kind=ErrorKind.INVALID_ARRAY_METADATA,
    )
