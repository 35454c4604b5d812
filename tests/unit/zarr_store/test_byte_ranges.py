from typing import Any

import pytest
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest

from icestream.errors import ErrorKind, InvalidInputError
from icestream.zarr_store.byte_ranges import span_of

VALUE = b"0123456789"


@pytest.mark.parametrize(
    ("request_", "part"),
    [
        (None, b"0123456789"),
        (RangeByteRequest(2, 5), b"234"),
        (RangeByteRequest(2, 99), b"23456789"),
        (RangeByteRequest(50, 99), b""),
        (RangeByteRequest(5, 5), b""),
        (RangeByteRequest(5, 2), b""),
        (OffsetByteRequest(0), b"0123456789"),
        (OffsetByteRequest(8), b"89"),
        (OffsetByteRequest(99), b""),
        (SuffixByteRequest(0), b""),
        (SuffixByteRequest(3), b"789"),
        (SuffixByteRequest(99), b"0123456789"),
    ],
)
def test_ranges_are_cut_at_the_end_of_the_value(request_: Any, part: bytes) -> None:
    span = span_of(request_, len(VALUE))

    assert (VALUE if span is None else VALUE[slice(*span)]) == part
    assert span is None or 0 <= span[0] <= span[1] <= len(VALUE)


@pytest.mark.parametrize(
    "request_",
    [
        RangeByteRequest(-2, 3),
        RangeByteRequest(0, -3),
        OffsetByteRequest(-1),
        SuffixByteRequest(-1),
        (0, 2),
        "1-2",
    ],
)
def test_other_ranges_are_refused(request_: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        span_of(request_, len(VALUE))

    assert caught.value.kind is ErrorKind.INVALID_BYTE_RANGE
