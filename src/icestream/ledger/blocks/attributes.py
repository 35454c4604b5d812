"""Attributes that extensions of the fabric attach to events, schemas and fields.

>>> ExtraAttributes.of({"kamu.dev/archetype": "Collection"}).entries
'{"kamu.dev/archetype":"Collection"}'
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from icestream.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class ExtraAttributes:
    """Named JSON values, kept as the text that is hashed with the block."""

    entries: str
    """A JSON object: compact, keys sorted at every level, plain UTF-8."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the attributes of JSON values.

        Raises:
            InvalidInputError: A key is not of the form `domain/path`, or a value is no JSON.
        """
        for key in values:
            domain, slash, path = key.partition("/")
            if not (domain and slash and path):
                raise InvalidInputError(f"attribute {key!r} is not of the form 'domain/path'")
        try:
            text = json.dumps(
                values,
                ensure_ascii=False,
                sort_keys=True,
                separators=(",", ":"),
                allow_nan=False,
            )
            text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInputError(f"attributes must be JSON values: {error}") from error
        return cls(text)

    def to_dict(self) -> dict[str, Any]:
        """Return the values by name.

        Raises:
            InvalidInputError: The text, which may come from another writer, is no JSON object.
        """
        try:
            values = json.loads(self.entries, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"extra attributes are no JSON: {error}") from error
        if not isinstance(values, dict):
            raise InvalidInputError("extra attributes are no JSON object")
        return values


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value")
