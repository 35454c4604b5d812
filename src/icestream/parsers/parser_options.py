"""Parsers of others with arguments: by name, so that they travel to other processes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icestream.errors import InvalidInputError
from icestream.parsers.scanning import (
    FOLDER_FORMATS,
    VIRTUALIZARR_PARSERS,
    AnyParser,
    load_parser,
)


@dataclass(frozen=True, slots=True, eq=False)
class ParserWithOptions:
    """A parser as VirtualiZarr has them, which is made where it is used."""

    name: str
    """Of a format, or `package.module:attribute`."""
    options: Mapping[str, Any]

    @property
    def is_for_folders(self) -> bool:
        """Whether it reads folders, not files."""
        return self.name in FOLDER_FORMATS

    def __call__(self, url: str, registry: Any) -> Any:
        """Return the manifests of a file.

        Raises:
            InvalidInputError: The parser has no such options.
        """
        make = load_parser(VIRTUALIZARR_PARSERS.get(self.name, self.name))
        try:
            parser = make(**self.options)
        except TypeError as error:
            told = ", ".join(self.options)
            raise InvalidInputError(
                f"the parser {self.name} cannot be made with the options {told}: {error}"
            ) from error
        return parser(url, registry)


def with_options(name: str, options: Mapping[str, Any]) -> AnyParser:
    """Return a parser by name, with options if there are any."""
    return ParserWithOptions(name, options) if options else name


def options_fault(name: str, options: Mapping[str, Any]) -> str | None:
    """Return why a parser cannot have options, or None."""
    if not options or ":" in name or name in VIRTUALIZARR_PARSERS:
        return None
    of_others = ", ".join(sorted(VIRTUALIZARR_PARSERS))
    return f"are for {of_others} and package.module:attribute; {name!r} has none"
