"""Primary keys as numbers: rows of two tables have the same number where they have the same key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import InvalidInputError

_SHOWN_KEYS = 5

type Integers = np.ndarray[Any, np.dtype[np.int64]]
type Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCodes:
    """The keys of old and new rows, numbered from 0."""

    old: Integers
    new: Integers
    count: int
    """How many different keys there are."""


def key_codes(old: pa.Table, new: pa.Table, key: Sequence[str]) -> KeyCodes:
    """Number the keys of two tables; nulls are a value like any other.

    Raises:
        InvalidInputError: A column of the key has a type that is no key.
    """
    codes = np.zeros(len(old) + len(new), np.int64)
    count = 1
    for name in key:
        column, size = _column_codes(old.column(name), new.column(name), name)
        codes, count = _densified(codes * size + column)
    return KeyCodes(old=codes[: len(old)], new=codes[len(old) :], count=count)


def _column_codes(old: pa.ChunkedArray, new: pa.ChunkedArray, name: str) -> tuple[Integers, int]:
    both = pa.chunked_array([*old.chunks, *new.chunks], type=new.type)
    try:
        encoded = both.dictionary_encode(null_encoding="encode").combine_chunks()
    except pa.ArrowNotImplementedError as error:
        raise InvalidInputError(
            f"column {name!r} of type {new.type} cannot be part of a primary key"
        ) from error
    return encoded.indices.to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)


def _densified(codes: Integers) -> tuple[Integers, int]:
    """Number codes anew without gaps, so that products of the next column stay small."""
    encoded = pa.array(codes).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)


def require_columns(table: pa.Table, names: Sequence[str], what: str) -> None:
    """Refuse an input that lacks columns that its merge strategy needs.

    Raises:
        InvalidInputError: Names the columns and what they are for.
    """
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise InvalidInputError(
            f"the input has no {what} {', '.join(missing)}; "
            f"it has the columns {', '.join(table.column_names)}"
        )


def require_unique_keys(new: pa.Table, codes: KeyCodes, key: Sequence[str]) -> None:
    """Refuse an input in which two rows have one key.

    Raises:
        InvalidInputError: Names the first of these keys.
    """
    counts = np.bincount(codes.new, minlength=codes.count)
    doubled = np.flatnonzero(counts > 1)
    if not len(doubled):
        return
    first_rows = np.sort(_first_rows(codes)[doubled])[:_SHOWN_KEYS]
    rows = new.select(list(key)).take(pa.array(first_rows)).to_pylist()
    shown = "; ".join(", ".join(f"{name}={value!r}" for name, value in row.items()) for row in rows)
    more = f" and {len(doubled) - len(rows)} more" if len(doubled) > len(rows) else ""
    raise InvalidInputError(
        f"a snapshot must have one row per primary key; there are several for {shown}{more}"
    )


def _first_rows(codes: KeyCodes) -> Integers:
    rows = np.full(codes.count, -1, np.int64)
    # of several rows the last one assigned stays: going backwards, that is the first
    rows[codes.new[::-1]] = np.arange(len(codes.new) - 1, -1, -1)
    return rows


def last_rows(codes: Integers, count: int) -> Integers:
    """Return the last row of each key, -1 for keys without any."""
    rows = np.full(count, -1, np.int64)
    rows[codes] = np.arange(len(codes))
    return rows


def valid_rows(table: pa.Table, names: Sequence[str]) -> Flags:
    """Tell which rows have no null in any of some columns."""
    valid = np.ones(len(table), np.bool_)
    for name in names:
        valid &= pc.is_valid(table.column(name)).to_numpy()
    return valid
