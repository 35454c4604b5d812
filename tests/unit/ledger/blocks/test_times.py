"""Moments as blocks store them."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from icestream.errors import InvalidInputError
from icestream.ledger.blocks.times import Timestamp


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2020-01-01T12:00:00Z", Timestamp(2020, 1, 43_200)),
        ("2020-12-31T23:59:59.999999999Z", Timestamp(2020, 366, 86_399, 999_999_999)),
        ("2024-01-01T00:00:00.123456Z", Timestamp(2024, 1, 0, 123_456_000)),
        ("2024-01-01T00:00:00.120Z", Timestamp(2024, 1, 0, 120_000_000)),
        ("0001-01-01T00:00:00.000000001Z", Timestamp(1, 1, 0, 1)),
        ("9999-12-31T23:59:59Z", Timestamp(9999, 365, 86_399)),
    ],
)
def test_text_has_as_many_digits_as_are_needed(text: str, moment: Timestamp):
    assert str(moment) == text
    assert Timestamp.parse(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-01T01:30:00+02:00",
        "2024-02-29t23:30:00.0z",
        "2024-02-29 18:30:00-05:00",
    ],
)
def test_other_zones_and_spellings_are_read(text: str):
    assert str(Timestamp.parse(text)) == "2024-02-29T23:30:00Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-13-01T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:00:60Z",
        "2024-01-01T00:00:00.0000000001Z",
        "2024-01-01T00:00:00Z\n",
        "0001-01-01T00:00:00+01:00",
        "٢٠٢٤-01-01T00:00:00Z",
    ],
)
def test_other_texts_are_refused(text: str):
    with pytest.raises(InvalidInputError):
        Timestamp.parse(text)


@pytest.mark.parametrize(
    "parts",
    [(0, 1, 0), (10_000, 1, 0), (2023, 366, 0), (2024, 0, 0), (2024, 1, 86_400), (2024, 1, 0, -1)],
)
def test_parts_must_make_a_moment(parts: tuple[int, ...]):
    with pytest.raises(InvalidInputError, match="is no moment"):
        Timestamp(*parts)


def test_datetimes_become_utc():
    moment = datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))

    assert str(Timestamp.from_datetime(moment)) == "2023-12-31T23:00:00Z"
    assert Timestamp.from_datetime(moment).to_datetime() == moment


def test_a_datetime_without_a_zone_is_refused():
    with pytest.raises(InvalidInputError, match="no time zone"):
        Timestamp.from_datetime(datetime(2024, 1, 1))  # noqa: DTZ001  what the test is about


def test_milliseconds_are_cut_off_downwards():
    moment = Timestamp(1969, 365, 86_399, 999_999_999)

    assert moment.epoch_ms == -1
    assert moment.truncated_ms() == Timestamp.from_epoch_ms(-1)
    assert str(moment.truncated_ms()) == "1969-12-31T23:59:59.999Z"


def test_now_is_now():
    before = time.time_ns()

    assert before <= Timestamp.now().epoch_ns <= time.time_ns()
    assert Timestamp.now().to_datetime().tzinfo is UTC


def test_moments_beyond_the_calendar_are_refused():
    with pytest.raises(InvalidInputError, match="beyond the years"):
        Timestamp.from_epoch_ms(10**15)
