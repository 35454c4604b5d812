"""What has to be done when files come, go, change, or begin to differ."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.ingest_builders import archive, columns, daily_file, planned, scanned_file, virtual_array

from icestream.ingest.declaration.archives import Axis, Combination, OnMismatch, Policies
from icestream.ingest.placement.copied_arrays import CopiedArray, chunks_of, copied_metadata
from icestream.ingest.placement.placing import Placement, groups_of, plan_placement
from icestream.ingest.updates.chunk_moves import joined_boxes
from icestream.ingest.updates.copied_updates import update_copied
from icestream.ingest.updates.planning import Updates, plan_updates
from icestream.parsers.scanned_files import ScannedFile

TIME = archive(Axis(dimension="time"))
DAILY = archive(Axis(dimension="time", step="1 day"))
ERA = archive(Axis(dimension="time"), policies=Policies(on_mismatch=OnMismatch.ERA))
ASIDE = archive(Axis(dimension="time"), policies=Policies(on_mismatch=OnMismatch.SET_ASIDE))
COPIES = archive(Axis(dimension="time"), policies=Policies(on_mismatch=OnMismatch.MATERIALISE))


def days(*numbers: int, **changes: Any) -> list[ScannedFile]:
    return [daily_file(number, **changes) for number in numbers]


def urls(*numbers: int) -> set[str]:
    return {f"s3://b/sst-{number:04}.nc" for number in numbers}


def added(placement: Placement, updates: Updates, path: str = "/sst") -> dict[str, list[int]]:
    update = updates.arrays[path]
    names = [placement.urls[row].rpartition("/")[2] for row in update.files]
    return dict(zip(names, update.chunk_offset.tolist(), strict=True))


def axes(updates: Updates, path: str = "/sst") -> list[list[int] | None]:
    found = updates.arrays[path].index_map
    assert found is not None
    return [None if axis is None else axis.tolist() for axis in found.axes]


def dropped(updates: Updates, path: str = "/sst") -> tuple[Any, ...]:
    found = updates.arrays[path].index_map
    return () if found is None else found.dropped


# -- files come and go ------------------------------------------------------------------------


def test_the_first_files_make_everything():
    after = planned(days(0, 1), TIME)
    updates = plan_updates(planned([], TIME), after, urls(0, 1))
    assert added(after, updates) == {"sst-0000.nc": [0, 0, 0], "sst-0001.nc": [1, 0, 0]}
    update = updates.arrays["/sst"]
    assert update.is_new
    assert update.index_map is None
    assert update.metadata == after.sections[0].virtual["/sst"].metadata
    assert update.added_boxes.tolist() == [[[0, 1], [0, 2], [0, 2]], [[1, 2], [0, 2], [0, 2]]]
    assert set(updates.copied) == {"/time", "/lat", "/lon"}
    assert updates.needed_groups == ("/",)
    assert (updates.deleted_arrays, updates.rescan, updates.groups) == ((), (), {})


def test_a_file_at_the_end_moves_none():
    after = planned(days(0, 1, 2), TIME)
    updates = plan_updates(planned(days(0, 1), TIME), after, urls(2))
    assert added(after, updates) == {"sst-0002.nc": [2, 0, 0]}
    assert updates.arrays["/sst"].index_map is None
    assert not updates.arrays["/sst"].is_new
    assert set(updates.copied) == {"/time"}


def test_a_late_file_moves_those_behind_it():
    after = planned(days(0, 1, 2, 3), TIME)
    updates = plan_updates(planned(days(0, 1, 3), TIME), after, urls(2))
    assert added(after, updates) == {"sst-0002.nc": [2, 0, 0]}
    assert axes(updates) == [[0, 1, 3], None, None]
    assert dropped(updates) == ()


def test_a_late_file_with_room_moves_none():
    after = planned(days(0, 1, 2, 3), DAILY)
    updates = plan_updates(planned(days(0, 1, 3), DAILY), after, urls(2))
    assert added(after, updates) == {"sst-0002.nc": [2, 0, 0]}
    assert updates.arrays["/sst"].metadata is None
    assert updates.arrays["/sst"].index_map is None
    assert not updates.copied


def test_a_vanished_file_moves_those_behind_it():
    updates = plan_updates(planned(days(0, 1, 2), TIME), planned(days(0, 2), TIME), set())
    assert axes(updates) == [[0, -1, 1], None, None]
    assert dropped(updates) == ()  # the axis tells
    assert not len(updates.arrays["/sst"].files)


def test_neighbours_that_vanish_are_one_box():
    updates = plan_updates(planned(days(*range(9)), DAILY), planned(days(0, 8), DAILY), set())
    assert dropped(updates) == (((1, 8), (0, 2), (0, 2)),)


def test_boxes_that_touch_are_joined_in_all_dimensions():
    tiles = [[[i, i + 1], [j, j + 1]] for i in range(3) for j in range(2)]
    apart = [[[9, 10], [0, 1]], [[5, 5], [0, 1]]]
    found = joined_boxes(np.array([*tiles, *apart], np.int64))
    assert found.tolist() == [[[0, 3], [0, 2]], [[9, 10], [0, 1]]]


def test_a_changed_file_is_replaced_where_it_is():
    placement = planned(days(0, 1, 2), TIME)
    updates = plan_updates(placement, placement, urls(1))
    assert added(placement, updates) == {"sst-0001.nc": [1, 0, 0]}
    assert axes(updates) == [None, None, None]
    assert dropped(updates) == (((1, 2), (0, 2), (0, 2)),)
    assert updates.arrays["/sst"].metadata is None
    assert not updates.copied


def test_nothing_new_changes_nothing():
    files = days(*range(3))
    updates = plan_updates(planned(files, TIME), planned(files[::-1], TIME), set())
    assert updates.is_empty
    assert not updates.rescan


def test_the_last_file_takes_everything_with_it():
    updates = plan_updates(planned(days(0), TIME), planned([], TIME), set())
    assert updates.deleted_arrays == ("/lat", "/lon", "/sst", "/time")
    assert updates.deleted_groups == ()


def test_values_that_begin_to_fall_make_all_files_move_past_each_other():
    before = planned(days(0, 1), TIME)
    falling = scanned_file(
        "s3://b/z.nc",
        {"sst": virtual_array("s3://b/z.nc", ("time", "lat", "lon"), (2, 4, 4), (1, 2, 2))},
        {"time": [5, 4], "lat": np.arange(4.0), "lon": np.arange(4.0)},
        time={"units": "days since 2020-01-01"},
    )
    after = planned([*days(0, 1), falling], TIME)
    updates = plan_updates(before, after, {"s3://b/z.nc"})
    assert set(updates.rescan) == urls(0, 1)
    assert added(after, updates)["sst-0000.nc"] == [3, 0, 0]
    assert dropped(updates) == (((0, 2), (0, 2), (0, 2)),)


def test_a_declared_step_moves_files_apart():
    files = days(0, 2, 4)
    updates = plan_updates(planned(files, TIME), planned(files, DAILY), set())
    assert axes(updates) == [[0, 2, 4], None, None]
    assert not updates.rescan


# -- variables, constants and groups ------------------------------------------------------------


def test_a_variable_may_appear_and_vanish():
    with_ice = [
        replace(file, arrays={**file.arrays, "/ice": file.arrays["/sst"]}) for file in days(1)
    ]
    one, two = planned(days(0), TIME), planned([*days(0), *with_ice], TIME)
    assert plan_updates(one, two, urls(1)).arrays["/ice"].is_new
    assert plan_updates(two, one, set()).deleted_arrays == ("/ice",)


def with_mask(file: ScannedFile) -> ScannedFile:
    mask = virtual_array(file.url, ("lat", "lon"), (4, 4), (4, 4))
    return replace(file, arrays={**file.arrays, "/mask": mask})


def test_a_file_that_takes_over_a_constant_is_scanned():
    declared = archive(combine=Combination(along=TIME.combine.along, constant=("mask",)))
    files = [with_mask(file) for file in days(0, 1, 2)]
    before, after = planned(files, declared), planned(files[1:], declared)
    updates = plan_updates(before, after, set())
    assert set(updates.rescan) == urls(1)
    assert added(after, updates, "/mask") == {"sst-0001.nc": [0, 0]}
    assert dropped(updates, "/mask") == (((0, 1), (0, 1)),)
    assert not len(updates.arrays["/sst"].files)


def test_groups_follow_files():
    def grouped(day: int, **groups: Any) -> ScannedFile:
        file = daily_file(day)
        moved = {f"/g{path}": array for path, array in file.arrays.items()}
        return replace(file, arrays={**file.arrays, **moved}, groups={"/": {}, **groups})

    plain = planned(days(0), TIME)
    after = planned([grouped(0, **{"/g": {"title": "t"}})], TIME)
    updates = plan_updates(plain, after, urls(0), group="/deep/down")
    assert updates.groups == {"/deep/down/g": {"title": "t"}}
    assert updates.needed_groups == ()
    back = plan_updates(after, plain, urls(0), group="/deep/down")
    assert back.deleted_groups == ("/deep/down/g",)
    assert plan_updates(planned([], TIME), plain, urls(0), group="/deep/down").needed_groups == (
        "/",
        "/deep",
        "/deep/down",
    )


def test_attributes_of_a_group_are_written_when_they_change():
    titled = [replace(file, groups={"/": {"title": "t"}}) for file in days(0)]
    updates = plan_updates(planned(days(0), TIME), planned(titled, TIME), set())
    assert updates.groups == {"/": {"title": "t"}}
    assert not updates.arrays
    back = plan_updates(planned(titled, TIME), planned(days(0), TIME), set())
    assert back.groups == {"/": {}}


def test_an_array_that_is_copied_now_is_made_anew():
    file = daily_file(0)
    values = np.zeros((1, 4, 4), np.float32)
    loaded = replace(file, values={**file.values, "/sst": values})
    updates = plan_updates(planned([file], TIME), planned([loaded], TIME), urls(0))
    assert updates.deleted_arrays == ("/sst",)
    assert updates.copied["/sst"].is_new


# -- files that differ --------------------------------------------------------------------------


def eras(files: Iterable[ScannedFile], known: Placement | None = None) -> Placement:
    groups = None if known is None else groups_of(known)
    placement = plan_placement(columns(files, ERA), ERA, known_groups=groups)
    assert not placement.problems
    return placement


def names(placement: Placement) -> dict[str, Sequence[int]]:
    return {
        section.group: [int(placement.urls[row][-7:-3]) for row in section.files]
        for section in placement.sections
    }


def test_eras_are_named_after_their_first_positions():
    placement = eras([*days(0, 1), *days(5, fill_value=1.0)])
    assert names(placement) == {"/era-2020-01-01": [0, 1], "/era-2020-01-06": [5]}


def test_late_files_leave_the_names_of_eras():
    before = eras([*days(1, 2), *days(5, 6, fill_value=1.0)])
    after = eras([*days(0, 1, 2), *days(4, 5, 6, fill_value=1.0)], before)
    assert names(after) == {"/era-2020-01-02": [0, 1, 2], "/era-2020-01-06": [4, 5, 6]}
    updates = plan_updates(before, after, urls(0, 4))
    assert not updates.rescan
    assert not updates.deleted_arrays
    assert axes(updates, "/era-2020-01-06/sst") == [[1, 2], None, None]


def test_an_era_that_is_split_keeps_its_name_where_most_files_are():
    before = eras([*days(0, 1, 2, 3, 4), *days(8, fill_value=1.0)])
    after = eras([*days(0, 1, 3, 4), *days(2, 8, fill_value=1.0)], before)
    assert names(after) == {
        "/era-2020-01-01": [0, 1],
        "/era-2020-01-03": [2],
        "/era-2020-01-04": [3, 4],
        "/era-2020-01-09": [8],
    }


def test_files_that_agreed_stay_where_they_are_when_others_differ():
    before = eras(days(0, 1))
    assert names(before) == {"/": [0, 1]}
    after = eras([*days(0, 1), *days(2, fill_value=1.0)], before)
    assert names(after) == {"/": [0, 1], "/era-2020-01-03": [2]}
    updates = plan_updates(before, after, urls(2))
    assert set(updates.arrays) == {"/era-2020-01-03/sst"}
    assert not updates.rescan
    again = eras(days(0, 1), after)
    assert names(again) == {"/": [0, 1]}
    assert plan_updates(after, again, set()).deleted_groups == ("/era-2020-01-03",)


def test_an_era_that_is_left_alone_keeps_its_name():
    before = eras([*days(0, 1), *days(2, fill_value=1.0)])
    assert names(eras(days(0, 1), before)) == {"/era-2020-01-01": [0, 1]}


def test_another_usual_form_makes_an_array_anew():
    before = planned([*days(0, 1), *days(2, fill_value=1.0)], ASIDE)
    after = planned([*days(0, 1), *days(2, 3, 4, fill_value=1.0)], ASIDE)
    updates = plan_updates(before, after, urls(3, 4))
    assert updates.arrays["/sst"].is_new
    assert "/sst" in updates.deleted_arrays
    assert set(updates.rescan) == urls(2)  # it had no place before


def test_copies_of_files_of_another_form_move_with_the_others():
    before = planned([*days(1, 3), *days(2, fill_value=1.0)], COPIES)
    after = planned([*days(0, 1, 3), *days(2, fill_value=1.0)], COPIES)
    updates = plan_updates(before, after, urls(0))
    assert axes(updates) == [[1, 2, 3], None, None]
    assert not len(updates.arrays["/sst"].differing)
    assert not updates.rescan


def test_a_changed_file_of_another_form_is_copied_again():
    placement = planned([*days(0, 1), *days(2, fill_value=1.0)], COPIES)
    update = plan_updates(placement, placement, urls(2)).arrays["/sst"]
    assert not len(update.files)
    assert [placement.urls[row] for row in update.differing] == [*urls(2)]
    assert update.differing_start.tolist() == [[2, 0, 0]]
    assert update.added_boxes.tolist() == [[[2, 3], [0, 2], [0, 2]]]
    assert update.index_map is not None
    assert update.index_map.dropped == (((2, 3), (0, 2), (0, 2)),)


# -- arrays that are copied ---------------------------------------------------------------------


def copied(values: Sequence[float], chunk: int = 2, **attributes: Any) -> CopiedArray:
    found = np.array(values, np.float64)
    metadata = copied_metadata({"attributes": attributes}, found, [None])
    grid = {"name": "regular", "configuration": {"chunk_shape": [chunk]}}
    return CopiedArray("/x", {**metadata, "chunk_grid": grid}, found)


def test_only_chunks_that_changed_are_written():
    old, new = copied([1, 2, 3, 4, 5]), copied([1, 2, 0, 4, 5, 6, 7])
    update = update_copied(old, new)
    assert update.changed == ((1,), (2,), (3,))
    assert update.metadata == new.metadata
    assert dict(update.chunks()) == {index: data for index, data in chunks_of(new) if index != (0,)}


def test_chunks_beyond_the_end_are_gone():
    update = update_copied(copied([1, 2, 3, 4, 5]), copied([1, 2]))
    assert (update.changed, update.gone) == ((), ((1,), (2,)))


def test_missing_values_are_equal():
    assert update_copied(copied([np.nan, 1]), copied([np.nan, 1])).is_empty


def test_other_attributes_are_metadata_only():
    update = update_copied(copied([1]), copied([1], title="t"))
    assert update.metadata is not None
    assert not update.changed
    assert not update.is_new


@pytest.mark.parametrize(
    "other",
    [
        copied([1, 2], 1),
        replace(copied([1, 2]), metadata={**copied([1, 2]).metadata, "data_type": "float32"}),
    ],
)
def test_another_layout_is_written_whole(other):
    update = update_copied(copied([1, 2]), other)
    assert update.is_new
    assert len(update.changed) == 2 // other.chunk_shape[0]
