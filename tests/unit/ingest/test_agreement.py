"""Files that agree, and files that do not: what differs, where, and since when."""

import numpy as np
import pytest
from tests.ingest_builders import (
    archive,
    columns,
    daily_file,
    scanned_file,
    virtual_array,
)

from icestream.ingest.declaration.archives import Axis
from icestream.ingest.placement.agreement import (
    disagreements_of,
    eras_of,
    unusual_files,
    usual_forms,
)

TIME = archive(Axis(dimension="time"))


def days(*files):
    return columns(files, TIME)


def eras(files):
    return eras_of(files, np.arange(len(files))).tolist()


def test_files_that_are_alike_agree():
    files = days(*(daily_file(day) for day in range(3)))
    assert disagreements_of(files) == ()
    assert not unusual_files(files)
    assert eras(files) == [0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "attribute", "texts"),
    [
        ({"data_type": "float64"}, "dtype", ["float32", "float64"]),
        ({"fill_value": -1.0}, "fill value", ["0.0", "-1.0"]),
        ({"chunks": (1, 4, 4)}, "chunk shape", ["(1, 2, 2)", "(1, 4, 4)"]),
        ({"attributes": {"units": "C"}}, "attribute 'units'", ["absent", "C"]),
        ({"attributes": {"scale_factor": 0.5}}, "attribute 'scale_factor'", ["absent", "0.5"]),
        ({"attributes": {"add_offset": 1}}, "attribute 'add_offset'", ["absent", "1"]),
        ({"codecs": [{"name": "gzip"}]}, "codecs", None),
        (
            {"dimension_names": ["time", "lon", "lat"]},
            "dimensions",
            ["(time, lat, lon)", "(time, lon, lat)"],
        ),
    ],
)
def test_what_differs_is_named_with_files(changes, attribute, texts):
    files = days(daily_file(0), daily_file(1), daily_file(2, **changes))
    found = next(one for one in disagreements_of(files) if one.attribute == attribute)
    assert found.path == "/sst"
    assert [variant.files.tolist() for variant in found.variants] == [[0, 1], [2]]
    assert texts is None or [variant.text for variant in found.variants] == texts
    problem = found.problem(files.urls)
    assert problem.files == ("s3://b/sst-0002.nc",)
    assert attribute in problem.reason
    assert "on-mismatch" in problem.reason


def test_attributes_that_do_not_change_the_meaning_may_differ():
    first = daily_file(0, attributes={"long_name": "temperature", "history": "x"})
    assert disagreements_of(days(first, daily_file(1, attributes={"history": "y"}))) == ()


def test_lengths_along_the_dimension_may_differ_and_others_not():
    short = daily_file(0)
    long = daily_file(1, steps=3)
    assert disagreements_of(days(short, long)) == ()
    url = "s3://b/wide.nc"
    wide = scanned_file(
        url, {"sst": virtual_array(url, ("time", "lat", "lon"), (1, 4, 8), (1, 2, 2))}
    )
    (found,) = disagreements_of(days(short, wide))
    assert found.attribute == "length of lon"


def test_units_of_copied_times_may_differ():
    assert disagreements_of(days(daily_file(0), daily_file(400))) == ()


def test_units_of_virtual_times_may_not_differ():
    files = []
    for day in range(2):
        file = daily_file(day)
        units = {"units": f"hours since 2020-01-0{day + 1}"}
        bounds = virtual_array(file.url, ("time", "nv"), (1, 2), (1, 2), attributes=units)
        files.append(scanned_file(file.url, {"bounds": bounds}))
    (found,) = disagreements_of(days(*files))
    assert found.attribute == "attribute 'units'"


def test_bounds_have_the_units_of_their_coordinate():
    files = []
    for day in range(2):
        url = f"s3://b/{day}.nc"
        time = {"units": f"hours since 2020-01-0{day + 1}", "bounds": "time_bnds"}
        bounds = virtual_array(url, ("time", "nv"), (1, 2), (1, 2))
        files.append(scanned_file(url, {"time_bnds": bounds}, {"time": [0]}, time=time))
    (found,) = disagreements_of(days(*files))
    assert (found.path, found.attribute) == ("/time_bnds", "attribute 'units'")


def test_the_usual_form_is_that_of_most_files():
    files = days(daily_file(0, fill_value=9.0), daily_file(1), daily_file(2))
    assert {path: rows.tolist() for path, rows in unusual_files(files).items()} == {"/sst": [0]}
    assert files.arrays["/sst"].forms[usual_forms(files)["/sst"]].fill_value == "0.0"


def test_an_era_ends_where_files_change():
    forms = [0.0, 0.0, 1.0, 1.0, 0.0]
    files = days(*(daily_file(day, fill_value=fill) for day, fill in enumerate(forms)))
    assert eras(files) == [0, 0, 1, 1, 2]


def test_eras_follow_positions_rather_than_names():
    files = days(*(daily_file(day, fill_value=float(day % 2)) for day in range(4)))
    assert eras_of(files, np.array([3, 1, 4, 0])).tolist() == [1, 0, 1, 0]


def file_with(day, **fills):
    url = f"s3://b/{day}.nc"
    arrays = {
        name: virtual_array(url, ("time",), (1,), (1,), fill_value=fill)
        for name, fill in fills.items()
    }
    return scanned_file(url, arrays)


def test_a_variable_that_is_missing_does_not_end_an_era():
    files = days(file_with(0, a=0, b=0), file_with(1, a=0), file_with(2, a=0, b=0))
    assert eras(files) == [0, 0, 0]


def test_eras_are_as_long_as_can_be():
    # b changes somewhere between 0 and 3, and a must change at 2: one new era does for both
    files = days(
        file_with(0, a=0, b=0), file_with(1, a=0), file_with(2, a=1), file_with(3, a=1, b=1)
    )
    assert eras(files) == [0, 0, 1, 1]
