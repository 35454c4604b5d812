"""Where files go: along dimensions, in groups, and what is said when they do not fit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.ingest_builders import (
    archive,
    daily_file,
    inline_array,
    planned,
    scanned_file,
    virtual_array,
)

from icestream.errors import InvalidInputError
from icestream.ingest.declaration.archives import Axis, Combination, OnMismatch, PlaceBy, Policies
from icestream.ingest.placement.placing import Placement
from icestream.ingest.placement.problems import ProblemKind, raise_problems

TIME = archive(Axis(dimension="time"))
POLICIES = {policy: Policies(on_mismatch=policy) for policy in OnMismatch}
DAILY = archive(Axis(dimension="time", step="1 day"))


def by_name(pattern: str, form: str | None, dimension: str = "time", **others) -> Axis:
    return Axis(dimension=dimension, by=PlaceBy.NAME, pattern=pattern, format=form, **others)


def offsets(placement: Placement, path: str = "/sst") -> dict[str, list[int]]:
    """Return the first chunk of each file, by its name."""
    assert not placement.problems, placement.problems
    (section,) = placement.sections
    array = section.virtual[path]
    names = [placement.urls[row].rpartition("/")[2] for row in array.files]
    return dict(zip(names, array.chunk_offset.tolist(), strict=True))


def kinds(placement: Placement) -> list[ProblemKind]:
    return [problem.kind for problem in placement.problems]


def copied(placement: Placement, path: str) -> list[Any]:
    values: list[Any] = placement.sections[0].copied[path].values.tolist()
    return values


def array_file(name: str, length: int = 1, chunk: int = 1, **coordinates: Sequence[float]):
    url = f"s3://b/{name}"
    array = virtual_array(url, ("time", "x"), (length, 3), (chunk, 3))
    return scanned_file(url, {"a": array}, coordinates)


# -- by coordinate --------------------------------------------------------------------------------


def test_files_lie_at_their_coordinates_whatever_their_names():
    files = [
        daily_file(2, url="s3://b/a"),
        daily_file(0, url="s3://b/b"),
        daily_file(1, url="s3://b/c"),
    ]
    placement = planned(files, TIME)
    assert offsets(placement) == {"a": [2, 0, 0], "b": [0, 0, 0], "c": [1, 0, 0]}
    assert placement.sections[0].virtual["/sst"].metadata["shape"] == [3, 4, 4]


def test_times_are_put_together_in_one_unit():
    placement = planned([daily_file(day, steps=2) for day in range(2)], TIME)
    time = placement.sections[0].copied["/time"]
    assert time.values.tolist() == [0, 12, 24, 36]
    assert time.metadata["attributes"]["units"] == "hours since 2020-01-01 00:00:00"
    assert time.metadata["attributes"]["calendar"] == "standard"
    assert time.metadata["data_type"] == "int64"


def test_the_unit_of_times_can_be_declared():
    placement = planned(
        [daily_file(0), daily_file(1)],
        archive(Axis(dimension="time"), time_units="days since 2019-12-31"),
    )
    assert copied(placement, "/time") == [1, 2]


def test_files_of_several_chunks_start_at_whole_chunks():
    files = [daily_file(day, steps=4, chunks=(2, 2, 2)) for day in range(3)]
    assert [start[0] for start in offsets(planned(files, TIME)).values()] == [0, 2, 4]


def test_values_may_fall():
    files = [array_file("a", 2, time=[1, 0]), array_file("b", 2, time=[5, 4])]
    placement = planned(files, TIME)
    assert offsets(placement, "/a") == {"a": [2, 0], "b": [0, 0]}
    assert copied(placement, "/time") == [5, 4, 1, 0]


def test_a_missing_file_is_reported_although_no_room_is_left():
    placement = planned([daily_file(day) for day in (0, 1, 2, 5)], TIME)
    assert placement.sections[0].axes[0].size == 4
    (gap,) = placement.gaps
    assert (gap.first, gap.last, gap.length) == ("2020-01-03", "2020-01-06", None)


def test_a_step_leaves_room_for_missing_files():
    placement = planned([daily_file(day) for day in (0, 1, 5)], DAILY)
    assert [start[0] for start in offsets(placement).values()] == [0, 1, 5]
    assert placement.sections[0].virtual["/sst"].metadata["shape"][0] == 6
    assert copied(placement, "/time") == [24 * day for day in range(6)]
    (gap,) = placement.gaps
    assert str(gap) == "time: 3 missing, 2020-01-03 to 2020-01-05"


def test_a_missing_leap_day_is_a_gap():
    before, after = 31 + 27, 31 + 29
    (gap,) = planned([daily_file(before), daily_file(after)], DAILY).gaps
    assert (gap.first, gap.length) == ("2020-02-29", 1)


def test_months_are_steps():
    files = [daily_file(day) for day in (14, 31 + 15, 91 + 2)]
    placement = planned(files, archive(Axis(dimension="time", step="1 month")))
    assert [start[0] for start in offsets(placement).values()] == [0, 1, 3]
    (gap,) = placement.gaps
    assert (gap.first, gap.last, gap.length) == ("2020-03-03", "2020-03-03", 1)
    moments = placement.sections[0].axes[0].values
    assert moments is not None
    assert (np.diff(moments) > 0).all()


@pytest.mark.parametrize(
    ("calendar", "days"), [("noleap", (0, 31, 59, 90)), ("360_day", (0, 30, 60, 90))]
)
def test_months_are_those_of_the_calendar(calendar, days):
    files = [
        scanned_file(
            f"s3://b/{i}.nc",
            {"a": virtual_array(f"s3://b/{i}.nc", ("time",), (1,), (1,))},
            {"time": [day]},
            time={"units": "days since 1980-01-01", "calendar": calendar},
        )
        for i, day in enumerate(days)
        if i != 1
    ]
    placement = planned(files, archive(Axis(dimension="time", step="1 month")))
    assert copied(placement, "/time") == list(days)
    assert placement.gaps[0].first == "1980-02-01"


def test_yearly_files_of_months_are_placed_by_their_names():
    files = [array_file(f"{year}.nc", 12) for year in (2000, 2002)]
    axis = by_name(r"(?P<time>\d+)", "%Y", step="1 month")
    placement = planned(files, archive(axis))
    assert offsets(placement, "/a") == {"2000.nc": [0, 0], "2002.nc": [24, 0]}
    assert placement.gaps[0].length == 12


def test_months_of_unequal_length_are_no_gaps():
    files = [daily_file(day) for day in (0, 31, 60, 91, 121)]
    assert planned(files, TIME).gaps == ()


def test_files_that_interleave_are_refused_with_their_names():
    placement = planned([array_file("a", 2, time=[0, 2]), array_file("b", time=[1])], TIME)
    assert ProblemKind.OVERLAP in kinds(placement)
    overlap = placement.problems[0]
    assert overlap.files == ("s3://b/a", "s3://b/b")
    assert "one has 0 and 2, and another 1 between" in overlap.reason


def test_positions_that_are_wrong_are_told_once_and_not_again_for_every_chunk():
    files = [array_file("a", 2, 2, time=[0, 2]), array_file("b", 2, 2, time=[1, 3])]
    placement = planned(files, TIME)
    assert [(problem.kind, problem.subject) for problem in placement.problems] == [
        (ProblemKind.OVERLAP, "time")
    ]


def test_files_that_overlap_are_refused_with_their_names():
    placement = planned([array_file("a", 2, time=[0, 1]), array_file("b", 2, time=[1, 2])], TIME)
    (problem,) = placement.problems
    assert problem.kind is ProblemKind.OVERLAP
    assert problem.subject == "/a"
    assert problem.files == ("s3://b/a", "s3://b/b")


def test_two_files_of_one_position_are_refused():
    placement = planned([daily_file(0), daily_file(0, url="s3://b/again.nc")], TIME)
    (problem,) = placement.problems
    assert problem.kind is ProblemKind.DUPLICATE
    assert set(problem.files) == {"s3://b/sst-0000.nc", "s3://b/again.nc"}


@pytest.mark.parametrize("values", [[0, 2, 1], [0, 0, 1]])
def test_values_that_are_not_sorted_within_a_file_are_refused(values):
    placement = planned([array_file("a", 3, time=values)], TIME)
    assert ProblemKind.UNSORTED in kinds(placement)


def test_values_that_rise_in_one_file_and_fall_in_another_are_refused():
    files = [array_file("a", 3, time=[0, 1, 2]), array_file("b", 3, time=[5, 4, 3])]
    assert kinds(planned(files, TIME))[0] is ProblemKind.UNSORTED


def test_missing_values_are_refused():
    files = [array_file("a", 2, time=[0.0, np.nan])]
    assert "missing values" in planned(files, TIME).problems[0].reason


def test_a_file_without_the_coordinate_is_refused():
    placement = planned([array_file("a", time=[0]), array_file("b")], TIME)
    (problem,) = placement.problems
    assert problem.kind is ProblemKind.NO_POSITION
    assert problem.files == ("s3://b/b",)
    assert "no coordinate /time" in problem.reason


def test_a_dimension_that_no_file_has_is_refused():
    placement = planned([daily_file(0)], archive(Axis(dimension="tim")))
    (problem,) = placement.problems
    assert problem.reason == "no file has this dimension; there are lat, lon, time"


def test_values_off_the_step_are_refused():
    files = [array_file("a", time=[0]), array_file("b", time=[1]), array_file("c", time=[2.5])]
    placement = planned(files, archive(Axis(dimension="time", step="1")))
    assert kinds(placement) == [ProblemKind.OFF_STEP]
    assert placement.problems[0].files == ("s3://b/c",)


def test_a_step_that_is_far_too_small_is_refused():
    files = [array_file("a", time=[0]), array_file("b", time=[10**9])]
    (problem,) = [
        found
        for found in planned(files, archive(Axis(dimension="time", step="1"))).problems
        if found.kind is ProblemKind.OFF_STEP
    ]
    assert "1000000000 positions" in problem.reason


def test_values_may_fall_by_a_step():
    files = [array_file("a", 2, time=[1.0, 0.5]), array_file("b", 1, time=[2.0])]
    placement = planned(files, archive(Axis(dimension="time", step="0.5")))
    assert offsets(placement, "/a") == {"a": [2, 0], "b": [0, 0]}
    assert copied(placement, "/time") == [2.0, 1.5, 1.0, 0.5]


def test_texts_do_not_place_files():
    placement = planned([array_file("a", time=["x"])], TIME)  # type: ignore[list-item]  # on purpose
    assert "no numbers" in placement.problems[0].reason


def test_a_step_must_be_of_the_kind_of_the_values():
    assert (
        "give a unit"
        in planned([daily_file(0)], archive(Axis(dimension="time", step="1"))).problems[0].reason
    )
    numbers = planned([array_file("a", time=[0])], DAILY)
    assert "give a number" in numbers.problems[0].reason


def test_calendars_that_differ_are_refused():
    files = [daily_file(0)]
    other = scanned_file(
        "s3://b/z.nc",
        {"sst": virtual_array("s3://b/z.nc", ("time", "lat", "lon"), (1, 4, 4), (1, 2, 2))},
        {"time": [0]},
        time={"units": "days since 2021-01-01", "calendar": "360_day"},
    )
    placement = planned([*files, other], TIME)
    assert "calendars: 360_day, standard" in placement.problems[0].reason


def test_units_that_cannot_be_read_are_told():
    file = scanned_file(
        "s3://b/z.nc",
        {"a": virtual_array("s3://b/z.nc", ("time",), (1,), (1,))},
        {"time": [0]},
        time={"units": "months since 2021-01-01"},
    )
    assert "not all of one length" in planned([file], TIME).problems[0].reason


# -- chunks ---------------------------------------------------------------------------------------


def test_only_the_last_file_may_end_with_a_part_of_a_chunk():
    whole, part = array_file("a", 4, 2, time=[0, 1, 2, 3]), array_file("b", 1, 2, time=[4])
    assert offsets(planned([whole, part], TIME), "/a") == {"a": [0, 0], "b": [2, 0]}
    early = array_file("a", 3, 2, time=[0, 1, 2])
    late = array_file("b", 2, 2, time=[3, 4])
    placement = planned([early, late], TIME)
    assert ProblemKind.PARTIAL_CHUNK in kinds(placement)
    assert placement.problems[0].files == ("s3://b/a",)
    assert "3 along time, which chunks of 2 do not divide" in placement.problems[0].reason


def test_a_file_that_starts_inside_a_chunk_is_refused():
    step = archive(Axis(dimension="time", step="1"))
    files = [array_file("a", 2, 2, time=[0, 1]), array_file("b", 2, 2, time=[3, 4])]
    placement = planned(files, step)
    assert kinds(placement) == [ProblemKind.UNALIGNED]
    assert "position 3" in placement.problems[0].reason


# -- by name and order ----------------------------------------------------------------------------


def test_dates_in_names_tell_the_place():
    files = [array_file("sst_20200103.nc"), array_file("sst_20200101.nc")]
    axis = by_name(r"_(?P<time>\d{8})", "%Y%m%d")
    assert offsets(planned(files, archive(axis)), "/a") == {
        "sst_20200101.nc": [0, 0],
        "sst_20200103.nc": [1, 0],
    }


def test_dates_in_parts_and_a_step_leave_room():
    files = [array_file(f"2020/{month:02}/x{day:02}.nc") for month, day in ((2, 28), (3, 1))]
    axis = by_name(r"(?P<year>\d{4})/(?P<month>\d\d)/x(?P<day>\d\d)", None, step="1 day")
    placement = planned(files, archive(axis))
    assert offsets(placement, "/a") == {"x28.nc": [0, 0], "x01.nc": [2, 0]}
    assert placement.gaps[0].first == "2020-02-29"


def test_numbers_in_names_are_numbers():
    files = [array_file("m9.nc"), array_file("m10.nc"), array_file("m1.nc")]
    axis = by_name(r"m(?P<value>\d+)", "integer")
    assert offsets(planned(files, archive(axis)), "/a") == {
        "m1.nc": [0, 0],
        "m10.nc": [2, 0],
        "m9.nc": [1, 0],
    }


def test_longer_files_follow_each_other_in_the_order_of_their_names():
    files = [array_file("2001.nc", 3), array_file("2000.nc", 2)]
    axis = by_name(r"(?P<time>\d+)", "integer")
    assert offsets(planned(files, archive(axis)), "/a") == {"2000.nc": [0, 0], "2001.nc": [2, 0]}


def test_longer_files_with_a_step_leave_room():
    files = [array_file("20200101.nc", 2), array_file("20200104.nc", 2)]
    axis = by_name(r"(?P<time>\d+)", "%Y%m%d", step="1 day")
    placement = planned(files, archive(axis))
    assert offsets(placement, "/a") == {"20200101.nc": [0, 0], "20200104.nc": [3, 0]}
    assert placement.gaps[0].length == 1


@pytest.mark.parametrize("name", ["readme.nc", "99999999.nc"])
def test_names_that_do_not_follow_the_pattern_are_told(name):
    axis = by_name(r"(?P<time>\d{8})", "%Y%m%d")
    placement = planned([array_file("20200101.nc"), array_file(name)], archive(axis))
    (problem,) = placement.problems
    assert problem.kind is ProblemKind.NO_POSITION
    assert problem.files == (f"s3://b/{name}",)


def test_order_counts_numbers_in_names():
    files = [array_file("d10.nc", 2), array_file("d9.nc", 3)]
    axis = Axis(dimension="time", by=PlaceBy.ORDER)
    assert offsets(planned(files, archive(axis)), "/a") == {"d10.nc": [3, 0], "d9.nc": [0, 0]}


def test_a_new_dimension_comes_in_front():
    def flat(name):
        url = f"s3://b/{name}"
        array = virtual_array(url, ("lat", "lon"), (4, 4), (2, 2))
        return scanned_file(url, {"sst": array}, {"lat": np.arange(4.0), "lon": np.arange(4.0)})

    axis = by_name(r"(?P<time>\d{8})", "%Y%m%d", new=True)
    placement = planned([flat("20200102.nc"), flat("20200101.nc")], archive(axis))
    assert offsets(placement) == {"20200101.nc": [0, 0, 0], "20200102.nc": [1, 0, 0]}
    metadata = placement.sections[0].virtual["/sst"].metadata
    assert metadata["shape"] == [2, 4, 4]
    assert metadata["dimension_names"] == ["time", "lat", "lon"]
    assert metadata["chunk_grid"]["configuration"]["chunk_shape"] == [1, 2, 2]
    time = placement.sections[0].copied["/time"]
    assert time.metadata["attributes"] == {"units": "days since 1970-01-01", "calendar": "standard"}
    assert time.values.tolist() == [18262, 18263]


def test_a_new_dimension_keeps_the_order_of_transposed_chunks():
    url = "s3://b/1.nc"
    codecs = [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes"}]
    array = virtual_array(url, ("lat", "lon"), (4, 4), (2, 2), codecs=codecs)
    axis = by_name(r"(?P<member>\d)", "integer", "member", new=True)
    placement = planned([scanned_file(url, {"a": array})], archive(axis))
    (transpose, _) = placement.sections[0].virtual["/a"].metadata["codecs"]
    assert transpose["configuration"]["order"] == [0, 2, 1]


# -- several dimensions, merging, groups ----------------------------------------------------------


def member_file(member: int, day: int):
    file = daily_file(day, url=f"s3://b/m{member}-{day}.nc")
    array = virtual_array(file.url, ("member", "time"), (1, 1), (1, 1))
    return scanned_file(
        file.url,
        {"a": array},
        {"time": [0]},
        time={"units": f"days since 2020-01-0{day + 1}"},
    )


def test_files_lie_along_several_dimensions():
    axes = (by_name(r"m(?P<member>\d+)", "integer", "member"), Axis(dimension="time"))
    files = [member_file(member, day) for day in range(3) for member in range(2)]
    placement = planned(files, archive(*axes))
    assert offsets(placement, "/a") == {
        f"m{member}-{day}.nc": [member, day] for member in range(2) for day in range(3)
    }
    assert placement.sections[0].virtual["/a"].metadata["shape"] == [2, 3]
    assert copied(placement, "/time") == [0, 1, 2]


def test_variables_of_different_files_are_merged():
    def one(variable, name, times):
        url = f"s3://b/{name}"
        array = virtual_array(url, ("time",), (len(times),), (1,))
        return scanned_file(url, {variable: array}, {"time": times})

    files = [one("u", "u.nc", [0, 1, 2, 3]), one("v", "v1.nc", [0, 1]), one("v", "v2.nc", [2, 3])]
    placement = planned(files, TIME)
    assert offsets(placement, "/u") == {"u.nc": [0]}
    assert offsets(placement, "/v") == {"v1.nc": [0], "v2.nc": [2]}


def test_a_variable_that_comes_late_has_the_length_of_all():
    late = daily_file(2)
    extra = virtual_array(late.url, ("time",), (1,), (1,))
    file = scanned_file(
        late.url,
        {"sst": late.arrays["/sst"], "ice": extra},
        {"time": [48.0]},
        time={"units": "hours since 2020-01-01"},
    )
    placement = planned([daily_file(0), daily_file(1), file], TIME)
    assert offsets(placement, "/ice") == {"sst-0002.nc": [2]}
    assert placement.sections[0].virtual["/ice"].metadata["shape"] == [3]


def test_each_file_may_become_a_group():
    combine = Combination(group_per_file=r"(?P<group>sst-\d+)")
    placement = planned([daily_file(0), daily_file(1)], archive(combine=combine))
    assert [section.group for section in placement.sections] == ["/sst-0000", "/sst-0001"]
    assert placement.sections[0].virtual["/sst"].chunk_offset.tolist() == [[0, 0, 0]]
    nameless = planned([daily_file(0, url="s3://b/x.nc")], archive(combine=combine))
    assert kinds(nameless) == [ProblemKind.NO_POSITION]


# -- what is the same in all files ----------------------------------------------------------------


def constant_file(day: int, array, name: str = "crs", **coordinates):
    url = f"s3://b/{day}.nc"
    data = virtual_array(url, ("time",), (1,), (1,))
    return scanned_file(url, {"a": data, name: array}, {"time": [day], **coordinates})


def test_inline_constants_are_compared():
    same = [constant_file(day, inline_array(b"abcd")) for day in range(3)]
    placement = planned(same, TIME)
    assert offsets(placement, "/crs") == {"0.nc": []}
    other = [*same[:2], constant_file(2, inline_array(b"efgh"))]
    (problem,) = planned(other, TIME).problems
    assert problem.kind is ProblemKind.UNEQUAL_VALUES
    assert problem.files == ("s3://b/2.nc",)


def test_constants_that_cannot_be_compared_must_be_declared():
    files = [
        constant_file(day, virtual_array(f"s3://b/{day}.nc", ("y", "x"), (9, 9), (9, 9)), "mask")
        for day in range(2)
    ]
    (problem,) = planned(files, TIME).problems
    assert problem.kind is ProblemKind.UNCHECKED_CONSTANT
    combine = Combination(along=(Axis(dimension="time"),), constant=("mask",))
    assert offsets(planned(files, archive(combine=combine)), "/mask") == {"0.nc": [0, 0]}


def test_coordinates_that_differ_between_files_are_refused():
    files = [constant_file(day, inline_array(b"abcd"), lat=[0.0, 1.0 + day]) for day in range(2)]
    (problem,) = planned(files, TIME).problems
    assert (problem.kind, problem.subject) == (ProblemKind.MISMATCH, "/lat")
    assert "files differ in values: 0 to 1 (digest" in problem.reason
    assert problem.files == ("s3://b/1.nc",)


def test_a_variable_that_differs_may_be_left_out():
    files = [constant_file(day, inline_array(bytes([day] * 4))) for day in range(2)]
    assert kinds(planned(files, TIME)) == [ProblemKind.UNEQUAL_VALUES]
    placement = planned(files, archive(Axis(dimension="time"), drop=("crs",)))
    assert list(placement.sections[0].virtual) == ["/a"]
    assert not placement.problems


def test_a_grid_that_changes_starts_an_era():
    files = [
        constant_file(day, inline_array(b"abcd"), lat=[0.0, 1.0 + day // 2]) for day in range(4)
    ]
    placement = planned(files, archive(TIME.combine.along[0], policies=POLICIES[OnMismatch.ERA]))
    assert not placement.problems
    assert [section.files.tolist() for section in placement.sections] == [[0, 1], [2, 3]]
    grids = [section.copied["/lat"].values.tolist() for section in placement.sections]
    assert grids == [[0.0, 1.0], [0.0, 2.0]]


def test_a_grid_that_changes_cannot_be_materialised():
    files = [constant_file(day, inline_array(b"abcd"), lat=[0.0, 1.0 + day]) for day in range(2)]
    declared = archive(TIME.combine.along[0], policies=POLICIES[OnMismatch.MATERIALISE])
    (problem,) = planned(files, declared).problems
    assert (problem.subject, problem.files) == ("/lat", ("s3://b/1.nc",))


def test_coordinates_along_one_of_two_dimensions_are_compared():
    axes = (by_name(r"m(?P<member>\d+)", "integer", "member"), Axis(dimension="time"))
    files = []
    for member in range(2):
        url = f"s3://b/m{member}.nc"
        arrays = {"a": virtual_array(url, ("member", "time"), (1, 1), (1, 1))}
        level = virtual_array(url, ("time",), (1,), (1,))
        file = scanned_file(url, {**arrays, "level": level}, {"time": [0]})
        files.append(replace(file, values={**file.values, "/level": np.array([member])}))
    (problem,) = planned(files, archive(*axes)).problems
    assert (problem.kind, problem.subject) == (ProblemKind.UNEQUAL_VALUES, "/level")
    assert "by up to 1" in problem.reason
    assert problem.files == ("s3://b/m1.nc",)


def test_equal_coordinates_of_another_type_are_equal():
    types = [np.float32, np.float64]
    files = [
        constant_file(day, inline_array(b"abcd"), lat=np.array([0.0, 0.5], dtype))
        for day, dtype in enumerate(types)
    ]
    placement = planned(files, TIME)
    assert not placement.problems
    assert placement.sections[0].copied["/lat"].metadata["data_type"] in {"float32", "float64"}


# -- policies -------------------------------------------------------------------------------------


def mixed(policy: OnMismatch, fills: Sequence[float] = (0.0, 0.0, 1.0)) -> Placement:
    files = [daily_file(day, fill_value=fill) for day, fill in enumerate(fills)]
    return planned(files, archive(Axis(dimension="time"), policies=Policies(on_mismatch=policy)))


def test_files_that_do_not_agree_fail():
    placement = mixed(OnMismatch.FAIL)
    assert kinds(placement) == [ProblemKind.MISMATCH]
    placement = planned([daily_file(0), daily_file(1, fill_value=3.0)], TIME)
    with pytest.raises(InvalidInputError, match="fill value") as caught:
        raise_problems(placement.problems, archive=TIME.name)
    assert "s3://b/sst-0001.nc" in caught.value.message


def test_eras_become_groups():
    placement = mixed(OnMismatch.ERA)
    assert not placement.problems
    assert [section.group for section in placement.sections] == [
        "/era-2020-01-01",
        "/era-2020-01-03",
    ]
    first, second = placement.sections
    assert first.virtual["/sst"].metadata["shape"] == [2, 4, 4]
    assert second.virtual["/sst"].metadata["shape"] == [1, 4, 4]
    assert second.virtual["/sst"].metadata["fill_value"] == 1.0
    assert second.virtual["/sst"].chunk_offset.tolist() == [[0, 0, 0]]
    assert second.copied["/time"].values.tolist() == [48]


def test_files_that_alternate_are_no_eras():
    placement = mixed(OnMismatch.ERA, [float(day % 2) for day in range(102)])
    assert kinds(placement) == [ProblemKind.TOO_MANY_ERAS]


def test_files_that_differ_are_set_aside():
    placement = mixed(OnMismatch.SET_ASIDE)
    assert not placement.problems
    assert placement.set_aside == {2: "/sst: fill value is 1.0, and usually 0.0"}
    assert list(offsets(placement)) == ["sst-0000.nc", "sst-0001.nc"]
    assert copied(placement, "/time") == [0, 24]


def test_files_that_differ_are_to_be_materialised():
    placement = mixed(OnMismatch.MATERIALISE)
    array = placement.sections[0].virtual["/sst"]
    assert array.differing is not None
    assert array.differing.tolist() == [2]
    assert array.metadata["shape"] == [3, 4, 4]
    assert list(offsets(placement)) == ["sst-0000.nc", "sst-0001.nc"]


def test_a_file_that_is_given_twice_is_refused():
    with pytest.raises(InvalidInputError, match="twice"):
        planned([daily_file(0), daily_file(0)], TIME)
