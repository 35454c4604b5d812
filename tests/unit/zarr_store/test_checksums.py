from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model.text_pools import decode_texts
from icestream.zarr_store.checksums import checksum_columns, split_checksum

NOON = datetime(2024, 5, 1, 12, 0, 0, 900_000, UTC)
NOON_SECONDS = 1_714_564_800


def _columns(checksum: Any, n: int) -> tuple[list[str | None], list[int]]:
    columns = checksum_columns(checksum, n)
    etags = decode_texts(columns.etag_code, columns.etags, n).to_pylist()
    return etags, [0] * n if columns.seconds is None else columns.seconds.tolist()


@pytest.mark.parametrize(
    ("checksum", "split"),
    [
        (None, (None, 0)),
        ("abc", ("abc", 0)),
        ('"abc"', ("abc", 0)),
        ('W/"abc"', ('W/"abc"', 0)),
        (NOON, (None, NOON_SECONDS)),
        (NOON.astimezone(timezone(timedelta(hours=5))), (None, NOON_SECONDS)),
        (NOON_SECONDS, (None, NOON_SECONDS)),
        (np.int64(NOON_SECONDS), (None, NOON_SECONDS)),
        (2**32 - 1, (None, 2**32 - 1)),
    ],
)
def test_a_checksum_is_an_etag_or_a_time(checksum: Any, split: Any) -> None:
    assert split_checksum(checksum) == split
    assert _columns(checksum, 2) == ([split[0]] * 2, [split[1]] * 2)


@pytest.mark.parametrize(
    ("checksum", "message"),
    [
        ("", "empty"),
        ('""', "empty"),
        (datetime(2024, 5, 1), "time zone"),  # noqa: DTZ001  that is the point
        (datetime(1969, 1, 1, tzinfo=UTC), "1970"),
        (datetime(2107, 1, 1, tzinfo=UTC), "2106"),
        (0, "1970"),
        (-1, "1970"),
        (2**32, "2106"),
        (True, "neither"),
        (1.5, "neither"),
        (b"abc", "neither"),
    ],
)
def test_other_checksums_are_refused(checksum: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        split_checksum(checksum)

    assert caught.value.kind is ErrorKind.INVALID_VIRTUAL_REF


ETAGS: list[Any] = ["a", '"b"', None, 'W/"c"']
ETAGS_STORED = ["a", "b", None, 'W/"c"']


@pytest.mark.parametrize(
    "column",
    [
        ETAGS,
        pa.array(ETAGS),
        pa.array(ETAGS, pa.large_string()),
        pa.array(ETAGS).dictionary_encode(),
        pa.chunked_array([ETAGS[:1], ETAGS[1:]]),
        np.array(ETAGS, object),
    ],
)
def test_etags_come_as_a_column(column: Any) -> None:
    assert _columns(column, 4) == (ETAGS_STORED, [0, 0, 0, 0])


@pytest.mark.parametrize(
    "column",
    [
        [NOON, 7, None],
        np.array([NOON_SECONDS, 7, 0]),
        np.array([NOON_SECONDS, 7, 0], np.uint32),
        pa.array([NOON_SECONDS, 7, None]),
        pa.chunked_array([[NOON_SECONDS], [7, None]]),
        pa.array([NOON, datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC), None]),
        pa.array(
            [NOON, datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC), None], pa.timestamp("ns", "UTC")
        ),
    ],
)
def test_times_come_as_a_column(column: Any) -> None:
    assert _columns(column, 3) == ([None] * 3, [NOON_SECONDS, 7, 0])


def test_etags_and_times_may_be_mixed() -> None:
    assert _columns(["a", NOON, None], 3) == (["a", None, None], [0, NOON_SECONDS, 0])


@pytest.mark.parametrize(
    "column", [[None] * 3, pa.nulls(3), pa.nulls(3, pa.string()), np.zeros(3, int)]
)
def test_a_column_may_hold_no_checksum_at_all(column: Any) -> None:
    columns = checksum_columns(column, 3)

    assert columns.etag_code is None
    assert columns.seconds is None


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["a"], "1 checksums were given for 3 chunks"),
        (["a", "", "b"], "empty"),
        (pa.array(["a", "", "b"]), "empty"),
        (np.array([1, 2, -3]), "1970"),
        (np.array([1, 2, 2**32]), "2106"),
        (pa.array([1, 2, 2**33]), "2106"),
        (np.array([1.0, 2.0, 3.0]), "float64"),
        (np.array(["2024-05-01"] * 3, "M8[s]"), "datetime64"),
        (pa.array([datetime(2024, 5, 1)] * 3), "time zone"),  # noqa: DTZ001  that is the point
        (pa.array([1.0, 2.0, 3.0]), "double"),
        ([1.0, 2.0, 3.0], "neither"),
    ],
)
def test_other_columns_are_refused(column: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        checksum_columns(column, 3)

    assert caught.value.kind is ErrorKind.INVALID_VIRTUAL_REF
