"""Columns of files put together, and what they cost as bytes."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from tests.ingest_builders import archive, columns, daily_file, planned, stored

from icestream.errors import InvalidInputError
from icestream.ingest.archive_states import decode_state
from icestream.ingest.declaration.archives import Axis
from icestream.ingest.facts import facts_of
from icestream.ingest.file_columns import UNKNOWN_TIME, gather
from icestream.ingest.file_merging import merge_columns, without_files
from icestream.ingest.placement.placing import plan_placement
from icestream.parsers.scanned_files import FileIdentity, ScannedFile

TIME = archive(Axis(dimension="time"))


def days(*numbers: int) -> list[ScannedFile]:
    return [daily_file(number) for number in numbers]


def test_no_parts_are_no_files():
    assert len(merge_columns([])) == 0
    assert len(merge_columns([gather(()), gather(())])) == 0


def test_a_file_in_two_parts_is_refused():
    with pytest.raises(InvalidInputError, match=r"sst-0001.nc is there twice"):
        merge_columns([columns(days(0, 1), TIME), columns(days(1, 2), TIME)])


def test_attributes_come_from_the_first_file_whichever_part_it_is_in():
    titled = [
        replace(file, groups={"/": {"title": title}})
        for file, title in zip(days(3, 1, 2), "cab", strict=True)
    ]
    parts = [columns([file], TIME) for file in titled]
    assert merge_columns(parts).groups == {"/": {"title": "a"}}


def test_attributes_stay_when_their_file_goes():
    titled = [replace(file, groups={"/": {"of": file.url}}) for file in days(0, 1)]
    files = columns(titled, TIME)
    left = without_files(files, [titled[0].url])
    assert left.groups == files.groups
    earlier = columns([replace(daily_file(0), groups={"/": {"of": "another"}})], TIME)
    assert merge_columns([left, earlier]).groups == {"/": {"of": "another"}}


def test_when_all_files_go_nothing_stays():
    files = columns(days(0, 1), TIME)
    left = without_files(files, files.urls)
    assert (len(left), left.arrays, left.groups, left.group_file) == (0, {}, {}, {})
    assert plan_placement(left, TIME).problems == ()


def test_references_are_counted_by_array():
    files = columns([daily_file(0, steps=3)], TIME)
    assert files.arrays["/sst"].num_references.tolist() == [12]
    assert files.num_references.tolist() == [12]


def test_files_may_have_no_identity_but_their_size():
    facts = facts_of(replace(daily_file(0), identity=FileIdentity(7)), TIME)
    files = decode_state(stored(gather([facts]))).files
    assert files.etags.to_pylist() == [None]
    assert files.last_modified.tolist() == [UNKNOWN_TIME]


def test_columns_pickle_and_give_the_same_placement():
    files = columns(days(2, 0, 1), TIME)
    received = pickle.loads(pickle.dumps(files))
    assert stored(received) == stored(files)
    placed = plan_placement(decode_state(stored(files)).files, TIME).sections[0]
    wanted = planned(days(0, 1, 2), TIME).sections[0]
    assert placed.copied["/time"].metadata == wanted.copied["/time"].metadata
    assert np.array_equal(placed.copied["/time"].values, wanted.copied["/time"].values)


def test_a_daily_file_costs_few_bytes():
    few, many = (len(stored(columns(days(*range(n)), TIME))) for n in (200, 600))
    assert (many - few) / 400 < 20
