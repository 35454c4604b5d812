"""Byte ranges as zarr asks for them, as half-open ranges of a value."""

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
)

from icestream.errors import ErrorKind, InvalidInputError
from icestream.zarr_store.protocol import ByteRange


def span_of(request: ByteRequest | None, length: int) -> ByteRange | None:
    """Return the range that a request means in a value of `length` bytes; None is all of it.

    What lies past the end is cut off, as in zarr's own stores: the range may become empty.

    Raises:
        InvalidInputError: The request is of no known kind, or starts before the value.
    """
    match request:
        case None:
            return None
        case RangeByteRequest(start, end):
            first, last = start, end
        case OffsetByteRequest(offset):
            first, last = offset, length
        case SuffixByteRequest(suffix):
            first, last = max(length - suffix, 0), length if suffix >= 0 else suffix
        case _:
            # the words of zarr's own stores, which its test suite looks for
            raise _invalid(f"Unexpected byte_range, got {request!r}; use a zarr ByteRequest")
    if first < 0 or last < 0:
        raise _invalid(f"the byte range {request} has a negative bound")
    first = min(first, length)
    return first, max(first, min(last, length))


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.INVALID_BYTE_RANGE)
