"""What a scan tells before anything is written."""

import json

import pytest
from tests.ingest_builders import archive, columns, daily_file, planned

from icestream.ingest.declaration.archives import Axis, OnMismatch, Policies
from icestream.ingest.reports import (
    ExpectedCost,
    ScanReport,
    ScanSample,
    expected_cost,
    report_scan,
)

DAILY = archive(Axis(dimension="time", step="1 day"))


def report(files, declared=DAILY, **others) -> ScanReport:
    return report_scan(columns(files, declared), planned(files, declared), declared, **others)


def test_a_clean_archive_is_told_in_numbers():
    found = report([daily_file(day) for day in range(3)])
    assert found.is_clean
    assert (found.num_files, found.num_file_bytes) == (3, 3000)
    assert found.num_references == 3 * 4  # of sst; coordinates are copied
    sst = next(array for array in found.arrays if array.path == "/sst")
    assert (sst.shape, sst.chunk_shape, sst.num_files) == ((3, 4, 4), (1, 2, 2), 3)
    assert not sst.is_copied
    assert [array.path for array in found.arrays if array.is_copied] == ["/lat", "/lon", "/time"]
    assert "3 files of 3.0 kB" in found.text()
    assert "no problems" in found.text()


def test_differences_gaps_and_eras_are_told_with_files():
    fills = {0: 0.0, 1: 0.0, 4: 1.0}
    found = report([daily_file(day, fill_value=fill) for day, fill in fills.items()])
    assert not found.is_clean
    (difference,) = found.differences
    assert difference.attribute == "fill value"
    assert difference.variants == (
        ("0.0", 2, "s3://b/sst-0000.nc"),
        ("1.0", 1, "s3://b/sst-0004.nc"),
    )
    assert [(era.first, era.last, era.num_files) for era in found.eras] == [
        ("2020-01-01", "2020-01-02", 2),
        ("2020-01-05", "2020-01-05", 1),
    ]
    text = found.text()
    assert "time: 2 missing, 2020-01-03 to 2020-01-04" in text
    assert "/sst in fill value: 0.0 in 2 files, first s3://b/sst-0000.nc" in text
    assert "problems:" in text


def test_files_that_are_left_out_are_told_with_reasons():
    policies = Policies(on_mismatch=OnMismatch.SET_ASIDE)
    declared = archive(Axis(dimension="time"), policies=policies)
    files = [daily_file(0), daily_file(1), daily_file(2, fill_value=1.0)]
    found = report(files, declared, unreadable={"s3://b/broken.nc": "not HDF5"})
    assert dict(found.set_aside) == {
        "s3://b/broken.nc": "not HDF5",
        "s3://b/sst-0002.nc": "/sst: fill value is 1.0, and usually 0.0",
    }
    assert not found.is_clean
    assert "s3://b/broken.nc: not HDF5" in found.text()


def test_the_report_is_json():
    found = report([daily_file(day, fill_value=float(day)) for day in (0, 1, 4)])
    tree = json.loads(json.dumps(found.tree()))
    assert tree["archive"] == "sst"
    assert tree["gaps"][0]["length"] == 2
    assert tree["problems"][0]["kind"] == "mismatch"
    assert tree["is_clean"] is False


def test_the_cost_of_all_files_follows_from_a_sample():
    sample = ScanSample(num_files=10, seconds=6.0, num_requests=30, num_bytes=1000)
    cost = expected_cost(sample, 1000, num_cores=2)
    assert (cost.num_requests, cost.num_bytes) == (3000, 100_000)
    assert cost.minutes == pytest.approx(5.0)
    found = report([daily_file(0)], expected=ExpectedCost(3000, 2_500_000_000, 5.0))
    assert "3000 requests, read 2.5 GB and take 5.0 minutes" in found.text()
