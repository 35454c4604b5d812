"""Names that people give to datasets; metadata refer to datasets by id.

>>> DatasetAlias.parse("acme/Net.Example") == DatasetAlias.parse("ACME/net.example")
True
>>> NamePattern("net.%").matches("Net.Example")
True
"""

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Self

from icestream.errors import InvalidInputError

_LONGEST_NAME = 100


def _dotted(characters: str) -> re.Pattern[str]:
    word = rf"[{characters}]+(?:-[{characters}]+)*"
    return re.compile(rf"{word}(?:\.{word})*")


_NAME = _dotted("A-Za-z0-9")
_PATTERN = _dotted("A-Za-z0-9%")


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class DatasetAlias:
    """A name, within an account or not; case is kept, but does not matter."""

    account: str | None
    name: str

    def __post_init__(self) -> None:
        for part in (self.account, self.name):
            if part is not None:
                _check_name(part)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the alias of `name` or `account/name`.

        Raises:
            InvalidInputError: The text has another form.
        """
        account, slash, name = text.rpartition("/")
        return cls(account if slash else None, name)

    def __str__(self) -> str:
        return self.name if self.account is None else f"{self.account}/{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetAlias) and self._key == other._key

    def __lt__(self, other: Self) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> str:
        return str(self).lower()


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A name in which `%` stands for any characters."""

    text: str

    def __post_init__(self) -> None:
        if not all(_PATTERN.fullmatch(part) for part in self.text.split("/", 1)):
            raise InvalidInputError(
                f"{self.text[:200]!r} is no pattern of dataset names: use words of letters,"
                " digits and % joined by '.' or '-'"
            )

    def matches(self, text: str) -> bool:
        """Return whether an alias is meant."""
        parts = (re.escape(part) for part in re.split("%+", self.text))
        return re.fullmatch(".*".join(parts), text, re.IGNORECASE) is not None


def _check_name(name: str) -> None:
    if len(name) > _LONGEST_NAME or _NAME.fullmatch(name) is None:
        raise InvalidInputError(
            f"{name[:200]!r} is no name of a dataset: use words of letters and digits joined by"
            f" '.' or '-', {_LONGEST_NAME} characters at most"
        )
