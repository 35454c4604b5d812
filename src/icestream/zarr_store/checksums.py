"""Checksums of foreign objects as users give them: ETags, or times of the last change."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.chunk_tables import UInt32
from icestream.model.text_pools import NO_POOL, Int32, encode_texts
from icestream.model.times import micros_of
from icestream.zarr_store.faulty_rows import rows_named

type Checksum = str | int | datetime
"""An ETag, or the time (epoch seconds or aware datetime) after which the object must not change."""

type ChecksumColumn = Sequence[Checksum | None] | npt.NDArray[Any] | pa.Array | pa.ChunkedArray
"""One checksum per chunk, null where there is none; 0 seconds are none either."""

_MAX_SECONDS = 2**32


@dataclass(frozen=True, slots=True)
class Checksums:
    """Checksums as columns of a table of references."""

    etag_code: Int32 | None = None
    """Row in `etags`, or -1."""
    etags: pa.ChunkedArray = field(default_factory=lambda: NO_POOL)
    seconds: UInt32 | None = None
    """Seconds since the epoch; 0 = not given."""


def split_checksum(checksum: object) -> tuple[str | None, int]:
    """Return a checksum as (etag, epoch seconds), of which one at most is set.

    Raises:
        InvalidInputError: It is empty, has no time zone, or is not between 1970 and 2106.
    """
    match checksum:
        case None:
            return None, 0
        case str():
            return _bare_etag(checksum), 0
        case datetime() if checksum.tzinfo is None:
            raise _invalid(f"the checksum {checksum} has no time zone; use an aware datetime")
        case datetime():
            return None, _checked_seconds(micros_of(checksum) // 1_000_000, checksum)
        case int() | np.integer() if not isinstance(checksum, bool):
            return None, _checked_seconds(int(checksum), checksum)
        case _:
            raise _invalid(
                f"the checksum {checksum!r} is neither an ETag, epoch seconds nor a datetime"
            )


def checksum_columns(checksum: Checksum | ChecksumColumn | None, n: int) -> Checksums:
    """Return one checksum for all of `n` rows, or a column of them, as columns.

    Raises:
        InvalidInputError: Their number, type or range is wrong.
    """
    if checksum is None or isinstance(checksum, str | int | np.integer | datetime):
        return _same_for_all(*split_checksum(checksum), n)
    if len(checksum) != n:
        raise _invalid(f"{len(checksum)} checksums were given for {n} chunks")
    if isinstance(checksum, pa.Array | pa.ChunkedArray):
        return _arrow_column(checksum)
    if isinstance(checksum, np.ndarray) and checksum.dtype.kind in "iu":
        return Checksums(seconds=_seconds_column(checksum))
    if isinstance(checksum, np.ndarray) and checksum.dtype.kind not in "OUT":
        raise _invalid(f"checksums have the dtype {checksum.dtype}; use epoch seconds or ETags")
    return _mixed_column(list(checksum))


def _same_for_all(etag: str | None, seconds: int, n: int) -> Checksums:
    if etag is not None:
        _, pool = encode_texts([etag])
        return Checksums(np.broadcast_to(np.int32(0), n), pool)
    return Checksums(seconds=np.broadcast_to(np.uint32(seconds), n) if seconds else None)


def _arrow_column(column: pa.Array | pa.ChunkedArray) -> Checksums:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind):
        return Checksums(seconds=_seconds_column(column.fill_null(0).to_numpy()))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        seconds = pc.floor_temporal(column, unit="second").cast(pa.timestamp("s", kind.tz))
        return Checksums(seconds=_seconds_column(seconds.cast(pa.int64()).fill_null(0).to_numpy()))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        code, pool = encode_texts(column)
        empty = np.append(pc.equal(pool, "").to_numpy(), False)
        if code is not None and empty[code].any():  # the last entry is for rows without
            raise _invalid(
                f"checksums are empty texts in {rows_named(empty[code])}; use null where there is "
                "none"
            )
        if pc.any(pc.starts_with(pool, '"')).as_py():
            pool = pc.replace_substring_regex(pool, '^"(.*)"$', r"\1")
        return Checksums(code, pool)
    if pa.types.is_null(kind):
        return Checksums()
    raise _invalid(
        f"checksums have the type {column.type}; use texts (ETags), integers (epoch seconds) or "
        "timestamps with a time zone"
    )


def _mixed_column(values: list[object]) -> Checksums:
    if all(value is None for value in values):
        return Checksums()
    pairs = [_split_in_row(row, value) for row, value in enumerate(values)]
    code, pool = encode_texts([etag for etag, _ in pairs])
    seconds = np.array([seconds for _, seconds in pairs], np.uint32)
    return Checksums(code, pool, seconds if seconds.any() else None)


def _split_in_row(row: int, checksum: object) -> tuple[str | None, int]:
    try:
        return split_checksum(checksum)
    except InvalidInputError as error:
        raise _invalid(f"row {row}: {error.message}") from error


def _seconds_column(values: npt.NDArray[Any]) -> UInt32 | None:
    if len(values) and not 0 <= int(values.min()) <= int(values.max()) < _MAX_SECONDS:
        raise _invalid(
            f"checksum times are not between 1970 and 2106 (32-bit epoch seconds) in "
            f"{rows_named((values < 0) | (values >= _MAX_SECONDS))}"
        )
    return values.astype(np.uint32) if values.any() else None


def _checked_seconds(seconds: int, checksum: object) -> int:
    if not 0 < seconds < _MAX_SECONDS:
        raise _invalid(f"the checksum {checksum} is not between 1970 and 2106")
    return seconds


def _bare_etag(etag: str) -> str:
    """Return an ETag without the quotes around it, which some stores give and others do not."""
    bare = etag[1:-1] if etag.startswith('"') and etag.endswith('"') else etag
    if not bare:
        raise _invalid("the checksum is an empty text; leave it out where there is none")
    return bare


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_VIRTUAL_REF)
