"""Positions of files that their names tell: named groups of an expression, and their formats."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from icestream.model.times import micros_of

DATE_PARTS = {"year": "1970", "month": "1", "day": "1", "hour": "0", "minute": "0", "second": "0"}
"""Groups that together are a date, and what those mean that are not there."""
INTEGER, NUMBER, TEXT = "integer", "number", "text"


def groups_of(pattern: str) -> tuple[str, ...]:
    """Return the names of the groups of a valid expression."""
    return tuple(re.compile(pattern).groupindex)


def group_for(pattern: str, dimension: str) -> str | None:
    """Return the group that holds the position along a dimension, None if parts of a date do."""
    names = groups_of(pattern)
    if dimension in names:
        return dimension
    return "value" if "value" in names else None


def pattern_fault(pattern: str, dimension: str) -> str | None:
    """Return what is wrong with an expression for URLs, or None."""
    try:
        names = groups_of(pattern)
    except re.error as error:
        return f"{pattern!r} is not an expression: {error}"
    if not {dimension, "value", "year"} & set(names):
        group = dimension if dimension.isidentifier() else "value"
        return f"has no group (?P<{group}>...) that would hold the position"
    return None


def format_fault(form: str | None, groups: Iterable[str], dimension: str) -> str | None:
    """Return what is wrong with the format of a group, or None."""
    named = {dimension, "value"} & set(groups)
    if form is None:
        reason = f"is missing: {INTEGER}, {NUMBER}, {TEXT}, or a date format such as %Y%m%d"
        return reason if named else None
    if not named:
        return "is for one group; those named year, month ... are a date without it"
    if form in {INTEGER, NUMBER, TEXT} or "%" in form:
        return None
    return f"{form!r} is none of {INTEGER}, {NUMBER}, {TEXT} and a date format such as %Y%m%d"


def positions_in_names(
    urls: Sequence[str], pattern: str, form: str | None, dimension: str
) -> tuple[npt.NDArray[Any], dict[int, str]]:
    """Return what each URL says of its place, and by row what is wrong with those that do not.

    Dates are microseconds since 1970. The place of a faulty row has no meaning.
    """
    search = searcher(pattern)
    group = group_for(pattern, dimension)
    faults: dict[int, str] = {}
    texts: list[Any] = []
    for row, url in enumerate(urls):
        found = search(url)
        texts.append(None if found is None else found[group] if group else _parts(found))
        if texts[-1] is None:
            faults[row] = f"the pattern {pattern!r} does not match"
    read = {text: _read(text, form) for text in set(texts) if text is not None}
    faults |= {
        row: f"{text!r} is not {'a date' if form is None else form}"
        for row, text in enumerate(texts)
        if text is not None and read[text] is None
    }
    good = next((value for value in read.values() if value is not None), 0)
    values = [good if (value := read.get(text)) is None else value for text in texts]
    return np.array(values, _dtype(form)), faults


def searcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """Return a search in names of files, or in whole URLs if the expression is for more.

    An expression for any digits would find that of `s3://` otherwise.
    """
    expression = re.compile(pattern)
    if "/" in pattern:
        return expression.search
    return lambda url: expression.search(url.rpartition("/")[2])


def is_date(form: str | None) -> bool:
    """Tell whether a format is one of dates."""
    return form is None or "%" in form


def _dtype(form: str | None) -> Any:
    if form == TEXT:
        return np.str_
    return np.float64 if form == NUMBER else np.int64


def _parts(found: re.Match[str]) -> tuple[str, ...]:
    named: Mapping[str, str | None] = found.groupdict()
    return tuple(named.get(part) or start for part, start in DATE_PARTS.items())


def _read(text: Any, form: str | None) -> Any:
    """Return what a text stands for, None if it does not follow its format."""
    try:
        if form is None:
            year, month, day, hour, minute, second = map(int, text)
            return micros_of(datetime(year, month, day, hour, minute, second, tzinfo=UTC))
        if form == INTEGER:
            return int(text)
        if form == NUMBER:
            return float(text)
        return text if form == TEXT else micros_of(_parsed(text, form))
    except ValueError:
        return None


def _parsed(text: str, form: str) -> datetime:
    moment = datetime.strptime(text, form)  # noqa: DTZ007  the zone is added where none is given
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
