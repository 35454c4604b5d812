"""Columns of text as dates and times."""

import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import SourceError

RFC3339 = "rfc3339"
"""The name of the default format; any other is a pattern such as `%d.%m.%Y %H:%M`."""

_DAY = r"^\d{4}-\d\d-\d\d$"
_ZONE = r"([Zz]|[+-]\d\d:?\d\d)$"
_TOO_FINE = r"(\.\d{6})\d+"


def parse_times(
    texts: pa.ChunkedArray, kind: pa.DataType, text_format: str | None, *, column: str
) -> pa.ChunkedArray:
    """Return texts as timestamps or dates.

    Args:
        texts: A column of strings.
        kind: The timestamp or date type to return.
        text_format: `rfc3339` (also if None) or a pattern of `strptime`. Times without a zone
            are in UTC.
        column: Its name, for errors.

    Raises:
        SourceError: A text is no time of this format.
    """
    try:
        if text_format is None or text_format.lower() == RFC3339:
            return _parse_standard(texts, kind)
        moments = pc.strptime(texts, format=text_format, unit="s")
        return moments.cast(kind, safe=False)
    except pa.ArrowInvalid as error:
        raise SourceError(
            f"column {column!r} does not hold times of the format "
            f"{text_format or RFC3339!r}: {error}"
        ) from error


def _parse_standard(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    texts = pc.utf8_trim_whitespace(texts)
    if pa.types.is_date(kind):
        return texts.cast(pa.date32()).cast(kind)
    is_day = pc.match_substring_regex(texts, pattern=_DAY)
    texts = pc.if_else(is_day, _joined(texts, "T00:00:00Z"), texts)
    has_zone = pc.match_substring_regex(texts, pattern=_ZONE)
    texts = pc.if_else(has_zone, texts, _joined(texts, "Z"))
    texts = pc.replace_substring_regex(texts, pattern=_TOO_FINE, replacement=r"\1")
    return texts.cast(pa.timestamp("us", "UTC")).cast(kind, safe=False)


def _joined(texts: pa.ChunkedArray, end: str) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(texts, end, "")
