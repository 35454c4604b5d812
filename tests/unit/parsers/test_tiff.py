"""TIFF files: tiles and strips, compressions and predictors, overviews, and where pixels are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from icestream.parsers.array_values import read_values
from icestream.parsers.scanned_files import ScannedFile
from icestream.parsers.scanning import scan_file
from icestream.parsers.source_files import SourceFile
from icestream.parsers.tiff.georeferences import pixel_centres

IMAGE = np.random.default_rng(0).integers(0, 255, (64, 48)).astype("u1")
FLOATS = IMAGE.astype("f4") / 7
COLOURS = np.random.default_rng(1).integers(0, 255, (64, 48, 3)).astype("u1")


def scan_of(path: Path, image: Any, **options: Any) -> ScannedFile:
    tifffile.imwrite(path, image, **options)
    return scan_file(str(path))


def values_of(scanned: ScannedFile, path: str = "/image") -> Any:
    return read_values(SourceFile.open(scanned.url), scanned.arrays[path])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.tif"


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("compression", [None, "zlib", "lzw", "packbits", "zstd"])
@pytest.mark.parametrize("layout", [{"tile": (32, 32)}, {"rowsperstrip": 16}])
def test_compressions_are_decoded(
    path: Path, byteorder: Any, compression: str | None, layout: dict[str, Any]
) -> None:
    image = IMAGE.astype("u2") * 3

    scanned = scan_of(path, image, byteorder=byteorder, compression=compression, **layout)

    assert scanned.problems == ()
    assert np.array_equal(values_of(scanned), image)


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize(
    ("image", "predictor"), [(IMAGE.astype("u2"), 2), (FLOATS, 3), (COLOURS, 2)]
)
def test_predictors_are_undone(path: Path, byteorder: Any, image: Any, predictor: int) -> None:
    scanned = scan_of(
        path, image, byteorder=byteorder, tile=(32, 32), compression="zlib", predictor=predictor
    )

    assert np.array_equal(values_of(scanned), image)


def test_bands_and_pages_are_dimensions(path: Path) -> None:
    stack = np.stack([COLOURS, COLOURS[::-1]])
    mixed = scan_of(path, stack, photometric="rgb", tile=(32, 32))
    assert mixed.arrays["/image"].dimension_names == ("page", "y", "x", "band")
    assert np.array_equal(values_of(mixed), stack)

    planes = np.ascontiguousarray(COLOURS.transpose(2, 0, 1))
    apart = scan_of(path, planes, photometric="rgb", planarconfig="separate", tile=(32, 32))
    assert apart.arrays["/image"].dimension_names == ("band", "y", "x")
    assert np.array_equal(values_of(apart), planes)


def test_strips_that_do_not_divide_are_a_problem(path: Path) -> None:
    scanned = scan_of(path, IMAGE, rowsperstrip=30, compression="zlib")

    assert scanned.arrays == {}
    assert "30 rows, which do not divide its 64" in scanned.problems[0].reason


def test_plain_strips_that_do_not_divide_are_one_chunk(path: Path) -> None:
    scanned = scan_of(path, IMAGE, rowsperstrip=30)

    assert scanned.arrays["/image"].chunk_shape == (64, 48)
    assert np.array_equal(values_of(scanned), IMAGE)


def test_compressions_without_codec_are_a_problem(path: Path) -> None:
    scanned = scan_of(path, IMAGE, tile=(32, 32), compression="jpeg")

    assert "JPEG" in scanned.problems[0].reason


def test_overviews_are_in_groups_of_their_own(path: Path) -> None:
    with tifffile.TiffWriter(path) as file:
        file.write(IMAGE, tile=(32, 32), subifds=1)
        file.write(IMAGE[::2, ::2], tile=(16, 16), subfiletype=1)

    scanned = scan_file(str(path))

    assert np.array_equal(values_of(scanned, "/overview_1/image"), IMAGE[::2, ::2])
    assert "/overview_1" in scanned.groups


def test_tiles_that_were_never_written_hold_the_missing_value(path: Path) -> None:
    tags = [(42113, 2, 2, "9", True)]
    tifffile.imwrite(path, IMAGE, tile=(32, 32), extratags=tags)
    with tifffile.TiffFile(path, mode="r+") as file:
        tag = file.pages[0].tags["TileByteCounts"]
        tag.overwrite([0, *tag.value[1:]])

    scanned = scan_file(str(path))

    assert len(scanned.arrays["/image"].references) == 3
    assert (values_of(scanned)[:32, :32] == 9).all()
    assert np.array_equal(values_of(scanned)[32:], IMAGE[32:])


@pytest.mark.parametrize(("kind", "first"), [(1, (9.5, 0.5)), (2, (10.0, 0.0))])
def test_pixels_are_areas_or_points(kind: int, first: tuple[float, float]) -> None:
    tags = {
        "ModelPixelScale": [1.0, 1.0, 0.0],
        "ModelTiepoint": [0, 0, 0, 0.0, 10.0, 0],
        "GTRasterTypeGeoKey": kind,
    }

    centres = pixel_centres(tags, 4, 3)

    assert centres is not None
    assert (centres[0][0], centres[1][0]) == first


def test_images_that_are_turned_have_no_rows_and_columns_of_places() -> None:
    turned = np.array([[1, 0.5, 0, 0], [0.5, -1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1.0]])
    straight = np.array([[2, 0, 0, 5], [0, -2, 0, 9], [0, 0, 0, 0], [0, 0, 0, 1.0]])

    assert pixel_centres({"ModelTransformation": turned}, 2, 2) is None
    centres = pixel_centres({"ModelTransformation": straight}, 2, 2)
    assert centres is not None
    assert (centres[0].tolist(), centres[1].tolist()) == ([8.0, 6.0], [6.0, 8.0])
