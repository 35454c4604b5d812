"""How virtual chunks are read."""

from dataclasses import dataclass, fields

from icestream.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """Limits of merging and reading ahead, and whether changes are looked for."""

    max_gap_bytes: int = 128 << 10
    """Ranges of one object that are closer than this are fetched together."""
    max_request_bytes: int = 8 << 20
    """Most bytes of a request that holds several ranges; 0 = one range per request."""
    read_ahead_refs: int = 256
    """Most references that are fetched before anybody asks for them; 0 = never any."""
    read_ahead_bytes: int = 16 << 20
    """Most bytes of them."""
    cache_bytes: int = 64 << 20
    """Most bytes in memory that nobody has asked for yet, or that were just asked for."""
    check_changes: bool = True
    """Whether a changed object is an error. Without, its bytes are returned, whatever they are."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not isinstance(value, int) or value < 0:
                raise InvalidInputError(f"{limit.name} is {value!r}; give a number, or 0")
