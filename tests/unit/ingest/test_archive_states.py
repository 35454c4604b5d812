"""The state of an archive as bytes: what is refused, and when files must be scanned again."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from tests.ingest_builders import archive, columns, daily_file

from icestream.errors import ErrorKind, FormatError, IntegrityError
from icestream.ingest.archive_states import (
    ArchiveState,
    decode_state,
    encode_state,
    scan_digest,
)
from icestream.ingest.column_bundles import ColumnBundle, decode_bundle, encode_bundle
from icestream.ingest.declaration.archives import Archive, Axis, Combination, ParserChoice, PlaceBy

TIME = archive(Axis(dimension="time"))


def state_of(count: int) -> ArchiveState:
    return ArchiveState(files=columns([daily_file(day) for day in range(count)], TIME))


def test_an_empty_state_survives():
    found = decode_state(encode_state(ArchiveState()))
    assert len(found.files) == 0
    assert (found.aside, found.outcome.groups, found.vanished) == ((), {}, frozenset())


def test_a_state_keeps_the_identity_of_files():
    found = decode_state(encode_state(state_of(2))).files
    assert found.etags.to_pylist() == ["abc", "abc"]
    assert found.sizes.tolist() == [1000, 1000]
    assert found.last_modified.tolist() == [1_577_880_000_000_000] * 2


def test_a_state_pickles_and_decodes_to_files_that_can_be_placed():
    found = decode_state(encode_state(state_of(3)))
    time = found.files.arrays["/time"]
    assert [time.values[code].values.tolist() for code in time.value] == [
        [int(np.datetime64("2020-01-01", "us").astype(np.int64)) + day * 86_400_000_000]
        for day in range(3)
    ]
    assert time.values.time(1) == time.values[1].time
    assert str(time.values[1].time and time.values[1].time.units).startswith("hours since 2020-01")


@pytest.mark.parametrize("at", [60, 500, -1])
def test_damaged_bytes_are_refused(at):
    data = bytearray(encode_state(state_of(2)))
    data[at] ^= 1
    with pytest.raises(IntegrityError, match="damaged"):
        decode_state(bytes(data))


def test_bytes_that_were_cut_off_are_refused():
    with pytest.raises(IntegrityError, match="damaged"):
        decode_state(encode_state(state_of(2))[:-10])


def test_a_newer_version_is_refused():
    newer = encode_bundle(ColumnBundle({}, {}), "archive-state", 2)
    with pytest.raises(FormatError, match="use a newer icestream") as caught:
        decode_state(newer)
    assert caught.value.kind is ErrorKind.UNSUPPORTED_SPEC_VERSION


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", encode_bundle(ColumnBundle({}, {}), "array-state", 1)]
)
def test_other_bytes_are_refused(data):
    with pytest.raises(FormatError, match="no archive-state"):
        decode_state(data)


def test_what_lacks_columns_is_refused():
    with pytest.raises(FormatError, match="does not fit together"):
        decode_state(encode_bundle(ColumnBundle({}, {}), "archive-state", 1))


def test_a_body_that_is_not_arrow_is_refused():
    digest = hashlib.blake2b(b"text", digest_size=16).hexdigest()
    with pytest.raises(FormatError, match="cannot be read"):
        decode_bundle(f"icestream some-columns 1 {digest}\ntext".encode(), "some-columns", 1)


def test_a_missing_column_is_named():
    with pytest.raises(FormatError, match="'sizes'"):
        ColumnBundle({}, {}).integers("sizes")


@pytest.mark.parametrize(
    "other",
    [
        replace(TIME, loaded=("bounds",)),
        replace(TIME, drop=("ice",)),
        replace(TIME, parser=ParserChoice(name="netcdf3")),
        replace(TIME, parser=ParserChoice(options={"group": "/a"})),
        archive(Axis(dimension="day")),
        archive(Axis(dimension="time", coordinate="when")),
        archive(Axis(dimension="time"), Axis(dimension="member")),
    ],
)
def test_a_declaration_that_reads_files_otherwise_has_another_digest(other: Archive):
    assert scan_digest(other) != scan_digest(TIME)


@pytest.mark.parametrize(
    "other",
    [
        replace(TIME, name="another", sources=("s3://other/",), time_units="days since 1970-01-01"),
        archive(Axis(dimension="time", step="1 day")),
        archive(Axis(dimension="time", by=PlaceBy.ORDER)),
        archive(combine=Combination(along=TIME.combine.along, constant=("mask",))),
    ],
)
def test_a_declaration_that_places_files_otherwise_has_the_same_digest(other: Archive):
    assert scan_digest(other) == scan_digest(TIME)
