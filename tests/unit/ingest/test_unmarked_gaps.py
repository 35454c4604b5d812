"""Gaps that read as values are told."""

import pytest
from tests.ingest_builders import archive, daily_file, planned, scanned_file, virtual_array

from icestream.ingest.declaration.archives import Axis
from icestream.ingest.placement.unmarked_gaps import unmarked_gaps

DAILY = archive(Axis(dimension="time", step="1 day"))
TIME = archive(Axis(dimension="time"))


def test_a_gap_that_reads_as_a_number_is_told_with_the_number():
    (told,) = unmarked_gaps(planned([daily_file(0), daily_file(2)], DAILY))
    assert told == (
        "/sst has places without a file, which read as 0.0: its files name no missing value "
        "(_FillValue)"
    )


@pytest.mark.parametrize(
    "marked",
    [
        {"attributes": {"_FillValue": 0.0}},
        {"attributes": {"missing_value": 0.0}},
        {"fill_value": "NaN"},
    ],
)
def test_a_gap_that_reads_as_missing_is_not_told(marked):
    files = [daily_file(0, **marked), daily_file(2, **marked)]
    assert unmarked_gaps(planned(files, DAILY)) == ()


def test_where_every_place_has_a_file_there_is_nothing_to_tell():
    assert unmarked_gaps(planned([daily_file(0), daily_file(1)], DAILY)) == ()


def test_a_variable_that_comes_later_leaves_gaps_before_it():
    def at(number: int, *names: str):
        url = f"s3://b/{number}"
        arrays = {name: virtual_array(url, ("time", "x"), (1, 3), (1, 3)) for name in names}
        return scanned_file(url, arrays, {"time": [number]})

    (told,) = unmarked_gaps(planned([at(0, "a"), at(1, "a", "b")], TIME))
    assert told.startswith("/b has places without a file")
