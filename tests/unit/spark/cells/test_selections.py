"""Conditions on coordinates, and the positions that fulfil them."""

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from icestream.errors import InvalidInputError
from icestream.spark.cells.decoding import decoding_of
from icestream.spark.cells.selections import parse_selection, positions_of

CELL = 617700169958293504
"""A cell of a hexagonal grid; its neighbours have the same 64-bit float."""


def coordinate(dtype: str, values: list[Any]) -> pa.Array:
    """Return values as they are decoded."""
    return decoding_of("h3", np.dtype(dtype), {}).decode(np.array(values, dtype))


@pytest.mark.parametrize("dtype", ["u8", "i8", ">u8"])
@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (CELL, [1]),
        (np.uint64(CELL), [1]),
        (Decimal(CELL), [1]),
        (float(CELL), [1]),
        ([CELL + 1, CELL - 1], [0, 2]),
        (np.array([CELL], np.uint64), [1]),
        (slice(CELL, None), [1, 2]),
        (slice(None, CELL), [0, 1]),
        (slice(CELL + 1, CELL + 1), [2]),
        (slice(-1, np.inf), [0, 1, 2]),
        (slice(Decimal(CELL) + Decimal("0.5"), None), [2]),
        (2**64, []),
        (0.5, []),
        (np.nan, []),
    ],
)
def test_whole_numbers_of_64_bits_are_compared_exactly(
    dtype: str, condition: Any, found: list[int]
) -> None:
    values = coordinate(dtype, [CELL - 1, CELL, CELL + 1])

    assert list(positions_of("h3", condition, values)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f'{{"h3": {CELL}}}', [1]),
        (f'{{"h3": [{CELL + 1}, {2**64 - 1}]}}', [2, 3]),
        (f'{{"h3": {{"from": {CELL + 1}, "to": {2**64 - 2}}}}}', [2]),
    ],
)
def test_whole_numbers_in_the_text_of_a_selection_are_exact(text: str, found: list[int]) -> None:
    values = coordinate("u8", [CELL - 1, CELL, CELL + 1, 2**64 - 1])

    assert list(positions_of("h3", parse_selection(text)["h3"], values)) == found


def test_whole_numbers_are_exact_beside_missing_ones() -> None:
    decoding = decoding_of("h3", np.dtype("u8"), {"_FillValue": 0})
    values = decoding.decode(np.array([0, CELL, CELL + 1], np.uint64))

    assert list(positions_of("h3", slice(None, CELL), values)) == [1]


def test_numbers_beyond_the_precision_of_a_coordinate_are_infinite() -> None:
    values = pa.array([1.5, np.inf], pa.float32())

    assert list(positions_of("x", slice(1, 1e300), values)) == [0, 1]
    assert list(positions_of("x", slice(None, 1e38), values)) == [0]


@pytest.fixture
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("19700101T000000", [0]),
        ("19700101T0000", [0]),
        ("19700101T00", [0]),
        ("19700101", [0, 1]),
        ("19700101T000000Z", [0]),
        ("19700101 050000", [1]),
        ("19700101T050000.000000", [1]),
        ("19700101T000000-0500", [1]),
        ("1970-01-01T00:00:00", [0]),
        ("1970-W01-4", [0]),
        (date(1970, 1, 1), [0, 1]),
        (datetime(1970, 1, 1), [0]),  # noqa: DTZ001  without a zone on purpose
        (datetime(1970, 1, 1, tzinfo=UTC), [0]),
        (np.datetime64("1970-01-01T05:00:00"), [1]),
        ({"from": "19700101T000001"}, [1, 2]),
    ],
)
def test_moments_without_a_zone_are_in_utc_wherever_the_machine_is(
    condition: Any, found: list[int]
) -> None:
    moments = [datetime(1970, 1, 1, hour, tzinfo=UTC) for hour in (0, 5)]
    values = pa.array([*moments, datetime(1970, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC"))

    assert list(positions_of("time", condition, values)) == found


@pytest.mark.parametrize("condition", ["oslo", [b"oslo"], {"from": "o"}])
def test_bytes_are_selected_by_texts(condition: Any) -> None:
    values = pa.array([b"bergen", b"oslo"])

    assert list(positions_of("station", condition, values)) == [1]


def test_truths_are_selected_among_truths_only() -> None:
    assert list(positions_of("flag", True, pa.array([True, False]))) == [0]


@pytest.mark.parametrize(
    ("values", "condition"),
    [
        (pa.array([1.0, 2.0]), True),
        (pa.array([1, 2]), [1, True]),
        (pa.array([1, 2]), np.True_),
        (pa.array([1, 2]), {"from": False}),
        (pa.array([1, 2]), "1"),
        (pa.array([1, 2]), b"1"),
        (pa.array([1.0]), 10**400),
        (pa.array([True, False]), 1),
        (pa.array(["a"]), 1),
        (pa.array([b"a"]), 1),
        (pa.array(["a"]), b"a"),
        (pa.array([0], pa.timestamp("us", "UTC")), np.datetime64("NaT", "s")),
        (pa.array([0], pa.timestamp("us", "UTC")), 0),
        (pa.array([0], pa.timestamp("us", "UTC")), "19701301"),
    ],
)
def test_what_cannot_be_compared_is_refused(values: pa.Array, condition: Any) -> None:
    with pytest.raises(InvalidInputError, match="cannot be compared with the coordinate 'x'"):
        positions_of("x", condition, values)
