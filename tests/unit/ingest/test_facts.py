"""What of a file travels to the driver."""

import pickle

import numpy as np
from tests.ingest_builders import archive, columns, daily_file, inline_array, planned, scanned_file

from icestream.ingest.declaration.archives import Axis
from icestream.ingest.facts import facts_of
from icestream.ingest.file_columns import gather

TIME = archive(Axis(dimension="time"))


def test_facts_pickle_without_references():
    file = daily_file(3, steps=2)
    sent = pickle.dumps(facts_of(file, TIME))
    assert b"s3://b/sst-0003.nc" in sent
    received = pickle.loads(sent)
    assert received.arrays["/sst"].form == facts_of(file, TIME).arrays["/sst"].form
    assert (
        received.values["/time"].values.tolist()
        == facts_of(file, TIME).values["/time"].values.tolist()
    )
    assert received.num_references == 2 * 4


def test_a_placement_pickles():
    placement = planned([daily_file(day) for day in range(2)], TIME)
    received = pickle.loads(pickle.dumps(placement))
    offsets = received.sections[0].virtual["/sst"].chunk_offset
    assert offsets.tolist() == placement.sections[0].virtual["/sst"].chunk_offset.tolist()


def test_equal_values_of_many_files_are_kept_once():
    files = columns([daily_file(day) for day in range(5)], TIME)
    assert len(files.arrays["/lat"].values) == 1
    assert len(files.arrays["/time"].values) == 5
    assert len(files.arrays["/sst"].forms) == 1


def test_times_are_moments_with_missing_ones_marked():
    attributes = {"units": "days since 1970-01-01", "_FillValue": -1}
    file = scanned_file("s3://b/a.nc", {}, {"time": np.array([1, -1])}, time=attributes)
    coordinate = facts_of(file, TIME).values["/time"]
    assert coordinate.values.tolist() == [86_400_000_000, np.iinfo(np.int64).min]


def test_inline_content_tells_equal_arrays():
    one, same, other = (
        facts_of(scanned_file("s3://b/a.nc", {"crs": inline_array(data)}), TIME).arrays["/crs"]
        for data in (b"abcd", b"abcd", b"efgh")
    )
    assert one.content == same.content != other.content


def test_no_files_are_columns_too():
    files = gather([])
    assert len(files) == 0
    assert planned([], TIME).problems == ()
