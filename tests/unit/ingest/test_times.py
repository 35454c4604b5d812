"""Times of files, decoded to one scale and encoded in one unit."""

import numpy as np
import pytest

from icestream.errors import InvalidInputError
from icestream.ingest.times.calendars import CALENDARS, days_since_epoch, describe_moment
from icestream.ingest.times.encodings import (
    MISSING,
    are_time_units,
    common_calendar,
    common_encoding,
    decode_times,
    encode_times,
    parse_time_units,
)

HOUR = 3_600_000_000
DAY = 24 * HOUR


def moments(values, units, calendar=None):
    return decode_times(np.asarray(values), parse_time_units(units, calendar))


def dates(*texts):
    return np.array(texts, "M8[us]").astype(np.int64)


@pytest.mark.parametrize(
    ("units", "value", "date"),
    [
        ("days since 1950-01-01", 25567, "2020-01-01"),
        ("hours since 2020-01-01 00:00:00", 36.5, "2020-01-02T12:30"),
        ("Hours Since 2020-1-1", 1, "2020-01-01T01:00"),
        ("seconds since 1970-01-01T00:00:00Z", 1, "1970-01-01T00:00:01"),
        ("minutes since 2020-01-01 12:00 +02:00", 0, "2020-01-01T10:00"),
        ("minutes since 2020-01-01 12:00 -0130", 0, "2020-01-01T13:30"),
        ("days since 2020-01-01 00:00:00.5", 0, "2020-01-01T00:00:00.5"),
        ("days since 2020-01-01 06 UTC", 1, "2020-01-02T06:00"),
        ("weeks since 2020-01-01", 1, "2020-01-08"),
        ("msec since 1970-01-01", 1, "1970-01-01T00:00:00.001"),
        ("d since 1970-01-01", -1, "1969-12-31"),
        ("days since 1600-02-28", 1, "1600-02-29"),
    ],
)
def test_units_are_decoded(units, value, date):
    assert moments([value], units).tolist() == dates(date).tolist()


def test_daily_files_with_units_of_their_own_are_on_one_scale():
    first = moments([0, 12], "hours since 2020-01-01")
    second = moments([0, 12], "hours since 2020-01-02")
    assert (second - first).tolist() == [DAY, DAY]


def test_large_fractions_of_days_keep_their_microseconds():
    exact = moments([700_000.25], "days since 0100-03-01", "proleptic_gregorian")
    assert exact[0] % DAY == DAY // 4


def test_values_that_are_not_finite_are_missing():
    assert moments([np.nan, 1.0], "days since 1970-01-01").tolist() == [MISSING, DAY]


@pytest.mark.parametrize(
    ("units", "calendar", "words"),
    [
        ("months since 2000-01-01", None, "not all of one length"),
        ("fortnights since 2000-01-01", None, "not known"),
        ("days since the flood", None, "not a unit and a moment"),
        ("days since 2000-13-01", None, "no date"),
        ("days since 2000-01-01", "lunar", "calendar 'lunar'"),
    ],
)
def test_units_without_a_fixed_meaning_are_refused(units, calendar, words):
    assert are_time_units(units)
    with pytest.raises(InvalidInputError, match=words):
        parse_time_units(units, calendar)


@pytest.mark.parametrize("units", ["K", "degrees_north", None, 3, "since", "hours"])
def test_other_units_are_no_times(units):
    assert not are_time_units(units)


def test_texts_and_numbers_out_of_range_are_refused():
    encoding = parse_time_units("days since 1970-01-01")
    with pytest.raises(InvalidInputError, match="no times"):
        decode_times(np.array(["x"]), encoding)
    with pytest.raises(InvalidInputError, match="out of range"):
        decode_times(np.array([1e30]), encoding)


@pytest.mark.parametrize("calendar", CALENDARS)
def test_encoding_takes_decoding_back(calendar):
    encoding = parse_time_units("hours since 1999-12-30", calendar)
    values = np.array([-5, 0, 7_000_000])
    assert encode_times(decode_times(values, encoding), encoding).tolist() == values.tolist()


def test_times_that_are_no_whole_units_are_not_rounded():
    encoding = parse_time_units("days since 1970-01-01")
    with pytest.raises(InvalidInputError, match="finer"):
        encode_times(np.array([DAY // 2]), encoding)


def test_missing_times_stay_missing():
    encoding = parse_time_units("days since 1980-01-01")
    assert encode_times(np.array([MISSING]), encoding).tolist() == [MISSING]


@pytest.mark.parametrize(
    ("moment", "units"),
    [
        (3 * DAY, "days since 1970-01-01"),
        (3 * HOUR, "hours since 1970-01-01"),
        (HOUR // 60, "minutes since 1970-01-01"),
        (1, "microseconds since 1970-01-01"),
    ],
)
def test_the_unit_becomes_as_fine_as_times_need(moment, units):
    preferred = parse_time_units("days since 1970-01-01")
    assert common_encoding(preferred, [np.array([0, moment, MISSING])]).units == units


def test_the_unit_does_not_become_coarser():
    preferred = parse_time_units("seconds since 1970-01-01")
    assert common_encoding(preferred, [np.array([DAY])]).unit == "seconds"


def test_calendars_that_count_the_same_days_go_together():
    after, before = dates("2020-01-01", "1500-01-01").tolist()
    assert common_calendar(["standard", "proleptic_gregorian"], after) == "standard"
    assert common_calendar(["standard", "proleptic_gregorian"], before) is None
    assert common_calendar(["noleap", "standard"], after) is None
    assert common_calendar(["noleap"], before) == "noleap"


def test_the_standard_calendar_is_julian_before_1582():
    assert days_since_epoch(1582, 10, 15, "standard") - 1 == days_since_epoch(
        1582, 10, 4, "standard"
    )
    assert days_since_epoch(2020, 1, 14, "standard") == days_since_epoch(2020, 1, 1, "julian")


@pytest.mark.parametrize(
    ("calendar", "date", "days"),
    [
        ("noleap", (1972, 3, 1), 2 * 365 + 59),
        ("all_leap", (1971, 3, 1), 366 + 60),
        ("360_day", (1971, 2, 30), 360 + 59),
        ("proleptic_gregorian", (1972, 3, 1), 2 * 365 + 60),
    ],
)
def test_calendars_count_their_own_days(calendar, date, days):
    year, month, day = date
    assert days_since_epoch(year, month, day, calendar) == days
    assert describe_moment(days * DAY, calendar) == f"{year}-{month:02}-{day:02}"


def test_moments_are_told_with_the_time_of_day_if_there_is_one():
    assert describe_moment(90 * 60 * 1_000_000, "standard") == "1970-01-01 01:30:00"
    assert describe_moment(1, "noleap") == "1970-01-01 00:00:00.000001"
