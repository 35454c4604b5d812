"""GRIB files: messages of many fields, kinds of grids, and what is broken."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import eccodes
import numpy as np
import pytest

from icestream.errors import FormatError, SourceError
from icestream.parsers.array_values import read_values
from icestream.parsers.grib import scanning
from icestream.parsers.grib.fields import decode_message
from icestream.parsers.grib.messages import find_messages, single_field
from icestream.parsers.scanned_files import ScannedFile
from icestream.parsers.scanning import scan_file
from icestream.parsers.source_files import SourceFile

GRID_2 = "regular_ll_pl_grib2"


def message(
    sample: str = GRID_2, values: Any = None, keys: Mapping[str, Any] | None = None
) -> bytes:
    """Return a message made from one of those that ecCodes brings."""
    handle = eccodes.codes_grib_new_from_samples(sample)
    try:
        for key, value in (keys or {}).items():
            eccodes.codes_set(handle, key, value)
        if values is not None:
            eccodes.codes_set(handle, "bitsPerValue", 16)
            eccodes.codes_set_values(handle, values)
        data: bytes = eccodes.codes_get_message(handle)
        return data
    finally:
        eccodes.codes_release(handle)


def joined(*messages: bytes) -> bytes:
    """Return one message with the fields of several on the same grid."""
    sections = b"".join(_field_sections(one, first=i == 0) for i, one in enumerate(messages))
    return messages[0][:8] + struct.pack(">Q", 16 + len(sections) + 4) + sections + b"7777"


def _field_sections(data: bytes, *, first: bool) -> bytes:
    kept, position = b"", 16
    while data[position : position + 4] != b"7777":
        length, number = struct.unpack_from(">IB", data, position)
        if first or number >= 4:
            kept += data[position : position + length]
        position += length
    return kept


def scan_of(path: Path, *parts: bytes) -> ScannedFile:
    path.write_bytes(b"".join(parts))
    return scan_file(str(path), parser="grib")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.grib"


def values_of(scanned: ScannedFile, path: str) -> Any:
    return read_values(SourceFile.open(scanned.url), scanned.arrays[path])


def test_each_field_of_a_message_is_found(path: Path) -> None:
    u, v = np.arange(496.0), np.arange(496.0)[::-1]
    parts = (
        message(values=u, keys={"shortName": "u"}),
        message(values=v, keys={"shortName": "v"}),
    )

    scanned = scan_of(path, b"junk before ", joined(*parts))

    assert scanned.problems == ()
    for name, expected in (("u", u), ("v", v)):
        found = values_of(scanned, f"/isobaricInhPa/{name}")
        assert np.array_equal(found.ravel(), expected)


def test_a_single_field_is_the_message_that_it_was() -> None:
    first, second = message(values=np.arange(496.0)), message(values=np.ones(496))

    assert single_field(joined(first, second), 0) == first
    assert single_field(joined(first, second), 1) == second


def test_steps_are_hours_whatever_their_unit(path: Path) -> None:
    minutes = message(keys={"stepUnits": "m", "endStep": 90})
    hours = message(keys={"stepUnits": "h", "endStep": 3})

    scanned = scan_of(path, minutes, hours)

    assert scanned.values["/isobaricInhPa/step"].tolist() == [1.5, 3.0]


def test_grids_without_rows_have_one_dimension(path: Path) -> None:
    scanned = scan_of(path, message("reduced_gg_pl_32_grib2"))

    array = scanned.arrays["/isobaricInhPa/t"]
    assert array.dimension_names == ("time", "step", "level", "values")
    assert scanned.arrays["/isobaricInhPa/latitude"].dimension_names == ("values",)


def test_projected_grids_have_places_of_two_dimensions(path: Path) -> None:
    scanned = scan_of(path, message("polar_stereographic_pl_grib2"))

    assert scanned.arrays["/isobaricInhPa/t"].dimension_names[-2:] == ("y", "x")
    assert scanned.arrays["/isobaricInhPa/latitude"].dimension_names == ("y", "x")


def test_several_grids_are_in_several_groups(path: Path) -> None:
    scanned = scan_of(path, message(), message("regular_gg_pl_grib2"))

    groups = [name for name in scanned.groups if name.startswith("/isobaricInhPa/grid_")]
    assert len(groups) == 2


def test_messages_at_one_place_are_counted_not_dropped_in_silence(path: Path) -> None:
    scanned = scan_of(path, message(), message())

    assert len(scanned.arrays["/isobaricInhPa/t"].references) == 1
    assert "1 of 2 messages are left out" in scanned.problems[0].reason


def test_a_broken_message_is_named_and_the_others_are_found(path: Path) -> None:
    broken = bytearray(message())
    broken[-4:] = b"8888"

    scanned = scan_of(path, bytes(broken), message(keys={"level": 850}))

    assert "message 0 at byte 0" in scanned.problems[0].reason
    assert scanned.values["/isobaricInhPa/level"].tolist() == [850.0]


def test_a_packing_that_is_not_decoded_is_said_of_every_message(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(data: bytes) -> None:
        raise eccodes.FunctionNotImplementedError(-4)

    monkeypatch.setattr(scanning, "decode_message", refuse)
    monkeypatch.setattr(scanning, "_judged", {})

    scanned = scan_of(path, message(), message(keys={"level": 850}))

    assert scanned.arrays == {}
    assert [problem.reason.count("grid_simple") for problem in scanned.problems] == [1, 1]


def test_a_file_without_message_is_refused(path: Path) -> None:
    with pytest.raises(SourceError, match="no GRIB message"):
        scan_of(path, b"nothing at all")


def test_messages_of_both_editions_are_found() -> None:
    first, second = message("GRIB1"), message()

    found = list(find_messages(first + b"   " + second))

    assert [(one.offset, one.length) for one in found] == [
        (0, len(first)),
        (len(first) + 3, len(second)),
    ]


def test_values_keep_their_rows_whatever_the_order_of_scanning() -> None:
    plain = np.arange(496.0)
    by_columns = message(values=plain, keys={"jPointsAreConsecutive": 1})

    assert np.array_equal(decode_message(by_columns), plain.reshape(16, 31).T)


def test_what_is_no_message_is_not_decoded() -> None:
    with pytest.raises((eccodes.CodesInternalError, FormatError)):
        decode_message(b"GRIB but not really 7777")
