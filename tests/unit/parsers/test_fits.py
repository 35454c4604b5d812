"""FITS files: what of them is virtual, and what is only named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from astropy.io import fits

from icestream.parsers.array_values import read_values
from icestream.parsers.scanned_files import ScannedFile
from icestream.parsers.scanning import scan_file
from icestream.parsers.source_files import SourceFile

IMAGE = np.arange(24, dtype=">i2").reshape(2, 3, 4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.fits"


def scanned(path: Path, *units: Any) -> ScannedFile:
    fits.HDUList(list(units)).writeto(path)
    return scan_file(str(path))


def test_images_are_arrays_and_headers_alone_are_groups(path: Path) -> None:
    primary, other = fits.PrimaryHDU(), fits.ImageHDU(name="NOTES")
    primary.header["OBSERVER"] = "Hubble"
    primary.header["COMMENT"] = "first line"
    primary.header["COMMENT"] = "second line"
    other.header["FILTER"] = "F814W"

    found = scanned(path, primary, fits.ImageHDU(IMAGE, name="SCI"), other)

    assert found.groups["/"]["OBSERVER"] == "Hubble"
    assert found.groups["/"]["COMMENT"] == "first line\nsecond line"
    assert found.groups["/NOTES"]["FILTER"] == "F814W"
    assert found.arrays["/SCI"].dimension_names == ("SCI_z", "SCI_y", "SCI_x")
    values = read_values(SourceFile.open(str(path)), found.arrays["/SCI"])
    np.testing.assert_array_equal(values, IMAGE)
    assert found.problems == ()


def test_scale_and_blank_are_said_as_cf_does(path: Path) -> None:
    unit = fits.PrimaryHDU(IMAGE)
    unit.header["BSCALE"], unit.header["BZERO"], unit.header["BLANK"] = 0.5, 100.0, 7
    attributes = scanned(path, unit).arrays["/PRIMARY"].attributes
    assert attributes["scale_factor"] == 0.5
    assert attributes["add_offset"] == 100
    assert attributes["_FillValue"] == 7


def test_compressed_images_are_named_and_never_read_as_pixels(path: Path) -> None:
    image = np.arange(10_000, dtype="i2").reshape(100, 100)
    packed = fits.CompImageHDU(image, name="PACKED", compression_type="RICE_1")
    found = scanned(path, fits.PrimaryHDU(), packed, fits.ImageHDU(image, name="PLAIN"))
    (problem,) = found.problems
    assert problem.path == "/PACKED"
    assert "RICE_1" in problem.reason
    assert list(found.arrays) == ["/PLAIN"]


def test_tables_are_named_and_images_beside_them_are_found(path: Path) -> None:
    table = fits.BinTableHDU.from_columns([fits.Column("t", "D", array=[1.0, 2.0])], name="EVENTS")
    found = scanned(path, fits.PrimaryHDU(IMAGE), table)
    assert [problem.path for problem in found.problems] == ["/EVENTS"]
    assert "BinTableHDU" in found.problems[0].reason
    assert list(found.arrays) == ["/PRIMARY"]


def test_names_that_repeat_or_have_slashes_are_made_paths(path: Path) -> None:
    units = [fits.ImageHDU(IMAGE, name=name) for name in ("SCI", "SCI", "A/B")]
    assert list(scanned(path, fits.PrimaryHDU(), *units).arrays) == ["/SCI", "/SCI_2", "/A_B"]


def test_more_dimensions_than_letters_are_numbered(path: Path) -> None:
    found = scanned(path, fits.PrimaryHDU(np.zeros((1, 2, 3, 4), "f4")))
    names = found.arrays["/PRIMARY"].dimension_names
    assert names == tuple(f"PRIMARY_axis{number}" for number in (4, 3, 2, 1))


def test_cards_that_cannot_be_read_are_named(path: Path) -> None:
    fits.PrimaryHDU(IMAGE).writeto(path)
    content = path.read_bytes().replace(b"END" + b" " * 77, b"ODD     = 'no end".ljust(80), 1)
    card = b"END".ljust(80)
    path.write_bytes(content[: 2880 - 80] + card + content[2880:])
    found = scan_file(str(path))
    assert "/PRIMARY" in found.arrays
    assert any("ODD" in problem.reason for problem in found.problems)
