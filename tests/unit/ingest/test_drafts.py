"""First declarations, written from a look at some files."""

import numpy as np
from tests.ingest_builders import daily_file, planned, scanned_file, virtual_array

from icestream.ingest.declaration.archives import Archive, Axis, PlaceBy
from icestream.ingest.declaration.documents import decode_archive
from icestream.ingest.declaration.source_places import SourcePlace
from icestream.ingest.drafts import draft_declaration


def draft(files, name="sst") -> tuple[str, Archive]:
    text = draft_declaration(name, ["s3://b/**/*.nc"], "s3://b/repo", files)
    return text, decode_archive(text.encode())


def test_files_that_differ_in_a_coordinate_are_put_along_it():
    files = [daily_file(day) for day in range(3)]
    text, declared = draft(files)
    assert declared.sources == ("s3://b/**/*.nc",)
    assert declared.target.repository == "s3://b/repo"
    assert declared.combine.along == (Axis(dimension="time"),)
    assert "# step: 1 day" in text
    assert "the values of time differ" in text
    assert not planned(files, declared).problems


def test_files_with_dates_in_their_names_get_a_dimension():
    files = [
        scanned_file(url, {"sst": virtual_array(url, ("lat", "lon"), (4, 4), (2, 2))})
        for url in ("s3://b/sst_20200101.nc", "s3://b/sst_20200102.nc")
    ]
    _, declared = draft(files)
    (axis,) = declared.combine.along
    assert (axis.by, axis.format, axis.new) == (PlaceBy.NAME, "%Y%m%d", True)
    assert not planned(files, declared).problems


def test_files_that_nothing_tells_apart_are_merged():
    files = [
        scanned_file(url, {name: virtual_array(url, ("x",), (4,), (4,))})
        for url, name in (("s3://b/u.nc", "u"), ("s3://b/v.nc", "v"))
    ]
    _, declared = draft(files)
    assert declared.combine.along == ()
    assert not planned(files, declared).problems


def test_bounds_auxiliary_coordinates_and_constants_are_to_be_loaded():
    files = []
    for day in range(2):
        url = f"s3://b/{day}.nc"
        arrays = {
            "a": virtual_array(
                url, ("time", "y"), (1, 9), (1, 9), attributes={"coordinates": "nav_lat"}
            ),
            "nav_lat": virtual_array(url, ("y",), (9,), (9,)),
            "time_bnds": virtual_array(url, ("time", "nv"), (1, 2), (1, 2)),
            "mask": virtual_array(url, ("y", "x"), (9, 9), (9, 9)),
        }
        time = {"units": f"days since 2020-01-0{day + 1}", "bounds": "time_bnds"}
        files.append(scanned_file(url, arrays, {"time": [0]}, time=time))
    text, declared = draft(files)
    assert declared.loaded == ("mask", "nav_lat", "time_bnds")
    assert "time_bnds  # bounds of time" in text


def test_a_look_at_no_files_still_gives_a_declaration():
    text, declared = draft([], name="yes")
    assert declared.name == "yes"
    assert "0 files" in text


def test_numbers_have_steps_too():
    files = [
        scanned_file(
            f"s3://b/{i}.nc",
            {"a": virtual_array(f"s3://b/{i}.nc", ("level",), (2,), (1,))},
            {"level": np.array([i * 0.5, i * 0.5 + 0.25])},
        )
        for i in range(2)
    ]
    assert "# step: 0.25" in draft(files)[0]


def test_how_files_were_reached_is_declared():
    places = (
        SourcePlace(prefix="s3://b/", region="us-east-1", anonymous=True),
        SourcePlace(prefix="s3://c/", endpoint_url="http://localhost:9000", allow_http=True),
    )
    files = [daily_file(0)]
    text = draft_declaration("sst", ["s3://b/", "s3://c/"], "repo", files, access=places)
    assert decode_archive(text.encode()).access == places
    assert "# access: [{" in draft(files)[0]
