"""Columns of random files: put together in any way, taken apart, sent as bytes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest_builders import archive, inline_array, scanned_file, stored, virtual_array

from icestream.ingest.archive_states import (
    ArchiveState,
    AsideFile,
    AsideStatus,
    decode_state,
    encode_state,
)
from icestream.ingest.declaration.archives import Axis
from icestream.ingest.facts import FileFacts, facts_of
from icestream.ingest.file_columns import ArrayColumns, FileColumns, gather
from icestream.ingest.file_merging import merge_columns, without_files
from icestream.ingest.placement.outcomes import PlacementOutcome
from icestream.parsers.scanned_files import FileIdentity

TIME = archive(Axis(dimension="time"))
MOMENTS = st.none() | st.integers(0, 10**12).map(
    lambda n: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=n)
)


@st.composite
def file_facts(draw: st.DrawFn, number: int) -> FileFacts:
    """Draw a file: some arrays and groups, values of several types, times, and faults."""
    url = f"s3://b/{number}.nc"
    arrays = {}
    if draw(st.booleans()):
        shape = (draw(st.integers(0, 3)), 4)
        fill, note = draw(st.sampled_from([0.0, 1.0])), {"note": number}
        arrays["a"] = virtual_array(
            url, ("time", "x"), shape, (1, 2), fill_value=fill, attributes=note
        )
    if draw(st.booleans()):
        arrays["crs"] = inline_array(draw(st.sampled_from([b"abcd", b"efgh"])))
    times = draw(st.lists(st.integers(0, 5), max_size=4))
    dtype = draw(st.sampled_from(["<i4", "<i8", "<f8", ">f4", "|u1"]))
    values = {"time": np.array(times, dtype), "x": np.arange(4.0)}
    others = {}
    if draw(st.booleans()):
        arrays["level"] = virtual_array(url, (), (), ())
        others["/level"] = np.array(draw(st.sampled_from([1, 2])), "<i2")
    if draw(st.booleans()):
        arrays["bounds"] = virtual_array(url, ("x", "n"), (2, 2), (2, 2))
        others["/bounds"] = np.arange(4.0).reshape(2, 2)
    if draw(st.booleans()):
        values["name"] = np.array(["no number"])
    since = draw(st.sampled_from(["", "days since 2020-01-01", "hours since 2020-01-01"]))
    calendar = draw(st.sampled_from(["standard", "noleap"]))
    attributes = {"units": since, "calendar": calendar} if since else {}
    file = scanned_file(url, arrays, values, time=attributes)
    file = replace(file, values={**file.values, **others})
    groups = {path: {"by": number} for path in draw(st.sets(st.sampled_from(["/", "/g", "/h"])))}
    identity = FileIdentity(number, draw(st.none() | st.just(f"tag {number}")), draw(MOMENTS))
    return facts_of(replace(file, groups=groups, identity=identity), TIME)


@st.composite
def many_facts(draw: st.DrawFn) -> list[FileFacts]:
    numbers = draw(st.sets(st.integers(0, 30), max_size=8))
    return [draw(file_facts(number)) for number in sorted(numbers)]


def shown_array(array: ArrayColumns) -> object:
    """Return everything in an array as plain values."""
    coordinates = [(c.key, c.values.tolist(), c.time) for c in array.values]
    return (
        array.files.tolist(),
        [array.forms[i] for i in array.form],
        [array.metadata[i]["attributes"] for i in array.form],
        array.shape.tolist(),
        array.num_references.tolist(),
        [bytes(array.contents[i]) if i >= 0 else None for i in array.content],
        [coordinates[i] if i >= 0 else None for i in array.value],
        (array.form.tolist(), array.content.tolist(), array.value.tolist()),
        (len(array.forms), len(array.contents), len(array.values), array.values.kinds),
    )


def shown(files: FileColumns) -> object:
    """Return everything in columns as plain values, in order."""
    return (
        files.urls,
        [(path, shown_array(array)) for path, array in files.arrays.items()],
        [*files.groups.items()],
        [*files.group_file.items()],
        (files.sizes.tolist(), files.etags.to_pylist(), files.last_modified.tolist()),
        (files.num_references.tolist(), files.num_referenced_bytes.tolist()),
        [*files.faults.items()],
    )


@given(st.data(), many_facts())
def test_parts_put_together_are_the_whole(data, facts):
    part = st.integers(0, 3)
    numbered = sorted((data.draw(part), i) for i in range(len(facts)))
    parts = [
        gather(facts[i] for _, i in members)
        for _, members in groupby(numbered, key=lambda pair: pair[0])
    ]
    merged = merge_columns(data.draw(st.permutations(parts)))
    assert shown(merged) == shown(gather(facts))
    assert stored(merged) == stored(gather(facts))


@given(many_facts())
def test_columns_survive_as_bytes(facts):
    files = gather(facts)
    assert shown(decode_state(stored(files)).files) == shown(files)


@given(st.data(), many_facts())
def test_files_taken_out_leave_the_others(data, facts):
    gone = [data.draw(st.booleans()) for _ in facts]
    left = [file for file, goes in zip(facts, gone, strict=True) if not goes]
    urls = [file.url for file, goes in zip(facts, gone, strict=True) if goes]
    found, wanted = without_files(gather(facts), [*urls, "s3://b/unknown"]), gather(left)
    assert found.urls == wanted.urls
    assert found.faults == wanted.faults
    assert found.etags.to_pylist() == wanted.etags.to_pylist()
    assert found.arrays.keys() == wanted.arrays.keys()
    for path, array in wanted.arrays.items():
        other = found.arrays[path]
        assert (other.forms, other.form.tolist()) == (array.forms, array.form.tolist())
        assert other.shape.tolist() == array.shape.tolist()
        assert other.contents.tolist() == array.contents.tolist()
        assert other.value.tolist() == array.value.tolist()
        assert [c.key for c in other.values] == [c.key for c in array.values]
    for path, row in found.group_file.items():
        assert row <= wanted.group_file.get(path, row)


@given(many_facts())
def test_a_file_that_comes_back_is_as_if_it_had_stayed(facts):
    whole = gather(facts)
    for file in facts[1:]:
        left = without_files(whole, [file.url])
        again = merge_columns([left, gather([file])])
        assert again.urls == whole.urls
        assert shown_values(again) == shown_values(whole)


def shown_values(files: FileColumns) -> object:
    return {
        path: [array.values[i].key if i >= 0 else None for i in array.value]
        for path, array in files.arrays.items()
    }


@given(st.data(), many_facts())
def test_a_state_survives_as_bytes(data, facts):
    files = gather(facts)
    urls = st.sets(st.sampled_from(files.urls)) if files.urls else st.just(set())
    some = data.draw(urls)
    aside = tuple(
        AsideFile(f"s3://c/{i}", status, "broken", data.draw(st.none() | st.just("e")), i, i, i + 1)
        for i, status in enumerate(data.draw(st.lists(st.sampled_from(AsideStatus), max_size=3)))
    )
    state = ArchiveState(
        files=files,
        vanished=frozenset(some),
        aside=aside,
        outcome=PlacementOutcome(
            groups={url: data.draw(st.sampled_from(["/", "/era-1"])) for url in some},
            left_out=dict.fromkeys(data.draw(urls), "differs"),
            gaps=("2020-01-01",),
            notes=("a note",),
        ),
        declaration_digest="abc",
    )
    found = decode_state(encode_state(state))
    assert shown(found.files) == shown(files)
    assert (found.vanished, found.aside, found.outcome) == (state.vanished, aside, state.outcome)
    assert found.declaration_digest == "abc"
    assert encode_state(found) == encode_state(state)
