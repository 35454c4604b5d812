"""Text of any encoding as UTF-8, which is all that the readers know."""

from icestream.errors import InvalidInputError, SourceError


def as_utf8(data: bytes, encoding: str | None) -> bytes:
    """Return text in UTF-8.

    Args:
        data: The text.
        encoding: That it has; UTF-8 if None.

    Raises:
        InvalidInputError: There is no such encoding.
        SourceError: The text has another encoding.
    """
    if encoding is None or encoding.lower() in {"utf8", "utf-8"}:
        return data
    try:
        return data.decode(encoding).encode()
    except LookupError as error:
        raise InvalidInputError(f"the encoding {encoding!r} is not known") from error
    except UnicodeError as error:
        raise SourceError(f"the text is not encoded in {encoding!r}: {error}") from error
