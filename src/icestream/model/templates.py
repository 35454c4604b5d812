"""Templates of URLs: `s3://bucket/run-{}/{}.nc`, filled by the path of a relative location.

The segments of `vcc://name/a/b` are the arguments, percent-encoded, with `%2F` for a slash inside
of one. An empty or missing segment takes the default of its placeholder, surplus ones are ignored.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from urllib.parse import quote, unquote

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.locations import (
    RELATIVE_SCHEME,
    canonical_location,
    location_fault,
    spelled,
)

PLACEHOLDER = "{}"
_KEPT = "!$&'()*+,;=:@"
"""Characters of arguments that need no encoding, besides letters, digits and `-._~`."""


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    """A URL with placeholders, and what fills them by default."""

    text: str
    defaults: tuple[str | None, ...] = ()

    @property
    def literals(self) -> tuple[str, ...]:
        """What is before, between and after the placeholders."""
        return tuple(self.text.split(PLACEHOLDER))

    @property
    def prefix(self) -> str:
        """The folder that holds every URL of the template."""
        fixed = self.literals[0]
        return fixed[: fixed.rfind("/") + 1]

    @property
    def pattern(self) -> str:
        """A regular expression, in the words of RE2 too, for the canonical URLs of the template."""
        return rf"(?s)^{'.+'.join(map(re.escape, self._canonical_literals()))}$"

    def faults(self) -> Iterator[str]:
        """Yield everything that is wrong with the template."""
        literals = self.literals
        if len(literals) == 1:
            yield "has no placeholder {}"
        if any(brace in literal for literal in literals for brace in "{}"):
            yield "has a brace that is not of a placeholder {}"
        if not self.prefix:
            yield "does not begin with a folder, such as s3://bucket/"
        if len(self.defaults) > len(literals) - 1:
            yield f"has {len(self.defaults)} defaults for {len(literals) - 1} placeholders"
        if "" in self.defaults:
            yield "has an empty default; leave it out, or write null"
        fault = location_fault("x".join(literals))
        if fault is not None:
            yield fault

    def fill(self, segments: Sequence[str]) -> str:
        """Return the URL for the segments of a relative location.

        Raises:
            InvalidInputError: A placeholder has neither an argument nor a default.
        """
        arguments = [
            encoded_slashes_opened(segments[i]) if i < len(segments) and segments[i] else default
            for i, default in enumerate(self.encoded_defaults())
        ]
        if None in arguments:
            raise missing_argument(self, arguments.index(None))
        pairs = zip_longest(self.literals, arguments, fillvalue="")
        return "".join(f"{literal}{argument}" for literal, argument in pairs)

    def encoded_defaults(self) -> list[str | None]:
        """Return the default of each placeholder as it is in a URL."""
        given = [default and quote(default, safe=f"/{_KEPT}") for default in self.defaults]
        return [*given, *[None] * (len(self.literals) - 1 - len(given))]

    def match(self, location: str) -> tuple[str, ...] | None:
        """Return the arguments that make this location, without slashes inside if that is possible.

        Raises:
            InvalidInputError: The location names no object, or not unmistakably.
        """
        text = canonical_location(location)
        literals = [re.escape(literal) for literal in self._canonical_literals()]
        for argument in ("([^/]+?)", "(.+?)"):
            found = re.fullmatch(argument.join(literals), text, re.DOTALL)
            if found:
                return found.groups()
        return None

    def _canonical_literals(self) -> list[str]:
        return [unquote(literal) for literal in spelled(self.text).split(PLACEHOLDER)]


def encoded_slashes_opened(segment: str) -> str:
    """Return a segment of a relative location as it is in a URL."""
    return segment.replace("%2F", "/").replace("%2f", "/")


def relative_location(name: str, arguments: Sequence[object]) -> str:
    """Return the relative location that gives these arguments to the template of a container.

    Raises:
        InvalidInputError: An argument is neither None nor a text with something in it.
    """
    return f"{RELATIVE_SCHEME}://{name}/{'/'.join(map(_segment, arguments))}"


def _segment(argument: object) -> str:
    if argument is None:
        return ""
    if not isinstance(argument, str) or not argument:
        raise InvalidInputError(
            f"{argument!r} is no argument of a template; give texts, or None for the default",
            kind=ErrorKind.INVALID_VIRTUAL_REF,
        )
    return quote(argument, safe=_KEPT)


def missing_argument(template: UrlTemplate, placeholder: int) -> InvalidInputError:
    """Return the error for a placeholder that nothing fills."""
    return InvalidInputError(
        f"placeholder {placeholder + 1} of the template {template.text} has neither an argument "
        "nor a default; give one, or set default_template_arguments",
        kind=ErrorKind.INVALID_VIRTUAL_REF,
    )
