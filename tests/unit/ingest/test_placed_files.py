"""Where files lie in the arrays of their archive, as positions."""

import pytest
from tests.ingest_builders import archive, daily_file, planned

from icestream.errors import InvalidInputError
from icestream.ingest.declaration.archives import (
    Archive,
    Axis,
    Combination,
    OnMismatch,
    PlaceBy,
    Policies,
    Target,
)
from icestream.ingest.placed_files import FilePositions, positions_of
from icestream.parsers.scanned_files import ScannedFile

TIME = Axis(dimension="time")


def positions(files: list[ScannedFile], declared: Archive, urls: set[str]) -> FilePositions:
    return positions_of(planned(files, declared), urls, declared)


def listed(found: FilePositions) -> list[dict[str, list[int]]]:
    return [{name: values.tolist() for name, values in box.items()} for box in found.boxes]


def test_files_are_found_where_they_are_however_many_come_before() -> None:
    declared = archive(TIME, target=Target(repository="repo", group="/ocean"))
    files = [daily_file(day, steps=2) for day in (1, 2, 5, 9)]

    found = positions(files, declared, {files[1].url, files[3].url, "unknown"})

    assert found.group == "/ocean"
    assert listed(found) == [{"time": [2, 3, 6, 7]}]
    assert positions(files, declared, set()).boxes == ()
    assert positions([], declared, {"unknown"}).boxes == ()


def test_files_along_two_dimensions_make_a_box_for_each_of_the_second() -> None:
    member = Axis(
        dimension="member", by=PlaceBy.NAME, pattern=r"m(?P<member>\d)", format="integer", new=True
    )
    declared = archive(TIME, member)
    urls = {(day, m): f"s3://b/{day}-m{m}.nc" for day in (1, 2, 3) for m in (0, 1)}
    files = [daily_file(day, url=url) for (day, _), url in urls.items()]
    new = {urls[1, 0], urls[3, 0], urls[2, 1]}

    found = positions(files, declared, new)

    assert listed(found) == [
        {"time": [0, 2], "member": [0]},
        {"time": [1], "member": [1]},
    ]


def test_several_groups_are_told_with_the_way_out() -> None:
    declared = archive(TIME, policies=Policies(on_mismatch=OnMismatch.ERA))
    files = [daily_file(1), daily_file(2), daily_file(3, chunks=(1, 4, 4))]

    with pytest.raises(InvalidInputError, match=r"sst make several groups \(.*format icestream"):
        positions(files, declared, {files[0].url})


def test_an_archive_of_one_group_per_file_has_no_dimensions() -> None:
    declared = archive(combine=Combination(group_per_file=r"sst-(?P<group>\d+)"))
    (file,) = files = [daily_file(1)]

    found = positions(files, declared, {file.url})

    assert (found.group, listed(found)) == ("/0001", [{}])
