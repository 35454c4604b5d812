"""Checks of byte ranges, and the merging of neighbours."""

from bisect import bisect_right
from collections.abc import Sequence

from icestream.errors import ErrorKind, InvalidInputError, StorageError
from icestream.storage.protocol import ByteRange

_LARGEST_OFFSET = 1 << 63
"""Where signed file offsets end: neither files nor stores have objects as large."""


def check_range(path: str, byte_range: ByteRange) -> None:
    """Refuse a range that no object can have."""
    start, end = byte_range
    if not 0 <= start <= end < _LARGEST_OFFSET:
        raise InvalidInputError(
            f"bytes {byte_range} of {path} are no range: need 0 <= start <= end < 2**63",
            kind=ErrorKind.INVALID_BYTE_RANGE,
        )


def slice_range(path: str, data: bytes, byte_range: ByteRange) -> bytes:
    """Return a range of an object that is in memory."""
    check_range(path, byte_range)
    start, end = byte_range
    if end > max(len(data), start):
        raise range_past_end(path, byte_range)
    return data[start:end]


def range_past_end(path: str, byte_range: ByteRange) -> StorageError:
    """Return the error for a range that ends behind the object."""
    return StorageError(
        f"{path} ends before byte {byte_range[1]}", kind=ErrorKind.INVALID_OBJECT_SIZE
    )


def merged_ranges(byte_ranges: Sequence[ByteRange], max_gap: int) -> list[ByteRange]:
    """Return few ranges, in order, that together cover all that are not empty.

    Ranges that are at most `max_gap` bytes apart become one: the bytes between them cost less than
    another request.
    """
    merged: list[ByteRange] = []
    for start, end in sorted(
        byte_range for byte_range in byte_ranges if byte_range[0] < byte_range[1]
    ):
        if merged and start <= merged[-1][1] + max_gap:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def is_empty(path: str, byte_range: ByteRange) -> bool:
    """Tell whether no byte is wanted; HTTP cannot ask for that."""
    check_range(path, byte_range)
    return byte_range[0] == byte_range[1]


def whole_range(path: str, byte_range: ByteRange, data: bytes) -> bytes:
    """Refuse a part that stores cut silently at the end of the object."""
    if len(data) != byte_range[1] - byte_range[0]:
        raise range_past_end(path, byte_range)
    return data


def cut_out(
    path: str, byte_range: ByteRange, starts: Sequence[int], parts: Sequence[memoryview]
) -> bytes:
    """Return a range from the parts that were fetched, which begin at `starts`."""
    start, end = byte_range
    if start == end:
        return b""
    part = bisect_right(starts, start) - 1
    offset = start - starts[part]
    return whole_range(path, byte_range, bytes(parts[part][offset : offset + end - start]))
